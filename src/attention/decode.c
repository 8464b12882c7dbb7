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
 * blocks, then the blocks that each key head leaves out. With a mask, one comes before
 * the scores: it finds which queries are computed together, and with which keys
 * (query_sets.h); the other phases then take one set of queries after the other.
 * Where the cache is one chunk and no row searches its logits, one phase has all of these steps: a
 * task's chunk, then its rows and slices, so that threads need not wait for each other between.
 * Parts of a longer context (whet_plan_part) always have the phases above.
 */
#include "attention/decode.h"

typedef enum decode_step {
    STEP_SETS, /* with a mask alone */
    STEP_SCORES,
    STEP_BETAS,
    STEP_WEIGHTS, /* these two with skip alone */
    STEP_CHOICE,
    STEP_VALUES,
    STEP_OUTPUTS
} decode_step;

/* The step after `steps` others. */
static decode_step step_after(const whet_plan *plan, const plan_shape *shape, unsigned steps) {
    unsigned step = steps + (shape->has_sets ? 0 : 1);
    bool is_short = !(plan->description.attention.skip > 0);
    return (decode_step)(is_short && step >= STEP_WEIGHTS ? step + 2 : step);
}

static bool is_by_chunk(decode_step step) {
    return step == STEP_SCORES || step == STEP_WEIGHTS || step == STEP_VALUES;
}

/* Rows of a slice that choose their betas in one task: [low, high). */
typedef struct row_range {
    size_t low, high;
} row_range;

/* A step of one task, which is a chunk's, some rows' or a slice's. */
static whet_status run_step(decode_work *w, decode_step step, row_range rows,
                            uint64_t *first_bad_row, whet_status status) {
    if (step == STEP_SCORES)
        whet_decode_score_chunk(w);
    if (step == STEP_WEIGHTS)
        whet_decode_weigh_chunk(w);
    if (step == STEP_CHOICE)
        whet_decode_choose_blocks(w);
    if (step == STEP_VALUES)
        whet_decode_value_chunk(w);
    for (size_t r = rows.low; step == STEP_BETAS && r < rows.high; r++)
        whet_decode_choose_beta(w, r);
    for (size_t r = 0; step == STEP_OUTPUTS && r < w->shape.row_count; r++)
        status = whet_decode_reduce_row(w, r, first_bad_row, status);
    return status;
}

/* The same where queries are in sets: the task's chunk among those of all sets, and every
 * `shape.chunks`-th after it, the rows in their sets, or the slice's rows of all sets. */
static whet_status run_in_sets(const whet_plan *plan, const plan_shape *shape, decode_step step,
                               size_t slice, size_t chunk, row_range rows, void *scratch,
                               uint64_t *first_bad_row, whet_status status) {
    const size_t kv_heads = plan->description.attention.kv_heads;
    const query_sets *sets = whet_decode_sets(plan, slice / kv_heads);
    size_t chunks_before = 0;
    for (size_t i = 0; i < sets->count; i++) {
        const query_set *set = &sets->set[i];
        size_t first = set->first_query * shape->heads_per_kv,
               end = first + set->queries * shape->heads_per_kv;
        row_range own = {rows.low > first ? rows.low - first : 0,
                         (rows.high < end ? rows.high : end) - first};
        size_t chunks = (set->keys + shape->chunk_keys - 1) / shape->chunk_keys;
        for (; is_by_chunk(step) && chunk < chunks_before + chunks; chunk += shape->chunks) {
            decode_work w = whet_decode_enter_set(plan, slice, set, chunk - chunks_before, scratch);
            run_step(&w, step, own, first_bad_row, status);
        }
        chunks_before += chunks;
        if (is_by_chunk(step) || (step == STEP_BETAS && (rows.high <= first || rows.low >= end)))
            continue;
        decode_work w = whet_decode_enter_set(plan, slice, set, 0, scratch);
        status = run_step(&w, step, own, first_bad_row, status);
    }
    return status;
}

/* A step's task, by its number among the step's; that of several rows begins with the first. */
static whet_status run_task(const whet_plan *plan, const plan_shape *shape, decode_step step,
                            size_t task, size_t rows, void *scratch, uint64_t *first_bad_row,
                            whet_status status) {
    /* a chunk for all key heads before the next chunk */
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a task has a head at least */
    size_t head_sets = shape->slices / shape->heads_per_task;
    size_t slice = is_by_chunk(step)    ? task % head_sets * shape->heads_per_task
                   : step == STEP_BETAS ? task / shape->row_count
                                        : task;
    size_t chunk = is_by_chunk(step) ? task / head_sets : 0, row = task % shape->row_count;
    row_range range = {row, row + rows};
    if (shape->has_sets)
        return run_in_sets(plan, shape, step, slice, chunk, range, scratch, first_bad_row, status);
    decode_work w = whet_decode_start(plan, slice, chunk, scratch);
    return run_step(&w, step, range, first_bad_row, status);
}

/* All steps from the scores on, of the slices that share the only chunk `task`. */
static whet_status run_at_once(const whet_plan *plan, const plan_shape *shape, size_t task,
                               void *scratch, uint64_t *first_bad_row) {
    whet_status status = WHET_OK;
    decode_step step;
    for (unsigned before = shape->has_sets ? 1 : 0;
         (step = step_after(plan, shape, before)) <= STEP_OUTPUTS; before++) {
        size_t tasks = is_by_chunk(step) ? 1 : shape->heads_per_task;
        size_t rows = step == STEP_BETAS ? shape->row_count : 1;
        for (size_t i = 0; i < tasks; i++)
            status = run_task(plan, shape, step, (task * tasks + i) * rows, rows, scratch,
                              first_bad_row, status);
    }
    return status;
}

whet_status whet_run_decode_task(const whet_plan *plan, unsigned phase, size_t task, void *scratch,
                                 uint64_t *first_bad_row) {
    plan_shape shape = whet_shape_of(plan);
    decode_step step = step_after(plan, &shape, phase);
    if (step == STEP_SETS) {
        whet_decode_find_sets(plan, task);
        return WHET_OK;
    }
    if (shape.at_once)
        return run_at_once(plan, &shape, task, scratch, first_bad_row);
    return run_task(plan, &shape, step, task, 1, scratch, first_bad_row, WHET_OK);
}
