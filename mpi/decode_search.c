/*
 * Betas and thresholds that are found by several passes over a row: see decode.h. The state
 * machines are libwhet's; a pass is a sum over a rank's pieces and a reduction. Ranks get the same
 * sums and so take the same steps, all rows at once: the number of reductions is that of the row
 * that needs most.
 */
#include "decode.h"
#include "row/extra_logits.h"
#include <string.h>

/* Keeps in p->active the rows for which `is_active` holds, and returns how many those are. */
static size_t find_active(decode_plan *p, bool (*is_active)(const decode_plan *p, size_t row)) {
    size_t count = 0;
    for (size_t row = 0; row < p->rows; row++)
        if (is_active(p, row))
            p->active[count++] = row;
    return count;
}

static void add_doubles(double *into, const double *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        into[i] += from[i];
}

/* ---- temperatures that search ---- */

static bool searches_beta(const decode_plan *p, size_t row) {
    located_row at = whet_mpi_locate_row(p, row);
    return (at.row.temperature->needs & NEEDS_SEARCH) && !at.w.slice.attention->betas &&
           row_has_beta(&at.state->stats) && !p->search[row].beta.done;
}

static void beta_leaf(void *context, size_t piece, size_t index, void *result) {
    const decode_plan *p = context;
    size_t row = p->active[index];
    located_row at = whet_mpi_locate_row(p, row);
    row_view view = whet_mpi_piece_logits(&at, p, piece);
    row_sums sums = {0, 0, 0};
    if (view.n > 0)
        sums = whet_row_moments(&view, (float)at.state->stats.max,
                                whet_exp2_scale(p->search[row].beta.beta), NULL);
    memcpy(result, (double[]){sums.z, sums.s, sums.q}, 3 * sizeof(double));
}

static void beta_merge(void *context, tree_node left, size_t row, void *into, const void *from) {
    (void)context;
    (void)left;
    (void)row;
    add_doubles(into, from, 3);
}

static void step_beta(decode_plan *p, size_t row, const double *sums) {
    located_row at = whet_mpi_locate_row(p, row);
    beta_solver *solver = &p->search[row].beta;
    row_sums sink =
        extra_sums(weigh_extra_logit((double)at.row.sink, (double)(float)at.state->stats.max,
                                     (double)whet_exp2_scale(solver->beta)));
    at.row.temperature->solver->step(solver, sums[0] + sink.z, sums[1] + sink.s, sums[2] + sink.q);
}

static void finish_beta(decode_plan *p, size_t row) {
    located_row at = whet_mpi_locate_row(p, row);
    at.state->stats.flags |= p->search[row].beta.flags;
    whet_decode_set_beta(at.state, whet_apply_strength(at.row.policy, p->search[row].beta.beta));
}

void whet_mpi_search_betas(decode_plan *p) {
    for (size_t row = 0; row < p->rows; row++) {
        located_row at = whet_mpi_locate_row(p, row);
        p->search[row].beta = (beta_solver){.done = 0};
        if (!searches_beta(p, row))
            continue;
        at.row.temperature->solver->start(&p->search[row].beta, at.row.policy, &at.state->stats);
        if (p->search[row].beta.done)
            finish_beta(p, row);
    }
    for (size_t count; (count = find_active(p, searches_beta)) > 0;) {
        const double *sums =
            whet_mpi_reduce(&p->r, &(reduced){p, count, 3 * sizeof(double), beta_leaf, beta_merge});
        for (size_t i = 0; i < count; i++) {
            step_beta(p, p->active[i], sums + 3 * i);
            if (p->search[p->active[i]].beta.done)
                finish_beta(p, p->active[i]);
        }
    }
}

/* ---- maps ---- */

static bool is_mapped(const decode_plan *p, size_t row) {
    located_row at = whet_mpi_locate_row(p, row);
    return at.state->mapped && row_has_beta(&at.state->stats);
}

static bool is_ordered(const decode_plan *p, size_t row) {
    return is_mapped(p, row) && whet_mpi_locate_row(p, row).row.map->forward;
}

static bool searches_map(const decode_plan *p, size_t row) {
    return is_mapped(p, row) && !is_ordered(p, row) && !p->search[row].map.done;
}

/* A piece of a row, or its sink, as its map sees it. */
typedef struct mapped_piece {
    located_row at;
    row_job job;
    row_view view;
    map_row m;
} mapped_piece;

static void begin_piece(mapped_piece *x, const decode_plan *p, size_t row) {
    x->at = whet_mpi_locate_row(p, row);
    x->job = whet_row_plan(x->at.row.policy, true);
    x->view = (row_view){.kernels = x->at.w.shape.kernels, .in_type = WHET_F32};
    x->m = whet_map_row_of(&x->view, &x->job, &x->at.state->stats);
    x->m.visible = p->search[row].visible;
}

static void take_piece(mapped_piece *x, const decode_plan *p, size_t row, size_t piece) {
    begin_piece(x, p, row);
    x->view = whet_mpi_piece_logits(&x->at, p, piece);
}

/* Nothing but the sink, which belongs to no piece and is counted once. */
static void take_sink(mapped_piece *x, const decode_plan *p, size_t row) {
    begin_piece(x, p, row);
    if (x->job.map->traits & MAP_TAKES_SINK)
        x->m.sink = x->at.row.sink;
}

/* As sent: the minimum, then the sums. */
static void map_leaf(void *context, size_t piece, size_t index, void *result) {
    const decode_plan *p = context;
    const map_search *search = &p->search[p->active[index]].map;
    map_sums sums = map_sums_none(search->sums);
    mapped_piece x;
    take_piece(&x, p, p->active[index], piece);
    x.job.map->sum(&x.m, search, &sums);
    double *to = result;
    to[0] = sums.lowest;
    memcpy(to + 1, sums.value, sums.count * sizeof(double));
}

static void map_merge(void *context, tree_node left, size_t index, void *into, const void *from) {
    const decode_plan *p = context;
    double *a = into;
    const double *b = from;
    (void)left;
    a[0] = b[0] < a[0] ? b[0] : a[0];
    add_doubles(a + 1, b + 1, p->search[p->active[index]].map.sums);
}

static void step_map(decode_plan *p, size_t row, const double *merged) {
    map_search *search = &p->search[row].map;
    map_sums sums = map_sums_none(search->sums), sink = sums;
    sums.lowest = merged[0];
    memcpy(sums.value, merged + 1, sums.count * sizeof(double));
    mapped_piece x;
    take_sink(&x, p, row);
    x.job.map->sum(&x.m, search, &sink);
    map_sums_add(&sums, &sink);
    x.job.map->step(&x.m, search, &sums);
}

static void start_maps(decode_plan *p) {
    for (size_t row = 0; row < p->rows; row++) {
        mapped_piece x;
        if (!is_mapped(p, row) || is_ordered(p, row))
            continue;
        take_sink(&x, p, row);
        p->search[row].map = whet_map_start(&x.m, x.job.map);
    }
}

static void search_maps(decode_plan *p) {
    start_maps(p);
    for (size_t count; (count = find_active(p, searches_map)) > 0;) {
        size_t most = 0;
        for (size_t i = 0; i < count; i++)
            most =
                p->search[p->active[i]].map.sums > most ? p->search[p->active[i]].map.sums : most;
        size_t bytes = (1 + most) * sizeof(double);
        const char *sums = whet_mpi_reduce(&p->r, &(reduced){p, count, bytes, map_leaf, map_merge});
        for (size_t i = 0; i < count; i++)
            step_map(p, p->active[i], (const double *)(const void *)(sums + i * bytes));
    }
}

/* ---- ordered maps: what pieces leave of the stick ---- */

/* An entry for every piece of the context; those of the node's own pieces are set. */
static void stick_leaf(void *context, size_t piece, size_t index, void *result) {
    const decode_plan *p = context;
    map_result whole = {.rest = 1};
    mapped_piece x;
    take_piece(&x, p, p->active[index], piece);
    x.job.map->forward(&x.m, &whole);
    ((double *)result)[piece] = whole.rest;
}

static void stick_merge(void *context, tree_node left, size_t index, void *into, const void *from) {
    const decode_plan *p = context;
    (void)index;
    span right = whet_mpi_node_pieces(&p->map, (tree_node){left.level, left.index + 1});
    memcpy((double *)into + right.begin, (const double *)from + right.begin,
           span_size(right) * sizeof(double));
}

/* Turns what each piece leaves into what the later pieces leave to it. */
static void find_rests(decode_plan *p) {
    size_t count = p->has_ordered ? find_active(p, is_ordered) : 0, pieces = p->map.count;
    if (count == 0)
        return;
    const double *left = whet_mpi_reduce(
        &p->r, &(reduced){p, count, pieces * sizeof(double), stick_leaf, stick_merge});
    for (size_t i = 0; i < count; i++) {
        double *rest = p->rest + p->active[i] * pieces, stick = 1;
        for (size_t piece = pieces; piece-- > 0;) {
            rest[piece] = stick;
            stick *= left[i * pieces + piece];
        }
    }
}

/* ---- coefficients ---- */

static map_coefficients store_piece(const mapped_piece *x, const decode_plan *p, size_t row,
                                    size_t piece) {
    if (!x->job.map->forward)
        return whet_map_store(&x->m, x->job.map, &p->search[row].map.solution);
    map_result result = {.rest = p->rest[row * p->map.count + piece]};
    x->job.map->forward(&x->m, &result);
    return (map_coefficients){.largest = result.largest};
}

/* Where libwhet has no beta, the coefficients are zeros. */
static void store_row(void *argument, size_t row, size_t worker) {
    decode_plan *p = argument;
    located_row at = whet_mpi_locate_row(p, row);
    size_t count = span_size(p->pieces);
    (void)worker;
    if (!at.state->mapped)
        return;
    if (!is_mapped(p, row)) {
        memset(at.w.logits + at.r * at.w.logits_stride + at.row.low, 0,
               (at.row.high - at.row.low) * sizeof(float));
        memset(p->coefficients + row * count, 0, count * sizeof(map_coefficients));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        mapped_piece x;
        take_piece(&x, p, row, p->pieces.begin + i);
        x.view.out = (void *)(uintptr_t)x.view.in;
        p->coefficients[row * count + i] = store_piece(&x, p, row, p->pieces.begin + i);
    }
    mapped_piece x;
    take_sink(&x, p, row);
    p->search[row].sink = (map_coefficients){0, 0, 0};
    if (!x.job.map->forward)
        p->search[row].sink = whet_map_store(&x.m, x.job.map, &p->search[row].map.solution);
}

void whet_mpi_make_coefficients(decode_plan *p) {
    if (!p->has_mapped)
        return;
    search_maps(p);
    find_rests(p);
    const whet_executor *executor = &p->base.executor;
    executor->parallel_for(executor->context, p->rows, store_row, p);
}

size_t whet_mpi_search_bytes(const decode_plan *p) {
    size_t most = p->has_mapped ? 1 + MAP_SUMS_MAX : 3;
    if (p->has_ordered && p->map.count > most)
        most = p->map.count;
    return most * sizeof(double);
}
