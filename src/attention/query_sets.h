/*
 * Queries of decode that see nearly the same keys: consecutive ones whose keys cost less to read
 * together than apart. The sequences that share a cache become a set each, which takes only the
 * keys that a query of it sees: wherever they are, they get places from 0 on, and a set is computed
 * as if it were alone in its cache.
 */
#ifndef WHET_QUERY_SETS_H
#define WHET_QUERY_SETS_H

#include "attention/arena.h"
#include "attention/geometry.h"

typedef struct query_set {
    size_t first_query, queries;
    key_list list;
    size_t keys;   /* places in the list */
    bool is_plain; /* all queries see all of them, and the mask adds nothing */
} query_set;

/* Those of one plane of the mask. */
typedef struct query_sets {
    size_t count;
    query_set set[]; /* [queries] at most */
} query_sets;

/* Where they are in the workspace. */
typedef struct query_sets_layout {
    size_t sets, sets_bytes; /* of each plane */
    size_t marks, mark_words;
    size_t lists, list_keys;
} query_sets_layout;

/* Planes of the mask, of which each serves one batch or all. */
static inline size_t mask_planes(const whet_attention *a) {
    return a->mask.stride[0] == 0 ? 1 : a->batch;
}

query_sets_layout whet_place_query_sets(const whet_attention *a, arena *workspace);

/* The sets of a batch. */
static inline query_sets *query_sets_at(const whet_attention *a, const query_sets_layout *at,
                                        void *workspace, size_t batch) {
    size_t plane = mask_planes(a) > 1 ? batch : 0;
    return arena_part(workspace, at->sets + plane * at->sets_bytes);
}

/* Finds the sets of a plane. The slice is any of it, with the list of all keys. */
void whet_find_query_sets(const kv_slice *slice, const query_sets_layout *at, void *workspace);

/* The place of the first key of a set that is not before `key`. */
size_t whet_place_in_set(const query_set *set, size_t key);

#endif
