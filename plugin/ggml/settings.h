/*
 * What the user wants, from the environment:
 *
 *     WHET_POLICY=name       any policy of libwhet; softmax by default
 *     WHET_STRENGTH=s        0 to 1, beta = 1 + s (beta of the policy - 1)
 *     WHET_LAYERS=0-3,7      where the policy applies; all by default, and softmax elsewhere
 *     WHET_HEADS=0,2         the same for query heads
 *     WHET_CONFIG=file.json  policies by layer and head, instead of the four above
 *     WHET_STATS=file.csv    record rows there, see recording.h
 *     WHET_STATS_ROWS=which  all, last, a step up to INDEX_MAX, or ~N: about N of an evaluation
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

#include "message.h"
#include <stdbool.h>
#include <stddef.h>
#include <whet.h>

#define INDEX_MAX 65535 /* of a layer or a head, and of a step */
#define RULES_MAX 65536 /* in a file */
#define CONFIG_BYTES_MAX ((size_t)16 << 20)

/* Numbers of layers or heads: ranges in the order given. None at all means every number. */
typedef struct index_set {
    size_t count;
    struct index_range {
        unsigned first, last;
    } * ranges;
} index_set;

typedef struct policy_rule {
    index_set layers, heads;
    whet_policy policy;
} policy_rule;

typedef struct settings {
    whet_policy policy; /* where no rule says otherwise */
    policy_rule *rules;
    size_t rule_count;
    char *config_path; /* NULL: policy and rules are from the environment */
    char *stats_path;  /* NULL: nothing is recorded */
    size_t stats_step; /* SIZE_MAX: the last row alone */
    size_t stats_rows; /* about so many of an evaluation instead; 0: as the step says */
    bool verbose;
} settings;

/* Reads a list of ranges such as "0-3,7". */
bool index_set_parse(const char *text, index_set *set, message *why);
bool index_set_has(const index_set *set, unsigned index);

/* The text of a configuration file, `bytes` of it, into policy and rules. */
bool settings_parse_config(settings *s, const char *text, size_t bytes, message *why);

/* A policy by name; and one that was made so with a strength. */
bool settings_make_policy(const char *name, whet_policy *policy, message *why);
bool settings_weaken(whet_policy *policy, double strength, message *why);

/* A number that is not negative, with a point whatever the locale. */
bool settings_number(const char *text, double *number);

/* Everything from the environment. False: refused, and s holds nothing to be freed. */
bool settings_load(settings *s, message *why);
void settings_free(settings *s);

/* Of one head of one layer; the same place for all that one rule decides. */
const whet_policy *settings_policy(const settings *s, unsigned layer, unsigned head);

/* Every so many of an operation's queries are recorded. */
size_t settings_step(const settings *s, size_t queries);

#endif
