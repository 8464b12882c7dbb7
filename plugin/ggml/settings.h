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
 *     WHET_STATS_KEYS=8      and of the last row of every evaluation its largest weights, 1 to 64,
 *                            with their keys; of the heads of WHET_LAYERS and WHET_HEADS
 *     WHET_STATS_GAPS=1      likewise, of all heads, how many logits are close to the largest
 *     WHET_VERBOSE=1         print details on standard error
 *
 * and from the file, which llama/policy_config.h describes. Anything that is not understood is an
 * error with a reason: nothing is ignored.
 */
#ifndef WHET_PLUGIN_SETTINGS_H
#define WHET_PLUGIN_SETTINGS_H

#include "llama/policy_config.h"
#include <stdbool.h>
#include <stddef.h>
#include <whet.h>

typedef struct settings {
    policy_config config;
    char *config_path;      /* NULL: policies are from the environment */
    char *stats_path;       /* NULL: no recording */
    size_t stats_interval;  /* between recorded rows; SIZE_MAX: the last row only */
    size_t stats_row_count; /* approximate number of recorded rows of an evaluation instead; 0: use
                               the interval */
    size_t stats_keys;      /* largest weights to record of a last row */
    index_set stats_layers, stats_heads; /* of these heads */
    bool stats_gaps;                     /* and the histogram of its logits */
    float skip;                          /* whet_attention.skip */
    bool verbose;
} settings;

/* Reads everything from the environment. False: refused, and s holds nothing to be freed. */
bool settings_load(settings *s, message *why);
void settings_free(settings *s);

/* The interval between recorded queries of an operation. */
size_t settings_interval(const settings *s, size_t queries);

/* Whether the recording has the columns of details. */
static inline bool settings_has_details(const settings *s) {
    return s->stats_keys > 0 || s->stats_gaps;
}

#endif
