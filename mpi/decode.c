/* Attention over keys that are spread over ranks, planned and driven: see decode.h. */
#include "decode.h"
#include "attention/check.h"
#include "attention/mask.h"
#include "attention/max_logits.h"
#include "base/checked.h"
#include <stdlib.h>
#include <string.h>

/* ---- rows and pieces ---- */

located_row whet_mpi_locate_row(const decode_plan *p, size_t row) {
    size_t row_count = whet_shape_of(&p->plan).row_count;
    located_row at = {.w = whet_decode_start(&p->plan, row / row_count, 0, p->scratch),
                      .r = row % row_count};
    at.row = whet_row_of(&at.w.slice, at.r);
    at.state = at.w.states + at.r;
    return at;
}

/* A piece of this rank is a chunk of its plan, unless it is the one piece of no keys at all. */
static bool has_chunk(const located_row *at, const decode_plan *p, size_t piece) {
    return piece - p->pieces.begin < at->w.shape.chunks;
}

row_view whet_mpi_piece_logits(const located_row *at, const decode_plan *p, size_t piece) {
    size_t start = (piece - p->pieces.begin) * p->map.piece, end = start + p->map.piece;
    size_t low = at->row.low > start ? at->row.low : start;
    size_t high = at->row.high < end ? at->row.high : end;
    const float *logits = at->w.logits + at->r * at->w.logits_stride;
    return (row_view){.kernels = at->w.shape.kernels,
                      .n = low < high ? high - low : 0,
                      .in = logits + (low < high ? low : 0),
                      .in_type = WHET_F32,
                      .out_type = WHET_F32};
}

/* The index of a piece's entry in the arrays of chunks. */
static size_t chunk_entry(const located_row *at, const decode_plan *p, size_t piece) {
    return (piece - p->pieces.begin) * at->w.row_count + at->r;
}

/* ---- first reduction: statistics ---- */

static void stats_leaf(void *context, size_t piece, size_t row, void *result) {
    const decode_plan *p = context;
    located_row at = whet_mpi_locate_row(p, row);
    whet_stats stats = whet_stats_empty();
    row_message *m = result;
    m->visible = 0;
    m->largest = -(double)INFINITY;
    if (has_chunk(&at, p, piece)) {
        stats = at.w.pieces[chunk_entry(&at, p, piece)];
        if (stats.argmax != UINT64_MAX)
            stats.argmax += p->start;
        if (at.w.maxima)
            m->largest = (double)at.w.maxima[chunk_entry(&at, p, piece)];
    }
    /* counted by the whole share, whose first piece brings it in */
    if (piece == p->pieces.begin && (at.row.map->traits & MAP_BY_VISIBLE))
        m->visible = whet_count_visible(&at.w.slice, &at.row);
    row_message_set(m, &stats);
}

static void stats_merge(void *context, tree_node left, size_t row, void *into, const void *from) {
    (void)context;
    (void)left;
    (void)row;
    row_message_add(into, from);
}

static void start_row(decode_plan *p, size_t row, const row_message *m) {
    located_row at = whet_mpi_locate_row(p, row);
    split_row split = whet_mpi_split_row(p, &at, row);
    whet_mpi_start_row(&split, m);
    if (at.w.maxima)
        whet_note_max_logit(&at.w.slice, &at.row, (float)m->largest);
}

/* ---- last reduction: weighted sums of values ---- */

enum { SUM_Z, SUM_S, SUM_FIRST, SUM_ENTROPY, SUM_LARGEST, SUM_VALUES };

static size_t value_doubles(const decode_plan *p) {
    return SUM_VALUES + p->plan.description.attention.value_dim;
}

static void value_leaf(void *context, size_t piece, size_t row, void *result) {
    const decode_plan *p = context;
    located_row at = whet_mpi_locate_row(p, row);
    size_t local = piece - p->pieces.begin;
    double *to = result;
    memset(to, 0, value_doubles(p) * sizeof *to);
    if (!has_chunk(&at, p, piece))
        return;
    const chunk_sums *sums = &at.w.sums[chunk_entry(&at, p, piece)];
    const float *out = decode_output(&at.w, at.r, local);
    to[SUM_Z] = sums->z;
    to[SUM_S] = sums->s;
    to[SUM_FIRST] = p->start == 0 ? sums->first : 0; /* that of the whole context alone */
    if (at.state->mapped) {
        to[SUM_ENTROPY] = p->coefficients[row * span_size(p->pieces) + local].entropy;
        to[SUM_LARGEST] = p->coefficients[row * span_size(p->pieces) + local].largest;
    }
    for (size_t i = SUM_VALUES; i < value_doubles(p); i++)
        to[i] = (double)out[i - SUM_VALUES];
}

static void value_merge(void *context, tree_node left, size_t row, void *into, const void *from) {
    const decode_plan *p = context;
    double *a = into, largest = a[SUM_LARGEST];
    const double *b = from;
    (void)left;
    (void)row;
    for (size_t i = 0; i < value_doubles(p); i++)
        a[i] += b[i];
    a[SUM_LARGEST] = largest > b[SUM_LARGEST] ? largest : b[SUM_LARGEST];
}

static whet_status finish_row(decode_plan *p, size_t row, const double *sums,
                              uint64_t *first_bad_row, whet_status status) {
    located_row at = whet_mpi_locate_row(p, row);
    chunk_sums all = {.z = at.state->sink_z + sums[SUM_Z],
                      .s = at.state->sink_s + sums[SUM_S],
                      .first = sums[SUM_FIRST]};
    split_row split = whet_mpi_split_row(p, &at, row);
    if (at.state->mapped)
        whet_mpi_report_map(&split, &(map_coefficients){.largest = sums[SUM_LARGEST],
                                                        .entropy = sums[SUM_ENTROPY]});
    return whet_decode_finish_row(&at.w, at.r, all, sums + SUM_VALUES, first_bad_row, status);
}

/* ---- execution ---- */

typedef struct phase_run {
    decode_plan *p;
    unsigned phase;
} phase_run;

static void run_task(void *argument, size_t task, size_t worker) {
    const phase_run *run = argument;
    whet_attention_run_task(&run->p->plan, run->phase, task,
                            run->p->scratch + worker * run->p->scratch_stride, NULL);
}

static void run_phase(decode_plan *p, unsigned phase) {
    const whet_executor *executor = &p->base.executor;
    phase_run run = {p, phase};
    if (p->plan.tasks[phase] > 0)
        executor->parallel_for(executor->context, p->plan.tasks[phase], run_task, &run);
}

static whet_status finish(decode_plan *p, uint64_t *first_bad_row) {
    whet_status status = WHET_OK;
    uint64_t bad_row = UINT64_MAX;
    size_t bytes = value_doubles(p) * sizeof(double);
    const double *sums =
        whet_mpi_reduce(&p->r, &(reduced){p, p->rows, bytes, value_leaf, value_merge});
    for (size_t row = 0; row < p->rows; row++)
        status = finish_row(p, row, sums + row * value_doubles(p), &bad_row, status);
    if (p->plan.description.attention.max_logits)
        run_phase(p, p->plan.phases - 1);
    if (status == WHET_NOT_FINITE && first_bad_row)
        *first_bad_row = bad_row;
    return status;
}

static whet_status execute(whet_mpi_plan *base, uint64_t *first_bad_row) {
    decode_plan *p = (decode_plan *)base;
    if (p->rows == 0) {
        if (p->plan.phases > 0)
            run_phase(p, p->plan.phases - 1);
        return WHET_OK;
    }
    run_phase(p, 0);
    const row_message *rows = whet_mpi_reduce(
        &p->r, &(reduced){p, p->rows, sizeof(row_message), stats_leaf, stats_merge});
    for (size_t row = 0; row < p->rows; row++)
        start_row(p, row, &rows[row]);
    whet_mpi_search_betas(p);
    for (size_t row = 0; row < p->rows; row++) {
        located_row at = whet_mpi_locate_row(p, row);
        if (!at.state->mapped)
            whet_decode_weigh_extras(at.state, &at.row);
    }
    whet_mpi_make_coefficients(p);
    run_phase(p, 2);
    return finish(p, first_bad_row);
}

/* ---- planning ---- */

static void free_parts(whet_mpi_plan *base) {
    decode_plan *p = (decode_plan *)base;
    whet_mpi_reduction_free(&p->r);
    free(p->memory);
    free(p->positions);
    free(p->search);
    free(p->active);
    free(p->rest);
    free(p->coefficients);
}

static whet_status move_queries(decode_plan *p, int64_t offset, whet_attention *a) {
    a->offset = offset - (int64_t)p->start;
    if (a->offset > INT32_MAX || a->offset < -(int64_t)INT32_MAX)
        return whet_mpi_refuse(WHET_ERROR_OVERFLOW, "offset is %lld: too far from position %zu",
                               (long long)offset, p->start);
    for (size_t i = 0; p->positions && i < a->batch * a->queries; i++)
        p->positions[i] = offset + (int64_t)(i % a->queries);
    return WHET_OK;
}

static whet_status set_offset(whet_mpi_plan *base, int64_t offset) {
    decode_plan *p = (decode_plan *)base;
    return move_queries(p, offset, &p->plan.description.attention);
}

static void *allocate(size_t count, size_t each) { return calloc(count > 0 ? count : 1, each); }

static void look_at_policies(decode_plan *p, const whet_attention *a) {
    for (size_t i = 0; i < a->policy_count; i++) {
        const map_descriptor *map = whet_map_of(&a->policies[i]);
        bool is_exponential = (map->traits & MAP_EXPONENTIAL) && !(map->traits & MAP_SEARCHES);
        p->has_mapped = p->has_mapped || !is_exponential;
        p->has_ordered = p->has_ordered || map->forward;
    }
}

/* Memory for everything; the description of the rank's part has been planned. */
static whet_status make_room(decode_plan *p) {
    const whet_attention *a = &p->plan.description.attention;
    size_t workspace, scratch, total, row_bytes, own = span_size(p->pieces);
    bool fits = size_align(p->plan.workspace_bytes, WHET_ALIGNMENT, &workspace) &&
                size_align(p->plan.scratch_bytes, WHET_ALIGNMENT, &p->scratch_stride) &&
                size_multiply(p->scratch_stride, p->base.executor.workers, &scratch) &&
                size_add(workspace, scratch, &total) && size_multiply(p->rows, own, &own);
    size_t each = (SUM_VALUES + a->value_dim) * sizeof(double);
    if (each < sizeof(row_message))
        each = sizeof(row_message);
    if (each < whet_mpi_search_bytes(p))
        each = whet_mpi_search_bytes(p);
    fits = fits && size_multiply(p->rows, each, &row_bytes);
    p->r.map = &p->map;
    p->r.c = &p->base.c;
    p->r.mine = p->pieces;
    p->r.executor = &p->base.executor;
    if (fits) {
        p->memory = aligned_alloc(WHET_ALIGNMENT, total > 0 ? total : WHET_ALIGNMENT);
        p->search = allocate(p->rows, sizeof *p->search);
        p->active = allocate(p->rows, sizeof *p->active);
        p->rest = allocate(p->has_ordered ? p->rows : 0, p->map.count * sizeof *p->rest);
        p->coefficients = allocate(p->has_mapped ? own : 0, sizeof *p->coefficients);
        fits = p->memory && p->search && p->active && p->rest && p->coefficients &&
               whet_mpi_reduction_init(&p->r, row_bytes);
    }
    if (!fits)
        return whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for %zu rows over %zu keys",
                               p->rows, a->keys);
    p->plan.workspace = p->memory;
    p->scratch = (char *)p->memory + workspace;
    return WHET_OK;
}

static whet_status plan_part(decode_plan *p, whet_attention *a) {
    p->map = whet_mpi_pieces(a->keys);
    p->pieces = whet_mpi_pieces_of(&p->map, (size_t)p->base.c.rank, (size_t)p->base.c.size);
    span own = whet_mpi_positions_of(&p->map, p->pieces);
    key_part part = {.all_keys = a->keys, .chunk_keys = p->map.piece};
    p->start = own.begin;
    a->keys = span_size(own);
    if (!a->positions) {
        p->positions = allocate(a->batch * a->queries, sizeof *p->positions);
        if (!p->positions)
            return whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory");
        a->positions = p->positions;
    }
    whet_status status = move_queries(p, a->offset, a);
    if (status != WHET_OK)
        return status;
    p->plan.size = sizeof p->plan;
    status = whet_plan_part(a, &part, &p->plan);
    if (status != WHET_OK)
        return whet_mpi_pass_on(status);
    p->rows = a->batch * a->heads * a->queries;
    look_at_policies(p, &p->plan.description.attention);
    return make_room(p);
}

whet_status whet_mpi_decode_plan(MPI_Comm comm, const whet_attention *attention,
                                 const whet_executor *executor, whet_mpi_plan **plan) {
    whet_status status = whet_mpi_begin_plan(comm, attention, sizeof(decode_plan), plan);
    if (status != WHET_OK)
        return status;
    decode_plan *p = (decode_plan *)*plan;
    whet_attention a = *attention;
    p->base.execute = execute;
    p->base.free_parts = free_parts;
    p->base.set_offset = set_offset;
    status = whet_mpi_take_executor(executor, &p->base.executor);
    if (status == WHET_OK)
        status = whet_mpi_check_description(&a);
    status = whet_mpi_agree(&p->base.c, status);
    if (status == WHET_OK)
        status = whet_mpi_agree_on_attention(&p->base.c, "decode", &a);
    if (status == WHET_OK)
        status = whet_mpi_agree(&p->base.c, plan_part(p, &a));
    return whet_mpi_end_plan(plan, status);
}
