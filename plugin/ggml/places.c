/*
 * Layers and heads that were seen; see places.h.
 */
#include "places.h"
#include <stdio.h>

void places_see(places *p, unsigned layer, size_t heads) {
    unsigned short most = (unsigned short)(heads < INDEX_MAX ? heads : INDEX_MAX);
    unsigned short seen = atomic_load_explicit(&p->heads[layer], memory_order_relaxed);
    while (seen < most && !atomic_compare_exchange_weak(&p->heads[layer], &seen, most)) {
    }
}

/* The part of a range that the model does not have. */
typedef struct missing {
    bool is_any;
    unsigned first, last;
} missing;

/* What lies beyond the last one seen, or the whole range if none of it was seen. */
static missing missing_of(struct index_range range, bool is_any_seen, unsigned last_seen) {
    if (is_any_seen && range.last <= last_seen)
        return (missing){.is_any = false};
    bool is_cut = is_any_seen && range.first <= last_seen;
    return (missing){true, is_cut ? last_seen + 1 : range.first, range.last};
}

static bool is_seen_between(const places *p, unsigned first, unsigned last) {
    for (unsigned layer = first; layer <= last; layer++)
        if (p->heads[layer])
            return true;
    return false;
}

/* Where lines go, and how many were printed. */
typedef struct reporter {
    void (*report)(const char *line);
    size_t reported;
} reporter;

/* Reports one missing range, naming the variable or the file that asked for it. */
static void report_missing(const settings *s, size_t rule, bool is_layers, missing range,
                           unsigned from, unsigned to, reporter *t) {
    char label[300], line[512], missing_text[32];
    if (t->reported++ >= PLACES_REPORTED)
        return;
    if (s->config_path)
        snprintf(label, sizeof label, "WHET_CONFIG=%.200s: \"%s\" of rule %zu", s->config_path,
                 is_layers ? "layers" : "heads", rule + 1);
    else
        snprintf(label, sizeof label, "%s", is_layers ? "WHET_LAYERS" : "WHET_HEADS");
    snprintf(missing_text, sizeof missing_text, range.first < range.last ? "s %u-%u" : " %u",
             range.first, range.last);
    snprintf(line, sizeof line,
             "%s: the model has no %s%s, only %u to %u; the policy had no effect there", label,
             is_layers ? "layer" : "head", missing_text, from, to);
    t->report(line);
}

/* The first and the last layer with attention. */
static bool seen_layers(const places *p, unsigned *first, unsigned *last) {
    bool is_any = false;
    for (unsigned layer = 0; layer <= INDEX_MAX; layer++)
        if (p->heads[layer]) {
            *first = is_any ? *first : layer;
            *last = layer;
            is_any = true;
        }
    return is_any;
}

/* The largest number of heads among the layers up to `last` that a rule names. */
static unsigned heads_of(const places *p, unsigned last, const index_set *layers) {
    unsigned most = 0;
    for (unsigned layer = 0; layer <= last; layer++)
        if (p->heads[layer] > most && index_set_has(layers, layer))
            most = p->heads[layer];
    return most;
}

void places_report(const places *p, const settings *s, void (*report)(const char *line)) {
    unsigned first = 0, last = 0;
    reporter t = {.report = report};
    if (!seen_layers(p, &first, &last))
        return;
    for (size_t i = 0; i < s->config.rule_count; i++) {
        const policy_rule *rule = &s->config.rules[i];
        unsigned heads = heads_of(p, last, &rule->layers);
        for (size_t j = 0; j < rule->layers.count; j++) {
            struct index_range range = rule->layers.ranges[j];
            missing m = missing_of(range, is_seen_between(p, range.first, range.last), last);
            if (m.is_any)
                report_missing(s, i, true, m, first, last, &t);
        }
        for (size_t j = 0; heads > 0 && j < rule->heads.count; j++) {
            struct index_range range = rule->heads.ranges[j];
            missing m = missing_of(range, range.first < heads, heads - 1);
            if (m.is_any)
                report_missing(s, i, false, m, 0, heads - 1, &t);
        }
    }
    if (t.reported > PLACES_REPORTED) {
        char line[64];
        snprintf(line, sizeof line, "and %zu more that the model does not have",
                 t.reported - PLACES_REPORTED);
        report(line);
    }
}
