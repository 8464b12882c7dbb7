/*
 * One forward pass for prompts and single steps: rows of tokens, each with its
 * lane and position. Everything but attention is computed for all rows
 * together; attention is one call for a piece of a prompt, or one for each lane
 * of a step. A lane's cache is [layer][key head][capacity][head_dim], keys and
 * values apart, so that the decode path reads memory sequentially.
 */
#include "lm/decode.h"

#include "base/signals.h"
#include "isa/half.h"
#include "lm/query_beta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows that go through the layers together. */
enum { PIECE = 256 };

struct lm_decoder {
    lm_decoder_options options;
    size_t row_limit;
    nn_rope rope, window_rope; /* the latter where windowed layers have one of their own */
    whet_policy *policies;     /* [layers][heads], policy_count[layer] of them in use */
    float *slopes;             /* [heads] of ALiBi; 0 without */
    size_t *policy_count;
    unsigned char *keys, *values; /* [lanes], of lane_bytes each */
    size_t element, lane_bytes;
    size_t *lengths;
    /* For row_limit rows. */
    float *x, *normed, *scales, *qkv, *mixed, *gates, *hidden, *result;
    float *raw_betas, *betas; /* where beta depends on the query; betas are of one call */
    nn_scratch scratch;
    whet_stats *stats; /* [heads], if entropies are measured or somebody watches */
    lm_entropy *entropies;
};

static const lm_config *config_of(const lm_decoder *d) {
    return &d->options.matrices->model->config;
}

static const nn_kernels *kernels_of(const lm_decoder *d) {
    return d->options.matrices->engine->kernels;
}

/* ---- making ---- */

static bool lane_size(const lm_decoder_options *o, size_t *bytes) {
    const lm_config *c = &o->matrices->model->config;
    size_t element = o->cache_type == WHET_F16 ? 2 : 4;
    size_t row = (size_t)c->layers * c->key_heads * c->head_dim * element;
    return !__builtin_mul_overflow(row, o->capacity, bytes);
}

size_t lm_decoder_cache_bytes(const lm_decoder_options *o) {
    size_t lane, all;
    if (!lane_size(o, &lane) || __builtin_mul_overflow(lane, 2 * o->lanes, &all))
        return SIZE_MAX;
    return all;
}

static bool options_are_good(const lm_decoder_options *o, lab_error *error) {
    const lm_config *c = &o->matrices->model->config;
    if (o->capacity < 1 || o->capacity > c->context)
        return lab_fail(error, LAB_INPUT, "%zu tokens do not fit the model's context (1 to %u)",
                        o->capacity, c->context);
    if (o->lanes < 1 || lm_decoder_cache_bytes(o) == SIZE_MAX)
        return lab_fail(error, LAB_INPUT, "a cache of %zu times %zu tokens is too large for memory",
                        o->lanes, o->capacity);
    return true;
}

static float *rows_of(const lm_decoder *d, size_t width) {
    size_t floats = (d->row_limit * width + 15) / 16 * 16;
    return aligned_alloc(64, floats * sizeof(float));
}

static bool make_rows(lm_decoder *d) {
    const lm_config *c = config_of(d);
    size_t heads = c->heads, keys = c->key_heads;
    d->row_limit = d->options.lanes > PIECE ? d->options.lanes : PIECE;
    d->x = rows_of(d, c->width);
    d->normed = rows_of(d, c->width);
    d->scales = rows_of(d, heads + keys);
    d->result = rows_of(d, c->has_post_norms ? c->width : 1);
    d->qkv = rows_of(d, (heads + 2 * keys) * c->head_dim);
    d->mixed = rows_of(d, heads * c->head_dim);
    d->gates = rows_of(d, 2 * (size_t)c->hidden);
    d->hidden = rows_of(d, c->hidden);
    d->raw_betas = rows_of(d, c->has_query_betas ? 2 * heads : 1);
    d->betas = rows_of(d, c->has_query_betas ? heads : 1);
    d->slopes = nn_floats(heads);
    for (size_t head = 0; d->slopes && head < heads; head++)
        d->slopes[head] = (float)lm_alibi_slope(c, head);
    return d->x && d->normed && d->scales && d->qkv && d->mixed && d->gates && d->hidden &&
           d->result && d->raw_betas && d->betas && d->slopes;
}

static bool make_caches(lm_decoder *d) {
    d->element = d->options.cache_type == WHET_F16 ? 2 : 4;
    if (!lane_size(&d->options, &d->lane_bytes))
        return false;
    /* not calloc: pages that are not needed are never touched */
    d->keys = malloc(d->lane_bytes * d->options.lanes);
    d->values = malloc(d->lane_bytes * d->options.lanes);
    d->lengths = calloc(d->options.lanes, sizeof *d->lengths);
    return d->keys && d->values && d->lengths;
}

static bool make_policies(lm_decoder *d, lab_error *error) {
    const lm_config *c = config_of(d);
    d->policies = calloc((size_t)c->layers * c->heads, sizeof *d->policies);
    d->policy_count = calloc(c->layers, sizeof *d->policy_count);
    if (!d->policies || !d->policy_count)
        return lab_fail_memory(error);
    for (size_t layer = 0; d->options.policies && layer < c->layers; layer++)
        d->policy_count[layer] = c->heads;
    if (d->options.policies) {
        memcpy(d->policies, d->options.policies,
               (size_t)c->layers * c->heads * sizeof *d->policies);
        return true;
    }
    for (size_t layer = 0; layer < c->layers; layer++)
        if (!lm_layer_policies(c, &d->options.matrices->model->layout,
                               d->options.matrices->model->weights, layer, d->options.policy,
                               d->policies + layer * c->heads, &d->policy_count[layer]))
            return lab_fail(error, LAB_INPUT, "the policy of layer %zu is invalid", layer);
    return true;
}

static bool make_measures(lm_decoder *d) {
    const lm_config *c = config_of(d);
    if (!d->options.measures && !d->options.watch)
        return true;
    d->stats = calloc(c->heads, sizeof *d->stats);
    d->entropies = calloc((size_t)c->layers * c->heads, sizeof *d->entropies);
    return d->stats && d->entropies;
}

lm_decoder *lm_decoder_create(const lm_decoder_options *options, lab_error *error) {
    if (!options_are_good(options, error))
        return NULL;
    lm_decoder *d = calloc(1, sizeof *d);
    if (!d) {
        lab_fail_memory(error);
        return NULL;
    }
    d->options = *options;
    const lm_config *c = config_of(d);
    size_t dims = c->positions == LM_ROPE ? c->rope_dims : 0;
    bool good =
        (nn_rope_create(options->capacity, dims, c->rope_base, &c->rope_scaling, &d->rope) &&
         nn_rope_create(options->capacity, lm_has_window_rope(c) ? dims : 0, c->window_rope_base,
                        NULL, &d->window_rope) &&
         make_rows(d) && make_caches(d) && make_measures(d)) ||
        lab_fail_memory(error);
    if (good && make_policies(d, error))
        return d;
    lm_decoder_destroy(d);
    return NULL;
}

void lm_decoder_destroy(lm_decoder *d) {
    if (!d)
        return;
    nn_rope_destroy(&d->rope);
    nn_rope_destroy(&d->window_rope);
    nn_scratch_free(&d->scratch);
    float *const rows[] = {d->x,      d->normed, d->scales,    d->qkv,   d->mixed, d->gates,
                           d->hidden, d->result, d->raw_betas, d->betas, d->slopes};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        free(rows[i]);
    free(d->policies);
    free(d->policy_count);
    free(d->keys);
    free(d->values);
    free(d->lengths);
    free(d->stats);
    free(d->entropies);
    free(d);
}

size_t lm_decoder_length(const lm_decoder *d, size_t lane) { return d->lengths[lane]; }
void lm_decoder_reset(lm_decoder *d, size_t lane) { d->lengths[lane] = 0; }
const lm_entropy *lm_decoder_entropies(const lm_decoder *d) { return d->entropies; }

/* ---- rows of tokens ---- */

/* Where a row belongs. */
typedef struct place {
    size_t lane, position;
} place;

/* The rows of a pass: one after the other in one lane, or the next one of each of several. */
typedef struct pass {
    const size_t *lanes; /* of a step; NULL: all rows are of `lane` */
    size_t lane;
    size_t rows;
} pass;

static place place_of(const lm_decoder *d, const pass *p, size_t row) {
    if (p->lanes)
        return (place){p->lanes[row], d->lengths[p->lanes[row]]};
    return (place){p->lane, d->lengths[p->lane] + row};
}

static size_t row_width(const lm_config *c) {
    return ((size_t)c->heads + 2 * c->key_heads) * c->head_dim;
}

/* A key head's part of a lane's cache. */
static size_t cache_offset(const lm_decoder *d, size_t lane, size_t layer, size_t head) {
    const lm_config *c = config_of(d);
    return lane * d->lane_bytes +
           (layer * c->key_heads + head) * d->options.capacity * c->head_dim * d->element;
}

static void keep(const lm_decoder *d, unsigned char *to, const float *from) {
    size_t count = config_of(d)->head_dim;
    if (d->options.cache_type == WHET_F32)
        memcpy(to, from, count * sizeof(float));
    for (size_t i = 0; d->options.cache_type == WHET_F16 && i < count; i++) {
        uint16_t half = float_to_half(from[i]);
        memcpy(to + i * sizeof half, &half, sizeof half);
    }
}

/* Adds biases to queries, keys and values, and normalises the heads of queries and keys. */
static void complete_rows(lm_decoder *d, size_t rows, size_t layer) {
    const lm_config *c = config_of(d);
    const lm_layout *at = &d->options.matrices->model->layout;
    const float *w = d->options.matrices->model->weights + lm_layer_at(at, layer);
    if (c->has_biases)
        kernels_of(d)->bias_forward(d->qkv, w + at->query_bias, rows, row_width(c));
    if (!c->has_head_norms)
        return;
    nn_head_norm norm = {.tokens = rows,
                         .heads = c->heads,
                         .head_dim = c->head_dim,
                         .stride = row_width(c),
                         .scale_stride = c->heads,
                         .gain = w + at->query_norm,
                         .epsilon = (float)c->norm_epsilon};
    float *keys = d->qkv + (size_t)c->heads * c->head_dim;
    nn_head_norm_forward(d->options.matrices->engine, &norm, d->qkv, d->qkv, d->scales);
    norm.heads = norm.scale_stride = c->key_heads;
    norm.gain = w + at->key_norm;
    nn_head_norm_forward(d->options.matrices->engine, &norm, keys, keys, d->scales);
}

/* Few outputs: one product for each row keeps results of a lane apart from those of others. */
static void project_betas(lm_decoder *d, size_t rows, size_t layer) {
    const lm_config *c = config_of(d);
    const lm_layout *at = &d->options.matrices->model->layout;
    const float *w = d->options.matrices->model->weights + lm_layer_at(at, layer);
    size_t outputs = 2 * (size_t)c->heads;
    if (!c->has_query_betas)
        return;
    for (size_t row = 0; row < rows; row++)
        nn_linear_forward(d->options.matrices->engine, 1, c->width, outputs, w + at->beta,
                          d->normed + row * c->width, d->raw_betas + row * outputs, false);
    kernels_of(d)->bias_forward(d->raw_betas, w + at->beta_bias, rows, outputs);
}

/* Rotates queries and keys, and stores keys and values in the cache. */
static void place_rows(lm_decoder *d, const pass *p, size_t layer) {
    const lm_config *c = config_of(d);
    bool has_own = lm_has_window_rope(c) && lm_is_windowed(c, layer);
    const nn_rope *rope = has_own ? &d->window_rope : &d->rope;
    size_t dims = rope->dims, dim = c->head_dim;
    for (size_t row = 0; row < p->rows; row++) {
        place at = place_of(d, p, row);
        float *x = d->qkv + row * row_width(c);
        if (dims)
            kernels_of(d)->rotate(x, (size_t)c->heads + c->key_heads, dim, dims,
                                  rope->cosine + at.position * dims,
                                  rope->sine + at.position * dims);
        for (size_t head = 0; head < c->key_heads; head++) {
            size_t to = cache_offset(d, at.lane, layer, head) + at.position * dim * d->element;
            keep(d, d->keys + to, x + (c->heads + head) * dim);
            keep(d, d->values + to, x + (c->heads + c->key_heads + head) * dim);
        }
    }
}

/* ---- attention ---- */

static bool reserve(nn_scratch *scratch, size_t bytes) {
    if (bytes <= scratch->size)
        return true;
    if (bytes > SIZE_MAX / 2)
        return false;
    size_t wanted = (bytes + bytes / 4 + 63) / 64 * 64;
    free(scratch->memory);
    scratch->memory = aligned_alloc(64, wanted);
    scratch->size = scratch->memory ? wanted : 0;
    return scratch->memory != NULL;
}

static whet_tensor cache_tensor(const lm_decoder *d, const unsigned char *cache, size_t lane,
                                size_t layer) {
    const lm_config *c = config_of(d);
    ptrdiff_t position = (ptrdiff_t)(c->head_dim * d->element);
    ptrdiff_t head = (ptrdiff_t)d->options.capacity * position;
    return (whet_tensor){
        .data = cache + cache_offset(d, lane, layer, 0),
        .stride = {head * (ptrdiff_t)c->key_heads, head, position, (ptrdiff_t)d->element},
        .type = d->options.cache_type};
}

/* Betas of the queries of one call, from the projections of its rows. */
static const float *betas_of(lm_decoder *d, size_t lane, size_t first, size_t rows) {
    const lm_config *c = config_of(d);
    if (!c->has_query_betas)
        return NULL;
    const lm_query_betas betas = {.config = c,
                                  .rows = 1,
                                  .length = rows,
                                  .first = d->lengths[lane],
                                  .raw = d->raw_betas + first * 2 * c->heads};
    lm_query_betas_forward(&betas, d->betas);
    return d->betas;
}

/* Rows of one lane, from `first` on, which see everything up to themselves. `measured`: the row is
 * a single step, not a piece of a prompt. */
static whet_status attend(lm_decoder *d, size_t layer, size_t lane, size_t first, size_t rows,
                          bool measured, const whet_executor *executor) {
    const lm_config *c = config_of(d);
    ptrdiff_t dim = (ptrdiff_t)(c->head_dim * sizeof(float));
    ptrdiff_t in = (ptrdiff_t)(row_width(c) * sizeof(float)), out = dim * (ptrdiff_t)c->heads;
    size_t length = d->lengths[lane] + rows;
    const lm_model *model = d->options.matrices->model;
    const float *sinks = model->weights + lm_layer_at(&model->layout, layer) + model->layout.sinks;
    whet_attention attention = {
        .size = sizeof attention,
        .heads = c->heads,
        .kv_heads = c->key_heads,
        .queries = rows,
        .keys = length,
        .head_dim = c->head_dim,
        .q = {.data = d->qkv + first * row_width(c), .stride = {in, dim, in, sizeof(float)}},
        .k = cache_tensor(d, d->keys, lane, layer),
        .v = cache_tensor(d, d->values, lane, layer),
        .out = {.data = d->mixed + first * c->heads * c->head_dim,
                .stride = {out, dim, out, sizeof(float)}},
        .scale = (float)c->attention_scale,
        .softcap = (float)c->attention_cap,
        .flags = WHET_CAUSAL,
        .offset = (int64_t)d->lengths[lane],
        .window = lm_is_windowed(c, layer) ? c->window : 0,
        .alibi_slopes = lm_has_slopes(c) ? d->slopes : NULL,
        .sinks = c->has_sinks ? sinks : NULL,
        .betas = betas_of(d, lane, first, rows),
        .policies = d->policies + layer * c->heads,
        .policy_count = d->policy_count[layer],
        .stats = measured ? d->stats : NULL};
    whet_plan plan = {.size = sizeof plan};
    whet_status status = whet_attention_plan(&attention, &plan);
    if (status != WHET_OK)
        return status;
    if (!reserve(&d->scratch, whet_attention_memory(&plan, executor)))
        return WHET_ERROR_MEMORY;
    status = whet_attention_execute(&plan, executor, d->scratch.memory, NULL);
    for (size_t head = 0; measured && head < c->heads; head++) {
        lm_entropy *sum = &d->entropies[layer * c->heads + head];
        sum->before += d->stats[head].entropy;
        sum->after += d->stats[head].entropy_after;
        sum->rows++;
    }
    if (measured && status == WHET_OK && d->options.watch)
        d->options.watch(d->options.watch_context, layer, &attention);
    return status;
}

static bool attend_all(lm_decoder *d, const pass *p, size_t layer, lab_error *error) {
    whet_status status = WHET_OK;
    if (!p->lanes)
        status = attend(d, layer, p->lane, 0, p->rows, false, d->options.executor);
    for (size_t row = 0; p->lanes && status == WHET_OK && row < p->rows; row++)
        status = attend(d, layer, p->lanes[row], row, 1, d->stats != NULL,
                        p->rows == 1 ? d->options.executor : NULL);
    if (status == WHET_OK)
        return true;
    if (status == WHET_ERROR_MEMORY)
        return lab_fail_memory(error);
    if (status == WHET_NOT_FINITE)
        return lab_fail(error, LAB_INPUT, "the model's activations are not finite in layer %zu",
                        layer);
    return lab_fail(error, LAB_SYSTEM, "attention: %s", whet_last_error());
}

/* ---- products, on all threads where that is worth it ---- */

typedef struct product_job {
    const nn_kernels *kernels;
    nn_product shape;
    size_t slice;
    const float *x, *packed;
    float *y;
} product_job;

static void multiply_slice(void *context, size_t task, size_t worker) {
    (void)worker;
    const product_job *job = context;
    nn_product shape = job->shape;
    size_t first = task * job->slice;
    if (shape.m == 1) {
        shape.n = shape.n - first < job->slice ? shape.n - first : job->slice;
        job->kernels->multiply_packed(shape, job->x, job->packed + first * shape.k, job->y + first);
    } else {
        shape.m = shape.m - first < job->slice ? shape.m - first : job->slice;
        job->kernels->multiply_packed(shape, job->x + first * shape.k, job->packed,
                                      job->y + first * shape.n);
    }
}

/* y[m][n] = x[m][k] weight^T, added to where shape.add. Each element is summed in a fixed order, so
 * that neither threads nor other lanes change a result. */
static void linear(const lm_decoder *d, product_job job) {
    enum { OUTPUTS = 256, ROWS = 24, WORTH_IT = 1 << 19 };
    const whet_executor *executor = d->options.executor;
    const nn_product *shape = &job.shape;
    size_t whole = shape->m == 1 ? shape->n : shape->m;
    bool is_shared =
        executor && executor->workers > 1 && shape->m * shape->n * shape->k >= WORTH_IT;
    job.kernels = kernels_of(d);
    job.slice = !is_shared ? whole : shape->m == 1 ? OUTPUTS : ROWS;
    if (is_shared && job.slice < whole)
        executor->parallel_for(executor->context, (whole + job.slice - 1) / job.slice,
                               multiply_slice, &job);
    else
        multiply_slice(&job, 0, 0);
}

/* ---- the pass ---- */

static void normalise(lm_decoder *d, size_t rows, const float *gain, const float *x, float *y) {
    const lm_config *c = config_of(d);
    kernels_of(d)->rmsnorm_forward(x, gain, rows, c->width, (float)c->norm_epsilon, y, d->scales);
}

/* x += y matrix^T, or rmsnorm(y matrix^T) where results are normalised. */
static void add_result(lm_decoder *d, size_t rows, size_t in, const float *y, const float *packed,
                       const float *gain) {
    const lm_config *c = config_of(d);
    bool is_normed = c->has_post_norms;
    linear(d, (product_job){.shape = {.m = rows, .n = c->width, .k = in, .add = !is_normed},
                            .x = y,
                            .packed = packed,
                            .y = is_normed ? d->result : d->x});
    if (!is_normed)
        return;
    normalise(d, rows, gain, d->result, d->result);
    kernels_of(d)->add(d->x, d->result, rows * c->width);
}

static bool run_layer(lm_decoder *d, const pass *p, size_t layer, lab_error *error) {
    const lm_config *c = config_of(d);
    const lm_matrices *all = d->options.matrices;
    const lm_layout *at = &all->model->layout;
    const float *w = all->model->weights + lm_layer_at(at, layer);
    const float *matrices = all->values + layer * all->layer_size;
    size_t queries = (size_t)c->heads * c->head_dim, rows = p->rows, gates = 2 * (size_t)c->hidden;
    normalise(d, rows, w + at->attention_norm, d->x, d->normed);
    linear(d, (product_job){.shape = {.m = rows, .n = row_width(c), .k = c->width},
                            .x = d->normed,
                            .packed = matrices + all->qkv,
                            .y = d->qkv});
    complete_rows(d, rows, layer);
    project_betas(d, rows, layer);
    place_rows(d, p, layer);
    if (!attend_all(d, p, layer, error))
        return false;
    add_result(d, rows, queries, d->mixed, matrices + all->output, w + at->attention_post_norm);
    normalise(d, rows, w + at->mlp_norm, d->x, d->normed);
    linear(d, (product_job){.shape = {.m = rows, .n = gates, .k = c->width},
                            .x = d->normed,
                            .packed = matrices + all->gates,
                            .y = d->gates});
    kernels_of(d)->gated_forward(c->gate == LM_GEGLU ? NN_GELU : NN_SILU, d->gates, rows, c->hidden,
                                 d->hidden);
    add_result(d, rows, c->hidden, d->hidden, matrices + all->down, w + at->mlp_post_norm);
    return true;
}

static bool run(lm_decoder *d, const pass *p, const lm_token *tokens, lab_error *error) {
    const lm_config *c = config_of(d);
    const lm_layout *at = &d->options.matrices->model->layout;
    for (size_t i = 0; i < p->rows; i++)
        if (tokens[i] >= c->vocabulary)
            return lab_fail(error, LAB_INPUT, "token %u is not in the vocabulary of %u", tokens[i],
                            c->vocabulary);
    nn_embedding_forward(d->options.matrices->model->weights + at->embedding, tokens, p->rows,
                         c->width, d->x);
    for (size_t layer = 0; layer < c->layers; layer++)
        if (!run_layer(d, p, layer, error))
            return false;
    return true;
}

/* Logits of the `rows` rows of the pass from `first` on. */
static void expect(lm_decoder *d, size_t first, size_t rows, float *logits) {
    const lm_config *c = config_of(d);
    const lm_matrices *all = d->options.matrices;
    normalise(d, rows, all->model->weights + all->model->layout.final_norm, d->x + first * c->width,
              d->normed);
    linear(d, (product_job){.shape = {.m = rows, .n = c->vocabulary, .k = c->width},
                            .x = d->normed,
                            .packed = all->values + all->head,
                            .y = logits});
    if (c->output_cap > 0)
        nn_cap_forward((float)c->output_cap, rows * c->vocabulary, logits);
}

static bool has_capacity(const lm_decoder *d, size_t lane, size_t count, lab_error *error) {
    size_t left = d->options.capacity - d->lengths[lane];
    return count <= left || lab_fail(error, LAB_INPUT, "%zu tokens do not fit the context of %zu",
                                     d->lengths[lane] + count, d->options.capacity);
}

bool lm_decoder_read(lm_decoder *d, size_t lane, const lm_token *tokens, size_t count,
                     float *logits, lab_error *error) {
    if (count == 0)
        return lab_fail(error, LAB_INPUT, "nothing to read");
    if (!has_capacity(d, lane, count, error))
        return false;
    size_t before = d->lengths[lane], rows = 0;
    for (size_t done = 0; done < count; done += rows) {
        rows = count - done < PIECE ? count - done : PIECE;
        const pass p = {.lane = lane, .rows = rows};
        bool is_stopped = lab_interrupted();
        if (is_stopped)
            lab_fail(error, LAB_STOPPED, "stopped while reading");
        if (is_stopped || !run(d, &p, tokens + done, error)) {
            d->lengths[lane] = before;
            return false;
        }
        d->lengths[lane] += rows;
    }
    expect(d, rows - 1, 1, logits);
    return true;
}

bool lm_decoder_step(lm_decoder *d, const size_t *lanes, const lm_token *tokens, size_t count,
                     float *logits, lab_error *error) {
    const pass p = {.lanes = lanes, .rows = count};
    if (count == 0)
        return true;
    for (size_t i = 0; i < count; i++)
        if (!has_capacity(d, lanes[i], 1, error))
            return false;
    if (!run(d, &p, tokens, error))
        return false;
    for (size_t i = 0; i < count; i++)
        d->lengths[lanes[i]]++;
    expect(d, 0, count, logits);
    return true;
}
