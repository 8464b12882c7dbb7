/*
 * whet_softmax_backward: checks the request as whet_softmax does, then takes row
 * after row.
 */
#include "row/request.h"
#include "row/row.h"

#include <string.h>

/* The arrays of a request. */
typedef struct back_arrays {
    rows_array in, mask, grad_out, grad_in;
} back_arrays;

static back_arrays arrays_of(const whet_rows_backward *rows) {
    return (back_arrays){.in = {rows->in, rows->in_type, rows->in_stride},
                         .mask = {rows->mask, rows->mask_type, rows->mask_stride},
                         .grad_out = {rows->grad_out, rows->grad_out_type, rows->grad_out_stride},
                         .grad_in = {rows->grad_in, rows->grad_in_type, rows->grad_in_stride}};
}

static whet_status check_types(const whet_rows_backward *rows, const back_arrays *arrays) {
    bool is_sound = array_type_is_sound(arrays->in) && mask_type_is_sound(arrays->mask) &&
                    array_type_is_sound(arrays->grad_out) && array_type_is_sound(arrays->grad_in) &&
                    (uintptr_t)rows->policy_grad % _Alignof(whet_policy_gradient) == 0;
    return is_sound && !rows->reserved[0] && !rows->reserved[1] ? WHET_OK : WHET_ERROR_ARGUMENT;
}

/* Everything about the request that can be wrong, before the first row is touched. */
static whet_status check_rows(const whet_rows_backward *rows) {
    back_arrays arrays = arrays_of(rows);
    memory_range in, grad_out, grad_in, mask = {0, 0}, numbers = {0, 0};
    if (check_types(rows, &arrays) != WHET_OK)
        return WHET_ERROR_ARGUMENT;
    if (rows->rows == 0 || rows->n == 0)
        return WHET_OK;
    if (!rows->in || !rows->grad_out || !rows->grad_in)
        return WHET_ERROR_ARGUMENT;
    if (!array_range(arrays.in, rows->rows, rows->n, &in) ||
        !array_range(arrays.grad_out, rows->rows, rows->n, &grad_out) ||
        !array_range(arrays.grad_in, rows->rows, rows->n, &grad_in) ||
        (rows->mask && !array_range(arrays.mask, rows->rows, rows->n, &mask)))
        return WHET_ERROR_OVERFLOW;
    if (rows->policy_grad)
        numbers = range_at(rows->policy_grad, sizeof *rows->policy_grad);
    bool over_in = range_overlap(in, grad_in) && !array_same(arrays.in, arrays.grad_in, rows->rows);
    bool over_grad = range_overlap(grad_out, grad_in) &&
                     !array_same(arrays.grad_out, arrays.grad_in, rows->rows);
    if (over_in || over_grad || range_overlap(mask, grad_in) ||
        array_collides(arrays.grad_in, rows->rows, rows->n))
        return WHET_ERROR_OVERLAP;
    if (range_overlap(numbers, in) || range_overlap(numbers, grad_out) ||
        range_overlap(numbers, grad_in) || range_overlap(numbers, mask))
        return WHET_ERROR_OVERLAP;
    return WHET_OK;
}

static whet_status run_rows(const whet_rows_backward *rows, const whet_policy *policy,
                            whet_policy_gradient *numbers, size_t *first_bad_row) {
    whet_status status = WHET_OK;
    const back_arrays arrays = arrays_of(rows);
    const row_job job = whet_row_plan(policy, false);
    row_view view = {.kernels = whet_kernels_get(),
                     .n = rows->n,
                     .in_type = rows->in_type,
                     .mask_type = rows->mask_type,
                     .out_type = rows->grad_in_type};
    row_view grad = {.kernels = view.kernels, .n = rows->n, .in_type = rows->grad_out_type};
    for (size_t r = 0; r < rows->rows; r++) {
        view.in = row_at(arrays.in, r);
        if (rows->mask)
            view.mask = row_at(arrays.mask, r);
        view.out = (char *)rows->grad_in + row_offset(rows->grad_in_type, rows->grad_in_stride, r);
        grad.in = row_at(arrays.grad_out, r);
        if (!whet_row_backward(&view, &grad, &job, numbers))
            note_bad_row(r, &status, first_bad_row);
    }
    return status;
}

whet_status whet_softmax_backward(const whet_rows_backward *request, const whet_policy *policy,
                                  size_t *first_bad_row) {
    if (!request || request->size != sizeof *request)
        return WHET_ERROR_ARGUMENT;
    whet_policy plain = whet_policy_softmax();
    if (!policy)
        policy = &plain;
    if (whet_policy_check(policy, NULL, 0) != WHET_OK)
        return WHET_ERROR_POLICY;
    whet_rows_backward rows = *request;
    if (rows.n > PTRDIFF_MAX)
        return WHET_ERROR_OVERFLOW;
    ptrdiff_t *strides[] = {&rows.in_stride, &rows.grad_out_stride, &rows.grad_in_stride};
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++)
        if (*strides[i] == 0)
            *strides[i] = (ptrdiff_t)rows.n;
    whet_status status = check_rows(&rows);
    if (status != WHET_OK)
        return status;
    whet_policy_gradient numbers;
    memset(&numbers, 0, sizeof numbers);
    if (rows.n > 0)
        status = run_rows(&rows, policy, rows.policy_grad ? &numbers : NULL, first_bad_row);
    if (rows.policy_grad)
        *rows.policy_grad = numbers;
    return status;
}
