/* Searches over rows in several places: see search.h. */
#include "search.h"
#include "row/extra_logits.h"
#include <string.h>

/* ---- statistics ---- */

static bool searches(const split_row *r) {
    return (r->row->temperature->needs & NEEDS_SEARCH) && !r->given_beta;
}

/* A beta that needs no search; 1 where there is one to come. */
static double simple_beta(const split_row *r) {
    if (!row_has_beta(&r->state->stats))
        return 1;
    if (r->given_beta)
        return whet_bound_beta((double)*r->given_beta);
    return searches(r) ? 1 : whet_policy_beta(r->row->policy, &r->state->stats);
}

void whet_mpi_start_row(const split_row *r, const row_message *message) {
    whet_stats sink = extra_stats((double)r->row->sink), keys = row_message_stats(message);
    whet_stats total = whet_stats_add(&sink, &keys);
    whet_decode_start_row(r->state, r->row, &total);
    whet_decode_set_beta(r->state, simple_beta(r));
    r->search->visible = message->visible;
}

/* ---- temperatures that search ---- */

static void finish_beta(const split_row *r) {
    const beta_solver *solver = &r->search->beta;
    if (!solver->done)
        return;
    r->state->stats.flags |= solver->flags;
    whet_decode_set_beta(r->state, whet_apply_strength(r->row->policy, solver->beta));
}

bool whet_mpi_searches_beta(const split_row *r) {
    return searches(r) && row_has_beta(&r->state->stats) && !r->search->beta.done;
}

void whet_mpi_start_beta(const split_row *r) {
    r->search->beta = (beta_solver){.done = 0};
    if (!whet_mpi_searches_beta(r))
        return;
    r->row->temperature->solver->start(&r->search->beta, r->row->policy, &r->state->stats);
    finish_beta(r);
}

void whet_mpi_sum_beta(const split_row *r, const row_view *logits, double *result) {
    row_sums sums = {0, 0, 0};
    if (logits->n > 0)
        sums = whet_row_moments(logits, (float)r->state->stats.max,
                                whet_exp2_scale(r->search->beta.beta), NULL);
    memcpy(result, (double[]){sums.z, sums.s, sums.q}, BETA_SUMS * sizeof(double));
}

void whet_mpi_step_beta(const split_row *r, const double *sums) {
    beta_solver *solver = &r->search->beta;
    row_sums sink =
        extra_sums(weigh_extra_logit((double)r->row->sink, (double)(float)r->state->stats.max,
                                     (double)whet_exp2_scale(solver->beta)));
    r->row->temperature->solver->step(solver, sums[0] + sink.z, sums[1] + sink.s, sums[2] + sink.q);
    finish_beta(r);
}

/* ---- maps ---- */

/* No later pass takes more than the first, over a long row. */
size_t whet_mpi_map_numbers(const whet_policy *policy) {
    const map_descriptor *map = whet_map_of(policy);
    whet_stats stats = {.n = UINT32_MAX};
    row_view none = {.n = 0};
    map_row row = {.policy = policy, .row = &none, .stats = &stats, .beta = 1, .sink = -INFINITY};
    row.visible = stats.n;
    return map->sum ? 1 + whet_map_start(&row, map).sums : 0;
}

bool whet_mpi_is_mapped(const split_row *r) {
    return r->state->mapped && row_has_beta(&r->state->stats);
}

bool whet_mpi_is_ordered(const split_row *r) {
    return whet_mpi_is_mapped(r) && r->row->map->forward;
}

bool whet_mpi_searches_map(const split_row *r) {
    return whet_mpi_is_mapped(r) && !whet_mpi_is_ordered(r) && !r->search->map.done;
}

/* A part of a row, or its sink, as its map sees it. */
typedef struct mapped_part {
    row_job job;
    row_view view;
    map_row m;
} mapped_part;

static void take_logits(mapped_part *x, const split_row *r, const row_view *logits) {
    x->job = whet_row_plan(r->row->policy, true);
    x->view = logits ? *logits : (row_view){.kernels = r->kernels, .in_type = WHET_F32};
    x->m = whet_map_row_of(&x->view, &x->job, &r->state->stats);
    x->m.visible = r->search->visible;
}

/* Nothing but the sink, which belongs to no place and is counted once. */
static void take_sink(mapped_part *x, const split_row *r) {
    take_logits(x, r, NULL);
    if (x->job.map->traits & MAP_TAKES_SINK)
        x->m.sink = r->row->sink;
}

void whet_mpi_start_map(const split_row *r) {
    mapped_part x;
    if (!whet_mpi_is_mapped(r) || whet_mpi_is_ordered(r))
        return;
    take_sink(&x, r);
    r->search->map = whet_map_start(&x.m, x.job.map);
}

void whet_mpi_sum_map(const split_row *r, const row_view *logits, double *numbers) {
    map_sums sums = map_sums_none(r->search->map.sums);
    mapped_part x;
    take_logits(&x, r, logits);
    x.job.map->sum(&x.m, &r->search->map, &sums);
    numbers[0] = sums.lowest;
    memcpy(numbers + 1, sums.value, sums.count * sizeof(double));
}

void whet_mpi_merge_map(double *into, const double *from, size_t sums) {
    into[0] = from[0] < into[0] ? from[0] : into[0];
    for (size_t i = 1; i <= sums; i++)
        into[i] += from[i];
}

void whet_mpi_step_map(const split_row *r, const double *numbers) {
    map_search *search = &r->search->map;
    map_sums sums = map_sums_none(search->sums), sink = sums;
    sums.lowest = numbers[0];
    memcpy(sums.value, numbers + 1, sums.count * sizeof(double));
    mapped_part x;
    take_sink(&x, r);
    x.job.map->sum(&x.m, search, &sink);
    map_sums_add(&sums, &sink);
    x.job.map->step(&x.m, search, &sums);
}

map_coefficients whet_mpi_store_map(const split_row *r, const row_view *logits, double *rest) {
    mapped_part x;
    take_logits(&x, r, logits);
    if (!x.job.map->forward)
        return whet_map_store(&x.m, x.job.map, &r->search->map.solution);
    map_result result = {.rest = *rest};
    x.job.map->forward(&x.m, &result);
    *rest = result.rest;
    return (map_coefficients){.largest = result.largest};
}

void whet_mpi_store_sink(const split_row *r) {
    mapped_part x;
    take_sink(&x, r);
    r->search->sink = (map_coefficients){0};
    if (!x.job.map->forward)
        r->search->sink = whet_map_store(&x.m, x.job.map, &r->search->map.solution);
}

void whet_mpi_report_map(const split_row *r, const map_coefficients *keys) {
    const map_coefficients *sink = &r->search->sink;
    map_coefficients all = {.largest =
                                keys->largest > sink->largest ? keys->largest : sink->largest,
                            .entropy = keys->entropy + sink->entropy};
    if (row_has_beta(&r->state->stats))
        whet_map_report(r->row->map, &r->search->map.solution, &all, &r->state->stats);
}
