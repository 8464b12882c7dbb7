/*
 * Attention problems to try: random q, k and v of a shape, in guarded memory and
 * any layout, and the comparison of what the library makes of them with the
 * reference, within the accuracy that the project promises.
 */
#ifndef WHET_TESTS_ATTENTION_EXAMPLE_H
#define WHET_TESTS_ATTENTION_EXAMPLE_H

#include "support/random.h"
#include "whet.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The limits: outputs relative to max|V|, entropy to max(1, H), beta to
 * max(1, beta). Logits are products in f32 and off by about 1e-7 of their size,
 * which beta multiplies; where beta times the largest is beyond SHARP, as it
 * seldom is in a trained head, the limits grow in proportion.
 */
#define OUTPUT_LIMIT 2e-6
#define ENTROPY_LIMIT 2e-6
#define BETA_LIMIT 1e-5
#define SHARP 16

typedef enum example_layout {
    CONTIGUOUS,   /* [batch][head][position][element], all strides left at zero */
    TOKENS_FIRST, /* [batch][position][head][element], with a gap after every row */
    BACKWARDS,    /* heads and positions from the last to the first, with gaps */
    SPREAD,       /* elements apart from each other */
    TRANSPOSED,   /* [batch][head][element][position], with a gap after every element; types without
                     single elements have [batch][head][position][element], with gaps */
    LAYOUTS
} example_layout;

/* What to make; zero means 1 for sizes, as in whet_attention for the rest. */
typedef struct example_shape {
    size_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
    whet_type q_type, k_type, v_type, out_type; /* k and v may be WHET_CUSTOM */
    example_layout layout;
    double sharpness; /* standard deviation of the logits; 0 means 1 */
    uint64_t seed;
} example_shape;

/* The types that k and v may have. Dimensions are rounded up to the blocks of quantised ones. */
#define CACHE_TYPES 10
extern const whet_type example_cache_types[CACHE_TYPES];

/* Where a tensor lies. */
typedef struct example_tensor {
    char *base;
    ptrdiff_t stride[4];
    size_t extent[4];
    whet_type type;
    bool spread;
} example_tensor;

enum { EXAMPLE_MEMORIES = 32 };

typedef struct example {
    whet_attention attention; /* ready to run; set further fields as you like */
    example_tensor q, k, v;
    example_layout layout;
    whet_type out_type;
    double max_value; /* max|V| */
    struct rng rng;
    void *memory[EXAMPLE_MEMORIES];
    size_t memories;
} example;

example example_new(example_shape shape);
void example_free(example *e);

/* Guarded memory that is freed with the example. */
void *example_memory(example *e, size_t bytes);

/* Memory for a tensor whose extent and type are set, in some layout; its strides. */
void example_place(example *e, example_tensor *tensor, example_layout layout);

/* Fills one with normal values; returns the largest of their sizes. */
double example_fill(example_tensor *tensor, struct rng *rng, double deviation);

/* As the library wants it described. */
whet_tensor example_describe(const example_tensor *tensor, example_layout layout);

/* Where a row of one begins. */
char *example_row(const example_tensor *tensor, size_t batch, size_t head, size_t position);

/* Overwrites one element of q, k or v (not of a custom type); of quantised types, the scale of the
 * block in which it is, so that other elements change, too. */
void example_set(const example_tensor *tensor, size_t batch, size_t head, size_t position,
                 size_t element, float value);

/* Overwrites a whole row of them. */
void example_set_row(const example_tensor *tensor, size_t batch, size_t head, size_t position,
                     float value);

/* Makes q and k multiples of 1/4: products and their sums are exact, and many logits equal each
 * other. For maps that jump where two logits change places. */
void example_make_exact(example *e);

/* Which axes a mask has entries of its own for; along the others one entry serves all. */
enum { MASK_BATCH = 1, MASK_HEADS = 2, MASK_QUERIES = 4 };

/* A random mask: about a quarter of the keys masked, the others shifted. Returns its entries. */
void *example_mask(example *e, unsigned axes, whet_type type, size_t gap);

/*
 * A mask that shares the keys out to sequences: in parts of the cache, in turn, or in runs of
 * random lengths with some keys of no sequence at all. Queries belong to the sequences in parts;
 * each sees the keys of its own sequence, without the last one for every query that follows, and
 * only the last `window` of them if that is not 0. With `values`, the mask also adds something to
 * keys that are seen. Returns its entries.
 */
typedef enum example_sharing { CONSECUTIVE, INTERLEAVED, SCATTERED, SHARINGS } example_sharing;
void *example_sequences(example *e, size_t sequences, example_sharing how, size_t window,
                        whet_type type, bool values);

/* The sequence of a query. */
static inline size_t example_sequence_of(const example *e, size_t sequences, size_t query) {
    return query * sequences / e->attention.queries;
}

/* A random bias of keys: about an eighth of them masked, the others shifted; with `gap` floats
 * between. Along axes without MASK_BATCH or MASK_HEADS one entry serves all. Returns its entries.
 */
float *example_bias(example *e, unsigned axes, size_t gap);

/* A beta for every row, between 0 and 3; returns them. */
float *example_betas(example *e);

/* Slopes and sinks for every query head; returns the latter. */
void example_alibi(example *e);
float *example_sinks(example *e);

/* One policy for all heads, or one for each, taken from the names in turn. */
void example_policy(example *e, const char *name);
void example_policies(example *e, const char *const *names, size_t count);

/*
 * Runs the example with statistics, without, and as it is described (its type
 * and layout of output, statistics with gaps), and compares all of it with the
 * reference.
 */
void example_check(example *e, const char *what);

/* What example_check runs: whet_attention_forward, unless a test has set another function that
 * should do the same. */
typedef whet_status (*example_function)(const whet_attention *attention,
                                        const whet_executor *executor, uint64_t *first_bad_row);
extern example_function example_forward;

/* Prints the worst errors since the last time. */
void example_print_worst(void);

#endif
