/*
 * Attention operations of ggml, one per graph, computed by the host without and with the plug-in,
 * and both compared with the plain reference in double. The backend without the plug-in is created
 * before that is loaded: only later ones go through it.
 */
#ifndef WHET_TESTS_PLUGIN_GRAPH_H
#define WHET_TESTS_PLUGIN_GRAPH_H

#include <ggml-backend.h>
#include <ggml.h>
#include <stdbool.h>
#include <stddef.h>
#include <whet.h>

typedef enum mask_kind {
    MASK_NONE,
    MASK_CAUSAL,
    MASK_WINDOW,
    MASK_PREFIX,   /* all queries see the same keys, but not all keys */
    MASK_HOLES,    /* keys are masked here and there */
    MASK_HEADS,    /* the same, a plane for each head */
    MASK_ITEMS,    /* the same, a plane for each batch item */
    MASK_REPEATED, /* the same, two planes that repeat over the heads; an even number of heads */
    MASK_NOTHING,  /* every other query sees no key */
    MASK_BIAS      /* causal, with distances as ALiBi has them */
} mask_kind;

/* What a composed attention's result is made to share memory with. */
typedef enum overlap_kind { OVERLAP_NONE, OVERLAP_QUERIES, OVERLAP_MASK } overlap_kind;

/* What to create; zero means 1 for counts, f16 for types of cache, head_dim for value_dim. */
typedef struct example {
    int head_dim, value_dim, heads, kv_heads, queries, keys, batch;
    int cache_types[2]; /* ggml's, plus 1, of keys and values */
    mask_kind mask;
    float scale, max_bias, softcap;
    bool has_sinks;
    bool is_softmax;     /* SOFT_MAX on logits instead of attention */
    bool has_products;   /* logits are products with keys, and the node has no name */
    bool is_composed;    /* attention of single operations, on values that are transposed */
    bool copies_values;  /* the same on a transposed copy of the values */
    bool shares_weights; /* another node reads the weights, too */
    overlap_kind overlap;
    bool in_place;
    bool is_plain; /* keys and values are stored head by head instead of position by position */
    bool values_in_keys; /* V is a view of K */
    bool has_f32_mask;   /* of SOFT_MAX */
    double sharpness;    /* of the logits, about; 0 means 1 */
    int layer;
    const whet_policy *policies; /* of the reference: one for each head, or NULL for softmax */
} example;

typedef struct outcome {
    double error, stock_error; /* relative, L2 */
    bool is_restored;          /* all nodes were restored */
    bool has_nan;
    size_t rows;              /* batch * heads * queries */
    whet_stats *stats;        /* the reference's, [item][head][query] */
    double *spread;           /* likewise */
    double *logits, *weights; /* the reference's of the last query, [item][head][key] */
    float *result, *stock;    /* [item][head][query][value], of SOFT_MAX [..][keys] */
    size_t count;
} outcome;

/* Loads the host's backends, creates one without the plug-in, loads the plug-in, creates one with
 * it. */
bool graph_start(void);

/* The number of threads of the backends. */
void graph_threads(int threads);

outcome graph_compute(const example *wanted);
void outcome_free(outcome *o);

#endif
