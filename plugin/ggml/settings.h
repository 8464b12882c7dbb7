/*
 * Settings from the environment:
 *
 *     WHET_POLICY=name       any policy of libwhet (default softmax)
 *     WHET_STRENGTH=s        0 to 1, beta = 1 + s (beta of the policy - 1)
 *     WHET_LAYERS=0-3,7      where the policy applies (default all); softmax elsewhere
 *     WHET_HEADS=0,2         the same for query heads
 *     WHET_CONFIG=file.json  policies by layer and head, instead of the four above
 *     WHET_SKIP=weight       0 to below 1: weight of values that a row of attention may leave out
 *     WHET_STATS=file.csv    record rows there, see recording.h
 *     WHET_STATS_ROWS=which  all, last, N (every N-th), or ~N (about N of an evaluation)
 *     WHET_VERBOSE=1         print details on standard error
 *
 * and from the file:
 *
 *     {
 *       "policy": "softmax",
 *       "rules": [
 *         {"layers": "20-21", "policy": "adaptive", "strength": 0.5},
 *         {"layers": "3", "heads": "0,4-7", "policy": "fixed:1.2"}
 *       ],
 *       "about": {"text": "books", "perplexity": 12.4}
 *     }
 *
 * "policy" and "strength" outside of rules apply to all heads that no rule names; the last rule
 * that names a head decides. "about", in the file or in a rule, takes any JSON for its readers.
 * Anything else that is not understood is an error with a reason: nothing is ignored.
 */
#ifndef WHET_PLUGIN_SETTINGS_H
#define WHET_PLUGIN_SETTINGS_H

#include "index_set.h"
#include <stdbool.h>
#include <stddef.h>
#include <whet.h>

#define RULES_MAX 65536 /* in a file */
#define CONFIG_BYTES_MAX ((size_t)16 << 20)

typedef struct policy_rule {
    index_set layers, heads;
    whet_policy policy;
} policy_rule;

typedef struct settings {
    whet_policy policy; /* where no rule applies */
    policy_rule *rules;
    size_t rule_count;
    char *config_path;      /* NULL: policy and rules are from the environment */
    char *stats_path;       /* NULL: no recording */
    size_t stats_interval;  /* between recorded rows; SIZE_MAX: the last row only */
    size_t stats_row_count; /* approximate number of recorded rows of an evaluation instead; 0: use
                               the interval */
    float skip; /* whet_attention.skip */
    bool verbose;
} settings;

/* Parses a settings file of `bytes` bytes into policy and rules. */
bool settings_parse_config(settings *s, const char *text, size_t bytes, message *why);

/* A policy by name; and the same with a strength. */
bool settings_make_policy(const char *name, whet_policy *policy, message *why);
bool settings_set_strength(whet_policy *policy, double strength, message *why);

/* Whether the policy's temperature is that of plain softmax, for any strength and map. */
bool settings_has_plain_temperature(const whet_policy *policy);

/* Parses a non-negative number, with a decimal point in any locale. */
bool settings_number(const char *text, double *number);

/* Reads everything from the environment. False: refused, and s holds nothing to be freed. */
bool settings_load(settings *s, message *why);
void settings_free(settings *s);

/* The policy of one head of one layer; the same address for all heads that one rule decides. */
const whet_policy *settings_policy(const settings *s, unsigned layer, unsigned head);

/* The interval between recorded queries of an operation. */
size_t settings_interval(const settings *s, size_t queries);

#endif
