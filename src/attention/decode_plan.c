/*
 * How the work of decode is divided, and how workspace and scratch are laid out. A task
 * takes a chunk of keys of one key head, or of several if the cache interleaves them.
 */
#include "attention/decode.h"
#include "attention/invariant.h"
#include "base/checked.h"
#include "base/element_types.h"
#include "policy/descriptor.h"

#define CHUNK 1024       /* keys per task, summed over its key heads */
#define CHUNK_LEAST 256  /* of each */
#define CHUNKS_ENOUGH 64 /* to keep all threads busy: rather than more of them, larger ones */
#define HEADS_PER_TASK 8 /* key heads to a task at most */
#define TASKS_WANTED 16  /* with fewer tasks, heads are split again */
#define GAP_MOST 64      /* bytes between the heads of a position */

typedef struct layout {
    size_t logits; /* float [slice][row][keys] */
    size_t states; /* decode_row [slice][row] */
    /* For each task and its rows. The results of one task are contiguous, to avoid false sharing,
     * including that by the adjacent-line prefetcher. */
    size_t pieces;  /* whet_stats [task][row] */
    size_t sums;    /* chunk_sums [task][row] */
    size_t maxima;  /* float [task][row], with max_logits */
    size_t outputs; /* float [task][row][padded value_dim], */
    size_t
        outputs_stride; /* from a task's to those of the next chunk: also an odd number of lines */
    size_t part_max, part_live; /* with maps: see decode_work */
    /* With skip: see decode_work. Slices share lines: where that could matter, a phase lies between
     * writing and reading, or the cache is one chunk. */
    size_t block_weights, block_order, left_out, row_weights;
    query_sets_layout sets; /* with has_sets */
    size_t total;
    /* in the scratch of a task */
    size_t queries, weights, partial, converted, gathered, unit, scratch;
} layout;

/* Floats from a row's logits to the next row's: one more than there are keys, since a map treats a
 * sink as another logit, and an odd number of lines, so that rows do not map to the same cache
 * sets. */
static size_t logits_stride_of(const whet_attention *a, const plan_shape *shape) {
    size_t keys = shape->invariant ? round_up(a->keys, INVARIANT_CHUNK) : a->keys;
    return (padded(keys + 1) / ROW_PAD | 1) * ROW_PAD;
}

/* The same for a chunk's weights. */
static size_t weights_stride_of(const plan_shape *shape) { return shape->chunk_keys + ROW_PAD; }

static bool lay_out(const whet_attention *a, const plan_shape *shape, layout *at) {
    arena workspace = {0}, scratch = {0};
    size_t row_count = whet_arena_product(&workspace, shape->slices, shape->row_count);
    size_t tasks =
        whet_arena_product(&workspace, shape->slices / shape->heads_per_task, shape->chunks);
    size_t task_rows = whet_arena_product(&workspace, shape->heads_per_task, shape->row_count);
    size_t pieces = whet_arena_product(&workspace, tasks, task_rows);
    size_t lines = whet_arena_product(&workspace, task_rows, padded(a->value_dim) / ROW_PAD);
    at->outputs_stride = whet_arena_product(&workspace, lines | 1, ROW_PAD);
    at->logits = whet_arena_place(
        &workspace, whet_arena_product(&workspace, row_count, logits_stride_of(a, shape)),
        sizeof(float));
    at->states = whet_arena_place(&workspace, row_count, sizeof(decode_row));
    at->pieces = whet_arena_place(&workspace, pieces, sizeof(whet_stats));
    at->sums = whet_arena_place(&workspace, pieces, sizeof(chunk_sums));
    at->maxima = whet_arena_place(&workspace, a->max_logits ? pieces : 0, sizeof(float));
    at->outputs = whet_arena_place(
        &workspace, whet_arena_product(&workspace, tasks, at->outputs_stride), sizeof(float));
    size_t parts = whet_arena_product(&workspace, row_count,
                                      shape->mapped ? (a->keys + ROW_PART - 1) / ROW_PART : 0);
    at->part_max = whet_arena_place(&workspace, parts, sizeof(float));
    at->part_live = whet_arena_place(&workspace, parts, sizeof(bool));
    size_t blocks =
        whet_arena_product(&workspace, shape->slices, a->skip > 0 ? skip_block_count(a->keys) : 0);
    at->block_weights = whet_arena_place(
        &workspace, whet_arena_product(&workspace, blocks, shape->row_count), sizeof(float));
    at->block_order = whet_arena_place(&workspace, blocks, sizeof(uint32_t));
    at->left_out = whet_arena_place(&workspace, blocks, sizeof(bool));
    at->row_weights = whet_arena_place(&workspace, a->skip > 0 ? row_count : 0, sizeof(double));
    at->queries = whet_arena_place(
        &scratch, whet_arena_product(&scratch, task_rows, padded(a->head_dim)), sizeof(float));
    at->weights = whet_arena_place(
        &scratch, whet_arena_product(&scratch, task_rows, weights_stride_of(shape)), sizeof(float));
    at->partial = whet_arena_place(
        &scratch, whet_arena_product(&scratch, shape->row_count, padded(a->value_dim)),
        sizeof(float));
    at->converted =
        whet_arena_place(&scratch, (size_t)DECODE_CONVERTED * HEAD_DIM_MAX, sizeof(float));
    at->gathered = whet_arena_place(&scratch, shape->has_sets ? DECODE_GATHERED : 0, 1);
    at->unit = whet_arena_place(
        &scratch, shape->invariant ? INVARIANT_UNIT * padded(a->value_dim) : 0, sizeof(float));
    if (shape->has_sets)
        at->sets = whet_place_query_sets(a, &workspace);
    at->total = workspace.bytes;
    at->scratch = scratch.bytes;
    return !workspace.overflow && !scratch.overflow;
}

/* Whether the heads of a position are contiguous, before the next position. */
static bool lies_by_position(const whet_tensor *tensor, size_t heads, size_t dim) {
    ptrdiff_t most = (ptrdiff_t)element_row_bytes(element_type_of(tensor->type), dim) + GAP_MOST;
    return whet_decode_reads_directly(tensor) && tensor->stride[1] > 0 &&
           tensor->stride[1] <= most && tensor->stride[2] / tensor->stride[1] >= (ptrdiff_t)heads;
}

/* Transposed values are read head by head in any case. */
static bool allows_heads(const whet_attention *a) {
    return lies_by_position(&a->k, a->kv_heads, a->head_dim) &&
           (whet_decode_reads_columns(&a->v) || lies_by_position(&a->v, a->kv_heads, a->value_dim));
}

/* The largest number of keys that any query sees. */
static size_t keys_in_sight(const whet_attention *a) {
    size_t to_both_sides = a->flags & WHET_CAUSAL ? 1 : 2;
    if (a->window == 0 || a->window > a->keys || a->queries > a->keys)
        return a->keys;
    size_t seen = to_both_sides * a->window + a->queries;
    return seen < a->keys ? seen : a->keys;
}

/* Keys per chunk for a number of heads per task: whole parts, because the maximum of a part and
 * the weight of a block of values must come from one task. */
static size_t chunk_of(size_t heads) {
    size_t keys = CHUNK / heads / KERNEL_PART * KERNEL_PART;
    return keys > CHUNK_LEAST ? keys : CHUNK_LEAST;
}

/* Tasks with work, over all slices, for a number of heads per task. */
static size_t tasks_with(const whet_attention *a, size_t slices, size_t heads) {
    size_t chunk = chunk_of(heads), chunks = (keys_in_sight(a) - 1) / chunk + 1;
    return slices / heads * chunks;
}

static size_t divisor_up_to(size_t number, size_t most) {
    while (number % most != 0)
        most--;
    return most;
}

/* The largest number of interleaved key heads that a task may take: a divisor of their number. */
static size_t heads_at_most(const whet_attention *a) {
    if (a->keys == 0 || !allows_heads(a))
        return 1;
    return divisor_up_to(a->kv_heads, HEADS_PER_TASK);
}

static size_t fewer_heads(size_t heads) { return divisor_up_to(heads, heads / 2); }

/*
 * How many key heads a task takes: all that are interleaved, so that memory is read
 * without gaps, unless that leaves threads without work, as with short caches, where
 * reading does not take the time. It depends on the description alone.
 */
static size_t choose_heads_per_task(const whet_attention *a, size_t slices) {
    size_t heads = heads_at_most(a);
    while (heads > 1 && tasks_with(a, slices, heads) < TASKS_WANTED) {
        size_t fewer = fewer_heads(heads);
        if (tasks_with(a, slices, fewer) == tasks_with(a, slices, heads))
            break;
        heads = fewer;
    }
    return heads;
}

/* The most keys that are divided into chunks of this size. */
static size_t longest_of(size_t chunk_keys) {
    return chunk_keys < CHUNK ? chunk_keys * (CHUNKS_ENOUGH + 1) - 1 : SIZE_MAX;
}

/* Raises what a plan needs to what this division needs. */
static bool widen_plan(const whet_attention *a, const plan_shape *shape, whet_plan *plan) {
    layout at;
    if (!lay_out(a, shape, &at))
        return false;
    if (plan->scratch_bytes < at.scratch)
        plan->scratch_bytes = at.scratch;
    if (plan->workspace_bytes < at.total)
        plan->workspace_bytes = at.total;
    return true;
}

/*
 * A shorter cache may be divided differently and need more memory: a plan asks for enough
 * to hold every division of any cache up to this one's length.
 */
static bool make_room(const whet_attention *a, plan_shape shape, whet_plan *plan) {
    for (size_t heads = heads_at_most(a);; heads = fewer_heads(heads)) {
        shape.heads_per_task = heads;
        shape.chunk_keys = shape.invariant ? INVARIANT_CHUNK : chunk_of(heads);
        for (bool longer = true; longer; shape.chunk_keys *= 2) {
            size_t longest = shape.invariant ? SIZE_MAX : longest_of(shape.chunk_keys);
            longer = longest < a->keys;
            shape.chunks = ((longer ? longest : a->keys) + shape.chunk_keys - 1) / shape.chunk_keys;
            if (!widen_plan(a, &shape, plan))
                return false;
        }
        if (heads == 1)
            return true;
    }
}

/* Whether a row's beta or coefficients take passes over its logits: rows are tasks of their own
 * then. */
static bool searches(const whet_attention *a) {
    bool found = false;
    for (size_t i = 0; i < a->policy_count; i++) {
        const whet_policy *policy = &a->policies[i];
        bool beta = !a->betas && (whet_temperature_of(policy)->needs & NEEDS_SEARCH);
        found = found || beta || !whet_decode_has_exponentials(whet_map_of(policy));
    }
    return found;
}

static bool count_tasks(whet_plan *plan, const plan_shape *shape) {
    size_t tasks;
    if (!size_multiply(shape->slices / shape->heads_per_task, shape->chunks, &tasks))
        return false;
    const whet_attention *a = &plan->description.attention;
    unsigned scores = shape->has_sets ? 1 : 0; /* phases before the scores, and before the values */
    unsigned values = scores + (a->skip > 0 ? 4 : 2);
    plan->tasks[0] = mask_planes(a);
    if (shape->at_once) {
        plan->phases = scores + 1;
        plan->tasks[scores] = tasks;
        return true;
    }
    plan->phases = values + 2;
    plan->tasks[scores] = plan->tasks[scores + 2] = plan->tasks[values] = tasks;
    plan->tasks[values - 1] = plan->tasks[values + 1] = shape->slices;
    return size_multiply(shape->slices, shape->row_count, &plan->tasks[scores + 1]);
}

bool whet_plan_decode(whet_plan *plan, plan_shape *shape) {
    const whet_attention *a = &plan->description.attention;
    shape->heads_per_task = choose_heads_per_task(a, shape->slices);
    shape->chunk_keys = shape->invariant ? INVARIANT_CHUNK : chunk_of(shape->heads_per_task);
    while (!shape->invariant && longest_of(shape->chunk_keys) < a->keys)
        shape->chunk_keys *= 2;
    shape->chunks = (a->keys + shape->chunk_keys - 1) / shape->chunk_keys;
    shape->at_once = shape->chunks == 1 && !searches(a);
    plan->scratch_bytes = plan->workspace_bytes = 0;
    return make_room(a, *shape, plan) && count_tasks(plan, shape);
}

bool whet_plan_decode_part(whet_plan *plan, plan_shape *shape, size_t all_keys, size_t chunk_keys) {
    whet_attention *a = &plan->description.attention;
    whet_attention whole = *a;
    whole.keys = all_keys;
    shape->heads_per_task = choose_heads_per_task(&whole, shape->slices);
    shape->chunk_keys = chunk_keys;
    shape->chunks = (a->keys + chunk_keys - 1) / chunk_keys;
    plan->scratch_bytes = plan->workspace_bytes = 0;
    return widen_plan(a, shape, plan) && count_tasks(plan, shape);
}

bool whet_decode_measure(const whet_attention *a, const plan_shape *shape, size_t *workspace,
                         size_t *scratch) {
    layout at;
    bool fits = lay_out(a, shape, &at);
    *workspace = at.total;
    *scratch = at.scratch;
    return fits;
}

decode_work whet_decode_start(const whet_plan *plan, size_t slice_index, size_t chunk,
                              void *scratch) {
    const whet_attention *a = &plan->description.attention;
    decode_work w = {.shape = whet_shape_of(plan), .chunk = chunk};
    layout at = {0};
    lay_out(a, &w.shape, &at);
    w.slice = whet_slice_at(plan, &w.shape, slice_index);
    w.row_count = w.shape.heads_per_task * w.shape.row_count;
    w.start = chunk * w.shape.chunk_keys;
    w.count = a->keys - w.start < w.shape.chunk_keys ? a->keys - w.start : w.shape.chunk_keys;
    void *base = plan->workspace;
    size_t row = slice_index * w.shape.row_count;
    w.logits_stride = logits_stride_of(a, &w.shape);
    w.logits = (float *)arena_part(base, at.logits) + row * w.logits_stride;
    w.states = (decode_row *)arena_part(base, at.states) + row;
    size_t tasks_before = row / w.row_count * w.shape.chunks, task_row = row % w.row_count;
    w.pieces = (whet_stats *)arena_part(base, at.pieces) + tasks_before * w.row_count + task_row;
    w.sums = (chunk_sums *)arena_part(base, at.sums) + tasks_before * w.row_count + task_row;
    if (a->max_logits)
        w.maxima = (float *)arena_part(base, at.maxima) + tasks_before * w.row_count + task_row;
    w.outputs_stride = at.outputs_stride;
    w.outputs = (float *)arena_part(base, at.outputs) + tasks_before * at.outputs_stride +
                task_row * padded(a->value_dim);
    w.queries = arena_part(scratch, at.queries);
    w.weights = arena_part(scratch, at.weights);
    w.weights_stride = weights_stride_of(&w.shape);
    w.partial = arena_part(scratch, at.partial);
    w.converted = arena_part(scratch, at.converted);
    w.gathered = arena_part(scratch, at.gathered);
    w.unit = arena_part(scratch, at.unit);
    if (w.shape.mapped && !w.shape.invariant && w.shape.chunk_keys % ROW_PART == 0) {
        w.parts = (a->keys + ROW_PART - 1) / ROW_PART;
        w.part_max = (float *)arena_part(base, at.part_max) + row * w.parts;
        w.part_live = (bool *)arena_part(base, at.part_live) + row * w.parts;
    }
    if (a->skip > 0) {
        size_t block = slice_index * skip_block_count(a->keys);
        w.block_weights = (float *)arena_part(base, at.block_weights) + block * w.shape.row_count;
        w.block_order = (uint32_t *)arena_part(base, at.block_order) + block;
        w.left_out = (bool *)arena_part(base, at.left_out) + block;
        w.row_weights = (double *)arena_part(base, at.row_weights) + row;
    }
    return w;
}

static query_sets_layout sets_of(const whet_plan *plan) {
    plan_shape shape = whet_shape_of(plan);
    layout at = {0};
    lay_out(&plan->description.attention, &shape, &at);
    return at.sets;
}

query_sets *whet_decode_sets(const whet_plan *plan, size_t batch) {
    const query_sets_layout at = sets_of(plan);
    return query_sets_at(&plan->description.attention, &at, plan->workspace, batch);
}

void whet_decode_find_sets(const whet_plan *plan, size_t plane) {
    const plan_shape shape = whet_shape_of(plan);
    const query_sets_layout at = sets_of(plan);
    kv_slice slice = whet_slice_at(plan, &shape, plane * plan->description.attention.kv_heads);
    whet_find_query_sets(&slice, &at, plan->workspace);
}

/* Rows are divided by sets before they are by heads; the arrays of chunks are those of a set. */
decode_work whet_decode_enter_set(const whet_plan *plan, size_t slice_index, const query_set *set,
                                  size_t chunk, void *scratch) {
    const plan_shape all = whet_shape_of(plan);
    const size_t heads = all.heads_per_task, head = slice_index % heads;
    decode_work w = whet_decode_start(plan, slice_index - head, 0, scratch);
    const size_t rows_before = set->first_query * all.heads_per_kv,
                 rows = set->queries * all.heads_per_kv, row = heads * rows_before + head * rows,
                 entry = all.chunks * heads * rows_before + head * rows;
    w.set = set;
    w.first_row = rows_before;
    w.slice.kv_head += head;
    w.slice.list = set->list;
    w.shape.row_count = rows;
    w.shape.chunks = (set->keys + all.chunk_keys - 1) / all.chunk_keys;
    w.row_count = heads * rows;
    w.chunk = chunk;
    w.start = chunk * all.chunk_keys;
    w.count = set->keys - w.start < all.chunk_keys ? set->keys - w.start : all.chunk_keys;
    w.logits += row * w.logits_stride;
    w.states += row;
    if (w.part_max) {
        w.part_max += row * w.parts;
        w.part_live += row * w.parts;
    }
    w.pieces += entry;
    w.sums += entry;
    w.maxima = w.maxima ? w.maxima + entry : NULL;
    w.outputs += row * padded(w.slice.attention->value_dim);
    return w;
}

query_row whet_decode_row_at(const decode_work *w, size_t r) {
    const query_set *set = w->set;
    kv_slice slice = w->slice;
    slice.kv_head += r / w->shape.row_count;
    query_row row = whet_row_of(&slice, w->first_row + r % w->shape.row_count);
    if (set) {
        row.low = row.low == 0 ? 0 : whet_place_in_set(set, row.low);
        row.high = row.high == slice.attention->keys ? set->keys : whet_place_in_set(set, row.high);
    }
    return row;
}

void whet_decode_visible_keys(const decode_work *w, size_t *low, size_t *high) {
    const whet_attention *a = w->slice.attention;
    bool all = !w->set && a->window == 0 && !(a->flags & WHET_CAUSAL);
    *low = all ? 0 : SIZE_MAX;
    *high = all ? a->keys : 0;
    for (size_t r = 0; !all && r < w->shape.row_count; r++) {
        query_row row = whet_decode_row_at(w, r);
        widen_limits(&row, low, high);
    }
    if (*low < w->start)
        *low = w->start;
    if (*high > w->start + w->count)
        *high = w->start + w->count;
    if (*low >= *high)
        *low = *high = w->start;
}
