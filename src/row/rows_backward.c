/*
 * whet_softmax_backward: checks the call as whet_softmax does, then takes row
 * after row.
 */
#include "policy/beta.h"
#include "row/checks.h"
#include "row/row_backward.h"

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

/* Arrays of floats that a call reads, and those that it writes: a number for each row, or one. */
enum { FLOATS_READ = 5, FLOATS_WRITTEN = 2 };
typedef struct back_floats {
    const float *read[FLOATS_READ], *written[FLOATS_WRITTEN];
    size_t read_stride[FLOATS_READ], written_stride[FLOATS_WRITTEN];
} back_floats;

static back_floats floats_of(const whet_rows_backward *rows) {
    return (back_floats){{rows->sink, rows->beta, rows->grad_logsumexp, rows->grad_entropy,
                          rows->grad_entropy_after},
                         {rows->grad_sink, rows->grad_beta},
                         {rows->sink_stride, 1, 1, 1, 1},
                         {rows->sink_stride, 1}};
}

static whet_status check_types(const whet_rows_backward *rows, const back_arrays *arrays,
                               const back_floats *floats) {
    bool is_sound = array_type_is_sound(arrays->in) && mask_type_is_sound(arrays->mask) &&
                    array_type_is_sound(arrays->grad_out) && array_type_is_sound(arrays->grad_in) &&
                    (uintptr_t)rows->policy_grad % _Alignof(whet_policy_gradient) == 0;
    for (size_t i = 0; i < FLOATS_READ; i++)
        is_sound = is_sound && floats_are_aligned(floats->read[i]);
    for (size_t i = 0; i < FLOATS_WRITTEN; i++)
        is_sound = is_sound && floats_are_aligned(floats->written[i]);
    if (rows->grad_sink && !rows->sink)
        return WHET_ERROR_ARGUMENT;
    return is_sound && !rows->reserved[0] && !rows->reserved[1] ? WHET_OK : WHET_ERROR_ARGUMENT;
}

/* The memory of everything that is read or written. */
typedef struct back_ranges {
    memory_range in, mask, grad_out, grad_in;
    memory_range read[FLOATS_READ];
    memory_range written[FLOATS_WRITTEN + 1]; /* and policy_grad */
} back_ranges;

static bool find_array_ranges(const whet_rows_backward *rows, const back_arrays *arrays,
                              back_ranges *at) {
    return array_range(arrays->in, rows->rows, rows->n, &at->in) &&
           array_range(arrays->grad_in, rows->rows, rows->n, &at->grad_in) &&
           (!rows->grad_out || array_range(arrays->grad_out, rows->rows, rows->n, &at->grad_out)) &&
           (!rows->mask || array_range(arrays->mask, rows->rows, rows->n, &at->mask));
}

/* What there is one of for each row; the ranges of arrays are empty so far. */
static bool find_float_ranges(const whet_rows_backward *rows, const back_floats *floats,
                              back_ranges *at) {
    bool fits = true;
    *at = (back_ranges){.in = {0, 0}};
    for (size_t i = 0; i < FLOATS_READ; i++)
        fits =
            fits && floats_range(floats->read[i], floats->read_stride[i], rows->rows, &at->read[i]);
    for (size_t i = 0; i < FLOATS_WRITTEN; i++)
        fits = fits && floats_range(floats->written[i], floats->written_stride[i], rows->rows,
                                    &at->written[i]);
    if (rows->policy_grad)
        at->written[FLOATS_WRITTEN] = range_at(rows->policy_grad, sizeof *rows->policy_grad);
    return fits;
}

/* Whether what is written one to a row overlaps anything else. */
static bool written_overlaps(const back_ranges *at) {
    bool overlaps = false;
    for (size_t i = 0; i <= FLOATS_WRITTEN; i++) {
        memory_range one = at->written[i];
        overlaps = overlaps || range_overlap(one, at->in) || range_overlap(one, at->mask) ||
                   range_overlap(one, at->grad_out) || range_overlap(one, at->grad_in);
        for (size_t j = 0; j < FLOATS_READ; j++)
            overlaps = overlaps || range_overlap(one, at->read[j]);
        for (size_t j = 0; j < i; j++)
            overlaps = overlaps || range_overlap(one, at->written[j]);
    }
    for (size_t j = 0; j < FLOATS_READ; j++)
        overlaps = overlaps || range_overlap(at->grad_in, at->read[j]);
    return overlaps;
}

/* Everything about the call that can be wrong, before the first row is touched. */
static whet_status check_rows(const whet_rows_backward *rows, const whet_policy *policy) {
    back_arrays arrays = arrays_of(rows);
    back_floats floats = floats_of(rows);
    back_ranges at;
    if (check_types(rows, &arrays, &floats) != WHET_OK)
        return WHET_ERROR_ARGUMENT;
    if (rows->beta && !whet_beta_is_one(policy))
        return WHET_ERROR_ARGUMENT;
    if (rows->grad_entropy_after && !(whet_map_of(policy)->traits & MAP_SUMS_TO_ONE))
        return WHET_ERROR_UNSUPPORTED;
    bool is_nothing = rows->rows == 0 || rows->n == 0;
    if (!find_float_ranges(rows, &floats, &at))
        return WHET_ERROR_OVERFLOW;
    if (is_nothing) /* gradients of zero are written all the same */
        return written_overlaps(&at) ? WHET_ERROR_OVERLAP : WHET_OK;
    bool arrives =
        rows->grad_out || rows->grad_logsumexp || rows->grad_entropy || rows->grad_entropy_after;
    if (!rows->in || !arrives || !rows->grad_in)
        return WHET_ERROR_ARGUMENT;
    if (!find_array_ranges(rows, &arrays, &at))
        return WHET_ERROR_OVERFLOW;
    bool over_in =
        range_overlap(at.in, at.grad_in) && !array_same(arrays.in, arrays.grad_in, rows->rows);
    bool over_grad = range_overlap(at.grad_out, at.grad_in) &&
                     !array_same(arrays.grad_out, arrays.grad_in, rows->rows);
    if (over_in || over_grad || range_overlap(at.mask, at.grad_in) ||
        array_collides(arrays.grad_in, rows->rows, rows->n) || written_overlaps(&at))
        return WHET_ERROR_OVERLAP;
    return WHET_OK;
}

static double float_at(const float *base, size_t row) { return base ? (double)base[row] : 0; }

/* Gradients of sinks and betas that were asked for start at zero. */
static void clear_written(const whet_rows_backward *rows) {
    size_t sinks = rows->sink_stride == 0 ? 1 : rows->rows;
    for (size_t r = 0; rows->grad_sink && r < sinks; r++)
        rows->grad_sink[r * rows->sink_stride] = 0;
    for (size_t r = 0; rows->grad_beta && r < rows->rows; r++)
        rows->grad_beta[r] = 0;
}

static whet_status run_rows(const whet_rows_backward *rows, const whet_policy *policy,
                            whet_policy_gradient *parameters, size_t *first_bad_row) {
    whet_status status = WHET_OK;
    const back_arrays arrays = arrays_of(rows);
    const row_job job = whet_row_plan(policy, false);
    row_view view = {.kernels = whet_kernels_get(),
                     .n = rows->n,
                     .in_type = rows->in_type,
                     .mask_type = rows->mask_type,
                     .out_type = rows->grad_in_type};
    row_view grad = {.kernels = view.kernels, .n = rows->n, .in_type = rows->grad_out_type};
    double sink_sum = 0;
    for (size_t r = 0; r < rows->rows; r++) {
        row_gradients gradients = {.out = rows->grad_out ? &grad : NULL,
                                   .logsumexp = float_at(rows->grad_logsumexp, r),
                                   .entropy = float_at(rows->grad_entropy, r),
                                   .entropy_after = float_at(rows->grad_entropy_after, r),
                                   .wants_beta = rows->grad_beta != NULL,
                                   .parameters = parameters};
        view.in = row_at(arrays.in, r);
        if (rows->mask)
            view.mask = row_at(arrays.mask, r);
        view.out = (char *)rows->grad_in + row_offset(rows->grad_in_type, rows->grad_in_stride, r);
        view.position = row_position(rows->position, rows->position_stride, r);
        row_extras_at(&view, r, rows->sink, rows->sink_stride, rows->beta);
        if (rows->grad_out)
            grad.in = row_at(arrays.grad_out, r);
        bool finite = whet_row_backward(&view, &job, &gradients);
        if (!finite)
            note_bad_row(r, &status, first_bad_row);
        sink_sum = (rows->sink_stride ? 0 : sink_sum) + (finite ? gradients.sink : 0);
        if (rows->grad_sink)
            rows->grad_sink[r * rows->sink_stride] =
                finite || !rows->sink_stride ? (float)sink_sum : NAN;
        if (rows->grad_beta)
            rows->grad_beta[r] = finite ? (float)gradients.beta : NAN;
    }
    return status;
}

whet_status whet_softmax_backward(const whet_rows_backward *request, const whet_policy *policy,
                                  size_t *first_bad_row) {
    if (!request || request->size != sizeof *request)
        return WHET_ERROR_ARGUMENT;
    whet_policy plain;
    if (!policy_is_sound(&policy, &plain))
        return WHET_ERROR_POLICY;
    whet_rows_backward rows = *request;
    if (rows.n > PTRDIFF_MAX)
        return WHET_ERROR_OVERFLOW;
    ptrdiff_t *strides[] = {&rows.in_stride, &rows.grad_out_stride, &rows.grad_in_stride};
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++)
        if (*strides[i] == 0)
            *strides[i] = (ptrdiff_t)rows.n;
    whet_status status = check_rows(&rows, policy);
    if (status != WHET_OK)
        return status;
    whet_policy_gradient parameters;
    memset(&parameters, 0, sizeof parameters);
    clear_written(&rows);
    if (rows.n > 0)
        status = run_rows(&rows, policy, rows.policy_grad ? &parameters : NULL, first_bad_row);
    if (rows.policy_grad)
        *rows.policy_grad = parameters;
    return status;
}
