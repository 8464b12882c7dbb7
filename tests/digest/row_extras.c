// Sinks, given betas, positions and gradients of statistics in rows, forward and backward.
#include "rows.h"

#if DIGEST_HAS_ROW_EXTRAS

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum extra {
    ONE_SINK,  // for all rows
    ROW_SINKS, // one for each row, some of them none
    BETAS,     // with a sink
    extra_count
};
static const char *const extra_names[extra_count] = {"sink", "sinks", "betas"};

// In the order of the rows, again and again.
static const float sinks[] = {0.5f, -2, 3, -INFINITY, 0, 7, -9};
static const float betas[] = {1, 0.5f, 2.5f, 1.25f, 8};

static struct {
    void *in, *out, *mask;
    whet_stats stats[rows_max];
    float sinks[rows_max], betas[rows_max], arriving[3][rows_max], gradients[2][rows_max];
} buffers;

// Whether the policy leaves beta to the caller: the library refuses two.
static bool takes_betas(const whet_policy *policy) {
    const float logit = 0, beta = 2;
    whet_stats stats;
    whet_rows rows = {
        .size = sizeof rows, .rows = 1, .n = 1, .in = &logit, .stats = &stats, .beta = &beta};
    return whet_entropy(&rows, policy, NULL) == WHET_OK;
}

static bool has_entropy_after(const whet_policy *policy) {
    const float logit = 0;
    whet_stats stats = {.entropy_after = NAN};
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = 1, .in = &logit, .stats = &stats};
    return whet_entropy(&rows, policy, NULL) == WHET_OK && !isnan(stats.entropy_after);
}

static void forward(const whet_policy *policy, enum extra extra, enum row_mask mask, size_t n,
                    bool with_stats) {
    size_t rows = rows_of(n), bad_row = SIZE_MAX;
    fill_logits(buffers.in, WHET_F32, rows, n, n, mask);
    memset(buffers.out, 0xa5, rows * n * sizeof(float));
    whet_rows request = {
        .size = sizeof request,
        .rows = rows,
        .n = n,
        .in = buffers.in,
        .out = buffers.out,
        .mask = fill_mask(buffers.mask, mask, rows, n),
        .mask_stride = mask == MASK_F32 ? (ptrdiff_t)n : 0,
        .mask_type = mask == MASK_F16 ? WHET_F16 : WHET_F32,
        .stats = with_stats ? buffers.stats : NULL,
        .sink = buffers.sinks,
        .sink_stride = extra == ONE_SINK ? 0 : 1,
        .beta = extra == BETAS ? buffers.betas : NULL,
        .position = 1000,
        .position_stride = 3000,
    };
    if (group_add_status(whet_softmax(&request, policy, &bad_row), bad_row)) {
        group_add_elements(with_stats ? "out_with_stats" : "out", buffers.out, WHET_F32, rows * n);
        if (with_stats) {
            group_add_stats(buffers.stats, rows);
        }
    }
}

static void backward(const whet_policy *policy, enum extra extra, enum row_mask mask, size_t n) {
    size_t rows = n <= 1000 ? 7 : 3, bad_row = SIZE_MAX;
    whet_policy_gradient policy_gradient;
    fill_logits(buffers.in, WHET_F32, rows, n, n, mask);
    fill_row(buffers.out, WHET_F32, rows * n, 5 * n, 1, 0.25f);
    for (size_t i = 0; i < COUNT(buffers.arriving); i++) {
        fill_row(buffers.arriving[i], WHET_F32, rows, n + i, 1, 0.25f);
    }
    memset(buffers.gradients, 0xa5, sizeof buffers.gradients);
    whet_rows_backward request = {
        .size = sizeof request,
        .rows = rows,
        .n = n,
        .in = buffers.in,
        .mask = fill_mask(buffers.mask, mask, rows, n),
        .mask_stride = mask == MASK_F32 ? (ptrdiff_t)n : 0,
        .mask_type = mask == MASK_F16 ? WHET_F16 : WHET_F32,
        .grad_out = buffers.out,
        .grad_in = buffers.out,
        .policy_grad = &policy_gradient,
        .sink = buffers.sinks,
        .sink_stride = extra == ONE_SINK ? 0 : 1,
        .grad_sink = buffers.gradients[0],
        .beta = extra == BETAS ? buffers.betas : NULL,
        .grad_beta = buffers.gradients[1],
        .position = 1000,
        .position_stride = 3000,
        .grad_logsumexp = buffers.arriving[0],
        .grad_entropy = buffers.arriving[1],
        .grad_entropy_after = has_entropy_after(policy) ? buffers.arriving[2] : NULL,
    };
    if (group_add_status(whet_softmax_backward(&request, policy, &bad_row), bad_row)) {
        group_add_elements("grad_in", buffers.out, WHET_F32, rows * n);
        group_add_policy_gradients(&policy_gradient, 1);
        group_add_elements("grad_sink", buffers.gradients[0], WHET_F32,
                           extra == ONE_SINK ? 1 : rows);
        group_add_elements("grad_beta", buffers.gradients[1], WHET_F32, rows);
    }
}

static void extras_group(const struct named_policy *policy, enum extra extra, enum row_mask mask,
                         bool is_backward) {
    for (size_t c = 0; c < COUNT(size_classes); c++) {
        const struct size_class *class = &size_classes[c];
        char path[48];
        snprintf(path, sizeof path, "rows%s.%s", is_backward ? ".backward" : "",
                 extra_names[extra]);
        if (!group_begin(path, policy->name, "f32", row_mask_names[mask], class->name)) {
            continue;
        }
        for (size_t i = 0; i < class->count; i++) {
            if (is_backward) {
                backward(&policy->policy, extra, mask, class->sizes[i]);
            } else {
                forward(&policy->policy, extra, mask, class->sizes[i], false);
                forward(&policy->policy, extra, mask, class->sizes[i], true);
            }
        }
        group_end();
    }
}

void digest_row_extras(void) {
    static const enum row_mask masks[] = {MASK_NONE, MASK_F16, MASK_EMPTY, MASK_NOT_FINITE};
    size_t policy_count;
    const struct named_policy *policies = all_policies(&policy_count);
    size_t elements = (size_t)rows_max * 1000 + 17 * 4095 + (size_t)3 * n_max;
    buffers.in = allocate(elements * sizeof(float));
    buffers.out = allocate(elements * sizeof(float));
    buffers.mask = allocate(elements * sizeof(float));
    for (size_t r = 0; r < rows_max; r++) {
        buffers.sinks[r] = sinks[r % COUNT(sinks)];
        buffers.betas[r] = betas[r % COUNT(betas)];
    }
    for (size_t p = 0; p < policy_count; p++) {
        for (enum extra extra = ONE_SINK; extra < extra_count; extra++) {
            if (extra == BETAS && !takes_betas(&policies[p].policy)) {
                continue;
            }
            for (size_t m = 0; m < COUNT(masks); m++) {
                extras_group(&policies[p], extra, masks[m], false);
                extras_group(&policies[p], extra, masks[m], true);
            }
        }
    }
    free(buffers.in);
    free(buffers.out);
    free(buffers.mask);
}

#else

void digest_row_extras(void) {}

#endif
