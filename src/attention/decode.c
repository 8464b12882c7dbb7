/*
 * Attention of few queries over a long cache, where reading keys and values is
 * all that costs. Each is read once, by tasks that take a chunk of keys for all
 * query rows of a key head (see isa/cache.inc), or of several if the cache
 * interleaves them:
 *
 * phase 0   a chunk's logits, kept in the workspace, and its statistics
 * phase 1   a row's statistics merged and its beta chosen (one task per row);
 *           maps that are not a temperature replace the row's logits by
 *           coefficients (row/map_row.c)
 * phase 2   a chunk's weights and what they select of the values
 * phase 3   the chunks' outputs added up and written
 *
 * With skip, two phases come before the values: a chunk's weights and those of its
 * blocks, then the blocks that each key head leaves out.
 */
#include "attention/decode.h"

typedef enum decode_step {
    STEP_SCORES,
    STEP_BETAS,
    STEP_WEIGHTS, /* these two with skip alone */
    STEP_CHOICE,
    STEP_VALUES,
    STEP_OUTPUTS
} decode_step;

static decode_step step_of(const whet_plan *plan, unsigned phase) {
    bool is_short = !(plan->description.attention.skip > 0);
    return (decode_step)(is_short && phase >= STEP_WEIGHTS ? phase + 2 : phase);
}

whet_status whet_run_decode_task(const whet_plan *plan, unsigned phase, size_t task, void *scratch,
                                 uint64_t *first_bad_row) {
    plan_shape shape = whet_shape_of(plan);
    decode_step step = step_of(plan, phase);
    bool by_chunk = step == STEP_SCORES || step == STEP_WEIGHTS || step == STEP_VALUES;
    /* a chunk for all key heads before the next chunk */
    size_t head_sets = shape.slices / shape.heads_per_task;
    size_t index = by_chunk             ? task % head_sets * shape.heads_per_task
                   : step == STEP_BETAS ? task / shape.row_count
                                        : task;
    decode_work w = whet_decode_start(plan, index, by_chunk ? task / head_sets : 0, scratch);
    whet_status status = WHET_OK;
    if (step == STEP_SCORES)
        whet_decode_score_chunk(&w);
    if (step == STEP_WEIGHTS)
        whet_decode_weigh_chunk(&w);
    if (step == STEP_CHOICE)
        whet_decode_choose_blocks(&w);
    if (step == STEP_VALUES)
        whet_decode_value_chunk(&w);
    if (step == STEP_BETAS)
        whet_decode_choose_beta(&w, task % shape.row_count);
    for (size_t r = 0; step == STEP_OUTPUTS && r < shape.row_count; r++)
        status = whet_decode_reduce_row(&w, r, first_bad_row, status);
    return status;
}
