/*
 * Attention of few queries over a long cache, where reading keys and values is
 * all that costs. Each is read once, by tasks that take a chunk of keys for all
 * query rows of a key head (see isa/stream.inc), or of several where the cache has
 * them side by side:
 *
 * phase 0   a chunk's logits, kept in the workspace, and its statistics
 * phase 1   a row's statistics merged and its beta chosen (one task to a row);
 *           maps that are not a temperature turn the row's logits, in place, into
 *           coefficients (row/map.c)
 * phase 2   a chunk's weights and what they select of the values
 * phase 3   the chunks' outputs added up and written
 */
#include "attention/panel_maps.h"
#include "attention/problem.h"
#include "base/checked.h"
#include "base/types.h"
#include <math.h>
#include <string.h>

#define CHUNK 1024       /* keys to a task, of all its key heads together */
#define CHUNK_LEAST 256  /* of each */
#define CHUNKS_ENOUGH 64 /* to keep all threads busy: rather than more of them, larger ones */
#define HEADS_TOGETHER 8 /* key heads to a task at most */
#define TASKS_WANTED 16  /* with fewer of them, heads are taken apart again */
#define GAP_MOST 64      /* bytes between the heads of a position */
#define SUM_KEYS 64      /* values added up in f32 before they join the chunk's sum */
#define CHUNKS_AHEAD 4   /* whose outputs are fetched while others are added up */
#define CONVERTED 16     /* rows of a caller's own type converted at a time */

/* A row of one stream once its beta is known. */
typedef struct row_state {
    whet_stats stats;
    float max; /* what to subtract: 0 where nothing is unmasked */
    float c;
    double sink_z, sink_s;
    bool mapped; /* the row's logits are coefficients by now */
} row_state;

/* What a chunk adds to a row after beta. */
typedef struct chunk_sums {
    double z, s;
} chunk_sums;

typedef struct layout {
    size_t logits; /* float [stream][row][keys] */
    size_t states; /* row_state [stream][row] */
    /* Of each task and its rows. What one task writes lies together: threads would take each
     * other's lines away, also those next to their own, which are fetched unasked. */
    size_t pieces;  /* whet_stats [task][row] */
    size_t sums;    /* chunk_sums [task][row] */
    size_t outputs; /* float [task][row][padded value_dim], */
    size_t
        outputs_stride; /* from a task's to those of the next chunk: an odd number of lines, too */
    size_t total;
    /* in the scratch of a task */
    size_t queries, weights, partial, converted, scratch;
} layout;

static size_t padded(size_t n) { return (n + ROW_PAD - 1) / ROW_PAD * ROW_PAD; }

/* Floats from a row's logits to the next row's: one more than there are keys, since a map takes a
 * sink for another logit, and an odd number of lines, so that rows do not lie in the same places of
 * a cache. */
static size_t logits_stride_of(const whet_attention *a) {
    return (padded(a->keys + 1) / ROW_PAD | 1) * ROW_PAD;
}

/* The same for a chunk's weights. */
static size_t weights_stride_of(const plan_shape *shape) { return shape->chunk_keys + ROW_PAD; }

static bool place(size_t *total, size_t *offset, size_t a, size_t b, size_t c) {
    size_t bytes;
    *offset = *total;
    return size_multiply(a, b, &bytes) && size_multiply(bytes, c, &bytes) &&
           size_align(bytes, WHET_ALIGNMENT, &bytes) && size_add(*total, bytes, total);
}

static bool lay_out(const whet_attention *a, const plan_shape *shape, layout *at) {
    size_t rows, tasks, task_rows, lines;
    at->total = at->scratch = 0;
    if (!size_multiply(shape->streams, shape->rows, &rows) ||
        !size_multiply(shape->streams / shape->together, shape->chunks, &tasks) ||
        !size_multiply(shape->together, shape->rows, &task_rows) ||
        !size_multiply(task_rows, padded(a->value_dim) / ROW_PAD, &lines) ||
        !size_multiply(lines | 1, ROW_PAD, &at->outputs_stride))
        return false;
    return place(&at->total, &at->logits, rows, logits_stride_of(a), sizeof(float)) &&
           place(&at->total, &at->states, rows, sizeof(row_state), 1) &&
           place(&at->total, &at->pieces, tasks, task_rows, sizeof(whet_stats)) &&
           place(&at->total, &at->sums, tasks, task_rows, sizeof(chunk_sums)) &&
           place(&at->total, &at->outputs, tasks, at->outputs_stride, sizeof(float)) &&
           place(&at->scratch, &at->queries, task_rows, padded(a->head_dim), sizeof(float)) &&
           place(&at->scratch, &at->weights, task_rows, weights_stride_of(shape), sizeof(float)) &&
           place(&at->scratch, &at->partial, shape->rows, padded(a->value_dim), sizeof(float)) &&
           place(&at->scratch, &at->converted, CONVERTED, HEAD_DIM_MAX, sizeof(float));
}

/* Whether the kernels can read a tensor's rows where they lie. */
static bool streams_directly(const whet_tensor *tensor) {
    if (tensor->type == WHET_CUSTOM)
        return false;
    /* quantised rows are always in one piece: no element of them has a size or a stride */
    return tensor->stride[3] == (ptrdiff_t)type_bytes(tensor->type);
}

/* Of either kind, one of the two is 0. */
static size_t row_bytes(whet_type type, size_t dim) {
    return dim * type_bytes(type) + dim / QUANT_BLOCK * type_block_bytes(type);
}

/* Whether the heads of a position lie side by side between it and the next. */
static bool lies_by_position(const whet_tensor *tensor, size_t heads, size_t dim) {
    ptrdiff_t most = (ptrdiff_t)row_bytes(tensor->type, dim) + GAP_MOST;
    return streams_directly(tensor) && tensor->stride[1] > 0 && tensor->stride[1] <= most &&
           tensor->stride[2] / tensor->stride[1] >= (ptrdiff_t)heads;
}

/* At most so many keys are seen by any query. */
static size_t keys_in_sight(const whet_attention *a) {
    size_t to_both_sides = a->flags & WHET_CAUSAL ? 1 : 2;
    if (a->window == 0 || a->window > a->keys || a->queries > a->keys)
        return a->keys;
    size_t seen = to_both_sides * a->window + a->queries;
    return seen < a->keys ? seen : a->keys;
}

/* Keys to a chunk where a task has so many heads. */
static size_t chunk_of(size_t heads) {
    return CHUNK / heads > CHUNK_LEAST ? CHUNK / heads : CHUNK_LEAST;
}

/* Tasks with something to do: of all streams where each takes so many heads. */
static size_t tasks_with(const whet_attention *a, size_t streams, size_t heads) {
    size_t chunk = chunk_of(heads), chunks = (keys_in_sight(a) - 1) / chunk + 1;
    return streams / heads * chunks;
}

static size_t divisor_up_to(size_t number, size_t most) {
    while (number % most != 0)
        most--;
    return most;
}

/* Key heads that lie side by side, as many as a task takes at most: a divisor of their number. */
static size_t heads_at_most(const whet_attention *a) {
    if (a->keys == 0 || !lies_by_position(&a->k, a->kv_heads, a->head_dim) ||
        !lies_by_position(&a->v, a->kv_heads, a->value_dim))
        return 1;
    return divisor_up_to(a->kv_heads, HEADS_TOGETHER);
}

static size_t fewer_heads(size_t heads) { return divisor_up_to(heads, heads / 2); }

/*
 * How many key heads a task takes: all that lie side by side, so that memory is read without gaps,
 * but not if that leaves threads without work, as over short caches, where reading is not what
 * takes time. It depends on the description alone.
 */
static size_t heads_together(const whet_attention *a, size_t streams) {
    size_t heads = heads_at_most(a);
    while (heads > 1 && tasks_with(a, streams, heads) < TASKS_WANTED) {
        size_t fewer = fewer_heads(heads);
        if (tasks_with(a, streams, fewer) == tasks_with(a, streams, heads))
            break;
        heads = fewer;
    }
    return heads;
}

/* The most keys that are divided into chunks of this size. */
static size_t longest_of(size_t chunk_keys) {
    return chunk_keys < CHUNK ? chunk_keys * (CHUNKS_ENOUGH + 1) - 1 : SIZE_MAX;
}

/* Raises what a plan needs to what this division needs. */
static bool widen_plan(const whet_attention *a, const plan_shape *shape, whet_plan *plan) {
    layout at;
    if (!lay_out(a, shape, &at))
        return false;
    if (plan->scratch_bytes < at.scratch)
        plan->scratch_bytes = at.scratch;
    if (plan->workspace_bytes < at.total)
        plan->workspace_bytes = at.total;
    return true;
}

/*
 * A shorter cache may be divided otherwise, and need more for it: memory is to serve all up to
 * this one's length, and so has room for every division that any of them may have.
 */
static bool make_room(const whet_attention *a, plan_shape shape, whet_plan *plan) {
    for (size_t heads = heads_at_most(a);; heads = fewer_heads(heads)) {
        shape.together = heads;
        shape.chunk_keys = chunk_of(heads);
        for (bool longer = true; longer; shape.chunk_keys *= 2) {
            size_t longest = longest_of(shape.chunk_keys);
            longer = longest < a->keys;
            shape.chunks = ((longer ? longest : a->keys) + shape.chunk_keys - 1) / shape.chunk_keys;
            if (!widen_plan(a, &shape, plan))
                return false;
        }
        if (heads == 1)
            return true;
    }
}

bool whet_plan_decode(whet_plan *plan, plan_shape *shape) {
    const whet_attention *a = &plan->description.attention;
    shape->together = heads_together(a, shape->streams);
    shape->chunk_keys = chunk_of(shape->together);
    while (longest_of(shape->chunk_keys) < a->keys)
        shape->chunk_keys *= 2;
    shape->chunks = (a->keys + shape->chunk_keys - 1) / shape->chunk_keys;
    size_t tasks;
    plan->scratch_bytes = plan->workspace_bytes = 0;
    if (!make_room(a, *shape, plan))
        return false;
    if (!size_multiply(shape->streams / shape->together, shape->chunks, &tasks))
        return false;
    plan->phases = 4;
    plan->tasks[0] = plan->tasks[2] = tasks;
    plan->tasks[3] = shape->streams;
    return size_multiply(shape->streams, shape->rows, &plan->tasks[1]);
}

/* Rows are those of all the task's heads, one head after the other. */
typedef struct work {
    key_stream stream; /* the first */
    plan_shape shape;
    size_t rows;
    size_t start, count; /* the chunk's keys */
    size_t chunk;
    float *logits; /* of the stream's first row */
    size_t logits_stride;
    row_state *states;
    whet_stats *pieces; /* these three of the first chunk */
    chunk_sums *sums;
    float *outputs;
    float *queries, *weights, *partial, *converted;
    size_t weights_stride, outputs_stride;
} work;

static work start_work(const whet_plan *plan, size_t stream_index, size_t chunk, void *scratch) {
    const whet_attention *a = &plan->description.attention;
    work w = {.shape = whet_shape_of(plan), .chunk = chunk};
    layout at = {0};
    lay_out(a, &w.shape, &at);
    w.stream = whet_stream_at(plan, &w.shape, stream_index);
    w.rows = w.shape.together * w.shape.rows;
    w.start = chunk * w.shape.chunk_keys;
    w.count = a->keys - w.start < w.shape.chunk_keys ? a->keys - w.start : w.shape.chunk_keys;
    char *base = plan->workspace, *own = scratch;
    size_t row = stream_index * w.shape.rows;
    w.logits_stride = logits_stride_of(a);
    w.logits = (float *)(void *)(base + at.logits) + row * w.logits_stride;
    w.states = (row_state *)(void *)(base + at.states) + row;
    size_t tasks_before = row / w.rows * w.shape.chunks, task_row = row % w.rows;
    w.pieces = (whet_stats *)(void *)(base + at.pieces) + tasks_before * w.rows + task_row;
    w.sums = (chunk_sums *)(void *)(base + at.sums) + tasks_before * w.rows + task_row;
    w.outputs_stride = at.outputs_stride;
    w.outputs = (float *)(void *)(base + at.outputs) + tasks_before * at.outputs_stride +
                task_row * padded(a->value_dim);
    w.queries = (float *)(void *)(own + at.queries);
    w.weights = (float *)(void *)(own + at.weights);
    w.weights_stride = weights_stride_of(&w.shape);
    w.partial = (float *)(void *)(own + at.partial);
    w.converted = (float *)(void *)(own + at.converted);
    return w;
}

static query_row row_at(const work *w, size_t r) {
    key_stream stream = w->stream;
    stream.kv_head += r / w->shape.rows;
    return whet_row_of(&stream, r % w->shape.rows);
}

/* The keys of a chunk that any row sees, as [*low, *high). Heads do not differ in that. */
static void visible_keys(const work *w, size_t *low, size_t *high) {
    *low = SIZE_MAX;
    *high = 0;
    for (size_t r = 0; r < w->shape.rows; r++) {
        query_row row = whet_row_of(&w->stream, r);
        if (row.low < *low)
            *low = row.low;
        if (row.high > *high)
            *high = row.high;
    }
    if (*low < w->start)
        *low = w->start;
    if (*high > w->start + w->count)
        *high = w->start + w->count;
    if (*low > *high)
        *low = *high;
}

/* `count` rows of keys or values from `start` on, of all the task's heads. The stride of an axis
 * of one entry means nothing and may be anything, and so may that to rows that nobody sees: rows
 * ahead of these are not to be counted with it. */
static stream_cache cache_of(const work *w, const whet_tensor *tensor, size_t start, size_t count,
                             size_t depth) {
    return (stream_cache){.first = whet_position_at(&w->stream, tensor, start),
                          .type = (int)tensor->type,
                          .stride = count > 1 ? tensor->stride[2] : 0,
                          .head_stride = w->shape.together > 1 ? tensor->stride[1] : 0,
                          .heads = w->shape.together,
                          .count = count,
                          .depth = depth};
}

/* Brings rows [start, start + count) of a tensor into w->converted; count <= CONVERTED. */
static void convert_rows(const work *w, const whet_tensor *tensor, size_t start, size_t count,
                         size_t dim) {
    for (size_t j = 0; j < count; j++) {
        float *to = w->converted + j * HEAD_DIM_MAX;
        const float *from = whet_load_position(&w->stream, tensor, start + j, dim, to);
        if (from != to)
            memcpy(to, from, dim * sizeof(float));
    }
}

static stream_cache converted_rows(const work *w, size_t count, size_t dim) {
    return (stream_cache){.first = w->converted,
                          .type = WHET_F32,
                          .stride = HEAD_DIM_MAX * sizeof(float),
                          .heads = 1,
                          .count = count,
                          .depth = dim};
}

/* ---- phase 0 ---- */

static void load_queries(work *w) {
    size_t stride = padded(w->stream.attention->head_dim);
    memset(w->queries, 0, w->rows * stride * sizeof(float));
    for (size_t r = 0; r < w->rows; r++) {
        query_row row = row_at(w, r);
        whet_load_query(&w->stream, &row, w->queries + r * stride);
    }
}

static void score_keys(work *w, size_t start, size_t count) {
    const whet_attention *a = w->stream.attention;
    const kernels *k = w->shape.kernels;
    size_t stride = padded(a->head_dim);
    if (streams_directly(&a->k)) {
        stream_cache keys = cache_of(w, &a->k, start, count, a->head_dim);
        k->stream_scores(&keys, w->queries, w->shape.rows, stride, w->logits + start,
                         w->logits_stride);
        return;
    }
    for (size_t done = 0; done < count; done += CONVERTED) {
        size_t n = count - done < CONVERTED ? count - done : CONVERTED;
        stream_cache keys = converted_rows(w, n, a->head_dim);
        convert_rows(w, &a->k, start + done, n, a->head_dim);
        k->stream_scores(&keys, w->queries, w->shape.rows, stride, w->logits + start + done,
                         w->logits_stride);
    }
}

/* Soft cap, ALiBi, mask and limits on one row's logits of a chunk. */
static void adjust_row(work *w, const query_row *row, size_t start, size_t count, float *logits) {
    const whet_attention *a = w->stream.attention;
    if (a->softcap > 0)
        w->shape.kernels->softcap(logits, count, a->softcap);
    if (a->alibi_slopes) {
        float slope = a->alibi_slopes[row->head];
        for (size_t j = 0; j < count; j++)
            logits[j] -= slope * fabsf((float)(row->position - (int64_t)(start + j)));
    }
    if (a->mask.data)
        whet_add_mask_row(&w->stream, row, start, count, logits);
    for (size_t j = start; j < start + count && j < row->low; j++)
        logits[j - start] = -INFINITY;
    for (size_t j = row->high > start ? row->high : start; j < start + count; j++)
        logits[j - start] = -INFINITY;
}

/* A chunk's share of a row's statistics; z and s only where somebody will ask for them. */
static whet_stats piece_of(const work *w, const float *logits, size_t count) {
    const kernels *k = w->shape.kernels;
    whet_stats piece = whet_stats_empty();
    float max = k->max(logits, count);
    if (max == -INFINITY) {
        piece.n = k->count(logits, count);
        if (piece.n)
            piece = whet_stats_not_finite(piece.n);
        return piece;
    }
    piece.max = (double)max;
    piece.flags = 0;
    if (max == INFINITY)
        return whet_stats_not_finite(k->count(logits, count));
    if (w->shape.fused) {
        piece.n = count;
        return piece;
    }
    row_sums sums = {0, 0, 0};
    k->sums(logits, count, max, whet_beta_to_c(1.0), &sums);
    piece.n = k->count(logits, count);
    piece.z = sums.z;
    piece.s = sums.s;
    if (isnan(sums.z))
        piece = whet_stats_not_finite(piece.n);
    return piece;
}

static void score_chunk(work *w) {
    size_t low, high;
    visible_keys(w, &low, &high);
    load_queries(w);
    if (low < high)
        score_keys(w, low, high - low);
    for (size_t r = 0; r < w->rows; r++) {
        query_row row = row_at(w, r);
        float *logits = w->logits + r * w->logits_stride + low;
        adjust_row(w, &row, low, high - low, logits);
        w->pieces[w->chunk * w->rows + r] = piece_of(w, logits, high - low);
    }
}

/* ---- phase 1 ---- */

static whet_stats sink_piece(const whet_attention *a, const query_row *row) {
    whet_stats piece = whet_stats_empty();
    if (!a->sinks || a->sinks[row->head] == -INFINITY)
        return piece;
    piece.max = (double)a->sinks[row->head];
    piece.z = 1;
    if (!isfinite(piece.max))
        return whet_stats_not_finite(0);
    whet_stats_complete(&piece);
    return piece;
}

/* The moments of a whole row at the solver's beta, over the kept logits. */
static row_sums row_moments(const work *w, const query_row *row, size_t r, const row_state *state,
                            double beta) {
    const whet_attention *a = w->stream.attention;
    row_sums sums = {0, 0, 0};
    float c = whet_beta_to_c(beta);
    const float *logits = w->logits + r * w->logits_stride;
    w->shape.kernels->moments(logits + row->low, row->high - row->low, state->max, c, &sums);
    if (a->sinks && a->sinks[row->head] != -INFINITY) {
        double d = (double)a->sinks[row->head] - (double)state->max;
        double e = exp2((double)c * d);
        sums.z += e;
        sums.s += d * e;
        sums.q += d * d * e;
    }
    return sums;
}

static double solve_target_row(const work *w, const query_row *row, size_t r, row_state *state) {
    target_solver solver;
    whet_target_start(&solver, row->policy, &state->stats);
    while (!solver.done) {
        row_sums sums = row_moments(w, row, r, state, solver.beta);
        whet_target_step(&solver, sums.z, sums.s, sums.q);
    }
    state->stats.flags |= solver.flags;
    return whet_policy_weaken(row->policy, solver.beta);
}

/* softmax1 takes exponentials like a temperature, with one more logit of 0. */
static bool takes_exponentials(const whet_policy *policy) {
    return whet_policy_is_temperature(policy) || policy->kind == WHET_POLICY_SOFTMAX1;
}

static bool has_beta(const whet_stats *stats) {
    return stats->n > 0 && !(stats->flags & WHET_ROW_NOT_FINITE);
}

/* From a row's logits to its coefficients. A sink goes where the row's next logit would be;
 * sigmoid and stick-breaking, which look at every logit by itself or at those after it, do
 * without. */
static void map_row(work *w, const query_row *row, size_t r, row_state *state) {
    const float *sinks = w->stream.attention->sinks;
    whet_policy policy = *row->policy;
    float *logits = w->logits + r * w->logits_stride + row->low;
    size_t count = row->high - row->low;
    bool with_sink = sinks && sinks[row->head] > -INFINITY && policy.kind != WHET_POLICY_SIGMOID &&
                     policy.kind != WHET_POLICY_STICK_BREAKING;
    state->mapped = true;
    if (!has_beta(&state->stats)) {
        memset(logits, 0, count * sizeof(float));
        return;
    }
    if (policy.kind == WHET_POLICY_SIGMOID && isnan(policy.value[0]))
        policy.value[0] = log((double)whet_count_visible(&w->stream, row));
    if (with_sink)
        logits[count] = sinks[row->head];
    row_view view = {.kernels = w->shape.kernels,
                     .n = count + with_sink,
                     .in = logits,
                     .out = logits,
                     .in_type = WHET_F32,
                     .out_type = WHET_F32};
    uint64_t n = state->stats.n;
    state->stats.n = n + with_sink; /* entries, to topk */
    whet_map_row(&policy, &view, &state->stats);
    state->stats.n = n;
}

static void choose_beta(work *w, const query_row *row, size_t r, row_state *state) {
    whet_stats *stats = &state->stats;
    double beta = 1.0;
    if (has_beta(stats) && whet_policy_is_temperature(row->policy))
        beta = row->policy->kind == WHET_POLICY_TARGET ? solve_target_row(w, row, r, state)
                                                       : whet_policy_beta(row->policy, stats);
    if (isnan(beta)) {
        *stats = whet_stats_not_finite(stats->n);
        beta = 1.0;
    }
    if (stats->flags & WHET_ROW_NOT_FINITE)
        state->c = whet_beta_to_c(1.0);
    else
        state->c = whet_apply_beta(stats, beta);
}

static void merge_row(work *w, size_t r) {
    query_row row = whet_row_of(&w->stream, r);
    row_state *state = w->states + r;
    whet_stats total = sink_piece(w->stream.attention, &row);
    double sink = total.max;
    for (size_t chunk = 0; chunk < w->shape.chunks; chunk++)
        total = whet_stats_add(&total, &w->pieces[chunk * w->rows + r]);
    whet_stats_complete(&total);
    state->stats = total;
    state->max = total.max > -(double)INFINITY ? (float)total.max : 0;
    state->mapped = false;
    state->sink_z = 1;
    state->sink_s = 0;
    if (!takes_exponentials(row.policy)) {
        map_row(w, &row, r, state);
        return;
    }
    bool has_zero_logit = row.policy->kind == WHET_POLICY_SOFTMAX1;
    if (has_zero_logit && state->max < 0)
        state->max = 0;
    choose_beta(w, &row, r, state);
    double d = sink - (double)state->max;
    state->sink_z = sink > -(double)INFINITY ? exp2((double)state->c * d) : 0;
    state->sink_s = state->sink_z > 0 ? d * state->sink_z : 0;
    if (has_zero_logit)
        state->sink_z += exp(-(double)state->max);
}

/* ---- phase 2 ---- */

/* Coefficients of a map as a chunk's weights, 0 where the row sees nothing. What is not finite
 * among them is noted in the sum, which is nothing else: they are normalised. */
static double copy_coefficients(const work *w, size_t r, size_t low, size_t high) {
    query_row row = row_at(w, r);
    const float *coefficients = w->logits + r * w->logits_stride;
    float *weights = w->weights + r * w->weights_stride;
    for (size_t j = low; j < high; j++)
        weights[j - low] = j >= row.low && j < row.high ? coefficients[j] : 0;
    return w->shape.kernels->finite(weights, high - low) ? 0 : (double)NAN;
}

/* A chunk's weights for one row, and their sums; masked keys get exactly zero. */
static chunk_sums weights_of_row(const work *w, size_t r, size_t low, size_t high) {
    const kernels *k = w->shape.kernels;
    const row_state *state = w->states + r;
    const float *logits = w->logits + r * w->logits_stride + low;
    float *weights = w->weights + r * w->weights_stride;
    row_sums sums = {0, 0, 0};
    if (state->mapped)
        return (chunk_sums){copy_coefficients(w, r, low, high), 0};
    if (w->stream.attention->stats)
        k->sums(logits, high - low, state->max, state->c, &sums);
    sums.z = k->exp_store(logits, high - low, state->max, state->c, weights);
    return (chunk_sums){sums.z, sums.s};
}

/* The same, the sums stored. A row that is not finite takes no values: its result is NaN all the
 * same, and those of the other rows do not look as if a value were to blame. */
static void weigh_row(work *w, size_t r, size_t low, size_t high) {
    chunk_sums sums = weights_of_row(w, r, low, high);
    if (isnan(sums.z))
        memset(w->weights + r * w->weights_stride, 0, (high - low) * sizeof(float));
    w->sums[w->chunk * w->rows + r] = sums;
}

static float *chunk_output(const work *w, size_t r, size_t chunk) {
    return w->outputs + chunk * w->outputs_stride + r * padded(w->stream.attention->value_dim);
}

/* Adds value j of a head to the rows of w->partial; where it is not finite, only to rows whose
 * weight is not zero. The weights are those of the chunk's keys from `low` on. */
static void add_value_carefully(work *w, size_t head, size_t low, size_t j) {
    const whet_attention *a = w->stream.attention;
    const kernels *k = w->shape.kernels;
    key_stream stream = w->stream;
    stream.kv_head += head;
    size_t stride = padded(a->value_dim);
    const float *row = whet_load_position(&stream, &a->v, j, a->value_dim, w->converted);
    const float *weights = w->weights + head * w->shape.rows * w->weights_stride + (j - low);
    if (k->finite(row, a->value_dim)) {
        stream_cache value = converted_rows(w, 1, a->value_dim);
        value.first = row;
        k->stream_values(&value, weights, w->weights_stride, w->shape.rows, w->partial, stride);
        return;
    }
    for (size_t r = 0; r < w->shape.rows; r++) {
        float weight = weights[r * w->weights_stride];
        for (size_t c = 0; weight > 0 && c < a->value_dim; c++)
            w->partial[r * stride + c] += weight * row[c];
    }
}

/* A head's rows, key by key. */
static void add_values_carefully(work *w, size_t head, size_t low, size_t high) {
    size_t rows = w->shape.rows, stride = padded(w->stream.attention->value_dim);
    for (size_t start = low; start < high; start += SUM_KEYS) {
        memset(w->partial, 0, rows * stride * sizeof(float));
        for (size_t j = start; j < high && j < start + SUM_KEYS; j++)
            add_value_carefully(w, head, low, j);
        for (size_t r = 0; r < rows; r++)
            w->shape.kernels->add(w->partial + r * stride, stride,
                                  chunk_output(w, head * rows + r, w->chunk));
    }
}

static void clear_outputs(work *w, size_t first_row, size_t rows) {
    for (size_t r = first_row; r < first_row + rows; r++)
        memset(chunk_output(w, r, w->chunk), 0,
               padded(w->stream.attention->value_dim) * sizeof(float));
}

static bool outputs_are_finite(const work *w, size_t first_row, size_t rows) {
    bool finite = true;
    for (size_t r = first_row; finite && r < first_row + rows; r++)
        finite =
            w->shape.kernels->finite(chunk_output(w, r, w->chunk), w->stream.attention->value_dim);
    return finite;
}

/* Logits lie in the caches' far end by now. */
static void fetch_logits(const work *w, size_t r, size_t low, size_t high) {
    const float *logits = w->logits + r * w->logits_stride;
    for (size_t j = low; j < high; j += ROW_PAD)
        __builtin_prefetch(logits + j, 0, 3);
}

static void value_chunk(work *w) {
    const whet_attention *a = w->stream.attention;
    size_t low, high, rows = w->shape.rows;
    visible_keys(w, &low, &high);
    fetch_logits(w, 0, low, high);
    for (size_t r = 0; r < w->rows; r++) {
        if (r + 1 < w->rows)
            fetch_logits(w, r + 1, low, high);
        weigh_row(w, r, low, high);
    }
    clear_outputs(w, 0, w->rows);
    bool direct = streams_directly(&a->v);
    if (direct && low < high) {
        stream_cache values = cache_of(w, &a->v, low, high - low, a->value_dim);
        w->shape.kernels->stream_values(&values, w->weights, w->weights_stride, rows,
                                        chunk_output(w, 0, w->chunk), padded(a->value_dim));
    }
    for (size_t h = 0; h < w->shape.together; h++) {
        if (direct && outputs_are_finite(w, h * rows, rows))
            continue;
        clear_outputs(w, h * rows, rows);
        add_values_carefully(w, h, low, high);
    }
}

/* ---- phase 3 ---- */

/* Adds n floats, whole vectors of them, in double, and fetches those `ahead` floats on. */
static void add_row(const float *x, size_t n, size_t ahead, double *total) {
    for (size_t i = 0; i < n; i += ROW_PAD) {
        __builtin_prefetch(x + i + ahead, 0, 3);
        for (size_t j = 0; j < ROW_PAD; j++)
            total[i + j] += (double)x[i + j];
    }
}

static whet_status finish_row(work *w, size_t r, uint64_t *first_bad_row, whet_status status) {
    const whet_attention *a = w->stream.attention;
    query_row row = whet_row_of(&w->stream, r);
    row_state *state = w->states + r;
    double z = state->sink_z, s = state->sink_s, total[HEAD_DIM_MAX] = {0};
    float result[HEAD_DIM_MAX];
    for (size_t chunk = 0; chunk < w->shape.chunks; chunk++) {
        const float *out = chunk_output(w, r, chunk);
        z += w->sums[chunk * w->rows + r].z;
        s += w->sums[chunk * w->rows + r].s;
        size_t ahead = chunk + CHUNKS_AHEAD < w->shape.chunks ? CHUNKS_AHEAD : 0;
        add_row(out, padded(a->value_dim), ahead * w->outputs_stride, total);
    }
    if (isnan(z))
        state->stats = whet_stats_not_finite(state->stats.n);
    bool good = !(state->stats.flags & WHET_ROW_NOT_FINITE);
    if (good && z > 0 && whet_policy_is_temperature(row.policy))
        whet_stats_after(&state->stats, z, s);
    if (has_beta(&state->stats) && row.policy->kind == WHET_POLICY_SOFTMAX1)
        whet_softmax1_report((double)state->max, z, &state->stats);
    for (size_t c = 0; c < a->value_dim; c++)
        result[c] = !good ? NAN : z > 0 ? (float)(total[c] / z) : 0;
    whet_store_output(&w->stream, &row, result);
    whet_stats *wanted = whet_row_stats(&w->stream, &row);
    if (wanted)
        *wanted = state->stats;
    if (good)
        return status;
    uint64_t index = whet_row_index(&w->stream, &row);
    if (first_bad_row && (status == WHET_OK || index < *first_bad_row))
        *first_bad_row = index;
    return WHET_NOT_FINITE;
}

whet_status whet_run_decode_task(const whet_plan *plan, unsigned phase, size_t task, void *scratch,
                                 uint64_t *first_bad_row) {
    plan_shape shape = whet_shape_of(plan);
    bool by_chunk = phase == 0 || phase == 2;
    /* a chunk for all key heads before the next chunk */
    size_t groups = shape.streams / shape.together;
    size_t index = by_chunk     ? task % groups * shape.together
                   : phase == 1 ? task / shape.rows
                                : task;
    work w = start_work(plan, index, by_chunk ? task / groups : 0, scratch);
    whet_status status = WHET_OK;
    if (phase == 0)
        score_chunk(&w);
    if (phase == 2)
        value_chunk(&w);
    if (phase == 1)
        merge_row(&w, task % shape.rows);
    for (size_t r = 0; phase == 3 && r < shape.rows; r++)
        status = finish_row(&w, r, first_bad_row, status);
    return status;
}
