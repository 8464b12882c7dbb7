/* The table of arms, and those that follow from the registry of policies. */
#include "league/arms.h"

#include "base/random.h"

#include <stdio.h>
#include <string.h>

static const league_arm named[] = {
    {.name = "softmax", .policy = "softmax", .summary = "plain softmax, the baseline"},
    {.name = "adaptive-inference",
     .policy = "adaptive",
     .trained_as = "softmax",
     .summary = "the paper's: models trained with softmax, adaptive temperature afterwards"},
    {.name = "adaptive-ascending",
     .policy = "poly:-1.791/4.917/-2.3/0.481/-0.037:threshold=0.5:floor=1",
     .trained_as = "softmax",
     .summary = "the same with the polynomial's coefficients in ascending order, a known mistake"},
    {.name = "adaptive-fitted",
     .policy = "adaptive",
     .trained_as = "softmax",
     .is_fitted = true,
     .summary = "the same with a polynomial fitted to each model at up to four times its size"},
    {.name = "chosen",
     .policy = "softmax",
     .trained_as = "softmax",
     .is_chosen = true,
     .summary = "models trained with softmax, the policy chosen by validation at twice the size"},
    {.name = "adaptive", .policy = "adaptive", .summary = "adaptive temperature in training too"},
    {.name = "adaptive-learned",
     .policy = "adaptive",
     .learned = "c4,c3,c2,c1,c0",
     .summary = "a polynomial for each head, learned"},
    {.name = "ssmax",
     .policy = "ssmax:0.43",
     .learned = "s",
     .summary = "SSMax: beta = s ln n, s learned for each head"},
    {.name = "length", .policy = "length:{n}", .summary = "beta = ln n / ln n0 beyond training"},
    {.name = "entmax15", .policy = "entmax15", .summary = "alpha-entmax with alpha = 1.5"},
    {.name = "entmax",
     .policy = "entmax:1.5",
     .learned = "a",
     .summary = "alpha-entmax, alpha learned for each head"},
    {.name = "asentmax-static",
     .policy = "ssmax:0.5:1:0.5+entmax15",
     .learned = "s,b,g",
     .summary = "beta = s (ln n)^g + b before entmax15, learned for each head"},
    {.name = "asentmax",
     .policy = "entmax15",
     .has_query_betas = true,
     .summary = "ASEntmax: beta projected from each token, before entmax15"},
    {.name = "asoftmax",
     .policy = "softmax",
     .has_query_betas = true,
     .summary = "the same betas before softmax"},
    {.name = "softmax1", .policy = "softmax1", .summary = "softmax with an additional zero logit"},
    {.name = "sink",
     .policy = "softmax",
     .has_sinks = true,
     .summary = "softmax with a sink for each head, learned"},
    {.name = "sigmoid", .policy = "sigmoid", .summary = "sigmoids of e - ln n"},
    {.name = "stick-breaking", .policy = "stick-breaking", .summary = "stick-breaking attention"},
    {.name = "softpick", .policy = "softpick", .summary = "rectified softmax"},
    {.name = "topk", .policy = "topk:16", .summary = "softmax over the 16 largest logits"},
    {.name = "target",
     .policy = "target:1.5",
     .learned = "H",
     .summary = "the beta at which the entropy is H, learned for each head"},
    {.name = "random",
     .policy = "hinge:{a}:{h}:{n}",
     .summary = "a control: temperatures drawn at random for each seed"},
};
enum { NAMED = sizeof named / sizeof *named };

const char *const league_candidates[] = {
    "softmax", "adaptive",   "adaptive:hold",   "fixed:1.25",      "fixed:1.5",
    "fixed:2", "length:{n}", "hinge:0:0.1:{n}", "hinge:0:0.3:{n}", NULL};

/* Whether a policy, by the word its name begins with, is part of a named arm. */
static bool is_named(const char *example) {
    size_t length = strcspn(example, ":+");
    for (size_t i = 0; i < NAMED; i++)
        if (strcspn(named[i].policy, ":+") == length &&
            strncmp(named[i].policy, example, length) == 0)
            return true;
    return false;
}

static bool make_arm(const char *policy, league_arm *arm) {
    whet_policy parsed;
    if (whet_policy_parse(policy, &parsed, NULL, 0) != WHET_OK ||
        strlen(policy) >= sizeof arm->name)
        return false;
    *arm = (league_arm){.summary = "as in the registry of policies"};
    snprintf(arm->name, sizeof arm->name, "%s", policy);
    snprintf(arm->policy, sizeof arm->policy, "%s", policy);
    return true;
}

bool league_arm_at(size_t index, league_arm *arm) {
    if (index < NAMED) {
        *arm = named[index];
        return true;
    }
    size_t left = index - NAMED;
    const whet_policy_info *info;
    for (size_t i = 0; (info = whet_policy_table(i)) != NULL; i++)
        if (!is_named(info->example) && left-- == 0)
            return make_arm(info->example, arm);
    return false;
}

const league_arm *league_arms_find(const league_arms *arms, const char *name) {
    for (size_t i = 0; i < arms->count; i++)
        if (strcmp(arms->list[i].name, name) == 0)
            return &arms->list[i];
    return NULL;
}

static bool look_up(const char *name, league_arm *arm) {
    for (size_t i = 0; league_arm_at(i, arm); i++)
        if (strcmp(arm->name, name) == 0)
            return true;
    return make_arm(name, arm);
}

bool league_arms_add(league_arms *arms, const char *name, lab_error *error) {
    league_arm arm;
    if (league_arms_find(arms, name))
        return true;
    if (!look_up(name, &arm)) {
        char reason[256] = "";
        whet_policy ignored;
        whet_policy_parse(name, &ignored, reason, sizeof reason);
        return lab_fail(error, LAB_INPUT,
                        strncmp(reason, "unknown policy", 14) == 0
                            ? "--policy: '%.300s' is neither a policy nor a league arm; see "
                              "'whet league --list'"
                            : "--policy '%.120s': %s",
                        name, reason);
    }
    if (arm.trained_as && !league_arms_add(arms, arm.trained_as, error))
        return false;
    if (arms->count == LEAGUE_ARMS_MAX)
        return lab_fail(error, LAB_INPUT, "--policy: more than %d arms", LEAGUE_ARMS_MAX);
    arms->list[arms->count++] = arm;
    return true;
}

void league_arm_policy(const league_arm *arm, size_t longest, uint64_t seed,
                       char policy[LM_POLICY_SIZE]) {
    lab_random random = lab_random_start(lab_seed_for(seed, "policy", 0));
    double a = 0.5 * lab_random_normal(&random), h = 0.25 * lab_random_normal(&random);
    size_t used = 0;
    policy[0] = '\0';
    for (const char *from = arm->policy; *from && used + 1 < LM_POLICY_SIZE;) {
        size_t room = LM_POLICY_SIZE - used;
        if (strncmp(from, "{n}", 3) == 0)
            used += (size_t)snprintf(policy + used, room, "%zu", longest);
        else if (strncmp(from, "{a}", 3) == 0)
            used += (size_t)snprintf(policy + used, room, "%.3f", a);
        else if (strncmp(from, "{h}", 3) == 0)
            used += (size_t)snprintf(policy + used, room, "%.3f", h);
        else
            used += (size_t)snprintf(policy + used, room, "%c", *from);
        from += *from == '{' ? 3 : 1;
    }
}

void league_arm_configure(const league_arm *arm, size_t longest, uint64_t seed, lm_config *config) {
    league_arm_policy(arm, longest, seed, config->policy);
    config->learn = arm->learned ? LM_LEARN_HEAD : LM_LEARN_NOTHING;
    snprintf(config->learned, sizeof config->learned, "%s", arm->learned ? arm->learned : "");
    config->has_sinks = arm->has_sinks;
    config->has_query_betas = arm->has_query_betas;
}
