/*
 * Rows that are computed by themselves on the backward pass over ranks: see backward.h. What
 * row/map_row.c does with the logits of a row, and with what arrives at its coefficients, is done
 * here with those of a block: the passes for the largest logit and for the map's solution
 * (search.h), the sums, the gradients. The sink is a piece of its own, counted where the row is.
 */
#include "backward.h"
#include "attention/backward.h"
#include "attention/mask.h"
#include "base/sums.h"
#include <string.h>

bool whet_mpi_is_by_row(const backward_plan *p, const piece_row *row) {
    return is_by_row(&p->g, row->policy);
}

static double given(const float *gradients, size_t index) {
    return gradients ? (double)gradients[index] : 0;
}

/* A row where only its state matters. */
typedef struct stated_row {
    query_row row;
    row_job job;
    split_row split;
} stated_row;

static const split_row *take_row(stated_row *x, const backward_plan *p, const piece_row *r) {
    x->row = (query_row){.head = r->head,
                         .query = r->query,
                         .token = r->token,
                         .policy = r->policy,
                         .temperature = whet_temperature_of(r->policy),
                         .map = whet_map_of(r->policy),
                         .sink = r->sink};
    x->job = whet_row_plan(r->policy, false);
    x->split = (split_row){.row = &x->row,
                           .kernels = whet_kernels_get(),
                           .state = p->states + r->index,
                           .search = p->search + r->index};
    return &x->split;
}

/* The sink as a row of no entries. */
static row_view sink_of(const backward_plan *p, const piece_row *r) {
    row_view view = {.kernels = whet_kernels_get(),
                     .in_type = WHET_F32,
                     .out_type = WHET_F32,
                     .has_sink = true,
                     .sink = r->sink,
                     .has_beta = p->g.attention.betas != NULL,
                     .position = r->token};
    if (view.has_beta)
        view.beta = whet_bound_beta((double)p->g.attention.betas[r->index]);
    return view;
}

static row_gradients sink_gradients(const backward_plan *p, const piece_row *r,
                                    whet_policy_gradient *parameters) {
    return (row_gradients){.logsumexp = given(p->g.logsumexp, r->index),
                           .entropy = given(p->g.entropy, r->index),
                           .entropy_after = given(p->g.entropy_after, r->index),
                           .wants_beta = true,
                           .parameters = parameters};
}

/* ---- numbers ---- */

enum { NUMBER_PEAK, NUMBER_VISIBLE };

void whet_mpi_clear_numbers(const backward_plan *p, double *numbers) {
    memset(numbers, 0, p->numbers * sizeof *numbers);
    map_part_sums none = whet_map_no_sums();
    if (p->pass == PASS_PEAKS)
        numbers[NUMBER_PEAK] = -(double)INFINITY;
    else if (p->pass == PASS_SEARCH)
        numbers[0] = INFINITY; /* a minimum */
    else
        memcpy(numbers, &none, sizeof none);
}

void whet_mpi_merge_numbers(const backward_plan *p, const piece_row *row, double *into,
                            const double *from) {
    map_part_sums sums, more;
    if (p->pass == PASS_PEAKS) {
        into[NUMBER_PEAK] = fmax(into[NUMBER_PEAK], from[NUMBER_PEAK]);
        into[NUMBER_VISIBLE] += from[NUMBER_VISIBLE];
        return;
    }
    if (p->pass == PASS_SEARCH) {
        stated_row x;
        if (whet_mpi_searches_map(take_row(&x, p, row)))
            whet_mpi_merge_map(into, from, x.split.search->map.sums);
        return;
    }
    memcpy(&sums, into, sizeof sums);
    memcpy(&more, from, sizeof more);
    whet_map_add_sums(&sums, &more);
    memcpy(into, &sums, sizeof sums);
}

/* ---- a block's part of a row ---- */

/* What a sink gets of the row, which is counted once. */
static bool add_sink(const backward_plan *p, const piece_row *r, stated_row *x,
                     row_gradients *gradients) {
    row_view sink = sink_of(p, r);
    if (r->sink == -INFINITY)
        return true;
    row_gradients own = sink_gradients(p, r, gradients->parameters);
    bool is_finite =
        whet_map_part_backward(&sink, &x->job, &x->split.state->stats,
                               &x->split.search->map.solution, &p->maps[r->index], false, &own);
    gradients->sink = own.sink;
    return is_finite;
}

static bool find_gradients(const row_visit *visit, const part_row *part, const piece_row *r,
                           stated_row *x) {
    const backward_plan *p = visit->p;
    const bool is_first = visit->key_piece == 0;
    if (p->ends)
        part->gradients->ends = *whet_mpi_ends_of(p, visit->piece, part->index, visit->key_piece);
    bool is_finite = whet_map_part_backward(&part->logits, &x->job, &x->split.state->stats,
                                            &x->split.search->map.solution, &p->maps[r->index],
                                            is_first, part->gradients);
    return is_finite && (!is_first || add_sink(p, r, x, part->gradients));
}

bool whet_mpi_visit_row(void *context, part_row *part) {
    const row_visit *visit = context;
    backward_plan *p = visit->p;
    piece_row r = whet_mpi_row_of(&p->s, visit->piece, part->index);
    double *numbers = p->block_numbers + part->index * p->numbers;
    stated_row x;
    take_row(&x, p, &r);
    if (p->pass == PASS_GRADIENTS)
        return find_gradients(visit, part, &r, &x);
    if (p->pass == PASS_PEAKS) {
        numbers[NUMBER_PEAK] = (double)part->logits.kernels->max(part->logits.in, part->logits.n);
        if (x.row.map->traits & MAP_BY_VISIBLE)
            numbers[NUMBER_VISIBLE] = (double)whet_count_visible(part->slice, part->row);
    } else if (p->pass == PASS_SEARCH) {
        if (whet_mpi_searches_map(&x.split))
            whet_mpi_sum_map(&x.split, &part->logits, numbers);
    } else {
        map_part_sums sums = whet_map_part_sums(&part->logits, &x.job, &x.split.state->stats,
                                                &x.split.search->map.solution, part->gradients);
        memcpy(numbers, &sums, sizeof sums);
    }
    return true;
}

/* ---- between passes ---- */

/* The forward pass's statistics, relative to the largest logit as it comes out here: it may come
 * from another order of summation, and maps compare it with logits. */
bool whet_mpi_start_search(backward_plan *p, const piece_row *row, const double *numbers) {
    stated_row x;
    const split_row *r = take_row(&x, p, row);
    const whet_attention *a = &p->g.attention;
    whet_stats stats =
        *(const whet_stats *)(const void *)((const char *)a->stats + row->index * a->stats_stride);
    double max = fmax(numbers[NUMBER_PEAK], (double)row->sink);
    if (row_has_beta(&stats) && isfinite(max)) {
        double shift = stats.max - max;
        sums_shift(shift, exp(shift), &stats.z, &stats.s, NULL);
        stats.max = max;
    }
    *r->state = (decode_row){.stats = stats, .mapped = true};
    r->search->visible = (uint64_t)numbers[NUMBER_VISIBLE];
    whet_mpi_start_map(r);
    return whet_mpi_searches_map(r);
}

bool whet_mpi_step_search(backward_plan *p, const piece_row *row, const double *numbers) {
    stated_row x;
    const split_row *r = take_row(&x, p, row);
    if (whet_mpi_searches_map(r))
        whet_mpi_step_map(r, numbers);
    return whet_mpi_searches_map(r);
}

ordered_ends *whet_mpi_ends_of(const backward_plan *p, const query_piece *piece, size_t row,
                               size_t key_piece) {
    return p->ends[piece - p->s.pieces] + row * span_size(piece->keys) + key_piece;
}

void whet_mpi_note_ends(const backward_plan *p, const query_piece *piece, size_t row,
                        size_t key_piece, const double *numbers) {
    map_part_sums sums;
    memcpy(&sums, numbers, sizeof sums);
    *whet_mpi_ends_of(p, piece, row, key_piece) = sums.ends;
}

void whet_mpi_pass_ends(const backward_plan *p, const query_piece *piece, size_t row) {
    ordered_ends *of = whet_mpi_ends_of(p, piece, row, 0);
    size_t pieces = span_size(piece->keys);
    double before = 0, rest = 1;
    for (size_t i = 0; i < pieces; i++) {
        double own = of[i].before;
        of[i].before = before;
        before = of[i].rest * before + own;
    }
    for (size_t i = pieces; i-- > 0;) {
        double own = of[i].rest;
        of[i].rest = rest;
        rest *= own;
    }
}

void whet_mpi_keep_sums(backward_plan *p, const piece_row *row, const double *numbers) {
    stated_row x;
    const split_row *r = take_row(&x, p, row);
    map_part_sums *sums = &p->maps[row->index];
    memcpy(sums, numbers, sizeof *sums);
    if (row->sink == -INFINITY || !row_has_beta(&r->state->stats))
        return;
    row_view sink = sink_of(p, row);
    row_gradients gradients = sink_gradients(p, row, NULL);
    map_part_sums own =
        whet_map_part_sums(&sink, &x.job, &r->state->stats, &r->search->map.solution, &gradients);
    whet_map_add_sums(sums, &own);
}
