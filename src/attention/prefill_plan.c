/* How the work of prefill is divided, and how a task's scratch is laid out. */
#include "attention/mask.h"
#include "attention/prefill.h"
#include "base/checked.h"

#define ROWS_TO_TASK 384 /* what bringing keys into layout is spread over */
#define KEPT_ROWS 48     /* with fewer to a task, layout costs more than computing logits twice */

typedef struct layout {
    size_t panels, queries, outputs, totals, keys, values, tiles, row_buffer, maps, spare, map_row;
    size_t block_weights, block_order, left_out; /* with skip */
    size_t marks, listed;                        /* with a mask */
    size_t total;
} layout;

/* Blocks that skip may leave out among the keys that a panel keeps. */
static size_t blocks_to_keep(const whet_attention *a) {
    return round_up(a->keys, BLOCK) / SKIP_KEYS;
}

static bool lay_out(const whet_attention *a, const plan_shape *shape, layout *at) {
    size_t lanes = shape->kernels->lanes, panels = shape->panels;
    size_t columns = round_up(a->value_dim, shape->kernels->strip);
    size_t tile_keys = shape->kept ? panels * round_up(a->keys, BLOCK) : BLOCK;
    arena scratch = {0};
    at->panels = whet_arena_place(&scratch, panels, sizeof(prefill_panel));
    at->queries = whet_arena_place(&scratch, panels * a->head_dim * lanes, sizeof(float));
    at->outputs = whet_arena_place(&scratch, panels * columns * lanes, sizeof(float));
    at->totals = whet_arena_place(&scratch, panels * columns * lanes, sizeof(double));
    at->keys = whet_arena_place(&scratch, BLOCK * a->head_dim, sizeof(float));
    at->values = whet_arena_place(&scratch, BLOCK * columns, sizeof(float));
    at->tiles = whet_arena_place(&scratch, tile_keys * lanes, sizeof(float));
    at->row_buffer = whet_arena_place(&scratch, (size_t)STRIP_MAX * HEAD_DIM_MAX, sizeof(float));
    at->maps = whet_arena_place(&scratch, shape->mapped ? panels : 0, sizeof(panel_maps));
    at->spare = whet_arena_place(&scratch, shape->mapped ? BLOCK * lanes : 0, sizeof(float));
    at->map_row = whet_arena_place(&scratch, shape->by_row ? a->keys : 0, sizeof(float));
    size_t blocks = a->skip > 0 ? blocks_to_keep(a) : 0;
    at->block_weights = whet_arena_place(&scratch, blocks * lanes, sizeof(float));
    at->block_order = whet_arena_place(&scratch, blocks, sizeof(uint32_t));
    at->left_out = whet_arena_place(&scratch, panels * blocks, sizeof(bool));
    size_t masked_keys = a->mask.data ? a->keys : 0;
    at->marks = whet_arena_place(&scratch, 2 * mark_words(masked_keys), sizeof(uint64_t));
    at->listed = whet_arena_place(&scratch, masked_keys, sizeof(uint32_t));
    at->total = scratch.bytes;
    return !scratch.overflow;
}

/* Panels whose logits fit KEPT_BYTES. */
static size_t panels_to_keep(const whet_attention *a, size_t lanes) {
    size_t bytes;
    if (!size_multiply(round_up(a->keys, BLOCK), lanes * sizeof(float), &bytes))
        return 0;
    return bytes > 0 ? KEPT_BYTES / bytes : SIZE_MAX;
}

bool whet_plan_prefill(whet_plan *plan, plan_shape *shape) {
    const whet_attention *a = &plan->description.attention;
    size_t lanes = shape->kernels->lanes;
    size_t panels = ROWS_TO_TASK / lanes;
    size_t needed = (shape->row_count + lanes - 1) / lanes;
    /* few rows: smaller tasks, so that several threads have something to do */
    while (panels > 2 && shape->slices * needed < 8 * panels)
        panels--;
    shape->kept = 0;
    if (!shape->fused) {
        size_t fitting = panels_to_keep(a, lanes);
        size_t wanted = (KEPT_ROWS + lanes - 1) / lanes;
        shape->kept = shape->searched || fitting >= (panels < wanted ? panels : wanted);
        if (shape->kept && panels > fitting)
            panels = fitting;
    }
    if (panels == 0)
        panels = 1; /* what a map searches is kept, however much it is */
    shape->panels = panels;
    size_t tasks_to_slice = (needed + panels - 1) / panels;
    layout at;
    plan->phases = 1;
    plan->workspace_bytes = 0;
    if (!lay_out(a, shape, &at))
        return false;
    plan->scratch_bytes = at.total;
    return size_multiply(shape->slices, tasks_to_slice, &plan->tasks[0]);
}

size_t whet_prefill_cut_scratch(prefill_work *w, const whet_plan *plan, size_t task,
                                void *scratch) {
    const whet_attention *a = &plan->description.attention;
    layout at;
    w->shape = whet_shape_of(plan);
    lay_out(a, &w->shape, &at);
    w->panels = arena_part(scratch, at.panels);
    w->queries = arena_part(scratch, at.queries);
    w->outputs = arena_part(scratch, at.outputs);
    w->totals = arena_part(scratch, at.totals);
    w->keys = arena_part(scratch, at.keys);
    w->values = arena_part(scratch, at.values);
    w->tiles = arena_part(scratch, at.tiles);
    w->row_buffer = arena_part(scratch, at.row_buffer);
    w->maps = w->shape.mapped ? arena_part(scratch, at.maps) : NULL;
    w->spare = arena_part(scratch, at.spare);
    w->map_row = arena_part(scratch, at.map_row);
    w->block_weights = arena_part(scratch, at.block_weights);
    w->block_order = arena_part(scratch, at.block_order);
    w->left_out = arena_part(scratch, at.left_out);
    w->marks = arena_part(scratch, at.marks);
    w->listed = arena_part(scratch, at.listed);
    w->kept_blocks = blocks_to_keep(a);
    w->lanes = w->shape.kernels->lanes;
    w->interleave = w->shape.kernels->strip;
    w->value_strips = round_up(a->value_dim, w->interleave) / w->interleave;
    w->kept_keys = round_up(a->keys, BLOCK);

    size_t tasks_to_slice = plan->tasks[0] / w->shape.slices;
    /* later queries see more keys under a causal mask: the long tasks come first */
    size_t part = tasks_to_slice - 1 - task % tasks_to_slice;
    w->slice = whet_slice_at(plan, &w->shape, task / tasks_to_slice);
    size_t first_row = part * w->shape.panels * w->lanes;
    size_t needed = (w->shape.row_count - first_row + w->lanes - 1) / w->lanes;
    w->panel_count = needed < w->shape.panels ? needed : w->shape.panels;
    return first_row;
}
