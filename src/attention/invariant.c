/* Rows whose bits do not depend on other rows: see invariant.h. */
#include "attention/invariant.h"
#include "base/checked.h"
#include "base/element_types.h"
#include <math.h>
#include <string.h>

/* ---- values ---- */

static void add_unit(decode_work *w, kv_rows *values, size_t head, size_t unit) {
    size_t row = head * w->shape.row_count;
    values->count = INVARIANT_UNIT;
    values->group = INVARIANT_GROUP;
    w->shape.kernels->cache_values(
        values, w->weights + row * w->weights_stride + (unit - w->start), w->weights_stride,
        w->shape.row_count, decode_output(w, row, w->chunk), padded(w->slice.attention->value_dim));
}

/* Adds a value that is not finite to the rows whose weight is not zero. */
static void add_bad_value(decode_work *w, size_t head, size_t j, const float *value) {
    for (size_t r = head * w->shape.row_count; r < (head + 1) * w->shape.row_count; r++) {
        float weight = w->weights[r * w->weights_stride + (j - w->start)];
        float *out = decode_output(w, r, w->chunk);
        for (size_t c = 0; weight > 0 && c < w->slice.attention->value_dim; c++)
            out[c] += weight * value[c];
    }
}

/* One head's values of a unit, with zeros in the place of those that are not finite and of those
 * outside of [low, high); what is not finite is added by itself. Blocks that decode reads as they
 * are remain blocks, since converted values would be rounded in another way. */
static void add_copied_unit(decode_work *w, size_t head, size_t unit, size_t low, size_t high) {
    const whet_attention *a = w->slice.attention;
    const element_type *type = element_type_of(a->v.type);
    const bool keeps_blocks = whet_decode_reads_directly(&a->v) && elements_are_blocks(type);
    const size_t stride = padded(a->value_dim) * sizeof(float),
                 bytes = keeps_blocks ? element_row_bytes(type, a->value_dim)
                                      : a->value_dim * sizeof(float);
    bool is_bad[INVARIANT_UNIT] = {false};
    kv_slice slice = w->slice;
    slice.kv_head += head;
    for (size_t j = unit; j < unit + INVARIANT_UNIT; j++) {
        char *to = (char *)w->unit + (j - unit) * stride;
        bool is_used = j >= low && j < high;
        if (is_used) {
            const float *value = whet_load_position(&slice, &a->v, j, a->value_dim, w->converted);
            is_bad[j - unit] = !w->shape.kernels->finite(value, a->value_dim);
            memcpy(to, keeps_blocks ? whet_position_at(&slice, &a->v, j) : (const void *)value,
                   bytes);
        }
        if (!is_used || is_bad[j - unit])
            memset(to, 0, bytes);
    }
    kv_rows values = {.first = w->unit,
                      .type = keeps_blocks ? (int)a->v.type : WHET_F32,
                      .stride = (ptrdiff_t)stride,
                      .heads = 1,
                      .depth = a->value_dim};
    add_unit(w, &values, head, unit);
    for (size_t j = low > unit ? low : unit; j < high && j < unit + INVARIANT_UNIT; j++)
        if (is_bad[j - unit])
            add_bad_value(w, head, j,
                          whet_load_position(&slice, &a->v, j, a->value_dim, w->converted));
}

/* Adds all units of the chunk for some heads; in place where that is possible. */
static void add_units(decode_work *w, size_t low, size_t high, bool in_place, size_t head,
                      size_t heads) {
    const whet_attention *a = w->slice.attention;
    for (size_t unit = low / INVARIANT_UNIT * INVARIANT_UNIT; unit < high; unit += INVARIANT_UNIT) {
        if (in_place && unit + INVARIANT_UNIT <= a->keys) {
            kv_rows values = whet_decode_cache(w, &a->v, unit, INVARIANT_UNIT, a->value_dim);
            add_unit(w, &values, 0, unit);
            continue;
        }
        for (size_t h = head; h < head + heads; h++)
            add_copied_unit(w, h, unit, low, high);
    }
}

void whet_invariant_values(decode_work *w, size_t low, size_t high) {
    const whet_tensor *v = &w->slice.attention->v;
    const size_t rows = w->shape.row_count, heads = w->shape.heads_per_task;
    bool in_place = whet_decode_reads_directly(v);
    whet_decode_clear_outputs(w, 0, w->row_count);
    add_units(w, low, high, in_place, 0, heads);
    for (size_t h = 0; in_place && h < heads; h++) {
        if (whet_decode_outputs_are_finite(w, h * rows, rows))
            continue;
        whet_decode_clear_outputs(w, h * rows, rows);
        add_units(w, low, high, false, h, 1);
    }
}

/* ---- many rows ---- */

/* A task's rows as a problem of decode of their own, one key head at a time. */
static plan_shape shape_of_task(const plan_shape *all) {
    plan_shape shape = *all;
    shape.path = PATH_DECODE;
    shape.slices = shape.heads_per_task = 1;
    shape.row_count = INVARIANT_ROWS;
    return shape;
}

static size_t tasks_to_slice(const plan_shape *shape) {
    return (shape->row_count + INVARIANT_ROWS - 1) / INVARIANT_ROWS;
}

bool whet_plan_invariant(whet_plan *plan, plan_shape *shape) {
    const whet_attention *a = &plan->description.attention;
    size_t workspace, scratch;
    shape->path = PATH_PREFILL;
    shape->chunk_keys = INVARIANT_CHUNK;
    shape->chunks = (a->keys + INVARIANT_CHUNK - 1) / INVARIANT_CHUNK;
    plan_shape own = shape_of_task(shape);
    plan->phases = 1;
    plan->workspace_bytes = 0;
    return whet_decode_measure(a, &own, &workspace, &scratch) &&
           size_add(workspace, scratch, &plan->scratch_bytes) &&
           size_multiply(shape->slices, tasks_to_slice(shape), &plan->tasks[0]);
}

whet_status whet_run_invariant_task(const whet_plan *plan, size_t task, void *scratch,
                                    uint64_t *first_bad_row) {
    const plan_shape all = whet_shape_of(plan), own = shape_of_task(&all);
    const size_t parts = tasks_to_slice(&all), part = parts - 1 - task % parts;
    size_t workspace_bytes, scratch_bytes;
    whet_decode_measure(&plan->description.attention, &own, &workspace_bytes, &scratch_bytes);
    whet_plan of_task = *plan;
    of_task.workspace = scratch;
    whet_plan_set_shape(&of_task, &own);
    decode_work w = whet_decode_start(&of_task, 0, 0, (char *)scratch + workspace_bytes);
    w.slice = whet_slice_at(plan, &all, task / parts);
    w.first_row = part * INVARIANT_ROWS;
    w.shape.row_count =
        all.row_count - w.first_row < INVARIANT_ROWS ? all.row_count - w.first_row : INVARIANT_ROWS;
    w.row_count = w.shape.row_count;
    for (size_t phase = 0; phase < 2; phase++) {
        for (size_t chunk = 0; chunk < all.chunks; chunk++) {
            const size_t keys = plan->description.attention.keys;
            w.chunk = chunk;
            w.start = chunk * INVARIANT_CHUNK;
            w.count = keys - w.start < INVARIANT_CHUNK ? keys - w.start : INVARIANT_CHUNK;
            if (phase == 0)
                whet_decode_score_chunk(&w);
            else
                whet_decode_value_chunk(&w);
        }
        for (size_t r = 0; phase == 0 && r < w.row_count; r++)
            whet_decode_choose_beta(&w, r);
    }
    whet_status status = WHET_OK;
    for (size_t r = 0; r < w.row_count; r++)
        status = whet_decode_reduce_row(&w, r, first_bad_row, status);
    return status;
}
