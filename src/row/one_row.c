/*
 * One row from logits to statistics, beta and probabilities. A row that fits a block is
 * converted once and stays in the first-level cache. A longer one is walked block by
 * block, each block's exponentials relative to the largest logit so far; at the end a
 * factor for each block corrects them. All element types take the same steps, so that a
 * narrow result is the f32 one rounded.
 */
#include "row/one_row.h"
#include "base/sums.h"
#include "policy/beta.h"
#include "policy/registry.h"
#include "row/extra_logits.h"
#include "row/map_row.h"
#include <string.h>

/* The largest logit so far and the sums with respect to it, at some exp2_scale. */
typedef struct running {
    float max;
    double z, s;
    double unit, total; /* of the last step (see row_pass) */
} running;

/* The maximum that a block's exponentials are relative to. */
typedef struct block_note {
    float max;
    double unit;
} block_note;

static void raise_max(running *run, float max, float exp2_scale) {
    if (!(max > run->max))
        return;
    double shift = (double)run->max - (double)max;
    if (run->z > 0)
        sums_shift(shift, exp2((double)exp2_scale * shift), &run->z, &run->s, NULL);
    else
        run->s = 0;
    run->max = max;
}

/* Adds the row's sink to its sums. */
static void add_sink(const row_view *row, float exp2_scale, running *run) {
    if (!row->has_sink || row->sink == -INFINITY)
        return;
    raise_max(run, row->sink, exp2_scale);
    row_sums sink =
        extra_sums(weigh_extra_logit((double)row->sink, (double)run->max, (double)exp2_scale));
    run->z += sink.z;
    run->s += sink.s;
}

/* The sum that a row's exponentials are divided by, relative to their own maximum. */
static double sum_with_sink(const row_view *row, const running *run, float exp2_scale) {
    if (!row->has_sink)
        return run->z;
    return run->z +
           extra_sums(weigh_extra_logit((double)row->sink, (double)run->max, (double)exp2_scale)).z;
}

/* What is subtracted from logits: 0 as long as all are masked. */
static float shift_of(float max) { return max == -INFINITY ? 0 : max; }

static bool is_noted(const row_view *row) { return row->n <= (size_t)ROW_BLOCK * NOTED_BLOCKS; }

float whet_row_max(const row_view *row, float *buffer) {
    float max = -INFINITY;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        size_t count = whet_row_block(row, start);
        float m = row->kernels->max(whet_row_load(row, start, count, buffer), count);
        if (m > max)
            max = m;
    }
    return max;
}

/* The maximum of the block at `start`, unless the step before has found it already. */
static float max_of_block(const row_view *row, size_t start, const row_pass *before, const float *x,
                          size_t count) {
    return start > 0 && before->next ? before->next_max[0] : row->kernels->max(x, count);
}

/* A step over one row, or a block of it. */
static row_pass one_pass_over(const float *x, size_t n, float max, float exp2_scale, float *y) {
    return (row_pass){.row_count = 1,
                      .n = n,
                      .x = x,
                      .y = y,
                      .max = {shift_of(max)},
                      .exp2_scale = {exp2_scale},
                      .next_row_count = 1};
}

/* Has a step over block b finish the same block of what is pending. */
static void take_pending(const row_pending *pending, size_t b, row_pass *pass) {
    if (!pending || !pending->out)
        return;
    pass->out = pending->out + b * ROW_BLOCK;
    pass->last = pending->values + b * ROW_BLOCK;
    pass->nontemporal = pending->nontemporal;
    pass->factor[0] = pending->factor[b];
}

void whet_row_flush(const row_view *row) {
    row_pending *pending = row->pending;
    for (size_t start = 0, b = 0; pending->out && start < row->n; start += ROW_BLOCK, b++)
        row->kernels->scale(pending->values + start, whet_row_block(row, start), pending->factor[b],
                            pending->out + start);
    if (pending->nontemporal)
        row->kernels->nontemporal_end();
    pending->out = NULL;
}

/*
 * Walks the row at exp2_scale. y, if not NULL, receives the exponentials (n floats),
 * notes[b], if not NULL, the maximum of block b.
 */
static running walk(const row_view *row, float exp2_scale, float *y, block_note *notes,
                    float *buffer) {
    running run = {is_noted(row) ? -INFINITY : whet_row_max(row, buffer), 0, 0, 1, 0};
    bool plain = row->in_type == WHET_F32 && !row->mask;
    row_pass pass = {.next = NULL};
    for (size_t start = 0, b = 0; start < row->n; start += ROW_BLOCK, b++) {
        size_t count = whet_row_block(row, start), after = start + count;
        const float *x = whet_row_load(row, start, count, buffer);
        raise_max(&run, max_of_block(row, start, &pass, x, count), exp2_scale);
        bool ahead = plain && row->n - after >= count;
        pass = one_pass_over(x, count, run.max, exp2_scale, y ? y + start : NULL);
        pass.next = ahead ? (const float *)row->in + after : NULL;
        pass.nearest = row->pending && row->pending->spare;
        take_pending(row->pending, b, &pass);
        row->kernels->rows_pass(&pass);
        run.z += (double)pass.z[0];
        run.s += (double)pass.s[0];
        run.unit = (double)pass.unit[0];
        if (notes && is_noted(row))
            notes[b] = (block_note){run.max, run.unit};
    }
    if (row->pending)
        row->pending->out = NULL;
    return run;
}

/* The factor that makes probabilities of block b's exponentials. */
static float block_factor(const row_view *row, const running *run, float exp2_scale,
                          const block_note *notes, size_t b) {
    block_note note = is_noted(row) ? notes[b] : (block_note){run->max, run->unit};
    /* a block that came before anything unmasked has the maximum -inf, and so the factor 0 */
    double shift = (double)note.max - (double)run->max;
    return (float)(exp2((double)exp2_scale * shift) /
                   (sum_with_sink(row, run, exp2_scale) * note.unit));
}

/* Exponentials that stay where they are until the next walk, with the factor for each block. */
static running store_pending(const row_view *row, float exp2_scale, float *buffer) {
    row_pending *pending = row->pending;
    float *values = pending->spare ? pending->spare : row->out;
    block_note notes[NOTED_BLOCKS];
    running run = walk(row, exp2_scale, values, notes, buffer);
    if (!(run.z > 0))
        return run;
    for (size_t start = 0, b = 0; start < row->n; start += ROW_BLOCK, b++)
        pending->factor[b] = block_factor(row, &run, exp2_scale, notes, b);
    pending->values = values;
    pending->out = row->out;
    return run;
}

/* An f32 result holds the exponentials until their sum is known. */
static running store_long_f32(const row_view *row, float exp2_scale, float *buffer) {
    float *out = row->out;
    block_note notes[NOTED_BLOCKS];
    running run = walk(row, exp2_scale, out, notes, buffer);
    for (size_t start = 0, b = 0; run.z > 0 && start < row->n; start += ROW_BLOCK, b++)
        row->kernels->scale(out + start, whet_row_block(row, start),
                            block_factor(row, &run, exp2_scale, notes, b), out + start);
    return run;
}

/* A narrower result cannot hold them: its exponentials are computed twice. */
static running store_long_narrow(const row_view *row, float exp2_scale, float *buffer) {
    const kernels *k = row->kernels;
    block_note notes[NOTED_BLOCKS];
    running run = walk(row, exp2_scale, NULL, notes, buffer);
    for (size_t start = 0, b = 0; run.z > 0 && start < row->n; start += ROW_BLOCK, b++) {
        size_t count = whet_row_block(row, start);
        const float *x = whet_row_load(row, start, count, buffer);
        row_pass pass =
            one_pass_over(x, count, is_noted(row) ? notes[b].max : run.max, exp2_scale, buffer);
        k->rows_pass(&pass);
        whet_row_store_scaled(row, start, count, buffer,
                              block_factor(row, &run, exp2_scale, notes, b));
    }
    return run;
}

/* A row that short_rows.c would take if it were f32: the same operations. */
static running pass_as_lane(const row_view *row, const float *x, float max, float exp2_scale,
                            float *y) {
    _Alignas(64) float d[SHORT_MAX + ROW_PAD], weights[SHORT_MAX + ROW_PAD];
    float z, s;
    row->kernels->panel_lane(x, row->n, shift_of(max), exp2_scale, d, weights, &z, &s);
    if (y)
        memcpy(y, weights, row->n * sizeof(float));
    return (running){max, (double)z, (double)s, 1, (double)z};
}

/* A row of one block at exp2_scale; its exponentials go to y unless that is NULL. */
static running pass_short(const row_view *row, float exp2_scale, float *y, float *buffer) {
    const float *x = whet_row_load(row, 0, row->n, buffer);
    float max = row->kernels->max(x, row->n);
    if (row->n <= SHORT_MAX)
        return pass_as_lane(row, x, max, exp2_scale, y);
    row_pass pass = one_pass_over(x, row->n, max, exp2_scale, y);
    pass.whole = 1;
    row->kernels->rows_pass(&pass);
    return (running){max, (double)pass.z[0], (double)pass.s[0], (double)pass.unit[0],
                     (double)pass.total[0]};
}

static running store_short(const row_view *row, float exp2_scale, float *buffer) {
    _Alignas(64) float values[ROW_BLOCK];
    running run = pass_short(row, exp2_scale, values, buffer);
    float factor = (float)(1.0 / run.total);
    if (row->has_sink)
        factor = (float)(1.0 / (sum_with_sink(row, &run, exp2_scale) * run.unit));
    if (run.z > 0)
        whet_row_store_scaled(row, 0, row->n, values, factor);
    return run;
}

/* Probabilities at exp2_scale, unless nothing was unmasked or finite: then z is 0 or NaN. */
static running store_row(const row_view *row, float exp2_scale, float *buffer) {
    if (row->n <= ROW_BLOCK)
        return store_short(row, exp2_scale, buffer);
    if (row->out_type == WHET_F32 && row->pending && is_noted(row))
        return store_pending(row, exp2_scale, buffer);
    if (row->out_type == WHET_F32)
        return store_long_f32(row, exp2_scale, buffer);
    return store_long_narrow(row, exp2_scale, buffer);
}

static running sum_row(const row_view *row, float exp2_scale, float *buffer) {
    if (row->n > ROW_BLOCK)
        return walk(row, exp2_scale, NULL, NULL, buffer);
    return pass_short(row, exp2_scale, NULL, buffer);
}

static size_t count_row(const row_view *row, float *buffer) {
    size_t n = 0;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        size_t count = whet_row_block(row, start);
        n += row->kernels->count(whet_row_load(row, start, count, buffer), count);
    }
    return n;
}

row_sums whet_row_moments(const row_view *row, float max, float exp2_scale, float *buffer) {
    row_sums sums = {0, 0, 0};
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        size_t count = whet_row_block(row, start);
        row->kernels->moments(whet_row_load(row, start, count, buffer), count, max, exp2_scale,
                              &sums);
    }
    if (row->has_sink) {
        row_sums sink =
            extra_sums(weigh_extra_logit((double)row->sink, (double)max, (double)exp2_scale));
        sums.z += sink.z;
        sums.s += sink.s;
        sums.q += sink.q;
    }
    return sums;
}

double whet_row_search_beta(const row_view *row, const row_job *job, whet_stats *stats,
                            float *buffer) {
    const beta_solver_steps *steps = job->temperature->solver;
    beta_solver solver;
    steps->start(&solver, job->policy, stats);
    while (!solver.done) {
        row_sums sums =
            whet_row_moments(row, (float)stats->max, whet_exp2_scale(solver.beta), buffer);
        steps->step(&solver, sums.z, sums.s, sums.q);
    }
    stats->flags |= solver.flags;
    return whet_apply_strength(job->policy, solver.beta);
}

void whet_row_finish_special(const row_view *row, double z, whet_stats *stats) {
    *stats = isnan(z) ? whet_stats_not_finite(stats->n) : extra_stats((double)row_sink(row));
    stats->position = row->position;
    if (row->pending && row->pending->out) /* perhaps in the place that is filled here */
        whet_row_flush(row);
    if (row->out)
        whet_row_fill(row, isnan(z) || (stats->flags & WHET_ROW_NOT_FINITE) ? NAN : 0.0f);
}

double whet_row_beta(const row_view *row, const row_job *job, whet_stats *stats, float *buffer) {
    double beta;
    if (row->has_beta)
        beta = whet_bound_beta(row->beta);
    else if (job->temperature->needs & NEEDS_SEARCH)
        beta = whet_row_search_beta(row, job, stats, buffer);
    else
        beta = whet_policy_beta(job->policy, stats);
    if (isnan(beta))
        whet_row_finish_special(row, beta, stats);
    else
        stats->beta = beta;
    return beta;
}

/* The first coefficient, from its logit and the sum at exp2_scale. */
static double first_share(const row_view *row, double max, float exp2_scale, double z,
                          float *buffer) {
    float first = *whet_row_load(row, 0, 1, buffer);
    return extra_sums(weigh_extra_logit((double)first, max, (double)exp2_scale)).z / z;
}

static void sharpen_row(const row_view *row, const row_job *job, whet_stats *stats, float *buffer) {
    float exp2_scale = whet_exp2_scale(stats->beta);
    if (job->wants_stats) {
        running after = {.max = (float)stats->max, .z = stats->z, .s = stats->s};
        if (stats->beta != 1.0) {
            after = sum_row(row, exp2_scale, buffer);
            add_sink(row, exp2_scale, &after);
        }
        whet_stats_after(stats, after.z, after.s);
        stats->sink_share = first_share(row, stats->max, exp2_scale, after.z, buffer);
    }
    if (!row->out)
        return;
    running run = store_row(row, exp2_scale, buffer);
    if (!(run.z > 0))
        whet_row_finish_special(row, run.z, stats);
}

row_job whet_row_plan(const whet_policy *policy, bool wants_stats) {
    row_job job = {.policy = policy,
                   .temperature = whet_temperature_of(policy),
                   .map = whet_map_of(policy),
                   .wants_stats = wants_stats};
    bool all = wants_stats || !whet_policy_is_temperature(policy);
    job.needs_count = all || (job.temperature->needs & NEEDS_COUNT);
    job.needs_sums = all || (job.temperature->needs & NEEDS_SUMS);
    job.needs_extremes = wants_stats || (job.temperature->needs & NEEDS_STATS);
    return job;
}

void whet_row_extremes(const row_view *row, float max, whet_stats *stats, float *buffer) {
    float min = INFINITY;
    stats->argmax = UINT64_MAX;
    for (size_t start = 0; start < row->n; start += ROW_BLOCK) {
        size_t count = whet_row_block(row, start);
        const float *x = whet_row_load(row, start, count, buffer);
        size_t found = stats->argmax == UINT64_MAX ? row->kernels->find(x, count, max) : count;
        if (found < count)
            stats->argmax = start + found;
        min = fminf(min, row->kernels->min(x, count));
    }
    stats->min = (double)min;
}

bool whet_row_describe(const row_view *row, const row_job *job, whet_stats *stats, float *buffer) {
    *stats = whet_stats_empty();
    stats->position = row->position;
    if (job->needs_count)
        stats->n = count_row(row, buffer);
    if (row->has_sink && (isnan(row->sink) || row->sink == INFINITY)) {
        whet_row_finish_special(row, NAN, stats);
        return false;
    }
    if (job->needs_sums) {
        running run = sum_row(row, whet_exp2_scale(1.0), buffer);
        float own_max = run.max;
        if (!(run.z > 0)) {
            whet_row_finish_special(row, run.z, stats);
            return false;
        }
        add_sink(row, whet_exp2_scale(1.0), &run);
        stats->max = (double)run.max;
        stats->z = run.z;
        stats->s = run.s;
        whet_stats_complete(stats);
        if (stats->flags & WHET_ROW_NOT_FINITE) {
            whet_row_finish_special(row, NAN, stats);
            return false;
        }
        if (job->needs_extremes)
            whet_row_extremes(row, own_max, stats, buffer);
    }
    stats->flags = 0;
    return true;
}

void whet_one_row(const row_view *row, const row_job *job, whet_stats *stats) {
    _Alignas(64) float buffer[ROW_BLOCK];
    row_view held = whet_row_hold(row, buffer);
    row_job with_sums;
    const row_job *described = job;
    if (row->has_beta && isnan(row->beta)) { /* an empty row has no use for beta */
        with_sums = *job;
        with_sums.needs_sums = true;
        described = &with_sums;
    }
    if (!whet_row_describe(&held, described, stats, buffer))
        return;
    if (isnan(whet_row_beta(&held, job, stats, buffer)))
        return;
    if (job->map->traits & MAP_IS_SOFTMAX)
        sharpen_row(&held, job, stats, buffer);
    else
        whet_map_row(&held, job, stats);
}
