// whet_softmax_backward.
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct types {
    whet_type in, grad_out, grad_in;
};

static struct { void *in, *grad_out, *grad_in, *mask; } buffers;

static void backward(const whet_policy *policy, const struct types *types, enum row_mask mask,
                     bool in_place, size_t n) {
    size_t rows = n <= 1000 ? 7 : 3, bad_row = SIZE_MAX;
    whet_policy_gradient policy_gradient;
    fill_logits(buffers.in, types->in, rows, n, n, mask);
    void *grad_in = in_place ? buffers.grad_out : buffers.grad_in;
    memset(grad_in, 0xa5, rows * n * element_bytes(types->grad_in));
    fill_row(buffers.grad_out, types->grad_out, rows * n, 5 * n, 1, 0.25f);
    whet_rows_backward request = {
        .size = sizeof request,
        .rows = rows,
        .n = n,
        .in = buffers.in,
        .mask = fill_mask(buffers.mask, mask, rows, n),
        .mask_stride = mask == MASK_F32 ? (ptrdiff_t)n : 0,
        .mask_type = mask == MASK_F16 ? WHET_F16 : WHET_F32,
        .grad_out = buffers.grad_out,
        .grad_in = grad_in,
        .policy_grad = &policy_gradient,
        .in_type = types->in,
        .grad_out_type = types->grad_out,
        .grad_in_type = types->grad_in,
    };
    if (group_add_status(whet_softmax_backward(&request, policy, &bad_row), bad_row)) {
        group_add_elements("grad_in", grad_in, types->grad_in, rows * n);
        group_add_policy_gradients(&policy_gradient, 1);
    }
}

static void backward_group(const struct named_policy *policy, const struct types *types,
                           enum row_mask mask, bool in_place) {
    char name[48];
    snprintf(name, sizeof name, "%s.%s.%s", type_name(types->in), type_name(types->grad_out),
             type_name(types->grad_in));
    for (size_t c = 0; c < COUNT(size_classes); c++) {
        const struct size_class *class = &size_classes[c];
        if (group_begin(in_place ? "rows.backward.inplace" : "rows.backward", policy->name, name,
                        row_mask_names[mask], class->name)) {
            for (size_t i = 0; i < class->count; i++) {
                backward(&policy->policy, types, mask, in_place, class->sizes[i]);
            }
            group_end();
        }
    }
}

void digest_rows_backward(void) {
    static const struct types plain = {WHET_F32, WHET_F32, WHET_F32};
    static const struct types others[] = {
        {WHET_F16, WHET_F16, WHET_F16},  {WHET_BF16, WHET_BF16, WHET_BF16},
        {WHET_F16, WHET_F32, WHET_BF16}, {WHET_BF16, WHET_F16, WHET_F32},
        {WHET_F32, WHET_BF16, WHET_F16},
    };
    size_t policy_count;
    const struct named_policy *policies = all_policies(&policy_count);
    size_t elements = (size_t)3 * n_max;
    buffers.in = allocate(elements * sizeof(float));
    buffers.grad_out = allocate(elements * sizeof(float));
    buffers.grad_in = allocate(elements * sizeof(float));
    buffers.mask = allocate(elements * sizeof(float));
    for (size_t p = 0; p < policy_count; p++) {
        for (enum row_mask mask = MASK_NONE; mask < row_mask_count; mask++) {
            backward_group(&policies[p], &plain, mask, false);
        }
        for (size_t t = 0; t < COUNT(others); t++) {
            backward_group(&policies[p], &others[t], MASK_NONE, false);
            backward_group(&policies[p], &others[t], MASK_F16, false);
        }
        backward_group(&policies[p], &plain, MASK_NONE, true);
    }
    free(buffers.in);
    free(buffers.grad_out);
    free(buffers.grad_in);
    free(buffers.mask);
}
