/*
 * The kernels that read long caches where they lie: all types, depths
 * that fill no vector, few and many rows, gaps between rows and rows from the
 * last to the first, against plain loops in double.
 */
#include "bench/quantise.h"
#include "isa/kernels.h"
#include "reference/reference.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"

#include <math.h>
#include <string.h>

enum { ROWS_MAX = 9, DEPTH_MAX = 576 };

/* A cache of `count` rows, `stride` bytes apart, its last byte the last that can be read. */
typedef struct cache {
    whet_type type;
    size_t count, depth;
    ptrdiff_t stride;
    char *memory;
    const char *first;
} cache;

static bool is_quantised(whet_type type) { return type == WHET_Q8_0 || type == WHET_Q4_0; }

static void store_element(char *at, whet_type type, float x) {
    uint16_t bits = type == WHET_F16 ? reference_to_f16(x) : reference_to_bf16(x);
    memcpy(at, type == WHET_F32 ? (void *)&x : (void *)&bits, reference_size(type));
}

static void fill_row(struct rng *rng, whet_type type, size_t depth, char *row) {
    float values[DEPTH_MAX];
    rng_fill_normal(rng, values, depth, 0, 1);
    if (is_quantised(type)) {
        quantise_row(values, depth, type, row);
        return;
    }
    for (size_t i = 0; i < depth; i++) {
        store_element(row + i * reference_size(type), type, values[i]);
    }
}

static cache cache_new(struct rng *rng, whet_type type, size_t count, size_t depth, size_t gap,
                       bool backwards) {
    size_t row = reference_row_size(type, depth);
    size_t step = row + gap * reference_size(type);
    cache c = {type, count, depth, (ptrdiff_t)step, NULL, NULL};
    size_t bytes = count ? (count - 1) * step + row : 0;
    c.memory = guarded_new(bytes);
    c.first = c.memory;
    if (backwards && count) {
        c.first = c.memory + (count - 1) * step;
        c.stride = -c.stride;
    }
    for (size_t j = 0; j < count; j++) {
        fill_row(rng, type, depth, c.memory + j * step);
    }
    return c;
}

static double cache_at(const cache *c, size_t j, size_t i) {
    return reference_load_from_row(c->first + (ptrdiff_t)j * c->stride, c->type, i);
}

static size_t padded(size_t n) { return (n + ROW_PAD - 1) / ROW_PAD * ROW_PAD; }

/* Rows of floats, each padded with zeros to whole vectors. */
static float *new_rows(struct rng *rng, size_t rows, size_t depth) {
    size_t stride = padded(depth);
    float *x = guarded_new(rows * stride * sizeof(float));
    for (size_t at = 0; at < rows * stride; at++) {
        x[at] = at % stride < depth ? (float)rng_normal(rng, 0, 1) : 0;
    }
    return x;
}

/* One more rounding than there are terms, and one for the scale of quantised values. */
static double product_bound(size_t n, double sizes) { return (double)(n + 3) * 0x1p-24 * sizes; }

static void check_scores(struct rng *rng, const cache *c, size_t rows) {
    size_t stride = padded(c->depth);
    size_t logits_stride = c->count + 3;
    float *queries = new_rows(rng, rows, c->depth);
    float *logits = guarded_new(rows * logits_stride * sizeof(float));
    whet_kernels_get()->stream_scores(queries, rows, stride, c->first, (int)c->type, c->stride,
                                      c->count, c->depth, logits, logits_stride);
    size_t wrong = 0;
    for (size_t at = 0; at < rows * logits_stride; at++) {
        size_t r = at / logits_stride;
        size_t j = at % logits_stride;
        if (j >= c->count) {
            wrong += logits[at] == logits[at]; /* still NaN */
            continue;
        }
        double sum = 0;
        double sizes = 0;
        for (size_t i = 0; i < c->depth; i++) {
            double product = (double)queries[r * stride + i] * cache_at(c, j, i);
            sum += product;
            sizes += fabs(product);
        }
        wrong += !(fabs((double)logits[at] - sum) <= product_bound(c->depth, sizes));
    }
    CHECK_MSG(wrong == 0, "type %d, %zu rows, %zu keys, depth %zu: %zu wrong", (int)c->type, rows,
              c->count, c->depth, wrong);
    guarded_free(queries);
    guarded_free(logits);
}

static void check_values(struct rng *rng, const cache *c, size_t rows) {
    size_t stride = padded(c->depth);
    size_t weights_stride = c->count + 5;
    float *weights = guarded_new(rows * weights_stride * sizeof(float));
    for (size_t at = 0; at < rows * weights_stride; at++) {
        /* masked keys among the others */
        weights[at] = rng_bits(rng) % 4 ? (float)rng_uniform(rng, 0, 1) : 0;
    }
    float *out = new_rows(rng, rows, c->depth);
    float *before = guarded_new(rows * stride * sizeof(float));
    memcpy(before, out, rows * stride * sizeof(float));
    const kernels *k = whet_kernels_get();
    size_t spread = c->count / k->stream_keys, rest = spread * k->stream_keys;
    if (spread > 0)
        k->stream_values(weights, weights_stride, rows, c->first, (int)c->type, c->stride, spread,
                         spread, c->depth, out, stride);
    if (rest < c->count)
        k->stream_values(weights + rest, weights_stride, rows,
                         (const char *)c->first + (ptrdiff_t)rest * c->stride, (int)c->type,
                         c->stride, c->count - rest, 0, c->depth, out, stride);
    size_t wrong = 0;
    for (size_t at = 0; at < rows * stride; at++) {
        size_t r = at / stride;
        size_t i = at % stride;
        double sum = (double)before[at];
        double sizes = fabs(sum);
        for (size_t j = 0; i < c->depth && j < c->count; j++) {
            double product = (double)weights[r * weights_stride + j] * cache_at(c, j, i);
            sum += product;
            sizes += fabs(product);
        }
        wrong += !(fabs((double)out[at] - sum) <= product_bound(c->count, sizes));
    }
    CHECK_MSG(wrong == 0, "type %d, %zu rows, %zu keys, depth %zu: %zu wrong", (int)c->type, rows,
              c->count, c->depth, wrong);
    guarded_free(weights);
    guarded_free(out);
    guarded_free(before);
}

typedef void check_function(struct rng *rng, const cache *c, size_t rows);

static void check_cache(struct rng *rng, check_function *check, whet_type type, size_t rows,
                        size_t count, size_t depth) {
    size_t gap = rng_bits(rng) % 3 ? 0 : 1 + rng_bits(rng) % 9;
    cache c = cache_new(rng, type, count, depth, gap, rng_bits(rng) % 4 == 0);
    check(rng, &c, rows);
    guarded_free(c.memory);
}

static void check_everything(check_function *check, uint64_t seed) {
    struct rng rng = rng_seeded(seed);
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 33};
    for (whet_type type = WHET_F32; type <= WHET_Q4_0; type++) {
        size_t unit = is_quantised(type) ? 32 : 1;
        for (size_t depth = unit; depth <= (unit > 1 ? DEPTH_MAX : 80); depth += unit) {
            for (size_t rows = 1; rows <= ROWS_MAX; rows++) {
                check_cache(&rng, check, type, rows, counts[(depth / unit + rows) % 11], depth);
            }
        }
        for (size_t rows = 1; rows <= ROWS_MAX; rows++) {
            check_cache(&rng, check, type, rows, 13, 576);
            check_cache(&rng, check, type, rows, 129, 128);
        }
    }
}

TEST(logits_are_products_with_every_row_of_a_cache) { check_everything(check_scores, 1); }

TEST(values_are_added_by_their_weights) { check_everything(check_values, 2); }
