/* The largest logit of each head: see max_logits.h. */
#include "attention/max_logits.h"
#include "attention/arena.h"

bool whet_plan_max_logits(whet_plan *plan, plan_shape *shape) {
    const whet_attention *a = &plan->description.attention;
    if (!a->max_logits)
        return true;
    arena workspace = {.bytes = round_up(plan->workspace_bytes, WHET_ALIGNMENT)};
    size_t row_count = whet_arena_product(
        &workspace, whet_arena_product(&workspace, a->batch, a->heads), a->queries);
    shape->row_maxima = whet_arena_place(&workspace, row_count, sizeof(float));
    plan->workspace_bytes = workspace.bytes;
    plan->tasks[plan->phases++] = a->heads;
    return !workspace.overflow;
}

void whet_note_max_logit(const kv_slice *slice, const query_row *row, float max) {
    slice->row_maxima[whet_row_index(slice, row)] = max;
}

bool whet_is_max_logits_phase(const whet_plan *plan, const plan_shape *shape, unsigned phase) {
    return shape->path != PATH_BACKWARD && plan->description.attention.max_logits &&
           phase == plan->phases - 1;
}

void whet_run_max_logits_task(const whet_plan *plan, const plan_shape *shape, size_t head) {
    const whet_attention *a = &plan->description.attention;
    float max = -INFINITY;
    for (size_t batch = 0; a->queries > 0 && batch < a->batch; batch++) {
        const float *maxima = arena_part(plan->workspace, shape->row_maxima);
        maxima += (batch * a->heads + head) * a->queries;
        for (size_t i = 0; i < a->queries; i++)
            max = larger_or_nan(max, maxima[i]);
    }
    a->max_logits[head] = max;
}
