/*
 * whet_softmax_backward: checks the call as whet_softmax does, then computes row after
 * row.
 */
#include "base/last_error.h"
#include "policy/registry.h"
#include "row/checks.h"
#include "row/row_backward.h"

#include <string.h>

/* The arrays of a request. */
typedef struct back_arrays {
    rows_array in, mask, grad_out, grad_in;
} back_arrays;

static back_arrays arrays_of(const whet_rows_backward *rows) {
    return (back_arrays){
        .in = {rows->in, rows->in_type, rows->in_stride, "in"},
        .mask = {rows->mask, rows->mask_type, rows->mask_stride, "mask"},
        .grad_out = {rows->grad_out, rows->grad_out_type, rows->grad_out_stride, "grad_out"},
        .grad_in = {rows->grad_in, rows->grad_in_type, rows->grad_in_stride, "grad_in"}};
}

/* Arrays of floats that a call reads, and those that it writes: a number for each row, or one. */
enum { FLOATS_READ = 5, FLOATS_WRITTEN = 2 };
typedef struct back_floats {
    rows_floats read[FLOATS_READ], written[FLOATS_WRITTEN];
} back_floats;

static back_floats floats_of(const whet_rows_backward *rows) {
    return (back_floats){.read = {{"sink", rows->sink, rows->sink_stride},
                                  {"beta", rows->beta, 1},
                                  {"grad_logsumexp", rows->grad_logsumexp, 1},
                                  {"grad_entropy", rows->grad_entropy, 1},
                                  {"grad_entropy_after", rows->grad_entropy_after, 1}},
                         .written = {{"grad_sink", rows->grad_sink, rows->sink_stride},
                                     {"grad_beta", rows->grad_beta, 1}}};
}

static whet_status check_types(const whet_rows_backward *rows, const back_arrays *arrays,
                               const back_floats *floats) {
    whet_status status = check_array_type(arrays->in);
    if (status == WHET_OK)
        status = check_mask_type(arrays->mask);
    if (status == WHET_OK)
        status = check_array_type(arrays->grad_out);
    if (status == WHET_OK)
        status = check_array_type(arrays->grad_in);
    for (size_t i = 0; status == WHET_OK && i < FLOATS_READ; i++)
        status = check_floats_aligned(floats->read[i]);
    for (size_t i = 0; status == WHET_OK && i < FLOATS_WRITTEN; i++)
        status = check_floats_aligned(floats->written[i]);
    if (status != WHET_OK)
        return status;
    if ((uintptr_t)rows->policy_grad % _Alignof(whet_policy_gradient) != 0)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "policy_grad is not aligned to whet_policy_gradient");
    if (rows->grad_sink && !rows->sink)
        return whet_refuse(WHET_ERROR_ARGUMENT, "grad_sink is given, but sink is NULL");
    for (size_t i = 0; i < 2; i++)
        if (rows->reserved[i])
            return whet_refuse(WHET_ERROR_ARGUMENT, "reserved[%zu] is %lu, not 0", i,
                               (unsigned long)rows->reserved[i]);
    return WHET_OK;
}

/* The memory of everything that is read or written. */
typedef struct back_ranges {
    memory_range in, mask, grad_out, grad_in;
    memory_range read[FLOATS_READ];
    memory_range written[FLOATS_WRITTEN + 1]; /* and policy_grad */
} back_ranges;

static whet_status find_array_ranges(const whet_rows_backward *rows, const back_arrays *arrays,
                                     back_ranges *at) {
    whet_status status = check_array_range(arrays->in, rows->rows, rows->n, &at->in);
    if (status == WHET_OK)
        status = check_array_range(arrays->grad_in, rows->rows, rows->n, &at->grad_in);
    if (status == WHET_OK && rows->grad_out)
        status = check_array_range(arrays->grad_out, rows->rows, rows->n, &at->grad_out);
    if (status == WHET_OK && rows->mask)
        status = check_array_range(arrays->mask, rows->rows, rows->n, &at->mask);
    return status;
}

/* What there is one of for each row; the ranges of arrays are empty so far. */
static whet_status find_float_ranges(const whet_rows_backward *rows, const back_floats *floats,
                                     back_ranges *at) {
    whet_status status = WHET_OK;
    *at = (back_ranges){.in = {0, 0}};
    for (size_t i = 0; status == WHET_OK && i < FLOATS_READ; i++)
        status = check_floats_range(floats->read[i], rows->rows, &at->read[i]);
    for (size_t i = 0; status == WHET_OK && i < FLOATS_WRITTEN; i++)
        status = check_floats_range(floats->written[i], rows->rows, &at->written[i]);
    if (rows->policy_grad)
        at->written[FLOATS_WRITTEN] = range_at(rows->policy_grad, sizeof *rows->policy_grad);
    return status;
}

static const char *written_name(const back_floats *floats, size_t i) {
    return i < FLOATS_WRITTEN ? floats->written[i].name : "policy_grad";
}

/* What is written one to a row overlaps nothing else. */
static whet_status check_one_apart(const back_floats *floats, const back_ranges *at, size_t i) {
    const char *name = written_name(floats, i);
    const struct {
        const char *name;
        memory_range range;
    } arrays[] = {
        {"in", at->in}, {"mask", at->mask}, {"grad_out", at->grad_out}, {"grad_in", at->grad_in}};
    whet_status status = WHET_OK;
    for (size_t j = 0; status == WHET_OK && j < COUNT_OF(arrays); j++)
        status = check_apart(name, at->written[i], arrays[j].name, arrays[j].range);
    for (size_t j = 0; status == WHET_OK && j < FLOATS_READ; j++)
        status = check_apart(name, at->written[i], floats->read[j].name, at->read[j]);
    for (size_t j = 0; status == WHET_OK && j < i; j++)
        status = check_apart(name, at->written[i], written_name(floats, j), at->written[j]);
    return status;
}

static whet_status check_written_apart(const back_floats *floats, const back_ranges *at) {
    whet_status status = WHET_OK;
    for (size_t i = 0; status == WHET_OK && i <= FLOATS_WRITTEN; i++)
        status = check_one_apart(floats, at, i);
    for (size_t j = 0; status == WHET_OK && j < FLOATS_READ; j++)
        status = check_apart("grad_in", at->grad_in, floats->read[j].name, at->read[j]);
    return status;
}

static whet_status check_grad_in(const whet_rows_backward *rows, const back_arrays *arrays,
                                 const back_ranges *at) {
    whet_status status =
        check_in_place(arrays->grad_in, at->grad_in, arrays->in, at->in, rows->rows);
    if (status == WHET_OK)
        status = check_in_place(arrays->grad_in, at->grad_in, arrays->grad_out, at->grad_out,
                                rows->rows);
    if (status == WHET_OK)
        status = check_apart("grad_in", at->grad_in, "mask", at->mask);
    if (status == WHET_OK)
        status = check_rows_apart(arrays->grad_in, rows->rows, rows->n);
    return status;
}

/* Everything about the call that can be wrong, before the first row is touched. */
static whet_status check_rows(const whet_rows_backward *rows, const whet_policy *policy) {
    back_arrays arrays = arrays_of(rows);
    back_floats floats = floats_of(rows);
    back_ranges at;
    whet_status status = check_types(rows, &arrays, &floats);
    if (status != WHET_OK)
        return status;
    if (rows->grad_entropy_after && !(whet_map_of(policy)->traits & MAP_SUMS_TO_ONE))
        return whet_refuse(WHET_ERROR_UNSUPPORTED, "grad_entropy_after is given, but the "
                                                   "policy's map need not sum to one");
    status = find_float_ranges(rows, &floats, &at);
    bool is_nothing = rows->rows == 0 || rows->n == 0;
    if (status != WHET_OK || is_nothing) /* gradients are written nevertheless */
        return status == WHET_OK ? check_written_apart(&floats, &at) : status;
    if (!rows->grad_out && !rows->grad_logsumexp && !rows->grad_entropy &&
        !rows->grad_entropy_after)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "grad_out is NULL, and no gradient of a statistic is given");
    status = find_array_ranges(rows, &arrays, &at);
    if (status == WHET_OK)
        status = check_grad_in(rows, &arrays, &at);
    return status == WHET_OK ? check_written_apart(&floats, &at) : status;
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

static void point_at_row(const whet_rows_backward *rows, const back_arrays *arrays, size_t r,
                         row_view *view, row_view *grad) {
    view->in = row_at(arrays->in, r);
    if (rows->mask)
        view->mask = row_at(arrays->mask, r);
    view->out = (char *)rows->grad_in + row_offset(rows->grad_in_type, rows->grad_in_stride, r);
    if (rows->grad_out)
        grad->in = row_at(arrays->grad_out, r);
}

/* Rows without entries may be any number, which are all alike where nothing arrives at them. */
static size_t rows_to_run(const whet_rows_backward *rows) {
    bool are_alike = rows->n == 0 && !rows->grad_logsumexp && !rows->grad_beta &&
                     (!rows->sink || !rows->sink_stride);
    return are_alike && rows->rows > 0 ? 1 : rows->rows;
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
    float nothing = 0; /* the address of rows without entries: their arrays may be NULL */
    view.in = view.out = &nothing;
    for (size_t r = 0, count = rows_to_run(rows); r < count; r++) {
        row_gradients gradients = {.out = rows->grad_out && rows->n > 0 ? &grad : NULL,
                                   .logsumexp = float_at(rows->grad_logsumexp, r),
                                   .entropy = float_at(rows->grad_entropy, r),
                                   .entropy_after = float_at(rows->grad_entropy_after, r),
                                   .wants_beta = rows->grad_beta != NULL,
                                   .parameters = parameters};
        if (rows->n > 0)
            point_at_row(rows, &arrays, r, &view, &grad);
        view.position = row_position(rows->position, rows->position_stride, r);
        row_extras_at(&view, r, rows->sink, rows->sink_stride, rows->beta);
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
    if (!request)
        return whet_refuse(WHET_ERROR_ARGUMENT, "rows is NULL");
    if (request->size != sizeof *request)
        return whet_refuse(WHET_ERROR_ARGUMENT,
                           "size is %zu, but sizeof(whet_rows_backward) is %zu", request->size,
                           sizeof *request);
    whet_policy plain;
    whet_status status = whet_check_row_policy(&policy, &plain, request->beta);
    if (status != WHET_OK)
        return status;
    whet_rows_backward rows = *request;
    if (rows.n > PTRDIFF_MAX)
        return whet_refuse(WHET_ERROR_OVERFLOW, "n is %zu, more than memory can hold", rows.n);
    ptrdiff_t *strides[] = {&rows.in_stride, &rows.grad_out_stride, &rows.grad_in_stride};
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++)
        if (*strides[i] == 0)
            *strides[i] = (ptrdiff_t)rows.n;
    status = check_rows(&rows, policy);
    if (status != WHET_OK)
        return status;
    whet_policy_gradient parameters;
    memset(&parameters, 0, sizeof parameters);
    clear_written(&rows);
    status = run_rows(&rows, policy, rows.policy_grad ? &parameters : NULL, first_bad_row);
    if (rows.policy_grad)
        *rows.policy_grad = parameters;
    return status;
}
