/* Attention problems to try: see example.h. */
#include "attention/example.h"

#include "bench/quantise.h"
#include "reference/reference.h"
#include "support/check.h"
#include "support/emulated.h"
#include "support/guarded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

void *example_memory(example *e, size_t bytes) {
    REQUIRE(e->memories < EXAMPLE_MEMORIES);
    void *memory = guarded_new(bytes);
    e->memory[e->memories++] = memory;
    return memory;
}

void example_free(example *e) {
    for (size_t i = 0; i < e->memories; i++) {
        guarded_free(e->memory[i]);
    }
    e->memories = 0;
}

/* ---- tensors ---- */

const whet_type example_cache_types[CACHE_TYPES] = {WHET_F32,    WHET_F16,   WHET_BF16, WHET_Q8_0,
                                                    WHET_Q4_0,   WHET_Q4_1,  WHET_Q5_0, WHET_Q5_1,
                                                    WHET_IQ4_NL, WHET_CUSTOM};

/* A dimension that a tensor of the type can have. */
static size_t dim_for(size_t dim, whet_type type) {
    size_t unit = reference_is_quantised(type) ? QUANTISE_BLOCK : 1;
    return (dim + unit - 1) / unit * unit;
}

/* A row of the custom type: its scale as a float, then a signed byte for each element. */
static void custom_to_f32(const void *row, float *result, size_t n, void *context) {
    float scale;
    memcpy(&scale, row, sizeof scale);
    const signed char *steps = (const signed char *)row + sizeof scale;
    for (size_t i = 0; i < n; i++) {
        result[i] = scale * (float)steps[i] * *(const float *)context;
    }
}

static float custom_context = 0.5f;

static size_t element_bytes(whet_type type) {
    return type == WHET_CUSTOM ? 1 : reference_size(type);
}

/* Bytes from the first element of a row to the end of its last. */
static size_t row_bytes(const example_tensor *t) {
    if (t->type == WHET_CUSTOM) {
        return sizeof(float) + t->extent[3];
    }
    if (reference_is_quantised(t->type)) {
        return reference_row_size(t->type, t->extent[3]);
    }
    return (t->extent[3] - 1) * (size_t)t->stride[3] + element_bytes(t->type);
}

/* Strides for a layout, all positive; the first two axes may be reversed later. */
static void choose_strides(example_tensor *t, example_layout layout) {
    ptrdiff_t size = (ptrdiff_t)element_bytes(t->type);
    t->stride[3] = layout == SPREAD ? 3 * size : size;
    ptrdiff_t gap = layout == CONTIGUOUS ? 0 : 3 * size;
    ptrdiff_t row = (ptrdiff_t)t->extent[3] * t->stride[3] + gap;
    if (t->type == WHET_CUSTOM) {
        t->stride[3] = 1;
        row = (ptrdiff_t)row_bytes(t) + gap;
    }
    if (reference_is_quantised(t->type)) {
        t->stride[3] = layout == CONTIGUOUS ? 0 : 12345; /* nobody should look at it */
        row = (ptrdiff_t)row_bytes(t) + gap;
    }
    ptrdiff_t heads = (ptrdiff_t)t->extent[1];
    ptrdiff_t positions = (ptrdiff_t)t->extent[2];
    bool tokens_first = layout == TOKENS_FIRST;
    t->stride[1] = tokens_first ? row : positions * row;
    t->stride[2] = tokens_first ? heads * row : row;
    t->stride[0] = heads * positions * row;
    if (layout == TRANSPOSED && t->type != WHET_CUSTOM && !reference_is_quantised(t->type)) {
        t->stride[2] = size;
        t->stride[3] = positions * size + gap;
        t->stride[1] = (ptrdiff_t)t->extent[3] * t->stride[3];
        t->stride[0] = heads * t->stride[1];
    }
}

void example_place(example *e, example_tensor *t, example_layout layout) {
    choose_strides(t, layout);
    size_t bytes = row_bytes(t);
    size_t offset = 0;
    bool empty = false;
    for (int axis = 0; axis < 3; axis++) {
        size_t reach = t->extent[axis] ? (t->extent[axis] - 1) * (size_t)t->stride[axis] : 0;
        empty = empty || t->extent[axis] == 0;
        bytes += reach;
        if (layout == BACKWARDS && axis > 0) {
            offset += reach;
            t->stride[axis] = -t->stride[axis];
        }
    }
    t->base = (char *)example_memory(e, empty ? 0 : bytes) + (empty ? 0 : offset);
}

char *example_row(const example_tensor *t, size_t batch, size_t head, size_t position) {
    return t->base + (ptrdiff_t)batch * t->stride[0] + (ptrdiff_t)head * t->stride[1] +
           (ptrdiff_t)position * t->stride[2];
}

static void store(char *at, whet_type type, float value) {
    if (type == WHET_F32) {
        memcpy(at, &value, sizeof value);
        return;
    }
    uint16_t bits = type == WHET_F16 ? reference_to_f16(value) : reference_to_bf16(value);
    memcpy(at, &bits, sizeof bits);
}

void example_set(const example_tensor *t, size_t batch, size_t head, size_t position,
                 size_t element, float value) {
    if (reference_is_quantised(t->type)) {
        char *row = example_row(t, batch, head, position);
        store(row + reference_row_size(t->type, element / 32 * 32), WHET_F16, value);
        return;
    }
    store(example_row(t, batch, head, position) + (ptrdiff_t)element * t->stride[3], t->type,
          value);
}

void example_set_row(const example_tensor *t, size_t batch, size_t head, size_t position,
                     float value) {
    for (size_t i = 0; i < t->extent[3]; i++) {
        example_set(t, batch, head, position, i, value);
    }
}

/* Under an emulator from a table: there a logarithm and a cosine to each element are what takes
 * longest. */
static double normal(struct rng *rng) {
    enum { ENTRIES = 1021 };
    static double table[ENTRIES];
    if (!emulated()) {
        return rng_normal(rng, 0, 1);
    }
    struct rng own = rng_seeded(1);
    for (size_t i = 0; table[0] == 0 && i < ENTRIES; i++) {
        table[ENTRIES - 1 - i] = rng_normal(&own, 0, 1);
    }
    return table[rng_bits(rng) % ENTRIES];
}

static void fill_custom_row(char *row, size_t n, struct rng *rng, double deviation) {
    float scale = (float)(deviation / 16);
    memcpy(row, &scale, sizeof scale);
    for (size_t i = 0; i < n; i++) {
        double steps = fmax(-127, fmin(127, nearbyint(32 * normal(rng))));
        row[sizeof scale + i] = (char)(signed char)steps;
    }
}

static void fill_row(const example_tensor *t, char *row, struct rng *rng, double deviation) {
    size_t n = t->extent[3];
    if (t->type == WHET_CUSTOM) {
        fill_custom_row(row, n, rng, deviation);
    } else if (reference_is_quantised(t->type)) {
        float values[576] = {0};
        REQUIRE(n <= 576);
        rng_fill_normal(rng, values, n, 0, deviation);
        quantise_row(values, n, t->type, row);
    } else {
        for (size_t i = 0; i < n; i++) {
            store(row + (ptrdiff_t)i * t->stride[3], t->type, (float)(deviation * normal(rng)));
        }
    }
}

static double size_at(const example_tensor *t, const char *row, size_t i, double deviation) {
    if (t->type == WHET_CUSTOM) {
        return fabs((double)(signed char)row[sizeof(float) + i]) * deviation / 32;
    }
    return fabs(reference_is_quantised(t->type)
                    ? reference_load_from_row(row, t->type, i)
                    : reference_load(row + (ptrdiff_t)i * t->stride[3], t->type));
}

double example_fill(example_tensor *t, struct rng *rng, double deviation) {
    double largest = 0;
    size_t rows = t->extent[0] * t->extent[1] * t->extent[2];
    for (size_t r = 0; r < rows; r++) {
        size_t position = r % t->extent[2];
        size_t head = r / t->extent[2] % t->extent[1];
        char *row = example_row(t, r / t->extent[2] / t->extent[1], head, position);
        fill_row(t, row, rng, deviation);
        for (size_t i = 0; i < t->extent[3]; i++) {
            largest = fmax(largest, size_at(t, row, i, deviation));
        }
    }
    return largest;
}

whet_tensor example_describe(const example_tensor *t, example_layout layout) {
    whet_tensor tensor = {.data = t->base, .type = t->type};
    if (t->type == WHET_CUSTOM) {
        tensor.to_f32 = custom_to_f32;
        tensor.context = &custom_context;
    }
    if (layout != CONTIGUOUS || t->type == WHET_CUSTOM) {
        memcpy(tensor.stride, t->stride, sizeof tensor.stride);
    }
    return tensor;
}

static size_t or_one(size_t n) { return n ? n : 1; }

example example_new(example_shape s) {
    example e = {.layout = s.layout, .out_type = s.out_type, .rng = rng_seeded(s.seed)};
    size_t batch = or_one(s.batch);
    size_t heads = or_one(s.heads);
    size_t kv_heads = s.kv_heads ? s.kv_heads : heads;
    s.head_dim = dim_for(s.head_dim, s.k_type);
    if (s.value_dim || s.head_dim % dim_for(1, s.v_type)) {
        s.value_dim = dim_for(s.value_dim ? s.value_dim : s.head_dim, s.v_type);
    }
    size_t value_dim = s.value_dim ? s.value_dim : s.head_dim;
    e.q = (example_tensor){.extent = {batch, heads, s.queries, s.head_dim}, .type = s.q_type};
    e.k = (example_tensor){.extent = {batch, kv_heads, s.keys, s.head_dim}, .type = s.k_type};
    e.v = (example_tensor){.extent = {batch, kv_heads, s.keys, value_dim}, .type = s.v_type};
    example_place(&e, &e.q, s.layout);
    example_place(&e, &e.k, s.layout);
    example_place(&e, &e.v, s.layout);
    example_fill(&e.q, &e.rng, s.sharpness > 0 ? s.sharpness : 1);
    example_fill(&e.k, &e.rng, 1);
    e.max_value = example_fill(&e.v, &e.rng, 1);
    e.attention = (whet_attention){.size = sizeof(whet_attention),
                                   .batch = s.batch,
                                   .heads = heads,
                                   .kv_heads = s.kv_heads,
                                   .queries = s.queries,
                                   .keys = s.keys,
                                   .head_dim = s.head_dim,
                                   .value_dim = s.value_dim,
                                   .q = example_describe(&e.q, s.layout),
                                   .k = example_describe(&e.k, s.layout),
                                   .v = example_describe(&e.v, s.layout)};
    return e;
}

static void round_tensor(example *e, const example_tensor *t) {
    for (size_t b = 0; b < t->extent[0]; b++) {
        for (size_t h = 0; h < t->extent[1]; h++) {
            for (size_t i = 0; i < t->extent[2]; i++) {
                for (size_t c = 0; c < t->extent[3]; c++) {
                    float value = (float)nearbyint(rng_normal(&e->rng, 0, 4)) / 4;
                    example_set(t, b, h, i, c, value);
                }
            }
        }
    }
}

void example_make_exact(example *e) {
    round_tensor(e, &e->q);
    if (e->k.type != WHET_CUSTOM) {
        round_tensor(e, &e->k);
    }
    e->attention.scale = 0.125f;
}

/* ---- what else a description may hold ---- */

void *example_mask(example *e, unsigned axes, whet_type type, size_t gap) {
    size_t size = reference_size(type);
    size_t keys = e->attention.keys;
    size_t step = (keys + gap) * size;
    size_t queries = axes & MASK_QUERIES ? e->attention.queries : 1;
    size_t heads = axes & MASK_HEADS ? e->attention.heads : 1;
    size_t batch = axes & MASK_BATCH ? e->q.extent[0] : 1;
    size_t rows = batch * heads * queries;
    char *mask = example_memory(e, rows ? rows * step - gap * size : 0);
    for (size_t row = 0; row < rows; row++) {
        for (size_t j = 0; j < keys; j++) {
            bool masked = rng_bits(&e->rng) % 4 == 0;
            float value = masked ? -INFINITY : (float)rng_integer(&e->rng, -16, 16) / 16;
            store(mask + row * step + j * size, type, value);
        }
    }
    whet_mask *m = &e->attention.mask;
    *m = (whet_mask){.data = mask, .type = type};
    m->stride[2] = axes & MASK_QUERIES ? (ptrdiff_t)step : 0;
    m->stride[1] = axes & MASK_HEADS ? (ptrdiff_t)(queries * step) : 0;
    m->stride[0] = axes & MASK_BATCH ? (ptrdiff_t)(heads * queries * step) : 0;
    return mask;
}

/* The sequence of every key; `sequences` for none. */
static void share_out(example *e, size_t sequences, example_sharing how, size_t *of) {
    size_t keys = e->attention.keys;
    for (size_t j = 0; j < keys;) {
        size_t run =
            how == SCATTERED ? 1 + rng_bits(&e->rng) % (rng_bits(&e->rng) % 8 ? 3 : 50) : 1;
        size_t sequence = how == CONSECUTIVE   ? j * sequences / keys
                          : how == INTERLEAVED ? j % sequences
                                               : rng_bits(&e->rng) % (sequences + 1);
        for (; run > 0 && j < keys; run--)
            of[j++] = sequence;
    }
}

void *example_sequences(example *e, size_t sequences, example_sharing how, size_t window,
                        whet_type type, bool values) {
    size_t keys = e->attention.keys, queries = e->attention.queries, size = reference_size(type);
    size_t *of = malloc(keys * sizeof *of);
    char *mask = example_memory(e, queries * keys * size);
    REQUIRE(of);
    share_out(e, sequences, how, of);
    for (size_t i = 0; i < queries; i++) {
        size_t own = example_sequence_of(e, sequences, i), later = 0, behind = 0;
        for (size_t next = i + 1; next < queries; next++)
            later += example_sequence_of(e, sequences, next) == own;
        for (size_t j = keys; j-- > 0;) {
            bool is_seen = false;
            if (of[j] == own)
                is_seen = behind >= later && (window == 0 || behind < later + window);
            behind += of[j] == own;
            float value = values ? (float)rng_integer(&e->rng, -8, 8) / 8 : 0;
            store(mask + (i * keys + j) * size, type, is_seen ? value : -INFINITY);
        }
    }
    free(of);
    e->attention.mask = (whet_mask){.data = mask, .type = type};
    e->attention.mask.stride[2] = (ptrdiff_t)(keys * size);
    return mask;
}

float *example_bias(example *e, unsigned axes, size_t gap) {
    size_t keys = e->attention.keys;
    size_t heads = axes & MASK_HEADS ? e->attention.heads : 1;
    size_t batch = axes & MASK_BATCH ? e->q.extent[0] : 1;
    size_t count = keys * batch * heads * (1 + gap);
    float *bias = example_memory(e, count ? (count - gap) * sizeof *bias : 0);
    for (size_t i = 0; i + gap < count; i++) {
        bool masked = rng_bits(&e->rng) % 8 == 0;
        bias[i] = masked ? -INFINITY : (float)rng_integer(&e->rng, -16, 16) / 16;
    }
    whet_key_bias *b = &e->attention.bias;
    ptrdiff_t step = (ptrdiff_t)((1 + gap) * sizeof *bias);
    *b = (whet_key_bias){.data = bias};
    b->stride[2] = gap ? step : 0;
    b->stride[1] = axes & MASK_HEADS ? (ptrdiff_t)keys * step : 0;
    b->stride[0] = axes & MASK_BATCH ? (ptrdiff_t)(heads * keys) * step : 0;
    return bias;
}

float *example_betas(example *e) {
    size_t rows = e->q.extent[0] * e->q.extent[1] * e->q.extent[2];
    float *betas = example_memory(e, rows * sizeof *betas);
    for (size_t row = 0; row < rows; row++) {
        betas[row] = (float)rng_uniform(&e->rng, 0, 3);
    }
    e->attention.betas = betas;
    return betas;
}

void example_alibi(example *e) {
    float *slopes = example_memory(e, e->attention.heads * sizeof *slopes);
    for (size_t h = 0; h < e->attention.heads; h++) {
        slopes[h] = exp2f(-(float)(h + 3));
    }
    e->attention.alibi_slopes = slopes;
}

float *example_sinks(example *e) {
    float *sinks = example_memory(e, e->attention.heads * sizeof *sinks);
    for (size_t h = 0; h < e->attention.heads; h++) {
        sinks[h] = (float)rng_normal(&e->rng, 1, 1.5);
    }
    e->attention.sinks = sinks;
    return sinks;
}

void example_policies(example *e, const char *const *names, size_t count) {
    whet_policy *policies = example_memory(e, count * sizeof *policies);
    for (size_t i = 0; i < count; i++) {
        CHECK_MSG(whet_policy_parse(names[i], &policies[i], NULL, 0) == WHET_OK, "%s", names[i]);
    }
    e->attention.policies = policies;
    e->attention.policy_count = count;
}

void example_policy(example *e, const char *name) { example_policies(e, &name, 1); }

/* ---- comparison ---- */

static double worst_output;
static double worst_sharp_output;
static double worst_entropy;
static double worst_beta;

/* How many examples the present test has had checked, or not: see is_left_out. */
static size_t examples_seen;

void example_print_worst(void) {
    examples_seen = 0;
    printf("     worst: output %.2g of max|V| (sharp rows %.2g), entropy %.2g of max(1, H), beta "
           "%.2g of max(1, beta)\n",
           worst_output, worst_sharp_output, worst_entropy, worst_beta);
    worst_output = worst_sharp_output = worst_entropy = worst_beta = 0;
}

/* What the reference says of an example. */
typedef struct expected {
    size_t rows, value_dim;
    double *out;
    whet_stats *stats;
    double *mass; /* what the coefficients of a row sum to: sigmoid's to anything */
    size_t heads;
    double *max_logits;
    uint64_t first_bad_row;
} expected;

static expected expect(const example *e) {
    expected x = {.rows = e->q.extent[0] * e->q.extent[1] * e->q.extent[2],
                  .value_dim = e->v.extent[3],
                  .heads = e->q.extent[1]};
    x.out = malloc((x.rows * x.value_dim + 1) * sizeof *x.out);
    x.stats = malloc((x.rows + 1) * sizeof *x.stats);
    x.mass = calloc(x.rows + 1, sizeof *x.mass);
    x.max_logits = malloc(x.heads * sizeof *x.max_logits);
    REQUIRE(x.out && x.stats && x.mass && x.max_logits);
    reference_max_logits(&e->attention, x.max_logits);
    x.first_bad_row = reference_attention(&e->attention, x.out, x.stats, x.mass);
    return x;
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static double error_of(double actual, double right, double unit) {
    return same(actual, right) ? 0 : fabs(actual - right) / unit;
}

/* NaN is larger than any limit, and is remembered as such. */
static void remember(double *worst, double error) {
    if (!(error <= *worst)) {
        *worst = error;
    }
}

/* What the limits of a row are multiplied with: see SHARP. */
static double allowance(const whet_stats *right) {
    double size = (isnan(right->beta) ? 1 : right->beta) * fabs(right->max) / SHARP;
    return size > 1 && isfinite(size) ? size : 1;
}

static void check_outputs(const char *what, const example *e, const expected *x, const float *out) {
    size_t wrong = 0;
    size_t first = 0;
    for (size_t i = 0; i < x->rows * x->value_dim; i++) {
        double factor = allowance(&x->stats[i / x->value_dim]);
        factor *= fmax(1, x->mass[i / x->value_dim]);
        double error = error_of((double)out[i], x->out[i], e->max_value);
        remember(factor > 1 ? &worst_sharp_output : &worst_output, error);
        if (!(error <= factor * OUTPUT_LIMIT)) {
            first = wrong++ ? first : i;
        }
    }
    CHECK_MSG(wrong == 0,
              "%s: %zu outputs wrong, row %zu column %zu is %.9g, not %.9g (max|V| %.3g)", what,
              wrong, wrong ? first / x->value_dim : 0, wrong ? first % x->value_dim : 0,
              wrong ? (double)out[first] : 0, wrong ? x->out[first] : 0, e->max_value);
}

static double at_least_one(double x) { return fmax(1, fabs(x)); }

static double relative_error(double actual, double right) {
    return error_of(actual, right, at_least_one(right));
}

/* One number of a row's statistics. */
static void check_number(const char *what, size_t row, const char *name, double actual,
                         double right, double error, double limit) {
    CHECK_MSG(error <= limit, "%s: row %zu: %s is %.9g, not %.9g", what, row, name, actual, right);
}

/* Whether two logits of a row differ by no more than rounding. */
static bool as_large(const example *e, size_t row, size_t key, size_t other) {
    double logit = reference_attention_logit(&e->attention, row, key);
    double right = reference_attention_logit(&e->attention, row, other);
    return relative_error(logit, right) <= ENTROPY_LIMIT;
}

static void check_extremes(const char *what, const example *e, size_t row, const whet_stats *stats,
                           const whet_stats *right) {
    check_number(what, row, "min", stats->min, right->min, relative_error(stats->min, right->min),
                 ENTROPY_LIMIT);
    bool none = stats->argmax == UINT64_MAX || right->argmax == UINT64_MAX;
    CHECK_MSG(stats->argmax == right->argmax ||
                  (!none && as_large(e, row, stats->argmax, right->argmax)),
              "%s: row %zu: argmax %lld, not %lld", what, row, (long long)stats->argmax,
              (long long)right->argmax);
    CHECK_MSG(stats->position == right->position, "%s: row %zu: position %lld, not %lld", what, row,
              (long long)stats->position, (long long)right->position);
}

static void check_stats(const char *what, const example *e, size_t row, const whet_stats *stats,
                        const whet_stats *right) {
    CHECK_MSG(stats->n == right->n, "%s: row %zu: n is %llu, not %llu", what, row,
              (unsigned long long)stats->n, (unsigned long long)right->n);
    CHECK_MSG(stats->flags == right->flags && stats->reserved == 0, "%s: row %zu: flags %u, not %u",
              what, row, stats->flags, right->flags);
    /* the entropy before beta feels the size of the logits alone, and feels it sooner */
    double size = isfinite(right->max) ? fmax(1, 3 * fabs(right->max) / SHARP) : 1;
    double sharp = allowance(right);
    double entropy = relative_error(stats->entropy, right->entropy);
    double beta = relative_error(stats->beta, right->beta);
    remember(&worst_entropy, entropy);
    remember(&worst_beta, beta);
    check_number(what, row, "entropy", stats->entropy, right->entropy, entropy,
                 size * ENTROPY_LIMIT);
    check_number(what, row, "beta", stats->beta, right->beta, beta, size * BETA_LIMIT);
    check_number(what, row, "max", stats->max, right->max, relative_error(stats->max, right->max),
                 ENTROPY_LIMIT);
    check_number(what, row, "logsumexp", stats->logsumexp, right->logsumexp,
                 relative_error(stats->logsumexp, right->logsumexp), ENTROPY_LIMIT);
    /* these two at a beta that may be off by its own limit */
    check_number(what, row, "entropy after", stats->entropy_after, right->entropy_after,
                 relative_error(stats->entropy_after, right->entropy_after),
                 sharp * size * BETA_LIMIT);
    check_number(what, row, "largest", stats->max_prob, right->max_prob,
                 error_of(stats->max_prob, right->max_prob, right->max_prob),
                 2 * sharp * BETA_LIMIT);
    check_number(what, row, "sink share", stats->sink_share, right->sink_share,
                 relative_error(stats->sink_share, right->sink_share), sharp * size * BETA_LIMIT);
    check_extremes(what, e, row, stats, right);
}

static void check_max_logits(const char *what, const expected *x, const float *actual) {
    for (size_t head = 0; head < x->heads; head++) {
        double right = x->max_logits[head];
        CHECK_MSG(relative_error((double)actual[head], right) <= ENTROPY_LIMIT,
                  "%s: the largest logit of head %zu is %.9g, not %.9g", what, head,
                  (double)actual[head], right);
    }
}

example_function example_forward = whet_attention_forward;

/* Runs it; true if there is a result to look at. */
static bool check_status(const char *what, const whet_attention *a, const expected *x) {
    uint64_t first_bad_row = UINT64_MAX;
    whet_status status = example_forward(a, NULL, &first_bad_row);
    whet_status right = x->first_bad_row == UINT64_MAX ? WHET_OK : WHET_NOT_FINITE;
    CHECK_MSG(status == right, "%s: status %d (%s)", what, (int)status, whet_status_text(status));
    CHECK_MSG(first_bad_row == x->first_bad_row, "%s: first bad row is %lld, not %lld", what,
              (long long)first_bad_row, (long long)x->first_bad_row);
    return status == right;
}

/* The same with f32 outputs, contiguous, into `out` and, if given, statistics and largest logits.
 */
static void run_plain(const char *what, const example *e, const expected *x, float *out,
                      whet_stats *stats, float *max_logits) {
    whet_attention a = e->attention;
    a.out = (whet_tensor_out){.data = out, .type = WHET_F32};
    a.stats = stats;
    a.stats_stride = 0;
    a.max_logits = max_logits;
    if (!check_status(what, &a, x)) {
        return;
    }
    if (max_logits) {
        check_max_logits(what, x, max_logits);
    }
    check_outputs(what, e, x, out);
    for (size_t row = 0; stats && row < x->rows; row++) {
        check_stats(what, e, row, &stats[row], &x->stats[row]);
    }
}

static bool is_rounded(const char *at, whet_type type, float value) {
    if (type == WHET_F32) {
        float found;
        memcpy(&found, at, sizeof found);
        return same((double)found, (double)value);
    }
    return reference_is_rounded(at, type, value) ||
           (isnan(value) && isnan(reference_load(at, type)));
}

enum { STATS_GAP = 40 };

/* As it is described: every element the rounded plain one, and nothing written beside it. */
static void run_described(const char *what, example *e, const expected *x, const float *plain,
                          const whet_stats *plain_stats) {
    whet_attention a = e->attention;
    example_tensor out = {.extent = {e->q.extent[0], e->q.extent[1], e->q.extent[2], x->value_dim},
                          .type = e->out_type};
    size_t stride = sizeof(whet_stats) + STATS_GAP;
    size_t before = e->memories;
    example_place(e, &out, e->layout);
    char *memory = e->memory[before];
    char *stats = example_memory(e, x->rows ? x->rows * stride - STATS_GAP : 0);
    a.out = (whet_tensor_out){.data = out.base, .type = out.type};
    if (e->layout != CONTIGUOUS) {
        memcpy(a.out.stride, out.stride, sizeof a.out.stride);
    }
    a.stats = (whet_stats *)(void *)stats;
    a.stats_stride = stride;
    if (!check_status(what, &a, x)) {
        return; /* the memory is freed with the example */
    }

    size_t wrong = 0;
    size_t size = reference_size(out.type);
    for (size_t i = 0; i < x->rows * x->value_dim; i++) {
        size_t row = i / x->value_dim;
        size_t head = row / out.extent[2] % out.extent[1];
        char *at =
            example_row(&out, row / out.extent[2] / out.extent[1], head, row % out.extent[2]) +
            (ptrdiff_t)(i % x->value_dim) * out.stride[3];
        wrong += !is_rounded(at, out.type, plain[i]);
        memset(at, 0xff, size); /* so that in the end everything is as it was */
    }
    CHECK_MSG(wrong == 0, "%s: %zu outputs are not the rounded f32 result", what, wrong);
    size_t touched = 0;
    size_t bytes = row_bytes(&out);
    for (int axis = 0; axis < 3; axis++) {
        ptrdiff_t step = out.stride[axis] < 0 ? -out.stride[axis] : out.stride[axis];
        bytes += out.extent[axis] ? (out.extent[axis] - 1) * (size_t)step : 0;
    }
    for (size_t i = 0; x->rows && i < bytes; i++) {
        touched += (unsigned char)memory[i] != 0xff;
    }
    CHECK_MSG(touched == 0, "%s: %zu bytes written between outputs", what, touched);
    size_t unlike = 0;
    for (size_t row = 0; row < x->rows; row++) {
        unlike += !same_bytes(stats + row * stride, &plain_stats[row], sizeof(whet_stats));
        for (size_t i = 0; row + 1 < x->rows && i < STATS_GAP; i++) {
            unlike += (unsigned char)stats[row * stride + sizeof(whet_stats) + i] != 0xff;
        }
    }
    CHECK_MSG(unlike == 0, "%s: %zu statistics differ or were written between", what, unlike);
    guarded_free(e->memory[--e->memories]);
    guarded_free(e->memory[--e->memories]);
}

/*
 * Under an emulator seven of eight examples that would take long are left out, always the same ones
 * and in no step with the loops that make them; never a test's first.
 */
static bool is_left_out(const example *e) {
    uint64_t number = examples_seen++;
    size_t logits = e->q.extent[0] * e->q.extent[1] * e->q.extent[2] * e->k.extent[2];
    bool is_chosen = number == 0 || (number * 0x9e3779b97f4a7c15u >> 32) % 8 == 0;
    return emulated() && logits * e->q.extent[3] > 20000 && !is_chosen;
}

void example_check(example *e, const char *what) {
    if (is_left_out(e)) {
        return;
    }
    expected x = expect(e);
    size_t before = e->memories;
    float *out = example_memory(e, x.rows * x.value_dim * sizeof *out);
    whet_stats *stats = example_memory(e, x.rows * sizeof *stats);
    float *max_logits = example_memory(e, x.heads * sizeof *max_logits);
    run_plain(what, e, &x, out, stats, max_logits);
    run_described(what, e, &x, out, stats);
    memset(out, 0xff, x.rows * x.value_dim * sizeof *out);
    run_plain(what, e, &x, out, NULL, NULL);
    memset(max_logits, 0xff, x.heads * sizeof *max_logits);
    run_plain(what, e, &x, out, NULL, max_logits);
    while (e->memories > before) {
        guarded_free(e->memory[--e->memories]);
    }
    free(x.out);
    free(x.stats);
    free(x.mass);
    free(x.max_logits);
}
