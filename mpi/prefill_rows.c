/* Prefill row by row: see prefill_rows.h. */
#include "prefill_rows.h"
#include "attention/mask.h"
#include "base/checked.h"
#include <stdlib.h>
#include <string.h>

#define PART_ROWS 32 /* to a key head */
#define PART_KEYS 1024

/* ---- rows ---- */

static size_t heads_per_kv(const row_plan *p) { return p->s.a.heads / p->s.a.kv_heads; }

/* Where a row is in the arrays of this rank, in libwhet's order. */
static size_t state_index(const row_plan *p, size_t batch, size_t head, size_t query) {
    size_t per_kv = heads_per_kv(p), slice = batch * p->s.a.kv_heads + head / per_kv;
    return (slice * p->s.a.queries + query) * per_kv + head % per_kv;
}

/* Numbers of a row of a piece, which is counted as [batch][head][query]. */
static double *row_numbers(const row_plan *p, const query_piece *piece, size_t slot, size_t row) {
    return (double *)slot_at(piece, slot) + row * p->numbers;
}

/* ---- parts of blocks ---- */

/* A few queries and keys, planned as a chunk of decode. */
typedef struct block_part {
    row_plan *p;
    const query_piece *piece; /* the whole one */
    query_piece queries;
    span keys;
    size_t slot; /* where the numbers go */
    whet_plan plan;
    char *scratch;
    size_t scratch_stride;
    unsigned phase;
} block_part;

/* A row of a part. */
typedef struct part_row {
    decode_work w;
    size_t r; /* in its slice */
    query_row row;
    split_row split;
    row_view logits;
    double *own, *numbers; /* of this part, and of the block so far */
} part_row;

static whet_attention describe_part(const row_plan *p, const query_piece *queries, span keys,
                                    bool is_planning) {
    whet_attention b = whet_mpi_describe_block(&p->s, queries, keys, true, is_planning);
    b.positions = p->block_positions;
    b.betas = p->s.a.betas ? p->block_betas : NULL;
    b.stats = p->block_stats; /* so that all of them are found */
    b.out = (whet_tensor_out){.data = p->block_out};
    return b;
}

static whet_status plan_part(const row_plan *p, const query_piece *queries, span keys,
                             bool is_planning, whet_plan *plan) {
    whet_attention b = describe_part(p, queries, keys, is_planning);
    key_part part = {.all_keys = span_size(keys), .chunk_keys = PART_KEYS};
    *plan = (whet_plan){.size = sizeof *plan};
    return whet_plan_part(&b, &part, plan);
}

/* The workspace, then the scratch of each worker. */
static bool lay_out_part(const row_plan *p, const whet_plan *plan, size_t *workspace,
                         size_t *scratch_stride, size_t *total) {
    size_t scratch;
    return size_align(plan->workspace_bytes, WHET_ALIGNMENT, workspace) &&
           size_align(plan->scratch_bytes, WHET_ALIGNMENT, scratch_stride) &&
           size_multiply(*scratch_stride, p->s.base.executor.workers, &scratch) &&
           size_add(*workspace, scratch, total);
}

static void gather_rows(row_plan *p, const query_piece *queries) {
    const whet_attention *a = &p->s.a;
    size_t count = span_size(queries->positions);
    for (size_t i = 0; i < a->batch * count; i++)
        p->block_positions[i] = p->positions[i / count * a->queries + queries->local + i % count];
    for (size_t i = 0; a->betas && i < a->batch * a->heads * count; i++)
        p->block_betas[i] = a->betas[i / count * a->queries + queries->local + i % count];
}

static bool start_part(block_part *x) {
    row_plan *p = x->p;
    size_t workspace = 0, total = 0;
    gather_rows(p, &x->queries);
    whet_status status = plan_part(p, &x->queries, x->keys, false, &x->plan);
    if (status != WHET_OK) {
        p->s.failure = status > p->s.failure ? status : p->s.failure;
        return false;
    }
    lay_out_part(p, &x->plan, &workspace, &x->scratch_stride, &total);
    x->plan.workspace = p->s.memory;
    x->scratch = (char *)p->s.memory + workspace;
    return true;
}

/* Row i of a part, counted as [slice][row]. */
static void take_row(part_row *r, const block_part *x, size_t i) {
    const row_plan *p = x->p;
    const whet_attention *a = &x->plan.description.attention;
    size_t per_kv = heads_per_kv(p), row_count = a->queries * per_kv;
    r->w = whet_decode_start(&x->plan, i / row_count, 0, x->scratch);
    r->r = i % row_count;
    r->row = whet_row_of(&r->w.slice, r->r);
    size_t head = r->row.head, query = x->queries.local + r->row.query;
    size_t index = state_index(p, r->w.slice.batch, head, query);
    size_t queries = span_size(x->piece->positions);
    r->split = (split_row){
        .row = &r->row,
        .kernels = r->w.shape.kernels,
        .given_beta = p->s.a.betas ? p->block_betas + whet_row_index(&r->w.slice, &r->row) : NULL,
        .state = p->states + index,
        .search = p->search + index};
    float *logits = r->w.logits + r->r * r->w.logits_stride + r->row.low;
    r->logits = (row_view){.kernels = r->w.shape.kernels,
                           .n = r->row.high - r->row.low,
                           .in = logits,
                           .out = logits,
                           .in_type = WHET_F32,
                           .out_type = WHET_F32};
    r->own = p->part_numbers + i * p->numbers;
    r->numbers =
        row_numbers(p, x->piece, x->slot,
                    (r->w.slice.batch * p->s.a.heads + head) * queries + query - x->piece->local);
}

static void run_task(void *argument, size_t task, size_t worker) {
    const block_part *x = argument;
    whet_attention_run_task(&x->plan, x->phase, task, x->scratch + worker * x->scratch_stride,
                            NULL);
}

static void run_phase(block_part *x, unsigned phase) {
    const whet_executor *executor = &x->p->s.base.executor;
    x->phase = phase;
    if (x->plan.tasks[phase] > 0)
        executor->parallel_for(executor->context, x->plan.tasks[phase], run_task, x);
}

static void for_rows(block_part *x, whet_task_function function) {
    const whet_executor *executor = &x->p->s.base.executor;
    const whet_attention *a = &x->plan.description.attention;
    executor->parallel_for(executor->context, a->batch * a->heads * a->queries, function, x);
}

/* ---- merging ---- */

static size_t sums_of(const row_plan *p, const split_row *r) {
    return p->pass == PASS_MAPS ? r->search->map.sums : BETA_SUMS;
}

/* What a row adds to keys before it. Weights are relative to the maximum of the whole row, and so
 * only need to be added, except that later keys of an ordered map come first. */
static void merge_values(const row_plan *p, row_values *into, const row_values *from) {
    double left = from->rest;
    into->z += from->z;
    into->s += from->s;
    into->first = into->first * left + from->first;
    into->entropy += from->entropy;
    into->largest = fmax(into->largest * left, from->largest);
    into->rest *= from->rest;
    for (size_t i = 0; i < p->s.a.value_dim; i++)
        into->out[i] = into->out[i] * left + from->out[i];
}

static void merge_row(const row_plan *p, const split_row *r, double *into, const double *from) {
    if (p->pass == PASS_STATS) {
        row_message_add((row_message *)(void *)into, (const row_message *)(const void *)from);
    } else if (p->pass == PASS_VALUES) {
        merge_values(p, (row_values *)(void *)into, (const row_values *)(const void *)from);
    } else if (p->pass == PASS_MAPS) {
        if (whet_mpi_searches_map(r))
            whet_mpi_merge_map(into, from, sums_of(p, r));
    } else {
        for (size_t i = 0; i < BETA_SUMS; i++)
            into[i] += from[i];
    }
}

/* A row of a piece, where only its state matters. */
typedef struct piece_split {
    piece_row at;
    query_row row;
    split_row split;
} piece_split;

static const split_row *take_piece_row(piece_split *x, const row_plan *p, const query_piece *piece,
                                       size_t row) {
    x->at = whet_mpi_row_of(&p->s, piece, row);
    size_t index = state_index(p, x->at.batch, x->at.head, x->at.query);
    x->row = (query_row){.head = x->at.head,
                         .query = x->at.query,
                         .token = x->at.token,
                         .policy = x->at.policy,
                         .temperature = whet_temperature_of(x->at.policy),
                         .map = whet_map_of(x->at.policy),
                         .sink = x->at.sink};
    x->split = (split_row){.row = &x->row,
                           .kernels = whet_kernels_get(),
                           .given_beta = p->s.a.betas ? p->s.a.betas + x->at.index : NULL,
                           .state = p->states + index,
                           .search = p->search + index};
    return &x->split;
}

typedef struct piece_merge {
    const row_plan *p;
    const query_piece *piece;
} piece_merge;

static void merge_pieces(void *context, size_t left, size_t right) {
    const piece_merge *m = context;
    piece_split x;
    for (size_t row = 0; row < piece_rows(&m->p->s, m->piece); row++)
        merge_row(m->p, take_piece_row(&x, m->p, m->piece, row),
                  row_numbers(m->p, m->piece, left, row), row_numbers(m->p, m->piece, right, row));
}

/* ---- what a part contributes to a row ---- */

static void find_stats(const block_part *x, const part_row *r, row_message *m) {
    whet_stats stats = r->w.pieces[r->r];
    if (stats.argmax != UINT64_MAX)
        stats.argmax += x->keys.begin;
    m->largest = -(double)INFINITY;
    m->visible = r->row.map->traits & MAP_BY_VISIBLE ? whet_count_visible(&r->w.slice, &r->row) : 0;
    row_message_set(m, &stats);
}

/* Coefficients in place of a row's logits, before the values are summed. */
static void find_weights(void *argument, size_t i, size_t worker) {
    const block_part *x = argument;
    part_row r;
    map_coefficients found = {0};
    double rest = 1;
    (void)worker;
    take_row(&r, x, i);
    r.w.states[r.r] = *r.split.state;
    if (whet_mpi_is_mapped(&r.split))
        found = whet_mpi_store_map(&r.split, &r.logits, &rest);
    else if (r.split.state->mapped)
        memset(r.logits.out, 0, r.logits.n * sizeof(float));
    *(row_values *)(void *)r.own =
        (row_values){.entropy = found.entropy, .largest = found.largest, .rest = rest};
}

static void find_values(const block_part *x, const part_row *r, row_values *to) {
    const chunk_sums *sums = &r->w.sums[r->r];
    const float *out = decode_output(&r->w, r->r, 0);
    to->z = sums->z;
    to->s = sums->s;
    to->first = x->keys.begin == 0 ? sums->first : 0;
    for (size_t c = 0; c < x->p->s.a.value_dim; c++)
        to->out[c] = (double)out[c];
}

static void add_row(void *argument, size_t i, size_t worker) {
    const block_part *x = argument;
    part_row r;
    (void)worker;
    take_row(&r, x, i);
    if (x->p->pass == PASS_STATS)
        find_stats(x, &r, (row_message *)(void *)r.own);
    else if (x->p->pass == PASS_VALUES)
        find_values(x, &r, (row_values *)(void *)r.own);
    else if (x->p->pass == PASS_BETAS && whet_mpi_searches_beta(&r.split))
        whet_mpi_sum_beta(&r.split, &r.logits, r.own);
    else if (x->p->pass == PASS_MAPS && whet_mpi_searches_map(&r.split))
        whet_mpi_sum_map(&r.split, &r.logits, r.own);
    else
        return;
    merge_row(x->p, &r.split, r.numbers, r.own);
}

static void run_part(block_part *x) {
    if (!start_part(x))
        return;
    run_phase(x, 0);
    if (x->p->pass == PASS_VALUES) {
        for_rows(x, find_weights);
        run_phase(x, 2);
    }
    for_rows(x, add_row);
}

/* ---- blocks and rounds ---- */

/* What no keys at all come to. */
static void clear_row(const row_plan *p, double *numbers) {
    memset(numbers, 0, p->numbers * sizeof *numbers);
    if (p->pass == PASS_STATS) {
        row_message *m = (row_message *)(void *)numbers;
        whet_stats none = whet_stats_empty();
        row_message_set(m, &none);
        m->largest = -(double)INFINITY;
    } else if (p->pass == PASS_MAPS) {
        numbers[0] = INFINITY; /* a minimum */
    } else if (p->pass == PASS_VALUES) {
        ((row_values *)(void *)numbers)->rest = 1;
    }
}

static size_t part_queries(const row_plan *p) {
    size_t queries = PART_ROWS / heads_per_kv(p);
    return queries > 0 ? queries : 1;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Some queries of a piece, from the one at a position on. */
static query_piece some_queries(const row_plan *p, const query_piece *piece, size_t from) {
    query_piece some = {.positions = {from, least(from + part_queries(p), piece->positions.end)},
                        .local = piece->local + from - piece->positions.begin};
    return some;
}

static void compute_block(spread *s, query_piece *piece, size_t key_piece, void *context) {
    row_plan *p = context;
    span all = whet_mpi_positions_of(&s->keys, (span){key_piece, key_piece + 1});
    block_part x = {.p = p, .piece = piece, .slot = whet_mpi_bag_slot(&piece->waiting)};
    for (size_t row = 0; row < piece_rows(s, piece); row++)
        clear_row(p, row_numbers(p, piece, x.slot, row));
    for (size_t from = piece->positions.begin; from < piece->positions.end;
         from += part_queries(p)) {
        x.queries = some_queries(p, piece, from);
        span seen = whet_mpi_visible_keys(s, x.queries.positions);
        for (size_t key = all.begin; key < all.end; key += PART_KEYS) {
            x.keys = (span){key, least(key + PART_KEYS, all.end)};
            if (x.keys.begin < seen.end && x.keys.end > seen.begin)
                run_part(&x);
        }
    }
    whet_mpi_bag_add(&piece->waiting, (tree_node){0, key_piece}, x.slot, merge_pieces,
                     &(piece_merge){p, piece});
}

static void run_pass(row_plan *p, prefill_pass pass) {
    p->pass = pass;
    whet_mpi_run_round(&p->s, pass == PASS_VALUES, compute_block, p);
}

/* Calls a function for every row of this rank and what its blocks came to, NULL for none; returns
 * for how many it was true. */
typedef bool (*row_function)(row_plan *p, const piece_split *row, const double *numbers);

static size_t each_row(row_plan *p, row_function function) {
    size_t count = 0;
    for (size_t i = 0; i < p->s.piece_count; i++) {
        const query_piece *piece = &p->s.pieces[i];
        const double *numbers = piece_result(piece);
        piece_split x;
        for (size_t row = 0; row < piece_rows(&p->s, piece); row++) {
            take_piece_row(&x, p, piece, row);
            count += function(p, &x, numbers ? numbers + row * p->numbers : NULL);
        }
    }
    return count;
}

static bool start_row(row_plan *p, const piece_split *x, const double *numbers) {
    row_message none;
    whet_stats empty = whet_stats_empty();
    (void)p;
    none.visible = 0;
    none.largest = -(double)INFINITY;
    row_message_set(&none, &empty);
    whet_mpi_start_row(&x->split, numbers ? (const row_message *)(const void *)numbers : &none);
    whet_mpi_start_beta(&x->split);
    return whet_mpi_searches_beta(&x->split);
}

static bool step_beta(row_plan *p, const piece_split *x, const double *numbers) {
    (void)p;
    if (numbers && whet_mpi_searches_beta(&x->split))
        whet_mpi_step_beta(&x->split, numbers);
    return whet_mpi_searches_beta(&x->split);
}

static bool start_map(row_plan *p, const piece_split *x, const double *numbers) {
    (void)p;
    (void)numbers;
    whet_mpi_start_map(&x->split);
    return whet_mpi_searches_map(&x->split);
}

static bool step_map(row_plan *p, const piece_split *x, const double *numbers) {
    (void)p;
    if (numbers && whet_mpi_searches_map(&x->split))
        whet_mpi_step_map(&x->split, numbers);
    return whet_mpi_searches_map(&x->split);
}

static bool weigh_extras(row_plan *p, const piece_split *x, const double *numbers) {
    (void)p;
    (void)numbers;
    if (!x->split.state->mapped)
        whet_decode_weigh_extras(x->split.state, &x->row);
    else if (whet_mpi_is_mapped(&x->split))
        whet_mpi_store_sink(&x->split);
    return false;
}

/* Writes a row's output and statistics; whether it is bad. */
static bool finish_row(row_plan *p, const piece_split *x, const double *numbers) {
    static const row_values nothing;
    const row_values *found = numbers ? (const row_values *)(const void *)numbers : &nothing;
    const split_row *r = &x->split;
    size_t per_kv = heads_per_kv(p), slice = x->at.batch * p->s.a.kv_heads + x->at.head / per_kv;
    decode_work w = {.slice = {.attention = &p->s.a,
                               .kernels = r->kernels,
                               .heads_per_kv = per_kv,
                               .batch = x->at.batch,
                               .kv_head = x->at.head / per_kv,
                               .list = {.step = 1}},
                     .shape = {.row_count = p->s.a.queries * per_kv},
                     .states = p->states + slice * p->s.a.queries * per_kv};
    chunk_sums sums = {
        .z = r->state->sink_z + found->z, .s = r->state->sink_s + found->s, .first = found->first};
    double out[HEAD_DIM_MAX] = {0};
    for (size_t i = 0; numbers && i < p->s.a.value_dim; i++)
        out[i] = found->out[i];
    if (r->state->mapped)
        whet_mpi_report_map(
            r, &(map_coefficients){.largest = found->largest, .entropy = found->entropy});
    return whet_decode_finish_row(&w, x->at.query * per_kv + x->at.head % per_kv, sums, out, NULL,
                                  WHET_OK) != WHET_OK;
}

static uint64_t finish_rows(row_plan *p) {
    uint64_t first_bad = UINT64_MAX;
    for (size_t i = 0; i < p->s.piece_count; i++) {
        const query_piece *piece = &p->s.pieces[i];
        const double *numbers = piece_result(piece);
        piece_split x;
        for (size_t row = 0; row < piece_rows(&p->s, piece); row++) {
            take_piece_row(&x, p, piece, row);
            uint64_t index = whet_mpi_row_everywhere(&p->s, piece, &x.at);
            if (finish_row(p, &x, numbers ? numbers + row * p->numbers : NULL) && index < first_bad)
                first_bad = index;
        }
    }
    return first_bad;
}

static whet_status execute(whet_mpi_plan *base, uint64_t *first_bad_row) {
    row_plan *p = (row_plan *)base;
    p->s.failure = WHET_OK;
    run_pass(p, PASS_STATS);
    for (size_t left = each_row(p, start_row); whet_mpi_any(&p->s, left > 0);
         left = each_row(p, step_beta))
        run_pass(p, PASS_BETAS);
    for (size_t left = each_row(p, start_map); whet_mpi_any(&p->s, left > 0);
         left = each_row(p, step_map))
        run_pass(p, PASS_MAPS);
    each_row(p, weigh_extras);
    run_pass(p, PASS_VALUES);
    return whet_mpi_agree_on_rows(&p->s, finish_rows(p), first_bad_row);
}

/* ---- planning ---- */

static void free_parts(whet_mpi_plan *base) {
    row_plan *p = (row_plan *)base;
    whet_mpi_free_spread(&p->s);
    free(p->states);
    free(p->search);
    free(p->positions);
    free(p->block_positions);
    free(p->block_betas);
    free(p->block_stats);
    free(p->block_out);
    free(p->part_numbers);
}

static whet_status measure_block(spread *s, const query_piece *piece, span keys, size_t *bytes) {
    const row_plan *p = (const row_plan *)(void *)s;
    size_t workspace, stride;
    query_piece queries = some_queries(p, piece, piece->positions.begin);
    whet_plan plan;
    span some = {keys.begin, least(keys.begin + PART_KEYS, keys.end)};
    whet_status status = plan_part(p, &queries, some, true, &plan);
    if (status == WHET_OK && !lay_out_part(p, &plan, &workspace, &stride, bytes))
        status = WHET_ERROR_MEMORY;
    return status;
}

static size_t numbers_of(const row_plan *p) {
    size_t most = sizeof(row_values) / sizeof(double) + p->s.a.value_dim;
    if (most < sizeof(row_message) / sizeof(double))
        most = sizeof(row_message) / sizeof(double);
    for (size_t i = 0; i < p->s.a.policy_count; i++) {
        size_t own = whet_mpi_map_numbers(&p->s.a.policies[i]);
        most = own > most ? own : most;
    }
    return most;
}

static bool allocate(row_plan *p) {
    const whet_attention *a = &p->s.a;
    size_t queries = part_queries(p), rows = a->batch * a->heads * queries;
    p->numbers = numbers_of(p);
    for (size_t i = 0; i < p->s.piece_count; i++)
        if (!size_multiply(p->numbers * sizeof(double), piece_rows(&p->s, &p->s.pieces[i]),
                           &p->s.pieces[i].slot_bytes))
            return false;
    p->states = calloc(spread_rows(&p->s) + 1, sizeof *p->states);
    p->search = calloc(spread_rows(&p->s) + 1, sizeof *p->search);
    p->positions = calloc(a->batch * a->queries + 1, sizeof *p->positions);
    p->block_positions = calloc(a->batch * queries, sizeof *p->block_positions);
    p->block_betas = calloc(rows, sizeof *p->block_betas);
    p->block_stats = calloc(rows, sizeof *p->block_stats);
    p->block_out = calloc(rows, a->value_dim * sizeof *p->block_out);
    p->part_numbers = calloc(rows, p->numbers * sizeof *p->part_numbers);
    return p->states && p->search && p->positions && p->block_positions && p->block_betas &&
           p->block_stats && p->block_out && p->part_numbers && whet_mpi_allocate_slots(&p->s);
}

/* The tokens of this rank's queries, which are not one after the other in a zig-zag layout. */
static void find_positions(row_plan *p) {
    for (size_t i = 0; i < p->s.piece_count; i++) {
        const query_piece *piece = &p->s.pieces[i];
        for (size_t row = 0; row < piece_rows(&p->s, piece); row++) {
            piece_row r = whet_mpi_row_of(&p->s, piece, row);
            p->positions[r.batch * p->s.a.queries + r.query] = r.token;
        }
    }
    p->s.a.positions = p->positions;
}

whet_status whet_mpi_plan_rows(row_plan *p) {
    p->s.base.execute = execute;
    p->s.base.free_parts = free_parts;
    if (!allocate(p))
        return whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for %zu queries", p->s.a.queries);
    find_positions(p);
    return whet_mpi_allocate_block(&p->s, measure_block);
}
