/*
 * The kernels that read long caches where they lie: all types, depths
 * that fill no vector, few and many rows, heads interleaved or one after the
 * other, gaps between rows and rows from the last to the first, against plain
 * loops in double.
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

enum { ROWS_MAX = 9, HEADS_MAX = 9, DEPTH_MAX = 576 };

/* A cache of `count` rows to a head, its last byte the last that can be read. */
typedef struct cache {
    kv_rows shape;
    char *memory;
} cache;

static void store_element(char *at, whet_type type, float x) {
    uint16_t bits = type == WHET_F16 ? reference_to_f16(x) : reference_to_bf16(x);
    memcpy(at, type == WHET_F32 ? (void *)&x : (void *)&bits, reference_size(type));
}

static void fill_row(struct rng *rng, whet_type type, size_t depth, char *row) {
    float values[DEPTH_MAX];
    rng_fill_normal(rng, values, depth, 0, 1);
    if (reference_is_quantised(type)) {
        quantise_row(values, depth, type, row);
        return;
    }
    for (size_t i = 0; i < depth; i++) {
        store_element(row + i * reference_size(type), type, values[i]);
    }
}

static const char *cache_row(const cache *c, size_t head, size_t j) {
    return (const char *)c->shape.first + (ptrdiff_t)head * c->shape.head_stride +
           (ptrdiff_t)j * c->shape.stride;
}

/* How the rows of a cache may lie. */
typedef struct lie {
    bool by_position; /* heads are interleaved; else one after the other */
    bool backwards;
    size_t gap; /* elements, or blocks, between rows */
} lie;

static cache cache_new(struct rng *rng, whet_type type, size_t heads, size_t count, size_t depth,
                       lie how) {
    size_t row = reference_row_size(type, depth);
    size_t step = row + how.gap * reference_size(type);
    size_t bytes = count ? (heads * count - 1) * step + row : 0;
    cache c = {.shape = {.type = (int)type, .heads = heads, .count = count, .depth = depth},
               .memory = guarded_new(bytes)};
    c.shape.stride = (ptrdiff_t)(how.by_position ? heads * step : step);
    c.shape.head_stride = (ptrdiff_t)(how.by_position ? step : count * step);
    c.shape.first = c.memory;
    if (how.backwards && count) {
        c.shape.first = c.memory + (ptrdiff_t)(count - 1) * c.shape.stride;
        c.shape.stride = -c.shape.stride;
    }
    for (size_t at = 0; at < heads * count; at++) {
        fill_row(rng, type, depth, c.memory + at * step);
    }
    return c;
}

static double cache_at(const cache *c, size_t head, size_t j, size_t i) {
    return reference_load_from_row(cache_row(c, head, j), (whet_type)c->shape.type, i);
}

/* How large the parts of an element are that are added to a sum separately. */
static double cache_size_at(const cache *c, size_t head, size_t j, size_t i) {
    whet_type type = (whet_type)c->shape.type;
    double size = fabs(cache_at(c, head, j, i));
    if (type == WHET_Q4_1 || type == WHET_Q5_1) {
        const char *block = cache_row(c, head, j) + reference_row_size(type, i / 32 * 32);
        size += 2 * fabs(reference_load(block + 2, WHET_F16)); /* minimum */
    }
    return size;
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

static void report(const cache *c, size_t rows, size_t wrong) {
    const kv_rows *s = &c->shape;
    CHECK_MSG(wrong == 0,
              "type %d, %zu heads %td bytes apart, %zu rows, %zu keys, depth %zu: %zu wrong",
              s->type, s->heads, s->head_stride, rows, s->count, s->depth, wrong);
}

static void check_scores(struct rng *rng, const cache *c, size_t rows) {
    size_t count = c->shape.count;
    size_t depth = c->shape.depth;
    size_t stride = padded(depth);
    size_t logits_stride = count + 3;
    size_t all_rows = c->shape.heads * rows;
    float *queries = new_rows(rng, all_rows, depth);
    float *logits = guarded_new(all_rows * logits_stride * sizeof(float));
    whet_kernels_get()->cache_scores(&c->shape, queries, rows, stride, logits, logits_stride);
    size_t wrong = 0;
    for (size_t at = 0; at < all_rows * logits_stride; at++) {
        size_t r = at / logits_stride;
        size_t j = at % logits_stride;
        if (j >= count) {
            wrong += logits[at] == logits[at]; /* still NaN */
            continue;
        }
        double sum = 0;
        double sizes = 0;
        for (size_t i = 0; i < depth; i++) {
            double product = (double)queries[r * stride + i] * cache_at(c, r / rows, j, i);
            sum += product;
            sizes += fabs(product);
        }
        wrong += !(fabs((double)logits[at] - sum) <= product_bound(depth, sizes));
    }
    report(c, rows, wrong);
    guarded_free(queries);
    guarded_free(logits);
}

/* With quantised keys' vectors scaled, whatever the number of rows. */
static void check_scaled_scores(struct rng *rng, const cache *c, size_t rows) {
    cache scaled = *c;
    scaled.shape.scales_vectors = true;
    check_scores(rng, &scaled, rows);
}

static void check_values(struct rng *rng, const cache *c, size_t rows) {
    size_t count = c->shape.count;
    size_t depth = c->shape.depth;
    size_t stride = padded(depth);
    size_t weights_stride = count + 5;
    size_t all_rows = c->shape.heads * rows;
    float *weights = guarded_new(all_rows * weights_stride * sizeof(float));
    for (size_t at = 0; at < all_rows * weights_stride; at++) {
        /* masked keys among the others */
        weights[at] = rng_bits(rng) % 4 ? (float)rng_uniform(rng, 0, 1) : 0;
    }
    float *out = new_rows(rng, all_rows, depth);
    float *before = guarded_new(all_rows * stride * sizeof(float));
    memcpy(before, out, all_rows * stride * sizeof(float));
    whet_kernels_get()->cache_values(&c->shape, weights, weights_stride, rows, out, stride);
    size_t wrong = 0;
    for (size_t at = 0; at < all_rows * stride; at++) {
        size_t r = at / stride;
        size_t i = at % stride;
        double sum = (double)before[at];
        double sizes = fabs(sum);
        for (size_t j = 0; i < depth && j < count; j++) {
            double weight = (double)weights[r * weights_stride + j];
            sum += weight * cache_at(c, r / rows, j, i);
            sizes += weight * cache_size_at(c, r / rows, j, i);
        }
        wrong += !(fabs((double)out[at] - sum) <= product_bound(count, sizes));
    }
    report(c, rows, wrong);
    guarded_free(weights);
    guarded_free(out);
    guarded_free(before);
}

typedef void check_function(struct rng *rng, const cache *c, size_t rows);

static void check_cache(struct rng *rng, check_function *check, whet_type type, size_t heads,
                        size_t rows, size_t count, size_t depth) {
    lie how = {.by_position = rng_bits(rng) % 2,
               .backwards = rng_bits(rng) % 4 == 0,
               .gap = rng_bits(rng) % 3 ? 0 : 1 + rng_bits(rng) % 9};
    cache c = cache_new(rng, type, heads, count, depth, how);
    check(rng, &c, rows);
    guarded_free(c.memory);
}

static void check_type(struct rng *rng, check_function *check, whet_type type) {
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 17, 33};
    size_t unit = reference_is_quantised(type) ? 32 : 1;
    for (size_t depth = unit; depth <= (unit > 1 ? DEPTH_MAX : 80); depth += unit) {
        for (size_t rows = 1; rows <= ROWS_MAX; rows++) {
            check_cache(rng, check, type, 1 + (depth / unit + rows) % 3, rows,
                        counts[(depth / unit + rows) % 11], depth);
        }
    }
    for (size_t rows = 1; rows <= ROWS_MAX; rows++) {
        check_cache(rng, check, type, 1, rows, 13, 576);
        check_cache(rng, check, type, 2, rows, 129, 128);
        check_cache(rng, check, type, rows, 4, 67, 64);
    }
    check_cache(rng, check, type, HEADS_MAX, 7, 100, 96);
    check_cache(rng, check, type, 2, 31, 70, 128);
    check_cache(rng, check, type, 2, 71, 50, 64);
    check_cache(rng, check, type, 1, 4, 1000, 256);
}

/* Few keys for each of the cursors that they are divided into, or none. */
static void check_few_keys(struct rng *rng, check_function *check, whet_type type) {
    static const size_t depths[] = {32, 64, 96, 576};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        for (size_t count = 1; count <= 9; count++) {
            for (size_t heads = 1; heads <= HEADS_MAX; heads += 4) {
                check_cache(rng, check, type, heads, 1, count, depths[i]);
            }
            check_cache(rng, check, type, 2, 5, count, depths[i]);
        }
    }
}

/* Every number of rows that attention has here, and ends of the pieces that keys are taken in. */
static void check_pieces(struct rng *rng, check_function *check, whet_type type) {
    static const size_t counts[] = {15, 16, 31, 32, 48, 63, 64, 65, 68, 127, 131, 192, 257};
    for (size_t rows = 1; rows <= 33; rows++) {
        check_cache(rng, check, type, 1 + rows % 2, rows, 17 + rows, 64);
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        check_cache(rng, check, type, 1, 1, counts[i], 96);
        check_cache(rng, check, type, 3, 2, counts[i], 32);
        check_cache(rng, check, type, 2, 5, counts[i], 64);
    }
}

static void check_types(check_function *check, uint64_t seed,
                        void (*of_type)(struct rng *, check_function *, whet_type)) {
    struct rng rng = rng_seeded(seed);
    for (whet_type type = WHET_F32; type <= REFERENCE_LAST_TYPE; type++) {
        of_type(&rng, check, type);
    }
}

TEST(logits_are_products_with_every_row_of_a_cache) { check_types(check_scores, 1, check_type); }

TEST(so_they_are_where_vectors_are_scaled) { check_types(check_scaled_scores, 7, check_few_keys); }

TEST(values_are_added_by_their_weights) { check_types(check_values, 2, check_type); }

TEST(a_row_alone_meets_few_keys) {
    check_types(check_scores, 3, check_few_keys);
    check_types(check_values, 4, check_few_keys);
}

TEST(any_number_of_rows_and_keys_is_taken_in_pieces) {
    check_types(check_scores, 5, check_pieces);
    check_types(check_values, 6, check_pieces);
}

/* Equal values under equal weights are rounded alike again and again: what comes out must still be
 * so exact that weights and their sum have a share in the 2e-6 that attention promises. */
static void check_flat(struct rng *rng, whet_type type, size_t heads, size_t depth) {
    enum { COUNT = 1024 };
    cache c = cache_new(rng, type, heads, COUNT, depth, (lie){.by_position = true});
    size_t row = reference_row_size(type, depth);
    double worst = 0;
    float weights[COUNT];
    float *out = guarded_new(heads * padded(depth) * sizeof(float));
    for (size_t round = 0; round < 16; round++) {
        for (size_t at = 0; at < heads * depth; at++) {
            store_element(c.memory + at * reference_size(type), type,
                          (float)rng_uniform(rng, 1, 2));
        }
        for (size_t at = heads; at < heads * COUNT; at++) {
            memcpy(c.memory + at * row, c.memory + at % heads * row, row);
        }
        float weight = (float)rng_uniform(rng, 0.5, 1);
        for (size_t j = 0; j < COUNT; j++) {
            weights[j] = weight;
        }
        memset(out, 0, heads * padded(depth) * sizeof(float));
        whet_kernels_get()->cache_values(&c.shape, weights, 0, 1, out, padded(depth));
        for (size_t at = 0; at < heads * depth; at++) {
            double sum = (double)out[at / depth * padded(depth) + at % depth];
            double value = cache_at(&c, at / depth, 0, at % depth);
            worst = fmax(worst, fabs(sum / COUNT / (double)weight / value - 1));
        }
    }
    CHECK_MSG(worst <= 1.25e-6, "type %d, %zu heads, depth %zu: off by %g", (int)type, heads, depth,
              worst);
    guarded_free(out);
    guarded_free(c.memory);
}

TEST(equal_values_come_out_as_they_are) {
    struct rng rng = rng_seeded(7);
    static const size_t heads[] = {1, 2, 8};
    for (int type = WHET_F32; type <= WHET_BF16; type++) {
        for (size_t h = 0; h < 3; h++) {
            check_flat(&rng, (whet_type)type, heads[h], 128);
        }
        check_flat(&rng, (whet_type)type, 1, DEPTH_MAX);
    }
}
