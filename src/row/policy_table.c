/*
 * The table of policies. A new policy is one entry here, and everything that
 * takes policies by name offers it from then on. Where one entry is a special
 * case of another (adaptive of poly, sparsemax of entmax) it stands before it,
 * since a policy is written by the first entry that can express it.
 */
#include "row/policy_table.h"

#include <math.h>
#include <string.h>

const char *const whet_policy_option_names[OPTION_COUNT] = {
    [OPTION_THRESHOLD] = "threshold", [OPTION_FLOOR] = "floor",
    [OPTION_HOLD] = "hold",           [OPTION_CAP] = "cap",
    [OPTION_STRENGTH] = "strength",
};

static const size_t option_offsets[OPTION_COUNT] = {
    [OPTION_THRESHOLD] = offsetof(whet_policy, threshold),
    [OPTION_FLOOR] = offsetof(whet_policy, floor),
    [OPTION_HOLD] = offsetof(whet_policy, hold),
    [OPTION_CAP] = offsetof(whet_policy, value) + sizeof(double),
    [OPTION_STRENGTH] = offsetof(whet_policy, strength),
};

double whet_policy_option_get(const whet_policy *policy, unsigned option) {
    double value;
    memcpy(&value, (const char *)policy + option_offsets[option], sizeof value);
    return value;
}

void whet_policy_option_set(whet_policy *policy, unsigned option, double value) {
    memcpy((char *)policy + option_offsets[option], &value, sizeof value);
}

static whet_policy preset_fixed(void) { return whet_policy_fixed(1); }

static whet_policy preset_poly(void) {
    const double one = 1;
    return whet_policy_poly(&one, 0, -INFINITY, 1, INFINITY);
}

static whet_policy preset_exp(void) { return whet_policy_exp(0); }

static whet_policy preset_target(void) { return whet_policy_target(1, 256); }

static whet_policy preset_ssmax(void) { return whet_policy_ssmax(1, 0); }

static whet_policy preset_length(void) { return whet_policy_length(2); }

static whet_policy preset_linear(void) { return whet_policy_linear(1); }

static whet_policy preset_topk(void) { return whet_policy_topk(1); }

static whet_policy preset_entmax(void) { return whet_policy_entmax(2); }

static whet_policy preset_sigmoid(void) { return whet_policy_sigmoid(NAN); }

/* The options of all temperatures, of poly and of target. */
#define STRENGTH OPTION_BIT(OPTION_STRENGTH)
#define CURVE (OPTION_BIT(OPTION_THRESHOLD) | OPTION_BIT(OPTION_FLOOR) | OPTION_BIT(OPTION_HOLD))
#define CAP OPTION_BIT(OPTION_CAP)

/* Columns: name, preset, numbers needed, numbers accepted, list, options; on the next line syntax,
 * summary, example, temperature. */
/* clang-format off */
static const policy_entry entries[] = {
    {"softmax", whet_policy_softmax, 0, 0, false, STRENGTH,
     {"softmax", "beta = 1: plain softmax", "softmax", 1}},
    {"fixed", preset_fixed, 1, 1, false, STRENGTH,
     {"fixed:B", "beta = B, that is temperature 1/B", "fixed:2", 1}},
    {"adaptive", whet_policy_adaptive, 0, 0, false, STRENGTH,
     {"adaptive", "the paper's: beta = max(1, poly(H)) for H > 0.5, else 1", "adaptive", 1}},
    {"adaptive:hold", whet_policy_adaptive_hold, 0, 0, false, STRENGTH,
     {"adaptive:hold",
      "the same, but beyond the peak at H = 4.412 beta stays 2.421",
      "adaptive:hold", 1}},
    {"poly", preset_poly, 1, 1, true, STRENGTH | CURVE,
     {"poly:c4/c3/...[:threshold=T][:floor=F][:hold=H1]",
      "beta = max(F, poly(H)); 1 for H <= T; constant from H1 on",
      "poly:-0.2/1.6/-0.5:threshold=0.5:hold=4", 1}},
    {"exp", preset_exp, 1, 1, false, STRENGTH,
     {"exp:h0", "beta = max(1, exp(H - h0))", "exp:1.5", 1}},
    {"target", preset_target, 1, 1, false, STRENGTH | CAP,
     {"target:H[:cap=C]",
      "beta from 1 to C (default 256) at which the entropy is H",
      "target:1.5", 1}},
    {"ssmax", preset_ssmax, 1, 2, false, STRENGTH,
     {"ssmax:s[:b]", "beta = s ln n + b", "ssmax:0.43", 1}},
    {"length", preset_length, 1, 1, false, STRENGTH,
     {"length:n0", "beta = max(1, ln n / ln n0)", "length:16", 1}},
    {"linear", preset_linear, 1, 1, false, STRENGTH,
     {"linear:n0", "beta = max(1, n / n0)", "linear:1024", 1}},
    {"topk", preset_topk, 1, 1, false, 0,
     {"topk:k", "softmax over the entries not below the k-th largest", "topk:8", 0}},
    {"hardmax", whet_policy_hardmax, 0, 0, false, 0,
     {"hardmax", "everything on the largest, ties share", "hardmax", 0}},
    {"sparsemax", whet_policy_sparsemax, 0, 0, false, 0,
     {"sparsemax", "the nearest point of the simplex: entmax with a = 2", "sparsemax", 0}},
    {"entmax15", whet_policy_entmax15, 0, 0, false, 0,
     {"entmax15", "entmax with a = 1.5", "entmax15", 0}},
    {"entmax", preset_entmax, 1, 1, false, 0,
     {"entmax:a", "between softmax (a = 1) and sparsemax (a = 2)", "entmax:1.25", 0}},
    {"softmax1", whet_policy_softmax1, 0, 0, false, 0,
     {"softmax1", "exp(e) / (1 + sum exp(e))", "softmax1", 0}},
    {"sigmoid", preset_sigmoid, 0, 1, false, 0,
     {"sigmoid[:b]", "1 / (1 + exp(b - e)), b = ln n by default", "sigmoid:4", 0}},
    {"stick-breaking", whet_policy_stick_breaking, 0, 0, false, 0,
     {"stick-breaking", "sigma(e_i) times 1 - sigma(e_j) of every later j", "stick-breaking", 0}},
};
/* clang-format on */

const policy_entry *whet_policy_entry_at(size_t i) {
    return i < sizeof entries / sizeof entries[0] ? &entries[i] : NULL;
}

const whet_policy_info *whet_policy_table(size_t i) {
    const policy_entry *entry = whet_policy_entry_at(i);
    return entry ? &entry->info : NULL;
}
