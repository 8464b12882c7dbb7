/* The backward pass over ranks: see backward.h. */
#include "backward.h"
#include "base/checked.h"
#include <stdlib.h>
#include <string.h>

enum { POLICY_DOUBLES = sizeof(whet_policy_gradient) / sizeof(double) };

static bool wants_anything(const whet_gradients *g) {
    return g->q.data || g->k.data || g->v.data || g->bias.data || g->betas || g->policies ||
           g->sinks || g->alibi_slopes;
}

/* Floats of the bias's gradient to a position, and the strides of one for `keys` positions. */
static size_t bias_rows(const whet_gradients *g) {
    if (!g->bias.data)
        return 0;
    return (g->bias.stride[0] ? g->attention.batch : 1) *
           (g->bias.stride[1] ? g->attention.heads : 1);
}

static whet_key_bias_out block_bias(const backward_plan *p, size_t keys) {
    const whet_gradients *g = &p->g;
    ptrdiff_t row = (ptrdiff_t)(keys * sizeof(float));
    whet_key_bias_out bias = {.data = g->bias.data ? p->block_bias : NULL};
    if (g->bias.data && g->bias.stride[1])
        bias.stride[1] = row;
    if (g->bias.data && g->bias.stride[0])
        bias.stride[0] = row * (ptrdiff_t)(g->bias.stride[1] ? g->attention.heads : 1);
    return bias;
}

/* Floats of a position's gradients of keys, then values. */
static size_t key_floats(const backward_plan *p) {
    return p->g.k.data ? p->s.a.batch * p->s.a.kv_heads * p->s.a.head_dim : 0;
}

static size_t value_floats(const backward_plan *p) {
    return p->g.v.data ? p->s.a.batch * p->s.a.kv_heads * p->s.a.value_dim : 0;
}

/* ---- blocks ---- */

/* A block as a part of a backward pass. */
static whet_gradients describe_block(const backward_plan *p, const query_piece *piece, span keys,
                                     bool has_gradients, bool is_planning) {
    const whet_gradients *all = &p->g;
    whet_gradients b = {.size = sizeof b, .out = all->out, .betas = p->block_betas};
    b.attention = whet_mpi_describe_block(&p->s, piece, keys, true, is_planning);
    b.attention.stats = p->block_stats;
    b.attention.positions = p->block_positions;
    b.attention.betas = all->attention.betas ? p->block_given_betas : NULL;
    if (b.out.data)
        b.out.data = (const char *)b.out.data + (ptrdiff_t)piece->local * b.out.stride[2];
    b.logsumexp = all->logsumexp ? p->block_given[0] : NULL;
    b.entropy = all->entropy ? p->block_given[1] : NULL;
    b.entropy_after = all->entropy_after ? p->block_given[2] : NULL;
    if (!has_gradients)
        return b;
    b.q = (whet_tensor_out){.data = all->q.data ? p->block_q : NULL};
    b.k = (whet_tensor_out){.data = all->k.data ? p->block_k : NULL};
    b.v = (whet_tensor_out){.data = all->v.data ? p->block_v : NULL};
    b.bias = block_bias(p, span_size(keys));
    b.policies = all->policies ? p->block_policies : NULL;
    b.sinks = all->sinks ? p->block_sinks : NULL;
    b.alibi_slopes = all->alibi_slopes ? p->block_slopes : NULL;
    return b;
}

/* What is known of a piece's rows, in the order of a block's. */
static void gather_rows(backward_plan *p, const query_piece *piece) {
    const whet_attention *a = &p->g.attention;
    const float *given[] = {p->g.logsumexp, p->g.entropy, p->g.entropy_after};
    size_t queries = span_size(piece->positions);
    for (size_t i = 0; i < piece_rows(&p->s, piece); i++) {
        piece_row r = whet_mpi_row_of(&p->s, piece, i);
        p->block_stats[i] =
            *(const whet_stats *)(const void *)((const char *)a->stats + r.index * a->stats_stride);
        if (a->betas)
            p->block_given_betas[i] = a->betas[r.index];
        for (size_t j = 0; j < sizeof given / sizeof given[0]; j++)
            if (given[j])
                p->block_given[j][i] = given[j][r.index];
        if (p->pass == PASS_GRADIENTS)
            p->block_rows[i] = p->rows[r.index];
        else
            whet_mpi_clear_numbers(p, p->block_numbers + i * p->numbers);
        p->block_positions[r.batch * queries + r.query - piece->local] = r.token;
    }
}

static backward_part part_of(backward_plan *p, row_visit *visit) {
    return (backward_part){.run = p->pass == PASS_GRADIENTS ? RUN_GRADIENTS
                                  : p->pass == PASS_SUMS    ? RUN_SUMS
                                                            : RUN_LOGITS,
                           .is_first = visit->key_piece == 0,
                           .rows = p->block_rows,
                           .visit = whet_mpi_visit_row,
                           .context = visit};
}

static void run_block(backward_plan *p, const query_piece *piece, size_t key_piece) {
    span keys = whet_mpi_positions_of(&p->s.keys, (span){key_piece, key_piece + 1});
    row_visit visit = {p, piece, key_piece - piece->keys.begin};
    backward_part part = part_of(p, &visit);
    whet_plan plan = {.size = sizeof plan};
    gather_rows(p, piece);
    whet_gradients b = describe_block(p, piece, keys, p->pass == PASS_GRADIENTS, false);
    whet_status status = whet_plan_backward_part(&b, &part, &plan);
    if (status == WHET_OK)
        whet_mpi_run_block(&p->s, &plan);
    p->s.failure = status > p->s.failure ? status : p->s.failure;
}

typedef struct piece_merge {
    const backward_plan *p;
    const query_piece *piece;
} piece_merge;

/* ---- the rounds before the last: numbers of rows ---- */

static bool is_ordered(const piece_row *row) {
    return whet_map_of(row->policy)->traits & MAP_IS_ORDERED;
}

static double *row_numbers(const backward_plan *p, const query_piece *piece, size_t slot,
                           size_t row) {
    return (double *)slot_at(piece, slot) + row * p->numbers;
}

/* Sums of a row that is not computed by itself. */
static void merge_sums(const backward_plan *p, const piece_row *r, double *into,
                       const double *from) {
    const whet_attention *a = &p->g.attention;
    const whet_stats *stats =
        (const whet_stats *)(const void *)((const char *)a->stats + r->index * a->stats_stride);
    whet_backward_add_sums((backward_sums *)(void *)into, (const backward_sums *)(const void *)from,
                           (double)whet_exp2_scale(stats->beta),
                           (double)whet_exp2_scale(whet_beta0(r->policy, stats)));
}

static void merge_rows(void *context, size_t left, size_t right) {
    const piece_merge *m = context;
    const backward_plan *p = m->p;
    for (size_t i = 0; i < piece_rows(&p->s, m->piece); i++) {
        piece_row r = whet_mpi_row_of(&p->s, m->piece, i);
        double *into = row_numbers(p, m->piece, left, i);
        const double *from = row_numbers(p, m->piece, right, i);
        if (whet_mpi_is_by_row(p, &r))
            whet_mpi_merge_numbers(p, &r, into, from);
        else if (p->pass == PASS_SUMS)
            merge_sums(p, &r, into, from);
    }
}

static void number_block(spread *s, query_piece *piece, size_t key_piece, void *context) {
    backward_plan *p = context;
    size_t slot = whet_mpi_bag_slot(&piece->waiting);
    run_block(p, piece, key_piece);
    for (size_t i = 0; i < piece_rows(s, piece); i++) {
        piece_row r = whet_mpi_row_of(s, piece, i);
        double *to = row_numbers(p, piece, slot, i);
        if (whet_mpi_is_by_row(p, &r))
            memcpy(to, p->block_numbers + i * p->numbers, p->numbers * sizeof *to);
        else
            memcpy(to, &p->block_rows[i], sizeof p->block_rows[i]);
        if (p->pass == PASS_SUMS && is_ordered(&r))
            whet_mpi_note_ends(p, piece, i, key_piece - piece->keys.begin, to);
    }
    whet_mpi_bag_add(&piece->waiting, (tree_node){0, key_piece}, slot, merge_rows,
                     &(piece_merge){p, piece});
}

/* Calls a function for each row that is computed by itself; true if it was for any. */
typedef bool (*row_step)(backward_plan *p, const piece_row *row, const double *numbers);

static bool each_row(backward_plan *p, row_step step) {
    bool any = false;
    for (size_t i = 0; i < p->s.piece_count; i++) {
        const query_piece *piece = &p->s.pieces[i];
        const double *numbers = piece_result(piece);
        for (size_t row = 0; numbers && row < piece_rows(&p->s, piece); row++) {
            piece_row r = whet_mpi_row_of(&p->s, piece, row);
            if (whet_mpi_is_by_row(p, &r))
                any = step(p, &r, numbers + row * p->numbers) || any;
        }
    }
    return any;
}

static void keep_sums(backward_plan *p) {
    for (size_t i = 0; i < p->s.piece_count; i++) {
        const query_piece *piece = &p->s.pieces[i];
        const double *numbers = piece_result(piece);
        for (size_t row = 0; numbers && row < piece_rows(&p->s, piece); row++) {
            piece_row r = whet_mpi_row_of(&p->s, piece, row);
            if (is_ordered(&r))
                whet_mpi_pass_ends(p, piece, row);
            if (whet_mpi_is_by_row(p, &r))
                whet_mpi_keep_sums(p, &r, numbers + row * p->numbers);
            else
                memcpy(&p->rows[r.index], numbers + row * p->numbers, sizeof p->rows[r.index]);
        }
    }
}

static void run_pass(backward_plan *p, backward_pass pass) {
    p->pass = pass;
    whet_mpi_run_round(&p->s, pass == PASS_SUMS, number_block, p);
}

static void find_sums(backward_plan *p) {
    if (p->has_rows) {
        run_pass(p, PASS_PEAKS);
        for (bool left = each_row(p, whet_mpi_start_search); whet_mpi_any(&p->s, left);
             left = each_row(p, whet_mpi_step_search))
            run_pass(p, PASS_SEARCH);
    }
    run_pass(p, PASS_SUMS);
    keep_sums(p);
}

/* ---- the last round: gradients ---- */

/* What a block contributes to its piece of queries: parameters, then queries. */
static double *slot_parameters(const query_piece *piece, size_t slot) {
    return slot_at(piece, slot);
}

static float *slot_queries(const backward_plan *p, const query_piece *piece, size_t slot) {
    return (float *)(void *)(slot_parameters(piece, slot) + p->parameters);
}

static size_t query_floats(const backward_plan *p, const query_piece *piece) {
    return p->g.q.data ? piece_rows(&p->s, piece) * p->s.a.head_dim : 0;
}

static void merge_gradients(void *context, size_t left, size_t right) {
    const piece_merge *m = context;
    double *parameters = slot_parameters(m->piece, left);
    const double *more = slot_parameters(m->piece, right);
    float *queries = slot_queries(m->p, m->piece, left);
    const float *more_queries = slot_queries(m->p, m->piece, right);
    for (size_t i = 0; i < m->p->parameters; i++)
        parameters[i] += more[i];
    for (size_t i = 0; i < query_floats(m->p, m->piece); i++)
        queries[i] += more_queries[i];
}

static void take_parameters(const backward_plan *p, double *to) {
    const whet_attention *a = &p->g.attention;
    if (p->g.policies)
        memcpy(to, p->block_policies, a->policy_count * sizeof *p->block_policies);
    to += p->g.policies ? a->policy_count * POLICY_DOUBLES : 0;
    for (size_t head = 0; p->g.sinks && head < a->heads; head++)
        *to++ = (double)p->block_sinks[head];
    for (size_t head = 0; p->g.alibi_slopes && head < a->heads; head++)
        *to++ = (double)p->block_slopes[head];
}

/* The gradients of a block's keys, values and biases, one after the other. */
static void take_keys(const backward_plan *p, size_t keys, float *to) {
    const struct {
        const float *from;
        size_t count;
    } all[] = {{p->block_k, keys * key_floats(p)},
               {p->block_v, keys * value_floats(p)},
               {p->block_bias, keys * bias_rows(&p->g)}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].count > 0)
            memcpy(to, all[i].from, all[i].count * sizeof *to);
        to += all[i].count;
    }
}

static void gradient_block(backward_plan *p, query_piece *piece, size_t key_piece) {
    bool is_first = key_piece == piece->keys.begin;
    span keys = whet_mpi_positions_of(&p->s.keys, (span){key_piece, key_piece + 1});
    size_t rows = piece_rows(&p->s, piece), slot = whet_mpi_bag_slot(&piece->waiting), key_slot;
    run_block(p, piece, key_piece);
    for (size_t i = 0; is_first && i < rows; i++)
        p->betas[whet_mpi_row_of(&p->s, piece, i).index] = p->block_betas[i];
    take_parameters(p, slot_parameters(piece, slot));
    if (p->g.q.data)
        memcpy(slot_queries(p, piece, slot), p->block_q, query_floats(p, piece) * sizeof(float));
    whet_mpi_bag_add(&piece->waiting, (tree_node){0, key_piece}, slot, merge_gradients,
                     &(piece_merge){p, piece});
    take_keys(p, span_size(keys), whet_mpi_returns_slot(&p->r, &key_slot));
    whet_mpi_returns_add(&p->r, piece->positions.begin / p->s.queries.piece, key_slot);
}

static void gradient_share(backward_plan *p, whet_mpi_share share) {
    for (int part = 0; part < 2; part++) {
        span own = whet_mpi_pieces_in(&p->s, &share, part);
        for (size_t key_piece = own.begin; key_piece < own.end; key_piece++) {
            whet_mpi_returns_open(&p->r, key_piece);
            for (size_t i = 0; i < p->s.piece_count; i++)
                if (sees_piece(&p->s.pieces[i], key_piece))
                    gradient_block(p, &p->s.pieces[i], key_piece);
            whet_mpi_returns_close(&p->r);
        }
    }
}

static void find_gradients(backward_plan *p) {
    p->pass = PASS_GRADIENTS;
    whet_mpi_empty_bags(&p->s);
    whet_mpi_returns_start(&p->r);
    whet_mpi_ring_start(&p->s.r, p->s.r.tensors);
    do {
        gradient_share(p, whet_mpi_ring_share(&p->s.r));
        whet_mpi_returns_pass(&p->r);
    } while (whet_mpi_ring_next(&p->s.r));
    whet_mpi_returns_finish(&p->r);
}

/* ---- results ---- */

static kv_slice slice_of(const backward_plan *p, size_t batch) {
    return (kv_slice){.attention = &p->g.attention,
                      .kernels = whet_kernels_get(),
                      .batch = batch,
                      .list = {.step = 1}};
}

/* Gradients of a piece of queries; returns the first bad row. */
static uint64_t store_queries(const backward_plan *p, const query_piece *piece) {
    static const float zeros[HEAD_DIM_MAX];
    size_t dim = p->s.a.head_dim;
    uint64_t first_bad = UINT64_MAX;
    const float *queries =
        piece->waiting.count > 0 ? slot_queries(p, piece, piece->waiting.slot[0]) : NULL;
    for (size_t i = 0; i < piece_rows(&p->s, piece); i++) {
        piece_row r = whet_mpi_row_of(&p->s, piece, i);
        kv_slice slice = slice_of(p, r.batch);
        if (p->g.q.data)
            whet_store_row(&slice, &p->g.q, r.head, r.query, queries ? queries + i * dim : zeros,
                           dim);
        if (p->g.betas)
            p->g.betas[r.index] = p->betas[r.index];
        uint64_t index = whet_mpi_row_everywhere(&p->s, piece, &r);
        if (isnan(p->betas[r.index]) && index < first_bad)
            first_bad = index;
    }
    return first_bad;
}

/* Rows of a tensor for the keys of a piece; from NULL: zeros. */
static void store_rows(const backward_plan *p, const whet_tensor_out *to, size_t dim, span keys,
                       const float *from) {
    static const float zeros[HEAD_DIM_MAX];
    for (size_t i = 0; i < p->s.a.batch * p->s.a.kv_heads; i++) {
        kv_slice slice = slice_of(p, i / p->s.a.kv_heads);
        for (size_t at = keys.begin; at < keys.end; at++)
            whet_store_row(&slice, to, i % p->s.a.kv_heads, whet_mpi_position_in(&p->share, at),
                           from ? from + (i * span_size(keys) + at - keys.begin) * dim : zeros,
                           dim);
    }
}

static void store_bias(const backward_plan *p, span keys, const float *from) {
    const whet_key_bias_out *to = &p->g.bias;
    size_t heads = to->stride[1] ? p->s.a.heads : 1;
    for (size_t i = 0; i < bias_rows(&p->g); i++)
        for (size_t at = keys.begin; at < keys.end; at++) {
            size_t local = whet_mpi_position_in(&p->share, at);
            *(float *)(void *)((char *)to->data + (ptrdiff_t)(i / heads) * to->stride[0] +
                               (ptrdiff_t)(i % heads) * to->stride[1] +
                               (ptrdiff_t)local * to->stride[2]) =
                from ? from[i * span_size(keys) + at - keys.begin] : 0;
        }
}

static void store_keys(const backward_plan *p) {
    for (size_t i = 0; i < p->r.own_count; i++) {
        size_t piece = p->r.own[i].index;
        span keys = whet_mpi_positions_of(&p->s.keys, (span){piece, piece + 1});
        const float *from = whet_mpi_returns_of(&p->r, i);
        if (p->g.k.data)
            store_rows(p, &p->g.k, p->s.a.head_dim, keys, from);
        from += from ? span_size(keys) * key_floats(p) : 0;
        if (p->g.v.data)
            store_rows(p, &p->g.v, p->s.a.value_dim, keys, from);
        from += from ? span_size(keys) * value_floats(p) : 0;
        store_bias(p, keys, from);
    }
}

static const double *piece_parameters(const void *context, size_t piece) {
    const backward_plan *p = context;
    return piece_result(&p->s.pieces[piece]);
}

static void store_parameters(const backward_plan *p, const double *from) {
    const whet_attention *a = &p->g.attention;
    if (p->g.policies)
        memcpy(p->g.policies, from, a->policy_count * sizeof *p->g.policies);
    from += p->g.policies ? a->policy_count * POLICY_DOUBLES : 0;
    for (size_t head = 0; p->g.sinks && head < a->heads; head++)
        p->g.sinks[head] = (float)*from++;
    for (size_t head = 0; p->g.alibi_slopes && head < a->heads; head++)
        p->g.alibi_slopes[head] = (float)*from++;
}

static whet_status execute(whet_mpi_plan *base, uint64_t *first_bad_row) {
    backward_plan *p = (backward_plan *)base;
    uint64_t first_bad = UINT64_MAX;
    if (!wants_anything(&p->g))
        return WHET_OK;
    p->s.failure = WHET_OK;
    memset(p->betas, 0, spread_rows(&p->s) * sizeof *p->betas);
    find_sums(p);
    find_gradients(p);
    for (size_t i = 0; i < p->s.piece_count; i++) {
        uint64_t bad = store_queries(p, &p->s.pieces[i]);
        first_bad = bad < first_bad ? bad : first_bad;
    }
    store_keys(p);
    if (p->parameters > 0)
        store_parameters(p, whet_mpi_add_up(&p->totals, piece_parameters, p));
    return whet_mpi_agree_on_rows(&p->s, first_bad, first_bad_row);
}

/* ---- planning ---- */

static void free_parts(whet_mpi_plan *base) {
    backward_plan *p = (backward_plan *)base;
    whet_mpi_free_spread(&p->s);
    whet_mpi_returns_free(&p->r);
    whet_mpi_totals_free(&p->totals);
    free(p->rows);
    free(p->betas);
    free(p->maps);
    free(p->states);
    free(p->search);
    for (size_t i = 0; p->ends && i < p->s.piece_count; i++)
        free(p->ends[i]);
    free(p->ends);
    free(p->block_rows);
    free(p->block_numbers);
    for (int i = 0; i < 3; i++)
        free(p->block_given[i]);
    free(p->block_stats);
    free(p->block_positions);
    free(p->block_given_betas);
    free(p->block_q);
    free(p->block_k);
    free(p->block_v);
    free(p->block_bias);
    free(p->block_betas);
    free(p->block_sinks);
    free(p->block_slopes);
    free(p->block_policies);
}

static whet_status measure_block(spread *s, const query_piece *piece, span keys, size_t *bytes) {
    backward_plan *p = (backward_plan *)(void *)s;
    for (int is_last = 0; is_last < 2; is_last++) {
        row_visit visit = {p, piece, 0};
        whet_plan plan = {.size = sizeof plan};
        p->pass = is_last ? PASS_GRADIENTS : PASS_SUMS;
        backward_part part = part_of(p, &visit);
        whet_gradients b = describe_block(p, piece, keys, is_last, true);
        whet_status status = whet_plan_backward_part(&b, &part, &plan);
        if (status != WHET_OK)
            return status;
        size_t own = whet_attention_memory(&plan, &s->base.executor);
        *bytes = own > *bytes ? own : *bytes;
    }
    return WHET_OK;
}

/* Zeros, or NULL if there is no memory; also counts elements that are not wanted. */
static void *zeros(size_t count, size_t each) { return calloc(count + 1, each); }

static bool allocate_block_arrays(backward_plan *p) {
    const whet_attention *a = &p->s.a;
    size_t rows = a->batch * a->heads * p->s.queries.piece, keys = p->s.keys.piece;
    p->block_rows = zeros(rows, sizeof *p->block_rows);
    p->block_stats = zeros(rows, sizeof *p->block_stats);
    p->block_numbers = zeros(rows, p->numbers * sizeof *p->block_numbers);
    const float *given[] = {p->g.logsumexp, p->g.entropy, p->g.entropy_after};
    bool fits = true;
    for (int i = 0; i < 3; i++)
        fits = (p->block_given[i] = zeros(given[i] ? rows : 0, sizeof(float))) && fits;
    p->block_positions = zeros(a->batch * p->s.queries.piece, sizeof *p->block_positions);
    p->block_given_betas = zeros(rows, sizeof *p->block_given_betas);
    p->block_q = zeros(p->g.q.data ? rows : 0, a->head_dim * sizeof *p->block_q);
    p->block_k = zeros(keys * key_floats(p), sizeof *p->block_k);
    p->block_v = zeros(keys * value_floats(p), sizeof *p->block_v);
    p->block_bias = zeros(keys * bias_rows(&p->g), sizeof *p->block_bias);
    p->block_betas = zeros(rows, sizeof *p->block_betas);
    p->block_sinks = zeros(a->heads, sizeof *p->block_sinks);
    p->block_slopes = zeros(a->heads, sizeof *p->block_slopes);
    p->block_policies = zeros(a->policy_count, sizeof *p->block_policies);
    return fits && p->block_numbers && p->block_rows && p->block_stats && p->block_positions &&
           p->block_given_betas && p->block_q && p->block_k && p->block_v && p->block_bias &&
           p->block_betas && p->block_sinks && p->block_slopes && p->block_policies;
}

/* Doubles that a row takes before the last pass. */
static size_t numbers_of(const backward_plan *p) {
    size_t most = sizeof(backward_sums) / sizeof(double);
    for (size_t i = 0; i < p->s.a.policy_count; i++) {
        piece_row row = {.policy = &p->s.a.policies[i]};
        size_t sums = sizeof(map_part_sums) / sizeof(double);
        size_t own = whet_mpi_map_numbers(row.policy);
        if (!whet_mpi_is_by_row(p, &row))
            continue;
        own = sums > own ? sums : own;
        most = own > most ? own : most;
    }
    return most;
}

static bool allocate_ends(backward_plan *p) {
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    p->ends = zeros(p->s.piece_count, sizeof *p->ends);
    for (size_t i = 0; p->ends && i < p->s.piece_count; i++) {
        const query_piece *piece = &p->s.pieces[i];
        size_t count;
        if (!size_multiply(piece_rows(&p->s, piece), span_size(piece->keys), &count) ||
            !(p->ends[i] = zeros(count, sizeof *p->ends[i])))
            return false;
    }
    return p->ends != NULL;
}

static bool allocate_rows(backward_plan *p) {
    size_t rows = spread_rows(&p->s);
    bool has_ordered = false;
    for (size_t i = 0; i < p->s.a.policy_count; i++) {
        const whet_policy *policy = &p->s.a.policies[i];
        p->has_rows = p->has_rows || whet_mpi_is_by_row(p, &(piece_row){.policy = policy});
        has_ordered = has_ordered || is_ordered(&(piece_row){.policy = policy});
    }
    if (has_ordered && !allocate_ends(p))
        return false;
    p->numbers = numbers_of(p);
    p->rows = zeros(rows, sizeof *p->rows);
    p->betas = zeros(rows, sizeof *p->betas);
    p->maps = zeros(p->has_rows ? rows : 0, sizeof *p->maps);
    p->states = zeros(p->has_rows ? rows : 0, sizeof *p->states);
    p->search = zeros(p->has_rows ? rows : 0, sizeof *p->search);
    return p->rows && p->betas && p->maps && p->states && p->search;
}

/* A slot holds either a block's numbers or its gradients. */
static bool size_slots(backward_plan *p) {
    for (size_t i = 0; i < p->s.piece_count; i++) {
        query_piece *piece = &p->s.pieces[i];
        size_t sums = piece_rows(&p->s, piece) * p->numbers * sizeof(double);
        size_t gradients = p->parameters * sizeof(double) + query_floats(p, piece) * sizeof(float);
        if (!size_align(sums > gradients ? sums : gradients, WHET_ALIGNMENT, &piece->slot_bytes))
            return false;
    }
    return true;
}

static bool allocate(backward_plan *p) {
    const whet_gradients *g = &p->g;
    p->parameters = (g->policies ? p->s.a.policy_count * POLICY_DOUBLES : 0) +
                    (g->sinks ? p->s.a.heads : 0) + (g->alibi_slopes ? p->s.a.heads : 0);
    return allocate_rows(p) && allocate_block_arrays(p) && size_slots(p) &&
           whet_mpi_allocate_slots(&p->s) &&
           whet_mpi_returns_init(&p->r, &p->s,
                                 key_floats(p) + value_floats(p) + bias_rows(&p->g)) &&
           whet_mpi_totals_init(&p->totals, &p->s, p->parameters);
}

/* libwhet checks this rank's part, and fills in strides. */
static whet_status check_part(backward_plan *p, whet_mpi_layout layout) {
    whet_gradients part = p->g;
    whet_plan plan = {.size = sizeof plan};
    whet_status status = whet_mpi_part_sizes(&p->s.base.c, layout, &part.attention);
    if (status != WHET_OK)
        return status;
    status = whet_attention_backward_plan(&part, &plan);
    if (status != WHET_OK)
        return whet_mpi_pass_on(status);
    p->g = plan.description.gradients;
    if (p->s.a.keys == 0 && p->g.logsumexp)
        return whet_mpi_refuse(WHET_ERROR_UNSUPPORTED,
                               "keys is 0: logsumexp is that of the sinks alone");
    return WHET_OK;
}

static whet_status plan_rank(backward_plan *p, whet_mpi_layout layout) {
    whet_status status = check_part(p, layout);
    if (status == WHET_OK)
        status = whet_mpi_plan_spread(&p->s, layout);
    if (status != WHET_OK)
        return status;
    p->g.attention = p->s.a;
    whet_mpi_share_of(p->s.keys.positions, layout, p->s.base.c.rank, p->s.base.c.size, &p->share);
    if (!wants_anything(&p->g))
        return WHET_OK;
    if (!allocate(p))
        return whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for %zu queries", p->s.a.queries);
    return whet_mpi_allocate_block(&p->s, measure_block);
}

/* What is asked for must be the same everywhere, since all ranks compute it together. */
static whet_status agree_on_gradients(communicator *c, const whet_gradients *g) {
    const shared_number numbers[] = {
        {"the presence of out", g->out.data != NULL, 0},
        {"the presence of q's gradient", g->q.data != NULL, 0},
        {"the presence of k's gradient", g->k.data != NULL, 0},
        {"the presence of v's gradient", g->v.data != NULL, 0},
        {"the presence of the bias's gradient", g->bias.data != NULL, 0},
        {"the presence of the policies' gradients", g->policies != NULL, 0},
        {"the presence of the sinks' gradients", g->sinks != NULL, 0},
        {"the presence of the slopes' gradients", g->alibi_slopes != NULL, 0},
        {"the presence of the betas' gradients", g->betas != NULL, 0},
        {"the presence of logsumexp", g->logsumexp != NULL, 0},
        {"the presence of entropy", g->entropy != NULL, 0},
        {"the presence of entropy_after", g->entropy_after != NULL, 0},
    };
    return whet_mpi_agree_on(c, numbers, sizeof numbers / sizeof numbers[0]);
}

/* Whether batches and heads share the bias's gradient is for ranks to say that have keys: the
 * strides of others may be anything. */
static whet_status agree_on_bias(backward_plan *p, whet_mpi_layout layout) {
    communicator *c = &p->s.base.c;
    whet_mpi_share keys = {0};
    int mine[2], any[2];
    whet_status status = WHET_OK;
    whet_mpi_share_of(p->s.a.keys, layout, c->rank, c->size, &keys);
    for (int i = 0; i < 2; i++)
        mine[i] = keys.positions > 0 && p->g.bias.stride[i] != 0;
    MPI_Allreduce(mine, any, 2, MPI_INT, MPI_MAX, c->comm);
    for (int i = 0; p->g.bias.data && i < 2; i++) {
        if (keys.positions == 0)
            p->g.bias.stride[i] = any[i] ? (ptrdiff_t)sizeof(float) : 0;
        else if (mine[i] != any[i])
            status = whet_mpi_refuse(WHET_ERROR_ARGUMENT,
                                     "bias.stride[%d] is 0, but not so on another rank", i);
    }
    return whet_mpi_agree(c, status);
}

static whet_status check_size(const whet_gradients *g) {
    if (g->size == sizeof *g)
        return WHET_OK;
    return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "size is %zu, but sizeof(whet_gradients) is %zu",
                           g->size, sizeof *g);
}

whet_status whet_mpi_backward_plan(MPI_Comm comm, const whet_gradients *gradients,
                                   whet_mpi_layout layout, const whet_executor *executor,
                                   whet_mpi_plan **plan) {
    whet_status status = whet_mpi_begin_plan(comm, gradients, sizeof(backward_plan), plan);
    if (status != WHET_OK)
        return status;
    backward_plan *p = (backward_plan *)*plan;
    communicator *c = &p->s.base.c;
    p->g = *gradients;
    p->s.a = gradients->attention;
    p->s.base.execute = execute;
    p->s.base.free_parts = free_parts;
    status = whet_mpi_agree(c, check_size(gradients));
    if (status == WHET_OK)
        status = whet_mpi_begin_spread(&p->s, executor, layout, "backward");
    if (status == WHET_OK)
        status = agree_on_gradients(c, gradients);
    if (status == WHET_OK)
        status = agree_on_bias(p, layout);
    p->g.attention = p->s.a;
    if (status == WHET_OK)
        status = whet_mpi_agree(c, plan_rank(p, layout));
    return whet_mpi_end_plan(plan, status);
}
