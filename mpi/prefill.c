/* Attention of queries that are spread over ranks: see prefill.h. */
#include "prefill.h"
#include "attention/check.h"
#include "attention/row_form.h"
#include "base/checked.h"
#include "base/sums.h"
#include "row/extra_logits.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { RING_KEYS = 0 }; /* then a bias, if there is one, then values */

static size_t ring_values(const prefill_plan *p) { return p->r.tensors - 1; }

/* ---- rows ---- */

/* A row of a piece, counted as [batch][head][query]. */
typedef struct piece_row {
    size_t batch, head, query; /* the query among this rank's */
    int64_t token;
    size_t index; /* into this rank's arrays [batch][head][query] */
    const whet_policy *policy;
    float sink;
} piece_row;

static piece_row row_of(const prefill_plan *p, const query_piece *piece, size_t row) {
    const whet_attention *a = &p->a;
    size_t queries = span_size(piece->positions), i = row % queries;
    piece_row r = {.head = row / queries % a->heads,
                   .batch = row / queries / a->heads,
                   .query = piece->local + i};
    r.index = (r.batch * a->heads + r.head) * a->queries + r.query;
    r.token = a->positions ? a->positions[r.batch * a->queries + r.query]
                           : (int64_t)(piece->positions.begin + i) + a->offset;
    r.policy = a->policies + (a->policy_count > 1 ? r.head : 0);
    r.sink = a->sinks ? a->sinks[r.head] : -INFINITY;
    return r;
}

/* ---- blocks ---- */

static void describe_travelled(const prefill_plan *p, size_t tensor, size_t position,
                               whet_tensor *t) {
    ptrdiff_t stride[3];
    t->data = whet_mpi_ring_at(&p->r, tensor, position, stride);
    memcpy(t->stride, (ptrdiff_t[]){stride[0], stride[1], stride[2], 0}, sizeof t->stride);
}

static void describe_keys(const prefill_plan *p, size_t position, whet_attention *b) {
    describe_travelled(p, RING_KEYS, position, &b->k);
    if (p->a.bias.data)
        b->bias.data = (const float *)(const void *)whet_mpi_ring_at(&p->r, RING_KEYS + 1, position,
                                                                     b->bias.stride);
}

/* Values that do not matter: one zero to a key. */
static void describe_zeros(const prefill_plan *p, whet_attention *b) {
    ptrdiff_t size = sizeof(float);
    b->value_dim = 1;
    b->v = (whet_tensor){.data = p->zeros,
                         .stride = {0, (ptrdiff_t)p->keys.piece * size, size, size},
                         .type = WHET_F32};
}

/* A block as attention of its own: plain softmax at given betas. Without values, at beta 1. */
static whet_attention describe_block(const prefill_plan *p, const query_piece *piece, span keys,
                                     bool has_values) {
    whet_attention b = p->a;
    b.queries = span_size(piece->positions);
    b.keys = span_size(keys);
    b.q.data = (const char *)b.q.data + (ptrdiff_t)piece->local * b.q.stride[2];
    describe_keys(p, keys.begin, &b);
    if (has_values)
        describe_travelled(p, ring_values(p), keys.begin, &b.v);
    else
        describe_zeros(p, &b);
    if (b.mask.data)
        b.mask.data = (const char *)b.mask.data + (ptrdiff_t)piece->local * b.mask.stride[2] +
                      (ptrdiff_t)keys.begin * b.mask.stride[3];
    b.out = (whet_tensor_out){.data = p->block_out};
    b.offset += (int64_t)piece->positions.begin - (int64_t)keys.begin;
    b.policies = NULL;
    b.policy_count = 0;
    b.positions = NULL;
    b.sinks = NULL;
    b.betas = has_values ? p->block_beta : NULL;
    b.stats = p->block_stats;
    b.stats_stride = 0;
    return b;
}

static whet_status run_block(prefill_plan *p, const whet_attention *b) {
    whet_plan plan = {.size = sizeof plan};
    whet_status status = whet_attention_plan(b, &plan);
    if (status == WHET_OK && plan.phases > 0)
        status = whet_attention_execute(&plan, &p->base.executor, p->memory, NULL);
    return status;
}

/* What a block's statistics say of a row. Its sums at beta follow from the largest coefficient,
 * 1 / z, and from the entropy, log z - beta s / z. */
static void take_row(const prefill_plan *p, const whet_stats *stats, size_t first_key,
                     const float *out, double beta, block_row *to) {
    whet_stats own = *stats;
    if (own.argmax != UINT64_MAX)
        own.argmax += first_key;
    row_message_set(&to->stats, &own);
    to->stats.visible = 0;
    to->stats.largest = -(double)INFINITY;
    to->ref = own.max;
    to->z = to->s = to->first = 0;
    if (own.flags & WHET_ROW_NOT_FINITE)
        to->z = (double)NAN;
    else if (own.n > 0 && out) {
        to->z = 1 / own.max_prob;
        to->s = beta > 1e-30 ? (log(to->z) - own.entropy_after) * to->z / beta : 0;
        to->first = first_key == 0 ? own.sink_share * to->z : 0;
    }
    for (size_t i = 0; out && i < p->a.value_dim; i++)
        to->out[i] = own.n > 0 ? (double)out[i] * to->z : 0;
}

/* ---- rows as tasks ---- */

enum { TASK_ROWS = 32 };

static void run_rows(void *argument, size_t task, size_t worker) {
    const row_work *work = argument;
    size_t end = (task + 1) * TASK_ROWS, rows = piece_rows(work->p, work->piece);
    (void)worker;
    for (size_t row = task * TASK_ROWS; row < rows && row < end; row++)
        work->function(work->p, work->piece, row, work->context);
}

/* Calls a function for all rows of a piece, on any thread. */
static void for_rows(prefill_plan *p, const query_piece *piece, row_function function,
                     const void *context) {
    row_work work = {p, piece, function, context};
    size_t tasks = (piece_rows(p, piece) + TASK_ROWS - 1) / TASK_ROWS;
    const whet_executor *executor = &p->base.executor;
    if (tasks > 0)
        executor->parallel_for(executor->context, tasks, run_rows, &work);
}

/* ---- merging ---- */

typedef struct piece_merge {
    prefill_plan *p;
    const query_piece *piece;
} piece_merge;

typedef struct slot_pair {
    size_t left, right;
} slot_pair;

static void merge_row_stats(prefill_plan *p, const query_piece *piece, size_t row,
                            const void *context) {
    const slot_pair *slots = context;
    row_message_add(&block_row_at(p, piece, slots->left, row)->stats,
                    &block_row_at(p, piece, slots->right, row)->stats);
}

static void merge_stats(void *context, size_t left, size_t right) {
    const piece_merge *m = context;
    for_rows(m->p, m->piece, merge_row_stats, &(slot_pair){left, right});
}

/* Rescales a row's sums from its maximum to a larger one. */
static void raise_ref(const prefill_plan *p, block_row *row, double ref, double beta) {
    if (!(row->z > 0) || row->ref == ref) {
        row->ref = ref;
        return;
    }
    double shift = row->ref - ref, factor = exp(beta * shift);
    sums_shift(shift, factor, &row->z, &row->s, NULL);
    row->first *= factor;
    for (size_t i = 0; i < p->a.value_dim; i++)
        row->out[i] *= factor;
    row->ref = ref;
}

static void merge_row_values(prefill_plan *p, const query_piece *piece, size_t row,
                             const void *context) {
    const slot_pair *slots = context;
    block_row *a = block_row_at(p, piece, slots->left, row);
    block_row *b = block_row_at(p, piece, slots->right, row);
    double beta = whet_positive_beta((double)p->betas[row_of(p, piece, row).index]);
    double ref = a->ref > b->ref ? a->ref : b->ref;
    row_message_add(&a->stats, &b->stats);
    raise_ref(p, a, ref, beta);
    raise_ref(p, b, ref, beta);
    a->z += b->z;
    a->s += b->s;
    a->first += b->first;
    for (size_t i = 0; i < p->a.value_dim; i++)
        a->out[i] += b->out[i];
}

static void merge_values(void *context, size_t left, size_t right) {
    const piece_merge *m = context;
    for_rows(m->p, m->piece, merge_row_values, &(slot_pair){left, right});
}

/* ---- a round ---- */

typedef struct block_result {
    size_t slot, first_key;
    bool has_values;
} block_result;

static void take_block_row(prefill_plan *p, const query_piece *piece, size_t row,
                           const void *context) {
    const block_result *from = context;
    const float *out = from->has_values ? p->block_out + row * p->a.value_dim : NULL;
    double beta = from->has_values ? (double)p->block_beta[row] : 1;
    take_row(p, &p->block_stats[row], from->first_key, out, beta,
             block_row_at(p, piece, from->slot, row));
}

static void choose_block_beta(prefill_plan *p, const query_piece *piece, size_t row,
                              const void *context) {
    (void)context;
    p->block_beta[row] = p->betas[row_of(p, piece, row).index];
}

static void compute_block(prefill_plan *p, query_piece *piece, size_t key_piece, bool has_values) {
    span keys = whet_mpi_positions_of(&p->keys, (span){key_piece, key_piece + 1});
    size_t slot = whet_mpi_bag_slot(&piece->waiting);
    whet_attention b = describe_block(p, piece, keys, has_values);
    if (has_values)
        for_rows(p, piece, choose_block_beta, NULL);
    whet_status status = run_block(p, &b);
    p->failure = status > p->failure ? status : p->failure;
    for_rows(p, piece, take_block_row, &(block_result){slot, keys.begin, has_values});
    piece_merge m = {p, piece};
    whet_mpi_bag_add(&piece->waiting, key_piece, slot, has_values ? merge_values : merge_stats, &m);
}

/* The pieces of keys in one of the two parts of a share. */
static span pieces_in(const prefill_plan *p, const whet_mpi_share *share, int part) {
    size_t end = share->start[part] + share->count[part];
    if (share->count[part] == 0)
        return (span){0, 0};
    return (span){share->start[part] / p->keys.piece, (end - 1) / p->keys.piece + 1};
}

/* Calls a function for all blocks of a share with this rank's queries, in a fixed order. */
typedef void (*block_function)(prefill_plan *p, query_piece *piece, size_t key_piece, bool flag);

static void for_blocks(prefill_plan *p, whet_mpi_share share, block_function function, bool flag) {
    for (int part = 0; part < 2; part++) {
        span own = pieces_in(p, &share, part);
        for (size_t key_piece = own.begin; key_piece < own.end; key_piece++)
            for (size_t i = 0; i < p->piece_count; i++)
                if (key_piece >= p->pieces[i].keys.begin && key_piece < p->pieces[i].keys.end)
                    function(p, &p->pieces[i], key_piece, flag);
    }
}

static void empty_bags(prefill_plan *p) {
    for (size_t i = 0; i < p->piece_count; i++)
        p->pieces[i].waiting = whet_mpi_bag(&p->keys, p->pieces[i].keys);
}

static void run_round(prefill_plan *p, bool has_values) {
    empty_bags(p);
    whet_mpi_ring_start(&p->r, has_values ? p->r.tensors : p->r.tensors - 1);
    do
        for_blocks(p, whet_mpi_ring_share(&p->r), compute_block, has_values);
    while (whet_mpi_ring_next(&p->r));
}

/* ---- betas and results ---- */

/* What all blocks of a row come to, NULL if it sees none. */
static block_row *result_of(const prefill_plan *p, const query_piece *piece, size_t row) {
    if (piece->waiting.count == 0)
        return NULL;
    return block_row_at(p, piece, piece->waiting.slot[0], row);
}

static whet_stats total_of(const piece_row *row, const block_row *result) {
    whet_stats sink = extra_stats((double)row->sink), total = sink;
    if (result) {
        whet_stats keys = row_message_stats(&result->stats);
        total = whet_stats_add(&sink, &keys);
    }
    whet_stats_complete(&total);
    total.position = row->token;
    return total;
}

static double beta_of(const prefill_plan *p, const piece_row *row, const whet_stats *total) {
    if (p->a.betas)
        return whet_bound_beta((double)p->a.betas[row->index]);
    if (total && !row_has_beta(total))
        return 1;
    whet_stats position = {.position = row->token};
    return whet_policy_beta(row->policy, total ? total : &position);
}

static void choose_row_beta(prefill_plan *p, const query_piece *piece, size_t row,
                            const void *context) {
    piece_row r = row_of(p, piece, row);
    whet_stats total;
    (void)context;
    if (p->needs_stats)
        total = total_of(&r, result_of(p, piece, row));
    p->betas[r.index] = (float)beta_of(p, &r, p->needs_stats ? &total : NULL);
}

static void choose_betas(prefill_plan *p) {
    for (size_t i = 0; i < p->piece_count; i++)
        for_rows(p, &p->pieces[i], choose_row_beta, NULL);
}

/* Sums over keys, sink and the zero of softmax1; the row's are relative to `ref` afterwards. */
static void add_extras(const prefill_plan *p, const piece_row *r, block_row *row, double beta) {
    bool has_zero = whet_map_of(r->policy)->traits & MAP_ZERO_LOGIT;
    double sink = (double)r->sink, ref = row->ref;
    if (sink > ref)
        ref = sink;
    if (has_zero && !(ref > 0))
        ref = 0;
    if (ref == -(double)INFINITY)
        return;
    raise_ref(p, row, ref, beta);
    if (is_sink(sink)) {
        double weight = exp(beta * (sink - ref));
        row->z += weight;
        row->s += (sink - ref) * weight;
    }
    if (has_zero)
        row->z += exp(-beta * ref);
}

static void store(prefill_plan *p, const piece_row *r, const float *values,
                  const whet_stats *stats) {
    kv_slice slice = {.attention = &p->a, .kernels = whet_kernels_get(), .batch = r->batch};
    query_row row = {.head = r->head, .query = r->query};
    whet_store_output(&slice, &row, values);
    whet_stats *wanted = whet_row_stats(&slice, &row);
    if (wanted)
        *wanted = *stats;
}

/* Whether the row is good remains in the flags of block_stats[row]. */
static void finish_row(prefill_plan *p, const query_piece *piece, size_t row, const void *context) {
    (void)context;
    piece_row r = row_of(p, piece, row);
    block_row *result = result_of(p, piece, row);
    whet_stats stats = total_of(&r, result);
    double beta = beta_of(p, &r, &stats);
    float values[HEAD_DIM_MAX] = {0};
    if (result && row_has_beta(&stats)) {
        stats.beta = beta;
        add_extras(p, &r, result, whet_positive_beta((double)p->betas[r.index]));
    }
    bool good =
        !(stats.flags & WHET_ROW_NOT_FINITE) && !isnan(beta) && !(result && isnan(result->z));
    if (!good) {
        stats = whet_stats_not_finite(stats.n);
        stats.position = r.token;
    } else if (result && row_has_beta(&stats)) {
        whet_report_exponentials(whet_map_of(r.policy), result->ref, result->z, result->s, &stats);
        stats.sink_share = result->first / result->z;
    }
    for (size_t i = 0; i < p->a.value_dim; i++)
        values[i] = !good                            ? NAN
                    : result && row_has_beta(&stats) ? (float)(result->out[i] / result->z)
                                                     : 0;
    store(p, &r, values, &stats);
    p->block_stats[row].flags = good ? 0 : WHET_ROW_NOT_FINITE;
}

/* The first bad row of all ranks, as [batch][head][query] of the whole. */
static whet_status finish(prefill_plan *p, uint64_t *first_bad_row) {
    uint64_t mine = UINT64_MAX;
    for (size_t i = 0; i < p->piece_count; i++) {
        const query_piece *piece = &p->pieces[i];
        for_rows(p, piece, finish_row, NULL);
        for (size_t row = 0; row < piece_rows(p, piece); row++) {
            if (!p->block_stats[row].flags)
                continue;
            piece_row r = row_of(p, piece, row);
            uint64_t position = piece->positions.begin + (r.query - piece->local);
            uint64_t index =
                ((uint64_t)r.batch * p->a.heads + r.head) * p->queries.positions + position;
            mine = index < mine ? index : mine;
        }
    }
    /* signed numbers: the minimum of unsigned ones is wrong in MPICH 4.0 where they are large */
    long long sent[2] = {mine < LLONG_MAX ? LLONG_MAX - (long long)mine : 0, (long long)p->failure};
    long long all[2];
    MPI_Allreduce(sent, all, 2, MPI_LONG_LONG, MPI_MAX, p->base.c.comm);
    if (all[1] > WHET_NOT_FINITE)
        return whet_mpi_refuse((whet_status)all[1], "a block of some rank was refused");
    if (all[0] == 0)
        return WHET_OK;
    if (first_bad_row)
        *first_bad_row = (uint64_t)(LLONG_MAX - all[0]);
    return WHET_NOT_FINITE;
}

static whet_status execute(whet_mpi_plan *base, uint64_t *first_bad_row) {
    prefill_plan *p = (prefill_plan *)base;
    p->failure = WHET_OK;
    if (p->needs_stats)
        run_round(p, false);
    choose_betas(p);
    run_round(p, true);
    return finish(p, first_bad_row);
}

/* ---- planning ---- */

static void free_parts(whet_mpi_plan *base) {
    prefill_plan *p = (prefill_plan *)base;
    for (size_t i = 0; p->pieces && i < p->piece_count; i++)
        free(p->pieces[i].rows);
    free(p->pieces);
    free(p->betas);
    free(p->zeros);
    free(p->block_out);
    free(p->block_beta);
    free(p->block_stats);
    free(p->memory);
    whet_mpi_ring_free(&p->r);
}

/* The pieces of keys that a piece of queries may see. */
static span visible_pieces(const prefill_plan *p, span queries) {
    const whet_attention *a = &p->a;
    int64_t keys = (int64_t)p->keys.positions, low = 0, high = keys;
    int64_t first = (int64_t)queries.begin + a->offset, last = (int64_t)queries.end - 1 + a->offset;
    if (a->window && a->window < (size_t)INT32_MAX) {
        low = first - (int64_t)a->window + 1;
        high = last + (int64_t)a->window;
    }
    if ((a->flags & WHET_CAUSAL) && last + 1 < high)
        high = last + 1;
    low = low < 0 ? 0 : low;
    high = high > keys ? keys : high;
    if (low >= high)
        return (span){0, 0};
    return (span){(size_t)low / p->keys.piece, (size_t)(high - 1) / p->keys.piece + 1};
}

static bool list_pieces(prefill_plan *p) {
    p->pieces = calloc(p->queries.count + 1, sizeof *p->pieces);
    size_t local = 0;
    for (int part = 0; p->pieces && part < 2; part++) {
        size_t end = p->share.start[part] + p->share.count[part];
        for (size_t at = p->share.start[part]; at < end;) {
            size_t stop = at + p->queries.piece < end ? at + p->queries.piece : end;
            query_piece *piece = &p->pieces[p->piece_count++];
            piece->positions = (span){at, stop};
            piece->local = local;
            piece->keys = visible_pieces(p, piece->positions);
            local += stop - at;
            at = stop;
        }
    }
    return p->pieces != NULL;
}

static void count_block(prefill_plan *p, query_piece *piece, size_t key_piece, bool flag) {
    (void)p;
    (void)flag;
    whet_mpi_bag_add(&piece->waiting, key_piece, whet_mpi_bag_slot(&piece->waiting), NULL, NULL);
}

/* Plays the arrival of all shares to learn how many results of each piece wait at a time. */
static bool allocate_rows(prefill_plan *p) {
    empty_bags(p);
    for (int step = 0; step < p->base.c.size; step++) {
        whet_mpi_share share = {0};
        whet_mpi_share_of(p->keys.positions, p->r.layout, (p->base.c.rank + step) % p->base.c.size,
                          p->base.c.size, &share);
        for_blocks(p, share, count_block, false);
    }
    for (size_t i = 0; i < p->piece_count; i++) {
        query_piece *piece = &p->pieces[i];
        size_t bytes;
        piece->slots = piece->waiting.peak;
        if (piece->slots >= BAG_MAX ||
            !size_multiply(piece->slots * p->row_bytes, piece_rows(p, piece), &bytes))
            return false;
        piece->rows = malloc(bytes > 0 ? bytes : 1);
        if (!piece->rows)
            return false;
    }
    return true;
}

static void fill_strides(ptrdiff_t stride[4], size_t heads, size_t positions, size_t row_bytes) {
    if (stride[0] || stride[1] || stride[2] || stride[3])
        return;
    stride[2] = (ptrdiff_t)row_bytes;
    stride[1] = stride[2] * (ptrdiff_t)positions;
    stride[0] = stride[1] * (ptrdiff_t)heads;
}

static ring_tensor travelling(const whet_attention *a, const whet_tensor *t, size_t dim) {
    return (ring_tensor){.data = t->data,
                         .stride = {t->stride[0], t->stride[1], t->stride[2]},
                         .batch = a->batch,
                         .heads = a->kv_heads,
                         .bytes = whet_type_row_bytes(t->type, dim)};
}

/* What travels, and the memory for it. Rows of elements with gaps, or of a caller's type, have no
 * form in which they could. */
static whet_status plan_ring(prefill_plan *p, whet_mpi_layout layout, size_t local_keys) {
    whet_attention *a = &p->a;
    const struct {
        whet_tensor *tensor;
        const char *name;
        size_t dim;
    } inputs[] = {{&a->k, "k", a->head_dim}, {&a->v, "v", a->value_dim}};
    for (int i = 0; i < 2; i++) {
        whet_tensor *t = inputs[i].tensor;
        size_t bytes = whet_type_row_bytes(t->type, inputs[i].dim);
        size_t one = whet_type_row_bytes(t->type, 1);
        if (bytes == 0 || (one > 0 && t->stride[3] && t->stride[3] != (ptrdiff_t)one))
            return whet_mpi_refuse(WHET_ERROR_UNSUPPORTED,
                                   "%s: rows that travel must be contiguous and of a type of "
                                   "whet.h",
                                   inputs[i].name);
        fill_strides(t->stride, a->kv_heads, local_keys, bytes);
    }
    p->r.c = &p->base.c;
    p->r.positions = p->keys.positions;
    p->r.layout = layout;
    p->r.tensor[p->r.tensors++] = travelling(a, &a->k, a->head_dim);
    if (a->bias.data)
        p->r.tensor[p->r.tensors++] = (ring_tensor){
            .data = a->bias.data,
            .stride = {a->bias.stride[0], a->bias.stride[1],
                       a->bias.stride[2] ? a->bias.stride[2] : (ptrdiff_t)sizeof(float)},
            .batch = a->batch,
            .heads = a->heads,
            .bytes = sizeof(float)};
    p->r.tensor[p->r.tensors++] = travelling(a, &a->v, a->value_dim);
    return whet_mpi_ring_init(&p->r)
               ? WHET_OK
               : whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for the keys of another rank");
}

/* For planning alone, where this rank need not have the keys: as if they were at the beginning of
 * what travels, which has room for a piece. */
static void place_anywhere(const prefill_plan *p, whet_attention *b, bool has_values) {
    b->k = (whet_tensor){.data = p->r.buffer[0], .type = b->k.type};
    if (has_values)
        b->v = (whet_tensor){.data = p->r.buffer[0], .type = b->v.type};
    if (b->bias.data)
        b->bias = (whet_key_bias){.data = (const float *)(const void *)p->r.buffer[0]};
}

/* Memory for any block: the sizes of pieces and of the last ones. */
static whet_status allocate_block(prefill_plan *p) {
    const whet_attention *a = &p->a;
    size_t rows = a->batch * a->heads * p->queries.piece;
    p->betas = calloc(a->batch * a->heads * a->queries + 1, sizeof *p->betas);
    p->zeros = calloc(a->kv_heads * p->keys.piece, sizeof *p->zeros);
    p->block_out = calloc(rows, a->value_dim * sizeof *p->block_out);
    p->block_beta = calloc(rows, sizeof *p->block_beta);
    p->block_stats = calloc(rows, sizeof *p->block_stats);
    bool fits = p->betas && p->zeros && p->block_out && p->block_beta && p->block_stats;
    for (size_t i = 0; fits && i < p->piece_count; i++) {
        for (size_t j = 0; fits && j < 4; j++) {
            whet_plan plan = {.size = sizeof plan};
            size_t last = p->keys.count - (j % 2); /* the last piece, or one before it */
            span keys = whet_mpi_positions_of(&p->keys, (span){last - (last > 0), last});
            if (span_size(keys) == 0)
                continue;
            whet_attention b = describe_block(p, &p->pieces[i], keys, j > 1);
            place_anywhere(p, &b, j > 1);
            whet_status status = whet_attention_plan(&b, &plan);
            if (status != WHET_OK)
                return whet_mpi_pass_on(status);
            size_t bytes = whet_attention_memory(&plan, &p->base.executor);
            if (bytes > p->memory_bytes)
                p->memory_bytes = bytes;
        }
    }
    size_t bytes = 0;
    fits = fits && size_align(p->memory_bytes, WHET_ALIGNMENT, &bytes) &&
           (p->memory = aligned_alloc(WHET_ALIGNMENT, bytes > 0 ? bytes : WHET_ALIGNMENT));
    return fits ? WHET_OK : whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for a block");
}

static whet_status check_support(const whet_attention *a) {
    if (a->max_logits)
        return whet_mpi_refuse(WHET_ERROR_UNSUPPORTED, "max_logits: only with decode plans");
    for (size_t i = 0; i < a->policy_count; i++) {
        unsigned traits = whet_map_of(&a->policies[i])->traits;
        if (!(traits & MAP_EXPONENTIAL) || (traits & MAP_SEARCHES) ||
            (whet_temperature_of(&a->policies[i])->needs & NEEDS_SEARCH))
            return whet_mpi_refuse(WHET_ERROR_UNSUPPORTED,
                                   "policies[%zu]: only temperatures that need no search, with "
                                   "softmax or softmax1; use a decode plan",
                                   i);
    }
    return WHET_OK;
}

/* The description of this rank's part: libwhet checks it as attention of its own. */
static whet_status check_part(const whet_attention *a, size_t queries, size_t keys) {
    whet_attention part = *a;
    whet_plan plan = {.size = sizeof plan};
    part.queries = queries;
    part.keys = keys;
    part.mask.data = NULL; /* it covers all keys, not this rank's */
    whet_status status = whet_attention_plan(&part, &plan);
    return status == WHET_OK ? status : whet_mpi_pass_on(status);
}

static whet_status plan_rank(prefill_plan *p, whet_mpi_layout layout) {
    whet_attention *a = &p->a;
    whet_mpi_share keys;
    whet_status status = check_support(a);
    if (status == WHET_OK)
        status = whet_mpi_share_of(a->queries, layout, p->base.c.rank, p->base.c.size, &p->share);
    if (status == WHET_OK)
        status = whet_mpi_share_of(a->keys, layout, p->base.c.rank, p->base.c.size, &keys);
    if (status == WHET_OK)
        status = check_part(a, p->share.positions, keys.positions);
    if (status != WHET_OK)
        return status;
    p->queries = whet_mpi_pieces(a->queries);
    p->keys = whet_mpi_pieces(a->keys);
    a->queries = p->share.positions;
    fill_strides(a->q.stride, a->heads, a->queries, whet_type_row_bytes(a->q.type, a->head_dim));
    fill_strides(a->out.stride, a->heads, a->queries,
                 whet_type_row_bytes(a->out.type, a->value_dim));
    if (a->out.stride[3] == 0)
        a->out.stride[3] = (ptrdiff_t)whet_type_row_bytes(a->out.type, 1);
    if (a->mask.data && a->mask.stride[3] == 0)
        a->mask.stride[3] = (ptrdiff_t)whet_type_row_bytes(a->mask.type, 1);
    if (a->stats_stride == 0)
        a->stats_stride = sizeof(whet_stats);
    for (size_t i = 0; i < a->policy_count; i++)
        p->needs_stats = p->needs_stats || !whet_beta_is_known(a, &a->policies[i]);
    p->row_bytes = sizeof(block_row) + a->value_dim * sizeof(double);
    status = plan_ring(p, layout, keys.positions);
    if (status != WHET_OK)
        return status;
    if (!list_pieces(p) || !allocate_rows(p))
        return whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for %zu queries", a->queries);
    return allocate_block(p);
}

whet_status whet_mpi_prefill_plan(MPI_Comm comm, const whet_attention *attention,
                                  whet_mpi_layout layout, const whet_executor *executor,
                                  whet_mpi_plan **plan) {
    whet_status status = whet_mpi_begin_plan(comm, attention, sizeof(prefill_plan), plan);
    if (status != WHET_OK)
        return status;
    prefill_plan *p = (prefill_plan *)*plan;
    p->a = *attention;
    p->base.execute = execute;
    p->base.free_parts = free_parts;
    status = whet_mpi_take_executor(executor, &p->base.executor);
    if (status == WHET_OK)
        status = whet_mpi_check_description(&p->a);
    status = whet_mpi_agree(&p->base.c, status);
    if (status == WHET_OK)
        status = whet_mpi_agree_on_attention(&p->base.c, layout ? "zig-zag" : "block", &p->a);
    shared_number bias = {"the presence of a bias", p->a.bias.data != NULL, 0};
    if (status == WHET_OK)
        status = whet_mpi_agree_on(&p->base.c, &bias, 1);
    if (status == WHET_OK)
        status = whet_mpi_agree(&p->base.c, plan_rank(p, layout));
    return whet_mpi_end_plan(plan, status);
}
