/*
 * The backward pass of attention. With p a row's weights, v its values and g = dL/dout .
 * v the gradients of the weights:
 *
 *     D = sum p g          G = dL/dbeta = sum p (g - D) e
 *     dL/de = beta p (g - D) - G factor w (e - mean)     through beta, see beta_derivative
 *     dL/dv = p dL/dout    dL/dq = scale k dL/de    dL/dk = scale q dL/de
 *
 * A task takes every n-th set of panels of one slice (see tiles.h) through two sweeps
 * over the keys. The first computes logits and g and the sums over a row that D, G and w
 * need; both tiles are kept, so that the second only has to turn them into p and dL/de
 * and multiply: five products, none of them done twice. Logits are taken relative to the
 * largest so far, g relative to its value there: the sharper a row, the closer D is to
 * that, and the more digits g - D would lose otherwise. For the same reason g is computed
 * without the part that all values share, column by column. The maximum of the forward
 * pass would not do for either: it may come from another order of summation, and beta
 * magnifies a last bit. Gradients of keys and values are summed over the task's rows in
 * f32, a set at a time. Where a slice has several tasks, these sums are in the workspace,
 * and a second phase adds them up in order; the gradients of parameters and of the bias
 * of keys are collected and added in the same way, in double.
 *
 * A row that is not finite gets NaN for 1 / Z and D, and with them for every weight and
 * gradient of keys that it sees; those of masked keys are always zero. Such rows of q and
 * dL/dout are left out of the products, since zero times NaN would reach masked keys; so
 * are such rows of k.
 *
 * With skip, logits come first and values after the choice of blocks (backward_skip.c):
 * g is zero where a block is left out, and so is the gradient of its values.
 *
 * Maps other than softmax are computed between the sweeps, when the logits and g of whole
 * rows are available (see backward_maps.c): from then on their lanes hold weights and
 * dL/de, which the second sweep leaves unchanged.
 */
#include "attention/backward.h"

static whet_status run_slice_part(const whet_plan *plan, size_t task, void *scratch,
                                  uint64_t *first_bad_row) {
    backward_work w;
    whet_status status = WHET_OK;
    whet_backward_start_task(&w, plan, task, scratch);
    if (!w.part || w.part->run != RUN_LOGITS) /* where there are no values */
        whet_backward_find_common(&w);
    size_t sets = whet_backward_sets(&w.shape), parts = w.shape.chunks, part = task % parts;
    for (size_t first = 0; first < sets; first += parts) {
        /* in alternating order: under a causal mask later sets take longer */
        size_t set = first + (first / parts % 2 ? parts - 1 - part : part);
        if (set >= sets)
            continue;
        whet_backward_start_set(&w, set);
        if (w.part && w.part->run == RUN_LOGITS)
            whet_backward_find_logits(&w);
        else
            whet_backward_first_sweep(&w);
        if (w.part)
            whet_backward_exchange(&w);
        if (w.part && w.part->run != RUN_GRADIENTS)
            continue;
        whet_backward_prepare(&w);
        whet_backward_second_sweep(&w);
        status = whet_backward_finish_set(&w, status, first_bad_row);
    }
    if (w.shape.chunks == 1)
        for (size_t start = 0; start < w.a->keys; start += BLOCK)
            whet_backward_store_block(&w.slice, w.gradients, w.key_sums, 1, start);
    return status;
}

/* One block of keys and values of a slice, from the sums of all its tasks. */
static void add_parts(const whet_plan *plan, const plan_shape *shape, size_t task) {
    const whet_gradients *g = &plan->description.gradients;
    size_t blocks = whet_backward_blocks_to_add(g, shape);
    workspace_layout at;
    sum_sizes size;
    whet_backward_lay_out_workspace(g, shape, &at);
    whet_backward_size_sums(g, shape->kernels, &size);
    kv_slice slice = whet_slice_at(plan, shape, task / blocks);
    const float *sums =
        (float *)arena_part(plan->workspace, at.sums) + task / blocks * shape->chunks * size.total;
    whet_backward_store_block(&slice, g, sums, shape->chunks, task % blocks * BLOCK);
}

whet_status whet_run_backward_task(const whet_plan *plan, unsigned phase, size_t task,
                                   void *scratch, uint64_t *first_bad_row) {
    if (phase == 0)
        return run_slice_part(plan, task, scratch, first_bad_row);
    const whet_gradients *g = &plan->description.gradients;
    plan_shape shape = whet_shape_of(plan);
    size_t adding = shape.slices * whet_backward_blocks_to_add(g, &shape);
    if (task < adding)
        add_parts(plan, &shape, task);
    else if (task - adding < whet_backward_bias_blocks(g))
        whet_backward_store_bias(plan, &shape, (task - adding) * BLOCK);
    else
        whet_backward_store_parameters(plan, &shape);
    return WHET_OK;
}
