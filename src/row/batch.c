/* What rows that are computed at once have in common: see batch.h. */
#include "row/batch.h"
#include "policy/beta.h"
#include "row/checks.h"
#include "row/stats.h"

/* The exp2 scale where every row has the same beta, or 0. */
static float constant_scale(const whet_policy *policy) {
    if (!whet_beta_is_constant(policy))
        return 0;
    return whet_exp2_scale(whet_policy_beta(policy, &(whet_stats){.n = 1}));
}

row_batch whet_batch_start(const whet_rows *rows, const row_job *job) {
    return (row_batch){.rows = rows,
                       .job = job,
                       .kernels = whet_kernels_get(),
                       .constant_scale = constant_scale(job->policy)};
}

void whet_batch_check_max(row_batch *batch, float *max) {
    for (size_t i = 0; i < batch->count; i++) {
        batch->special[i] = isinf(max[i]);
        if (batch->special[i])
            max[i] = 0;
    }
}

static int64_t position_of(const row_batch *batch, size_t i) {
    return row_position(batch->rows->position, batch->rows->position_stride, batch->first + i);
}

/* All that a caller's own function may ask of one row. */
static whet_stats stats_of(const row_batch *batch, size_t i, float max, float z, float s) {
    whet_stats stats = {
        .max = (double)max, .z = (double)z, .s = (double)s, .position = position_of(batch, i)};
    float buffer[1]; /* plain f32 is not copied */
    row_view row = {.kernels = batch->kernels, .n = batch->rows->n, .in = whet_batch_in(batch, i)};
    stats.n = batch->kernels->count(whet_batch_in(batch, i), batch->rows->n);
    whet_stats_complete(&stats);
    whet_row_extremes(&row, max, &stats, buffer);
    return stats;
}

/* What the temperature needs of the rows, array by array. */
typedef struct batch_inputs {
    double entropy[LANES_MAX];
    uint64_t n[LANES_MAX];
    int64_t position[LANES_MAX];
    whet_stats stats[LANES_MAX];
} batch_inputs;

static beta_batch gather_inputs(const row_batch *batch, const float *max, const float *z,
                                const float *s, batch_inputs *in) {
    unsigned needs = batch->job->temperature->needs;
    if (needs & NEEDS_SUMS)
        batch->kernels->entropies(z, s, batch->count, in->entropy);
    for (size_t i = 0; (needs & NEEDS_COUNT) && i < batch->count; i++)
        in->n[i] = batch->kernels->count(whet_batch_in(batch, i), batch->rows->n);
    for (size_t i = 0; (needs & NEEDS_POSITION) && i < batch->count; i++)
        in->position[i] = position_of(batch, i);
    for (size_t i = 0; (needs & NEEDS_STATS) && i < batch->count; i++)
        in->stats[i] =
            batch->special[i] ? whet_stats_empty() : stats_of(batch, i, max[i], z[i], s[i]);
    return (beta_batch){batch->count, in->entropy, in->n, in->position, in->stats};
}

void whet_batch_choose(row_batch *batch, const float *max, const float *z, const float *s,
                       float *scale) {
    batch_inputs in;
    double beta[LANES_MAX];
    for (size_t i = 0; batch->job->needs_sums && i < batch->count; i++)
        if (isnan(z[i]))
            batch->special[i] = true;
    beta_batch inputs = gather_inputs(batch, max, z, s, &in);
    whet_betas(batch->job->policy, &inputs, beta);
    for (size_t i = 0; i < batch->count; i++) {
        if (!batch->special[i])
            batch->special[i] = isnan(beta[i]);
        scale[i] = batch->special[i] ? 1 : whet_exp2_scale(beta[i]);
    }
}

void whet_batch_finish_special(const row_batch *batch, whet_status *status, size_t *first_bad_row) {
    for (size_t i = 0; i < batch->count; i++) {
        if (!batch->special[i])
            continue;
        row_view row = {.kernels = batch->kernels,
                        .n = batch->rows->n,
                        .in = whet_batch_in(batch, i),
                        .out = whet_batch_out(batch, i),
                        .position = position_of(batch, i)};
        whet_stats stats;
        whet_one_row(&row, batch->job, &stats);
        if (stats.flags & WHET_ROW_NOT_FINITE)
            note_bad_row(batch->first + i, status, first_bad_row);
    }
}
