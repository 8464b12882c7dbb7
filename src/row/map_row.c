/* One row through any policy, forward and backward: see map_row.h. */
#include "row/map_row.h"
#include "policy/beta.h"
#include "policy/registry.h"
#include "row/extra_logits.h"
#include "row/walk.h"
#include <string.h>

map_row whet_map_row_of(const row_view *row, const row_job *job, const whet_stats *stats) {
    bool takes_sink = job->map->traits & MAP_TAKES_SINK;
    return (map_row){.policy = job->policy,
                     .row = row,
                     .stats = stats,
                     .beta = whet_positive_beta(stats->beta),
                     .sink = takes_sink ? row_sink(row) : -INFINITY,
                     .visible = row->visible ? row->visible : stats->n};
}

map_search whet_map_start(const map_row *m, const map_descriptor *map) {
    map_search search = {.solution = {.beta = m->beta}};
    map->start(m, &search);
    return search;
}

static map_solution solve(const map_row *m, const map_descriptor *map) {
    map_search search = whet_map_start(m, map);
    if (map->settle)
        map->settle(m, &search);
    while (!search.done) {
        map_sums sums = map_sums_none(search.sums);
        map->sum(m, &search, &sums);
        map->step(m, &search, &sums);
    }
    return search.solution;
}

/* ---- forward ---- */

/* Coefficients from logits, which they grow with: one that is zero is not computed again for logits
 * that are no larger. */
typedef struct coefficient_maker {
    const map_descriptor *map;
    const map_solution *solution;
    float zero; /* the largest logit so far whose coefficient is zero; NaN: none */
} coefficient_maker;

static inline double coefficient_of(coefficient_maker *maker, float logit) {
    if (logit <= maker->zero)
        return 0;
    double p = maker->map->coefficient((double)logit, maker->solution);
    if (p == 0)
        maker->zero = logit;
    return p;
}

/* The coefficients of entries [from, to) of a block. */
static void make_part(const row_walk *walk, size_t from, size_t to, coefficient_maker *maker,
                      map_coefficients *sums, float *results) {
    for (size_t i = from; i < to; i++) {
        double p = coefficient_of(maker, walk->logits[i]);
        if (p > 0) {
            sums->entropy -= p * log(p);
            sums->largest = p > sums->largest ? p : sums->largest;
        }
        results[i] = (float)p;
    }
}

/* Stores a part that is not all zeros, and says so of others. */
static void note_part(const row_view *row, size_t start, size_t count, bool is_live,
                      const float *results) {
    row->part_live[start / ROW_PART] = is_live;
    if (is_live && row->out)
        whet_row_store(row, start, count, results);
}

/* Reads a block, computes, and writes the same block: so the result may be the row itself. Not
 * inlined, so that its blocks are not on the stack while the solution is found. */
__attribute__((noinline)) map_coefficients
whet_map_store(const map_row *m, const map_descriptor *map, const map_solution *solution) {
    float results[ROW_BLOCK];
    map_coefficients all = {0, 0, 0};
    coefficient_maker maker = {map, solution, NAN};
    const bool marks = m->row->part_live != NULL;
    row_walk walk;
    walk_begin(&walk, m->row, m->sink);
    while (walk_next(&walk)) {
        map_coefficients block = {.largest = all.largest};
        if (walk.start == 0 && !walk.is_sink)
            all.first = map->coefficient((double)walk.logits[0], solution);
        for (size_t i = 0, end; i < walk.count; i = end) {
            float top = walk_part(&walk, i, &end);
            bool is_live = coefficient_of(&maker, top) != 0; /* else all of the part are zero */
            if (is_live)
                make_part(&walk, i, end, &maker, &block, results);
            else if (!marks)
                memset(results + i, 0, (end - i) * sizeof(float));
            if (marks && !walk.is_sink)
                note_part(m->row, walk.start + i, end - i, is_live, results + i);
        }
        all.largest = block.largest;
        all.entropy += block.entropy;
        if (m->row->out && !marks && !walk.is_sink)
            whet_row_store(m->row, walk.start, walk.count, results);
    }
    return all;
}

void whet_map_report(const map_descriptor *map, const map_solution *solution,
                     const map_coefficients *all, whet_stats *stats) {
    stats->max_prob = all->largest;
    stats->sink_share = all->first;
    stats->entropy_after = NAN;
    if (map->traits & MAP_SUMS_TO_ONE)
        stats->entropy_after = map->entropy ? map->entropy(solution) : fmax(0, all->entropy);
}

void whet_map_row(const row_view *row, const row_job *job, whet_stats *stats) {
    map_row m = whet_map_row_of(row, job, stats);
    if (job->map->forward) {
        map_result result = {.rest = 1};
        job->map->forward(&m, &result);
        whet_map_report(job->map, NULL,
                        &(map_coefficients){.largest = result.largest, .first = result.first},
                        stats);
    } else {
        map_solution solution = solve(&m, job->map);
        map_coefficients all = whet_map_store(&m, job->map, &solution);
        whet_map_report(job->map, &solution, &all, stats);
    }
}

/* ---- backward ---- */

/* A row on its backward pass. */
typedef struct backward {
    const map_row *m;
    const row_job *job;
    row_gradients *want;
    map_solution solution;
    double entry_shift, sink_shift; /* from g to what is counted from the largest logit's */
    double mean;                    /* D */
    beta_derivative derivative;
    row_movement movement;
} backward;

/*
 * Where coefficients sum to one, g is taken relative to the gradient at the largest
 * logit: the sharper a row, the closer D is to that, and the more digits their difference
 * would lose otherwise.
 */
static void find_shifts(backward *b, float max, float *buffer) {
    const row_view *row = b->m->row, *grad = b->want->out;
    b->entry_shift = b->want->common;
    if (!grad || !(b->job->map->traits & MAP_SUMS_TO_ONE))
        return;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        size_t count = whet_row_block(row, start);
        const float *x = whet_row_load(row, start, count, buffer);
        size_t found = row->kernels->find(x, count, max);
        if (found == count)
            continue;
        double g = (double)*whet_row_load(grad, start + found, 1, buffer);
        b->entry_shift = -g;
        b->sink_shift = -(g + b->want->common);
        return;
    }
}

/* What reaches a coefficient: its own gradient, and through the entropy of the result (less what is
 * the same for all entries, since they sum to one). */
static double arriving(const backward *b, double g, double p) {
    double entropy_grad = b->want->entropy_after;
    return entropy_grad != 0 && p > 0 ? g - entropy_grad * log(p) : g;
}

/* The shifted gradient of an entry of a walk; `g` is NULL where none arrives. */
static double shifted(const backward *b, const row_walk *walk, const float *g, size_t i) {
    if (walk->is_sink)
        return b->sink_shift;
    return (g ? (double)g[i] : 0) + b->entry_shift;
}

/* What a pass over the row adds up; `probe` turns NaN when something that arrives is not finite.
 * With d = e - max: own g, own g d, shared and shared d. */
typedef struct backward_sums {
    double weights, gradients, probe;
    double own, own_d, shared, shared_d;
    double plain, plain_d; /* own, own d */
} backward_sums;

static void add_entry(const backward *b, double logit, double g, backward_sums *sums) {
    double p = b->job->map->coefficient(logit, &b->solution);
    map_terms terms = b->job->map->terms(logit, p, &b->solution);
    double d = logit - b->m->stats->max;
    double arrives = arriving(b, g, p);
    sums->weights += terms.mean;
    sums->gradients += terms.mean * arrives;
    sums->probe += 0 * g;
    sums->own += terms.own * arrives;
    sums->own_d += terms.own * arrives * d;
    sums->plain += terms.own;
    sums->plain_d += terms.own * d;
    sums->shared += terms.shared;
    sums->shared_d += terms.shared * d;
}

static void add_sums(backward_sums *sums, const backward_sums *block) {
    sums->weights += block->weights;
    sums->gradients += block->gradients;
    sums->probe += block->probe;
    sums->own += block->own;
    sums->own_d += block->own_d;
    sums->plain += block->plain;
    sums->plain_d += block->plain_d;
    sums->shared += block->shared;
    sums->shared_d += block->shared_d;
}

static backward_sums sum_row(const backward *b, float *buffer) {
    backward_sums sums = {0};
    row_walk walk;
    walk_begin(&walk, b->m->row, b->m->sink);
    while (walk_next(&walk)) {
        backward_sums block = {0};
        const float *g = NULL;
        if (!walk.is_sink && b->want->out)
            g = whet_row_load(b->want->out, walk.start, walk.count, buffer);
        for (size_t i = 0; i < walk.count; i++)
            if (walk.logits[i] != -INFINITY)
                add_entry(b, (double)walk.logits[i], shifted(b, &walk, g, i), &block);
        add_sums(&sums, &block);
    }
    return sums;
}

/* Whether beta's gradient is asked for, or beta moves. */
static bool needs_beta(const backward *b) {
    return b->want->wants_beta || b->want->parameters || !whet_beta_is_constant(b->m->policy);
}

/* Whether the logits move beta through exponentials at another beta than 1. */
static bool needs_moments(const backward *b) {
    return !b->m->row->has_beta && whet_beta0(b->m->policy, b->m->stats) != 1;
}

static row_sums moments_of(const backward *b, float *buffer) {
    const whet_stats *stats = b->m->stats;
    return whet_row_moments(b->m->row, (float)stats->max,
                            whet_exp2_scale(whet_beta0(b->m->policy, stats)), buffer);
}

/* The gradients of logits through the row's beta and through its statistics; the moments are those
 * at beta0, if they are needed. */
static void find_movement(backward *b, row_sums moments) {
    const whet_stats *stats = b->m->stats;
    row_movement *movement = &b->movement;
    b->derivative = (beta_derivative){.beta0 = 1};
    row_sums sums = {stats->z, stats->s, 0};
    double variance = NAN;
    if (needs_moments(b)) {
        sums = moments;
        variance = sums.q / sums.z - sums.s / sums.z * (sums.s / sums.z);
    }
    if (!b->m->row->has_beta)
        whet_differentiate_beta(b->m->policy, stats, variance, &b->derivative);
    movement->max = stats->max;
    movement->beta0 = b->derivative.beta0;
    movement->mean0 = sums.s / sums.z;
    if (b->derivative.factor != 0)
        movement->through_beta = -b->want->beta * b->derivative.factor / sums.z;
    movement->mean1 = stats->s / stats->z;
    movement->from_logsumexp = b->want->logsumexp / stats->z;
    movement->from_entropy = -b->want->entropy / stats->z;
    movement->is_zero =
        movement->through_beta == 0 && movement->from_logsumexp == 0 && movement->from_entropy == 0;
}

/* What the temperature's parameters and, by the sum given, the map's get of a row. */
static void add_to_parameters(const backward *b, double parameter_grad) {
    if (!b->want->parameters)
        return;
    whet_add_parameters(&b->derivative.parameters, b->want->beta, b->want->parameters);
    b->want->parameters->map_value[0] += parameter_grad;
}

/* The gradient of one logit; adds to that of the map's parameter. */
static double gradient_at(const backward *b, double logit, double g, double p, double *parameter) {
    map_terms terms = b->job->map->terms(logit, p, &b->solution);
    double arrives = arriving(b, g, p);
    double own = b->m->beta * map_gradient_of(terms, arrives, b->mean);
    *parameter += terms.parameter * (arrives - b->mean);
    return b->movement.is_zero ? own : own + row_movement_at(&b->movement, logit);
}

/* Stores the gradient, and the coefficients if requested; returns the gradient of the map's
 * parameter. `buffer` holds the incoming gradient, then the result. */
static double store_gradient(backward *b, float *buffer) {
    double parameter_grad = 0;
    const row_view *row = b->m->row;
    row_walk walk;
    walk_begin(&walk, row, b->m->sink);
    while (walk_next(&walk)) {
        double block = 0;
        if (walk.is_sink) {
            double p = b->job->map->coefficient((double)walk.sink, &b->solution);
            b->want->sink =
                gradient_at(b, (double)walk.sink, shifted(b, &walk, NULL, 0), p, &parameter_grad);
            continue;
        }
        const float *g = NULL;
        if (b->want->out)
            g = whet_row_load(b->want->out, walk.start, walk.count, buffer);
        for (size_t i = 0; i < walk.count; i++) {
            float result = 0;
            double p = 0;
            if (walk.logits[i] != -INFINITY) {
                p = b->job->map->coefficient((double)walk.logits[i], &b->solution);
                double arrives = shifted(b, &walk, g, i);
                result = (float)gradient_at(b, (double)walk.logits[i], arrives, p, &block);
            }
            buffer[i] = result; /* g[i], if it is there, is not needed any more */
            if (b->want->weights)
                b->want->weights[walk.start + i] = (float)p; /* nor is the logit */
        }
        parameter_grad += block;
        whet_row_store(row, walk.start, walk.count, buffer);
    }
    return parameter_grad;
}

/* A sink that the map ignores is still part of the entropy. */
static void finish_sink(backward *b) {
    float sink = row_sink(b->m->row);
    if (sink > -INFINITY && b->m->sink == -INFINITY && !b->movement.is_zero)
        b->want->sink = row_movement_at(&b->movement, (double)sink);
}

/* Whether a number that arrives, or what it leads to, is not finite. */
static bool is_spoilt(const backward *b) {
    return !isfinite(b->want->beta) || !isfinite(b->movement.through_beta) ||
           !isfinite(b->movement.from_logsumexp) || !isfinite(b->movement.from_entropy) ||
           !isfinite(b->want->entropy_after);
}

static bool spoil(const row_view *row) {
    whet_row_fill(row, NAN);
    return false;
}

static bool ordered_backward(backward *b, float *buffer) {
    map_gradient gradient = {
        .grad = b->want->out, .common = b->want->common, .ends = ordered_whole_row()};
    if (needs_beta(b))
        gradient.beta_grad = &b->want->beta;
    if (!b->job->map->backward(b->m, &gradient))
        return spoil(b->m->row);
    find_movement(b, needs_moments(b) ? moments_of(b, buffer) : (row_sums){0, 0, 0});
    if (is_spoilt(b))
        return spoil(b->m->row);
    gradient.stores = true;
    gradient.movement = &b->movement;
    gradient.weights = b->want->weights;
    b->job->map->backward(b->m, &gradient);
    add_to_parameters(b, 0);
    finish_sink(b);
    return true;
}

/* D, and the gradient of beta. */
static void find_means(backward *b, const backward_sums *sums) {
    double max = b->m->stats->max;
    b->mean = sums->gradients;
    if (b->job->map->traits & MAP_MEAN_OVER_SUM)
        b->mean /= sums->weights;
    if (needs_beta(b))
        b->want->beta =
            sums->own_d - b->mean * sums->shared_d + max * (sums->own - b->mean * sums->shared);
}

/* ---- backward, in pieces ---- */

map_part_sums whet_map_no_sums(void) {
    return (map_part_sums){.peak = -(double)INFINITY, .ends = ordered_whole_row()};
}

static map_part_sums ordered_part_sums(const backward *b, float *buffer) {
    map_part_sums sums = whet_map_no_sums();
    map_gradient gradient = {.grad = b->want->out,
                             .common = b->want->common,
                             .ends = ordered_whole_row(),
                             .passed = &sums.ends};
    if (needs_beta(b))
        gradient.beta_grad = &sums.moved;
    if (!b->job->map->backward(b->m, &gradient))
        sums.probe = NAN;
    map_gradient unit = {.ends = {1, 1}, .beta_grad = &sums.moved_after};
    if (needs_beta(b))
        b->job->map->backward(b->m, &unit);
    if (needs_moments(b)) {
        row_sums moments = moments_of(b, buffer);
        sums.z0 = moments.z;
        sums.s0 = moments.s;
        sums.q0 = moments.q;
    }
    return sums;
}

map_part_sums whet_map_part_sums(const row_view *row, const row_job *job, const whet_stats *stats,
                                 const map_solution *solution, row_gradients *gradients) {
    float buffer[ROW_BLOCK];
    map_row m = whet_map_row_of(row, job, stats);
    backward b = {.m = &m, .job = job, .want = gradients, .solution = *solution};
    if (job->map->backward)
        return ordered_part_sums(&b, buffer);
    float max = row->n > 0 ? whet_row_max(row, buffer) : row_sink(row);
    if (row->n > 0 && max > -INFINITY)
        find_shifts(&b, max, buffer);
    else
        b.entry_shift = gradients->common;
    backward_sums sums = sum_row(&b, buffer);
    row_sums moments = needs_moments(&b) ? moments_of(&b, buffer) : (row_sums){0, 0, 0};
    return (map_part_sums){.peak = (double)max,
                           .base = gradients->common - b.entry_shift,
                           .weights = sums.weights,
                           .gradients = sums.gradients,
                           .probe = sums.probe,
                           .own = sums.own,
                           .own_d = sums.own_d,
                           .plain = sums.plain,
                           .plain_d = sums.plain_d,
                           .shared = sums.shared,
                           .shared_d = sums.shared_d,
                           .z0 = moments.z,
                           .s0 = moments.s,
                           .q0 = moments.q,
                           .ends = ordered_whole_row()};
}

static void move_base(map_part_sums *sums, double base) {
    double shift = sums->base - base;
    sums->gradients += shift * sums->weights;
    sums->own += shift * sums->plain;
    sums->own_d += shift * sums->plain_d;
    sums->base = base;
}

static void add_ordered(map_part_sums *into, const map_part_sums *more) {
    ordered_ends left = into->ends, right = more->ends;
    into->moved = right.rest * into->moved + left.before * more->moved_after + more->moved;
    into->moved_after = right.rest * into->moved_after + left.rest * more->moved_after;
    into->ends = (ordered_ends){right.rest * left.before + right.before, right.rest * left.rest};
}

void whet_map_add_sums(map_part_sums *into, const map_part_sums *more) {
    map_part_sums other = *more;
    if (other.peak > into->peak) {
        move_base(into, other.base);
        into->peak = other.peak;
    } else {
        move_base(&other, into->base);
    }
    into->weights += other.weights;
    into->gradients += other.gradients;
    into->probe += other.probe;
    into->own += other.own;
    into->own_d += other.own_d;
    into->plain += other.plain;
    into->plain_d += other.plain_d;
    into->shared += other.shared;
    into->shared_d += other.shared_d;
    into->z0 += other.z0;
    into->s0 += other.s0;
    into->q0 += other.q0;
    add_ordered(into, more);
}

/* The gradients of a piece under an ordered map, once the row's movement is known. */
static void store_ordered(const backward *b) {
    map_gradient gradient = {.grad = b->want->out,
                             .common = b->want->common,
                             .ends = b->want->ends,
                             .stores = true,
                             .movement = &b->movement,
                             .weights = b->want->weights};
    b->job->map->backward(b->m, &gradient);
}

bool whet_map_part_backward(const row_view *row, const row_job *job, const whet_stats *stats,
                            const map_solution *solution, const map_part_sums *all, bool is_first,
                            row_gradients *gradients) {
    float buffer[ROW_BLOCK];
    map_row m = whet_map_row_of(row, job, stats);
    backward b = {.m = &m, .job = job, .want = gradients, .solution = *solution};
    backward_sums sums = {.weights = all->weights,
                          .gradients = all->gradients,
                          .own = all->own,
                          .own_d = all->own_d,
                          .shared = all->shared,
                          .shared_d = all->shared_d};
    gradients->beta = gradients->sink = 0;
    if (isnan(all->probe))
        return spoil(row);
    const bool is_ordered = job->map->backward != NULL;
    b.entry_shift = gradients->common - all->base;
    b.sink_shift = -all->base;
    if (!is_ordered)
        find_means(&b, &sums);
    else if (needs_beta(&b))
        gradients->beta = all->moved;
    find_movement(&b, (row_sums){all->z0, all->s0, all->q0});
    if (is_spoilt(&b))
        return spoil(row);
    double parameter = 0;
    if (is_ordered)
        store_ordered(&b);
    else
        parameter = store_gradient(&b, buffer);
    if (gradients->parameters && is_first)
        whet_add_parameters(&b.derivative.parameters, gradients->beta, gradients->parameters);
    if (gradients->parameters)
        gradients->parameters->map_value[0] += parameter;
    finish_sink(&b);
    if (row->has_beta && !whet_beta_is_free(row->beta))
        gradients->beta = 0;
    return true;
}

bool whet_map_row_backward(const row_view *row, const row_job *job, const whet_stats *stats,
                           row_gradients *gradients) {
    float buffer[ROW_BLOCK];
    map_row m = whet_map_row_of(row, job, stats);
    backward b = {.m = &m, .job = job};
    b.want = gradients;
    gradients->beta = gradients->sink = 0;
    if (job->map->backward)
        return ordered_backward(&b, buffer);
    b.solution = solve(&m, job->map);
    find_shifts(&b, (float)stats->max, buffer);
    backward_sums sums = sum_row(&b, buffer);
    if (isnan(sums.probe))
        return spoil(row);
    find_means(&b, &sums);
    find_movement(&b, needs_moments(&b) ? moments_of(&b, buffer) : (row_sums){0, 0, 0});
    if (is_spoilt(&b))
        return spoil(row);
    add_to_parameters(&b, store_gradient(&b, buffer));
    finish_sink(&b);
    return true;
}
