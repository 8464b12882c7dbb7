/* Attention of queries that are spread over ranks: see prefill.h. */
#include "prefill.h"
#include "prefill_rows.h"
#include "attention/row_form.h"
#include "base/checked.h"
#include "base/sums.h"
#include "row/extra_logits.h"
#include <stdlib.h>
#include <string.h>

/* ---- blocks ---- */

/* Values that do not matter: one zero to a key. */
static void describe_zeros(const prefill_plan *p, whet_attention *b) {
    ptrdiff_t size = sizeof(float);
    b->value_dim = 1;
    b->v = (whet_tensor){.data = p->zeros,
                         .stride = {0, (ptrdiff_t)p->s.keys.piece * size, size, size},
                         .type = WHET_F32};
}

/* A block as attention of its own: plain softmax at given betas. Without values, at beta 1. */
static whet_attention describe_block(const prefill_plan *p, const query_piece *piece, span keys,
                                     bool has_values, bool is_planning) {
    whet_attention b = whet_mpi_describe_block(&p->s, piece, keys, has_values, is_planning);
    if (!has_values)
        describe_zeros(p, &b);
    b.out = (whet_tensor_out){.data = p->block_out};
    b.policies = NULL;
    b.policy_count = 0;
    b.sinks = NULL;
    b.betas = has_values ? p->block_beta : NULL;
    b.stats = p->block_stats;
    return b;
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
    for (size_t i = 0; out && i < p->s.a.value_dim; i++)
        to->out[i] = own.n > 0 ? (double)out[i] * to->z : 0;
}

/* ---- rows as tasks ---- */

enum { TASK_ROWS = 32 };

static void run_rows(void *argument, size_t task, size_t worker) {
    const row_work *work = argument;
    size_t end = (task + 1) * TASK_ROWS, rows = piece_rows(&work->p->s, work->piece);
    (void)worker;
    for (size_t row = task * TASK_ROWS; row < rows && row < end; row++)
        work->function(work->p, work->piece, row, work->context);
}

/* Calls a function for all rows of a piece, on any thread. */
static void for_rows(prefill_plan *p, const query_piece *piece, row_function function,
                     const void *context) {
    row_work work = {p, piece, function, context};
    size_t tasks = (piece_rows(&p->s, piece) + TASK_ROWS - 1) / TASK_ROWS;
    const whet_executor *executor = &p->s.base.executor;
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
    for (size_t i = 0; i < p->s.a.value_dim; i++)
        row->out[i] *= factor;
    row->ref = ref;
}

static void merge_row_values(prefill_plan *p, const query_piece *piece, size_t row,
                             const void *context) {
    const slot_pair *slots = context;
    block_row *a = block_row_at(p, piece, slots->left, row);
    block_row *b = block_row_at(p, piece, slots->right, row);
    piece_row r = whet_mpi_row_of(&p->s, piece, row);
    double beta = whet_positive_beta((double)p->betas[r.index]);
    double ref = a->ref > b->ref ? a->ref : b->ref;
    row_message_add(&a->stats, &b->stats);
    raise_ref(p, a, ref, beta);
    raise_ref(p, b, ref, beta);
    a->z += b->z;
    a->s += b->s;
    a->first += b->first;
    for (size_t i = 0; i < p->s.a.value_dim; i++)
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
    const float *out = from->has_values ? p->block_out + row * p->s.a.value_dim : NULL;
    double beta = from->has_values ? (double)p->block_beta[row] : 1;
    take_row(p, &p->block_stats[row], from->first_key, out, beta,
             block_row_at(p, piece, from->slot, row));
}

static void choose_block_beta(prefill_plan *p, const query_piece *piece, size_t row,
                              const void *context) {
    (void)context;
    p->block_beta[row] = p->betas[whet_mpi_row_of(&p->s, piece, row).index];
}

static void compute_block(prefill_plan *p, query_piece *piece, size_t key_piece, bool has_values) {
    span keys = whet_mpi_positions_of(&p->s.keys, (span){key_piece, key_piece + 1});
    size_t slot = whet_mpi_bag_slot(&piece->waiting);
    whet_attention b = describe_block(p, piece, keys, has_values, false);
    if (has_values)
        for_rows(p, piece, choose_block_beta, NULL);
    whet_plan plan = {.size = sizeof plan};
    whet_status status = whet_attention_plan(&b, &plan);
    if (status == WHET_OK)
        whet_mpi_run_block(&p->s, &plan);
    else
        p->s.failure = status > p->s.failure ? status : p->s.failure;
    for_rows(p, piece, take_block_row, &(block_result){slot, keys.begin, has_values});
    piece_merge m = {p, piece};
    whet_mpi_bag_add(&piece->waiting, (tree_node){0, key_piece}, slot,
                     has_values ? merge_values : merge_stats, &m);
}

static void stats_block(spread *s, query_piece *piece, size_t key_piece, void *context) {
    (void)s;
    compute_block(context, piece, key_piece, false);
}

static void value_block(spread *s, query_piece *piece, size_t key_piece, void *context) {
    (void)s;
    compute_block(context, piece, key_piece, true);
}

/* ---- betas and results ---- */

/* What all blocks of a row come to, NULL if it sees none. */
static block_row *result_of(const prefill_plan *p, const query_piece *piece, size_t row) {
    char *rows = piece_result(piece);
    return rows ? (block_row *)(void *)(rows + row * p->row_bytes) : NULL;
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
    if (p->s.a.betas)
        return whet_bound_beta((double)p->s.a.betas[row->index]);
    if (total && !row_has_beta(total))
        return 1;
    whet_stats position = {.position = row->token};
    return whet_policy_beta(row->policy, total ? total : &position);
}

static void choose_row_beta(prefill_plan *p, const query_piece *piece, size_t row,
                            const void *context) {
    piece_row r = whet_mpi_row_of(&p->s, piece, row);
    whet_stats total;
    (void)context;
    if (p->needs_stats)
        total = total_of(&r, result_of(p, piece, row));
    p->betas[r.index] = (float)beta_of(p, &r, p->needs_stats ? &total : NULL);
}

static void choose_betas(prefill_plan *p) {
    for (size_t i = 0; i < p->s.piece_count; i++)
        for_rows(p, &p->s.pieces[i], choose_row_beta, NULL);
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
    kv_slice slice = {.attention = &p->s.a,
                      .kernels = whet_kernels_get(),
                      .batch = r->batch,
                      .list = {.step = 1}};
    query_row row = {.head = r->head, .query = r->query};
    whet_store_output(&slice, &row, values);
    whet_stats *wanted = whet_row_stats(&slice, &row);
    if (wanted)
        *wanted = *stats;
}

/* Whether the row is good remains in the flags of block_stats[row]. */
static void finish_row(prefill_plan *p, const query_piece *piece, size_t row, const void *context) {
    (void)context;
    piece_row r = whet_mpi_row_of(&p->s, piece, row);
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
    for (size_t i = 0; i < p->s.a.value_dim; i++)
        values[i] = !good                            ? NAN
                    : result && row_has_beta(&stats) ? (float)(result->out[i] / result->z)
                                                     : 0;
    store(p, &r, values, &stats);
    p->block_stats[row].flags = good ? 0 : WHET_ROW_NOT_FINITE;
}

static whet_status finish(prefill_plan *p, uint64_t *first_bad_row) {
    uint64_t mine = UINT64_MAX;
    for (size_t i = 0; i < p->s.piece_count; i++) {
        const query_piece *piece = &p->s.pieces[i];
        for_rows(p, piece, finish_row, NULL);
        for (size_t row = 0; row < piece_rows(&p->s, piece); row++) {
            if (!p->block_stats[row].flags)
                continue;
            piece_row r = whet_mpi_row_of(&p->s, piece, row);
            uint64_t index = whet_mpi_row_everywhere(&p->s, piece, &r);
            mine = index < mine ? index : mine;
        }
    }
    return whet_mpi_agree_on_rows(&p->s, mine, first_bad_row);
}

static whet_status execute(whet_mpi_plan *base, uint64_t *first_bad_row) {
    prefill_plan *p = (prefill_plan *)base;
    p->s.failure = WHET_OK;
    if (p->needs_stats)
        whet_mpi_run_round(&p->s, false, stats_block, p);
    choose_betas(p);
    whet_mpi_run_round(&p->s, true, value_block, p);
    return finish(p, first_bad_row);
}

/* ---- planning ---- */

static void free_parts(whet_mpi_plan *base) {
    prefill_plan *p = (prefill_plan *)base;
    whet_mpi_free_spread(&p->s);
    free(p->betas);
    free(p->zeros);
    free(p->block_out);
    free(p->block_beta);
    free(p->block_stats);
}

/* With values and without. */
static whet_status measure_block(spread *s, const query_piece *piece, span keys, size_t *bytes) {
    prefill_plan *p = (prefill_plan *)(void *)s;
    for (int has_values = 0; has_values < 2; has_values++) {
        whet_plan plan = {.size = sizeof plan};
        whet_attention b = describe_block(p, piece, keys, has_values, true);
        whet_status status = whet_attention_plan(&b, &plan);
        if (status != WHET_OK)
            return status;
        size_t own = whet_attention_memory(&plan, &s->base.executor);
        *bytes = own > *bytes ? own : *bytes;
    }
    return WHET_OK;
}

/* Whether a block's plain softmax gives all that a row with this policy needs. */
static bool is_exponential(const whet_policy *policy) {
    unsigned traits = whet_map_of(policy)->traits;
    return (traits & MAP_EXPONENTIAL) && !(traits & MAP_SEARCHES) &&
           !(whet_temperature_of(policy)->needs & NEEDS_SEARCH);
}

static bool are_exponential(const whet_attention *a) {
    bool all = true;
    for (size_t i = 0; i < a->policy_count; i++)
        all = all && is_exponential(&a->policies[i]);
    return all;
}

static whet_status check_support(const whet_attention *a) {
    if (a->max_logits)
        return whet_mpi_refuse(WHET_ERROR_UNSUPPORTED, "max_logits: only with decode plans");
    return WHET_OK;
}

/* The description of this rank's part: libwhet checks it as attention of its own. */
static whet_status check_part(const spread *s, whet_mpi_layout layout) {
    whet_attention part = s->a;
    whet_plan plan = {.size = sizeof plan};
    whet_status status = whet_mpi_part_sizes(&s->base.c, layout, &part);
    if (status != WHET_OK)
        return status;
    status = whet_attention_plan(&part, &plan);
    return status == WHET_OK ? status : whet_mpi_pass_on(status);
}

static bool allocate(prefill_plan *p) {
    const whet_attention *a = &p->s.a;
    size_t rows = a->batch * a->heads * p->s.queries.piece;
    p->row_bytes = sizeof(block_row) + a->value_dim * sizeof(double);
    for (size_t i = 0; i < p->s.piece_count; i++)
        if (!size_multiply(p->row_bytes, piece_rows(&p->s, &p->s.pieces[i]),
                           &p->s.pieces[i].slot_bytes))
            return false;
    p->betas = calloc(spread_rows(&p->s) + 1, sizeof *p->betas);
    p->zeros = calloc(a->kv_heads * p->s.keys.piece, sizeof *p->zeros);
    p->block_out = calloc(rows, a->value_dim * sizeof *p->block_out);
    p->block_beta = calloc(rows, sizeof *p->block_beta);
    p->block_stats = calloc(rows, sizeof *p->block_stats);
    return p->betas && p->zeros && p->block_out && p->block_beta && p->block_stats &&
           whet_mpi_allocate_slots(&p->s);
}

static whet_status plan_blocks(prefill_plan *p) {
    const whet_attention *a = &p->s.a;
    p->s.base.execute = execute;
    p->s.base.free_parts = free_parts;
    for (size_t i = 0; i < a->policy_count; i++)
        p->needs_stats = p->needs_stats || !whet_beta_is_known(a, &a->policies[i]);
    if (!allocate(p))
        return whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for %zu queries", a->queries);
    return whet_mpi_allocate_block(&p->s, measure_block);
}

/* By blocks, or row by row. */
typedef union any_prefill {
    spread s;
    prefill_plan blocks;
    row_plan rows;
} any_prefill;

static whet_status plan_rank(any_prefill *p, whet_mpi_layout layout) {
    whet_status status = check_support(&p->s.a);
    if (status == WHET_OK)
        status = check_part(&p->s, layout);
    if (status == WHET_OK)
        status = whet_mpi_plan_spread(&p->s, layout);
    if (status != WHET_OK)
        return status;
    return are_exponential(&p->s.a) ? plan_blocks(&p->blocks) : whet_mpi_plan_rows(&p->rows);
}

static void free_spread(whet_mpi_plan *base) { whet_mpi_free_spread((spread *)base); }

whet_status whet_mpi_prefill_plan(MPI_Comm comm, const whet_attention *attention,
                                  whet_mpi_layout layout, const whet_executor *executor,
                                  whet_mpi_plan **plan) {
    whet_status status = whet_mpi_begin_plan(comm, attention, sizeof(any_prefill), plan);
    if (status != WHET_OK)
        return status;
    any_prefill *p = (any_prefill *)*plan;
    p->s.a = *attention;
    p->s.base.free_parts = free_spread;
    status = whet_mpi_begin_spread(&p->s, executor, layout, "prefill");
    if (status == WHET_OK)
        status = whet_mpi_agree(&p->s.base.c, plan_rank(p, layout));
    return whet_mpi_end_plan(plan, status);
}
