/* Which queries of decode are computed together, and with which keys: see query_sets.h. */
#include "attention/query_sets.h"
#include "attention/mask.h"
#include <string.h>

/* Reading a key costs as much as multiplying it with so many rows. */
#define READ_COST 8

query_sets_layout whet_place_query_sets(const whet_attention *a, arena *workspace) {
    size_t planes = mask_planes(a), words = mark_words(a->keys);
    query_sets_layout at = {.mark_words = 2 * words};
    at.sets_bytes = round_up(sizeof(query_sets) + a->queries * sizeof(query_set), 64);
    at.list_keys = whet_arena_product(workspace, a->queries, a->keys);
    at.sets = whet_arena_place(workspace, planes, at.sets_bytes);
    at.marks = whet_arena_place(workspace, whet_arena_product(workspace, planes, at.mark_words),
                                sizeof(uint64_t));
    at.lists = whet_arena_place(workspace, whet_arena_product(workspace, planes, at.list_keys),
                                sizeof(uint32_t));
    return at;
}

/* The set that is being gathered: the keys that any of its queries sees, and how they agree. */
typedef struct gathered_set {
    query_set *set;
    uint64_t *marks;
    size_t keys;
    bool is_plain;
} gathered_set;

static size_t count_marks(const uint64_t *marks, const uint64_t *more, size_t words) {
    size_t count = 0;
    for (size_t i = 0; i < words; i++)
        count += (size_t)__builtin_popcountll(marks[i] | more[i]);
    return count;
}

/* Adds a query to the set if that costs no more than a set of its own. */
static bool join(gathered_set *to, const uint64_t *own, size_t own_keys, size_t words, size_t rows,
                 bool is_plain) {
    size_t joint_keys = count_marks(to->marks, own, words), rows_before = to->set->queries * rows;
    if (joint_keys * (READ_COST + rows_before + rows) >
        to->keys * (READ_COST + rows_before) + own_keys * (READ_COST + rows))
        return false;
    to->is_plain = to->is_plain && is_plain && joint_keys == to->keys && joint_keys == own_keys;
    to->keys = joint_keys;
    to->set->queries++;
    for (size_t i = 0; i < words; i++)
        to->marks[i] |= own[i];
    return true;
}

static void start_set(gathered_set *to, query_set *set, size_t query, const uint64_t *own,
                      size_t own_keys, size_t words, bool is_plain) {
    *set = (query_set){.first_query = query, .queries = 1};
    *to = (gathered_set){set, to->marks, own_keys, is_plain};
    memcpy(to->marks, own, words * sizeof *own);
}

/* Whether listed keys are all equally far apart. */
static bool is_regular(const uint32_t *keys, size_t count) {
    uint32_t step = count > 1 ? keys[1] - keys[0] : 1, difference = 0;
    for (size_t i = 1; i < count; i++)
        difference |= (keys[i] - keys[i - 1]) ^ step;
    return difference == 0;
}

/* Names the set's keys as simply as they can be; returns where the next set's list goes. */
static uint32_t *finish_set(const gathered_set *of, size_t words, uint32_t *listed) {
    query_set *set = of->set;
    mark_range range = whet_range_of_marks(of->marks, words);
    set->list = (key_list){.first = range.low, .step = 1};
    set->keys = range.high - range.low;
    set->is_plain = of->is_plain && set->keys == range.count;
    if (!marks_have_holes(&range))
        return listed;
    whet_list_marks(of->marks, words, listed);
    set->keys = range.count;
    set->is_plain = of->is_plain;
    if (is_regular(listed, range.count)) {
        set->list.step = listed[1] - listed[0];
        return listed;
    }
    set->list.keys = listed;
    return listed + range.count;
}

void whet_find_query_sets(const kv_slice *slice, const query_sets_layout *at, void *workspace) {
    const whet_attention *a = slice->attention;
    size_t words = at->mark_words / 2, plane = mask_planes(a) > 1 ? slice->batch : 0;
    query_sets *sets = query_sets_at(a, at, workspace, slice->batch);
    uint32_t *listed = arena_part(workspace, at->lists);
    uint64_t *own = arena_part(workspace, at->marks);
    listed += plane * at->list_keys;
    own += plane * at->mark_words;
    gathered_set gathered = {.marks = own + words};
    sets->count = 0;
    for (size_t query = 0; query < a->queries; query++) {
        query_row row = whet_row_of(slice, query * slice->heads_per_kv);
        bool is_plain = whet_mark_visible(slice, &row, own);
        size_t keys = whet_range_of_marks(own, words).count;
        if (sets->count > 0 && join(&gathered, own, keys, words, slice->heads_per_kv, is_plain))
            continue;
        if (sets->count > 0)
            listed = finish_set(&gathered, words, listed);
        start_set(&gathered, &sets->set[sets->count++], query, own, keys, words, is_plain);
    }
    if (gathered.set)
        finish_set(&gathered, words, listed);
}

size_t whet_place_in_set(const query_set *set, size_t key) {
    const key_list *list = &set->list;
    if (list->keys)
        return whet_place_of(list->keys, set->keys, key);
    if (key <= list->first)
        return 0;
    size_t place = (key - list->first + list->step - 1) / list->step;
    return place < set->keys ? place : set->keys;
}
