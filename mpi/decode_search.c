/*
 * Betas and thresholds that are found by several passes over a row: see decode.h. A pass is a sum
 * over a rank's pieces and a reduction, of all rows at once: the number of reductions is that of
 * the row that needs most.
 */
#include "decode.h"
#include <string.h>

split_row whet_mpi_split_row(const decode_plan *p, const located_row *at, size_t row) {
    const whet_attention *a = at->w.slice.attention;
    return (split_row){.row = &at->row,
                       .kernels = at->w.shape.kernels,
                       .given_beta =
                           a->betas ? a->betas + whet_row_index(&at->w.slice, &at->row) : NULL,
                       .state = at->state,
                       .search = &p->search[row]};
}

/* A row by its number. */
typedef struct numbered_row {
    located_row at;
    split_row split;
} numbered_row;

static const split_row *take_row(numbered_row *x, const decode_plan *p, size_t row) {
    x->at = whet_mpi_locate_row(p, row);
    x->split = whet_mpi_split_row(p, &x->at, row);
    return &x->split;
}

/* Keeps in p->active the rows for which `is_active` holds, and returns how many those are. */
static size_t find_active(decode_plan *p, bool (*is_active)(const split_row *r)) {
    size_t count = 0;
    numbered_row x;
    for (size_t row = 0; row < p->rows; row++)
        if (is_active(take_row(&x, p, row)))
            p->active[count++] = row;
    return count;
}

/* ---- temperatures that search ---- */

static void beta_leaf(void *context, size_t piece, size_t index, void *result) {
    const decode_plan *p = context;
    numbered_row x;
    const split_row *r = take_row(&x, p, p->active[index]);
    row_view logits = whet_mpi_piece_logits(&x.at, p, piece);
    whet_mpi_sum_beta(r, &logits, result);
}

static void beta_merge(void *context, tree_node left, size_t row, void *into, const void *from) {
    (void)context;
    (void)left;
    (void)row;
    for (size_t i = 0; i < BETA_SUMS; i++)
        ((double *)into)[i] += ((const double *)from)[i];
}

void whet_mpi_search_betas(decode_plan *p) {
    numbered_row x;
    for (size_t row = 0; row < p->rows; row++)
        whet_mpi_start_beta(take_row(&x, p, row));
    for (size_t count; (count = find_active(p, whet_mpi_searches_beta)) > 0;) {
        const double *sums = whet_mpi_reduce(
            &p->r, &(reduced){p, count, BETA_SUMS * sizeof(double), beta_leaf, beta_merge});
        for (size_t i = 0; i < count; i++)
            whet_mpi_step_beta(take_row(&x, p, p->active[i]), sums + BETA_SUMS * i);
    }
}

/* ---- maps ---- */

static void map_leaf(void *context, size_t piece, size_t index, void *result) {
    const decode_plan *p = context;
    numbered_row x;
    const split_row *r = take_row(&x, p, p->active[index]);
    row_view logits = whet_mpi_piece_logits(&x.at, p, piece);
    whet_mpi_sum_map(r, &logits, result);
}

static void map_merge(void *context, tree_node left, size_t index, void *into, const void *from) {
    const decode_plan *p = context;
    (void)left;
    whet_mpi_merge_map(into, from, p->search[p->active[index]].map.sums);
}

static void search_maps(decode_plan *p) {
    numbered_row x;
    for (size_t row = 0; row < p->rows; row++)
        whet_mpi_start_map(take_row(&x, p, row));
    for (size_t count; (count = find_active(p, whet_mpi_searches_map)) > 0;) {
        size_t most = 0;
        for (size_t i = 0; i < count; i++)
            most =
                p->search[p->active[i]].map.sums > most ? p->search[p->active[i]].map.sums : most;
        size_t bytes = (1 + most) * sizeof(double);
        const char *sums = whet_mpi_reduce(&p->r, &(reduced){p, count, bytes, map_leaf, map_merge});
        for (size_t i = 0; i < count; i++)
            whet_mpi_step_map(take_row(&x, p, p->active[i]),
                              (const double *)(const void *)(sums + i * bytes));
    }
}

/* ---- ordered maps: what pieces leave of the stick ---- */

/* An entry for every piece of the context; those of the node's own pieces are set. */
static void stick_leaf(void *context, size_t piece, size_t index, void *result) {
    const decode_plan *p = context;
    double rest = 1;
    numbered_row x;
    const split_row *r = take_row(&x, p, p->active[index]);
    row_view logits = whet_mpi_piece_logits(&x.at, p, piece);
    whet_mpi_store_map(r, &logits, &rest);
    ((double *)result)[piece] = rest;
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
    size_t count = p->has_ordered ? find_active(p, whet_mpi_is_ordered) : 0, pieces = p->map.count;
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

/* Where libwhet has no beta, the coefficients are zeros. */
static void store_row(void *argument, size_t row, size_t worker) {
    decode_plan *p = argument;
    size_t count = span_size(p->pieces);
    numbered_row x;
    const split_row *r = take_row(&x, p, row);
    (void)worker;
    if (!r->state->mapped)
        return;
    if (!whet_mpi_is_mapped(r)) {
        memset(x.at.w.logits + x.at.r * x.at.w.logits_stride + x.at.row.low, 0,
               (x.at.row.high - x.at.row.low) * sizeof(float));
        memset(p->coefficients + row * count, 0, count * sizeof(map_coefficients));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        row_view logits = whet_mpi_piece_logits(&x.at, p, p->pieces.begin + i);
        double rest = p->has_ordered ? p->rest[row * p->map.count + p->pieces.begin + i] : 1;
        logits.out = (void *)(uintptr_t)logits.in; /* NOLINT(performance-no-int-to-ptr) */
        p->coefficients[row * count + i] = whet_mpi_store_map(r, &logits, &rest);
    }
    whet_mpi_store_sink(r);
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
    size_t most = p->has_mapped ? MAP_NUMBERS_MAX : BETA_SUMS;
    if (p->has_ordered && p->map.count > most)
        most = p->map.count;
    return most * sizeof(double);
}
