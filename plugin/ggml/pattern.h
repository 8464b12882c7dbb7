/*
 * Attention that a host composes of single operations, as llama.cpp does without flash attention:
 *
 *     products with the keys -> scaled or capped, perhaps -> softmax -> product with the values
 *
 * The values come transposed, from a cache that is kept so or from a copy made just before. Where
 * the whole pattern is found and nothing else reads what is between its ends, one operation can
 * take its place: the product with the values. The other nodes are then not computed.
 */
#ifndef WHET_PLUGIN_PATTERN_H
#define WHET_PLUGIN_PATTERN_H

#include "llama/host.h"

#define PATTERN_INNER 6 /* products, three of a cap, softmax, copy of the values */

typedef struct pattern {
    host_tensor *product; /* of values and weights: its result is that of the whole; NULL: there is
                             no pattern */
    const host_tensor *softmax;
    const host_tensor *q, *k; /* [head_dim, positions, heads, batch] */
    const host_tensor *v;     /* transposed: [keys, value_dim, heads, batch] */
    float scale, softcap;
    host_tensor *inner[PATTERN_INNER];  /* nodes that need not be computed, */
    host_tensor *reader[PATTERN_INNER]; /* and the only node that may read each */
    int inner_count;
    uintptr_t behind_inputs; /* 0, but if the result's memory overlaps an input's an address after
                                all of them */
} pattern;

/*
 * Looks for the pattern around the softmax that is node `index` of the graph. False: it is not
 * there, or the host may use an input's memory for something else before the last product.
 */
bool pattern_find(const host *h, host_graph *graph, int nodes, int index, pattern *found);

/*
 * Forgets those of the `count` patterns in which an inner node is read by another node than its
 * reader, or is a result of the graph. False: out of memory.
 */
bool patterns_keep_private(const host *h, host_graph *graph, int nodes, pattern *patterns,
                           size_t count);

#endif
