/* What rows that are taken together have in common: see group.h. */
#include "row/group.h"
#include "row/policy.h"
#include "row/request.h"
#include <math.h>

/* What multiplies exponents where every row has the same beta, or 0. */
static float constant_c(const whet_policy *policy) {
    if (!whet_policy_is_constant(policy))
        return 0;
    return whet_beta_to_c(whet_policy_beta(policy, &(whet_stats){.n = 1}));
}

row_group whet_group_start(const whet_rows *rows, const row_job *job) {
    return (row_group){.rows = rows,
                       .job = job,
                       .kernels = whet_kernels_get(),
                       .constant_c = constant_c(job->policy)};
}

void whet_group_check_max(row_group *group, float *max) {
    for (size_t i = 0; i < group->count; i++) {
        group->odd[i] = isinf(max[i]);
        if (group->odd[i])
            max[i] = 0;
    }
}

/* The statistics that the policy asks for of one row. */
static whet_stats stats_of(const row_group *group, size_t i, float max, float z, float s) {
    whet_stats stats = {.max = (double)max, .n = 1};
    if (group->job->needs_count)
        stats.n = group->kernels->count(whet_group_in(group, i), group->rows->n);
    if (group->job->needs_sums) {
        stats.z = (double)z;
        stats.s = (double)s;
        whet_stats_complete(&stats);
    }
    return stats;
}

/* beta of one row that is not odd. */
static double beta_of(const row_group *group, size_t i, float max, float z, float s) {
    whet_stats stats = stats_of(group, i, max, z, s);
    return whet_policy_beta(group->job->policy, &stats);
}

void whet_group_choose(row_group *group, const float *max, const float *z, const float *s,
                       float *c) {
    double entropy[LANES_MAX], beta[LANES_MAX];
    if (group->job->needs_sums)
        group->kernels->entropies(z, s, group->count, entropy);
    bool together = group->job->needs_sums &&
                    whet_policy_betas(group->job->policy, entropy, group->count, beta);
    for (size_t i = 0; i < group->count; i++) {
        if (group->job->needs_sums && isnan(z[i]))
            group->odd[i] = true;
        if (!together && !group->odd[i])
            beta[i] = beta_of(group, i, max[i], z[i], s[i]);
        if (!group->odd[i])
            group->odd[i] = isnan(beta[i]);
        c[i] = group->odd[i] ? 1 : whet_beta_to_c(beta[i]);
    }
}

void whet_group_finish_odd(const row_group *group, whet_status *status, size_t *first_bad_row) {
    for (size_t i = 0; i < group->count; i++) {
        if (!group->odd[i])
            continue;
        row_view row = {.kernels = group->kernels,
                        .n = group->rows->n,
                        .in = whet_group_in(group, i),
                        .out = whet_group_out(group, i)};
        whet_stats stats;
        whet_one_row(&row, group->job, &stats);
        if (stats.flags & WHET_ROW_NOT_FINITE)
            note_bad_row(group->first + i, status, first_bad_row);
    }
}
