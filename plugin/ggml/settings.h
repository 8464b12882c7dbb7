/*
 * What the user wants, from the environment:
 *
 *     WHET_POLICY=name       any policy of libwhet; softmax by default
 *     WHET_STRENGTH=s        0 to 1, beta = 1 + s (beta of the policy - 1)
 *     WHET_LAYERS=0-3,7      where the policy applies; all by default, and softmax elsewhere
 *     WHET_HEADS=0,2         the same for query heads
 *     WHET_CONFIG=file.json  policies by layer and head, instead of the four above
 *     WHET_STATS=file.csv    record rows there, see recording.h
 *     WHET_STATS_ROWS=which  all, last, every N-th with a number N, or ~N: about N of an evaluation
 *     WHET_VERBOSE=1         tell on standard error what is done
 *
 * and from the file:
 *
 *     {
 *       "policy": "softmax",
 *       "rules": [
 *         {"layers": "20-21", "policy": "adaptive", "strength": 0.5},
 *         {"layers": "3", "heads": "0,4-7", "policy": "fixed:1.2"}
 *       ]
 *     }
 *
 * "policy" and "strength" outside of rules are for all that no rule names; the last rule that names
 * a head decides. Anything that is not understood is an error with a reason: nothing is ignored.
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
    whet_policy policy; /* where no rule says otherwise */
    policy_rule *rules;
    size_t rule_count;
    char *config_path;      /* NULL: policy and rules are from the environment */
    char *stats_path;       /* NULL: nothing is recorded */
    size_t stats_interval;  /* from one recorded row to the next; SIZE_MAX: the last row alone */
    size_t stats_row_count; /* about so many of an evaluation instead; 0: as the interval says */
    bool verbose;
} settings;

/* The text of a configuration file, `bytes` of it, into policy and rules. */
bool settings_parse_config(settings *s, const char *text, size_t bytes, message *why);

/* A policy by name; and one that was made so with a strength. */
bool settings_make_policy(const char *name, whet_policy *policy, message *why);
bool settings_set_strength(whet_policy *policy, double strength, message *why);

/* Whether the policy's temperature is that of plain softmax, whatever its strength and its map. */
bool settings_has_plain_temperature(const whet_policy *policy);

/* A number that is not negative, with a point whatever the locale. */
bool settings_number(const char *text, double *number);

/* Everything from the environment. False: refused, and s holds nothing to be freed. */
bool settings_load(settings *s, message *why);
void settings_free(settings *s);

/* Of one head of one layer; the same place for all that one rule decides. */
const whet_policy *settings_policy(const settings *s, unsigned layer, unsigned head);

/* Every so many of an operation's queries are recorded. */
size_t settings_interval(const settings *s, size_t queries);

#endif
