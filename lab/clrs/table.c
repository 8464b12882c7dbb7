/*
 * The table of algorithms: for each name how an instance is drawn, what solves
 * it, what is printed, the lengths of the reference's data sets, and the
 * working memory of both functions.
 */
#include "clrs/algorithms.h"
#include "clrs/instances.h"
#include "clrs/run.h"

#include <string.h>

/* name, lengths from, for training and for evaluation up to, instance, vectors and squares of
 * working memory, names of the outputs without and with hints, inputs */
#define ROW(id, shortest, train, val, instance, vectors, squares, names, trace_names, ...)         \
    {                                                                                              \
        {#id, shortest, train, val}, clrs_draw_##instance, clrs_##id, {__VA_ARGS__}, names,        \
            trace_names, vectors, squares                                                          \
    }
#define INPUT(name, kind)                                                                          \
    { name, CLRS_INPUT_##kind }

static const clrs_entry table[CLRS_ALGORITHM_COUNT] = {
    ROW(activity_selector, 2, 31, 40, activities, 5, 0, "selected", "selected", INPUT("s", FIRST),
        INPUT("f", SECOND)),
    ROW(articulation_points, 2, 19, 19, sparse_graph, 8, 2, "is_cut", "is_cut", INPUT("A", EDGES)),
    ROW(bellman_ford, 2, 31, 32, weighted_graph_and_source, 5, 4, "pi", "pi", INPUT("s", SOURCE),
        INPUT("A", WEIGHTS)),
    ROW(bfs, 2, 31, 41, graph_and_source, 3, 2, "pi", "pi", INPUT("s", SOURCE), INPUT("A", EDGES)),
    ROW(binary_search, 2, 31, 64, search, 4, 0, "return", "(low, high)", INPUT("key", FIRST),
        INPUT("target", TARGET)),
    ROW(bridges, 2, 5, 7, sparse_graph, 6, 3, "is_bridge", "is_bridge", INPUT("A", EDGES)),
    ROW(bubble_sort, 2, 10, 11, keys, 8, 0, "pred", "pred", INPUT("key", KEYS)),
    ROW(dag_shortest_paths, 2, 19, 19, weighted_acyclic_graph_and_source, 7, 5, "pi", "pi",
        INPUT("s", SOURCE), INPUT("A", WEIGHTS)),
    ROW(dfs, 2, 23, 20, directed_graph, 5, 2, "pi", "pi", INPUT("A", EDGES)),
    ROW(dijkstra, 2, 28, 25, weighted_graph_and_source, 6, 4, "pi", "pi", INPUT("s", SOURCE),
        INPUT("A", WEIGHTS)),
    ROW(find_maximum_subarray_kadane, 2, 31, 64, gains, 2, 0, "start, end", "(best_low, best_high)",
        INPUT("key", FIRST)),
    ROW(floyd_warshall, 2, 10, 11, weighted_graph, 0, 11, "Pi", "Pi", INPUT("A", WEIGHTS)),
    ROW(graham_scan, 2, 31, 31, points, 8, 0, "in_hull", "in_hull", INPUT("x", FIRST),
        INPUT("y", SECOND)),
    ROW(heapsort, 2, 10, 11, keys, 8, 0, "pred", "pred", INPUT("key", KEYS)),
    ROW(insertion_sort, 2, 31, 25, keys, 8, 0, "pred", "pred", INPUT("key", KEYS)),
    ROW(jarvis_march, 2, 12, 13, points, 5, 0, "in_hull", "in_hull", INPUT("x", FIRST),
        INPUT("y", SECOND)),
    ROW(kmp_matcher, 3, 31, 64, haystack, 5, 0, "match", "s", INPUT("string", MARKS),
        INPUT("key", NUMBERS)),
    ROW(lcs_length, 2, 10, 12, two_strings, 2, 4, "b", "b", INPUT("string", MARKS),
        INPUT("key", NUMBERS)),
    ROW(matrix_chain_order, 2, 10, 12, keys, 1, 8, "s", "s", INPUT("p", FIRST)),
    ROW(minimum, 2, 31, 64, keys, 2, 0, "min", "min", INPUT("key", FIRST)),
    ROW(mst_kruskal, 2, 10, 10, sparse_weighted_graph, 2, 8, "in_mst", "in_mst",
        INPUT("A", WEIGHTS)),
    ROW(mst_prim, 2, 28, 26, weighted_graph_and_source, 6, 4, "pi", "pi", INPUT("s", SOURCE),
        INPUT("A", WEIGHTS)),
    ROW(naive_string_matcher, 3, 31, 64, haystack, 3, 0, "match", "s", INPUT("string", MARKS),
        INPUT("key", NUMBERS)),
    ROW(optimal_bst, 1, 10, 10, search_tree, 3, 6, "root", "root", INPUT("p", FIRST),
        INPUT("q", SECOND)),
    ROW(quickselect, 2, 31, 64, keys, 3, 0, "median", "pivot", INPUT("key", FIRST)),
    ROW(quicksort, 2, 10, 12, keys, 10, 0, "pred", "pred", INPUT("key", KEYS)),
    ROW(segments_intersect, 0, 31, 64, segments, 3, 0, "intersect", NULL, INPUT("x", FIRST),
        INPUT("y", SECOND)),
    ROW(strongly_connected_components, 4, 15, 16, communities, 9, 4, "scc_id", "scc_id",
        INPUT("A", FLOAT_EDGES)),
    ROW(task_scheduling, 2, 31, 41, tasks, 6, 0, "selected", "selected", INPUT("d", NUMBERS),
        INPUT("w", FIRST)),
    ROW(topological_sort, 2, 23, 21, acyclic_graph, 4, 3, "topo, topo_head", "topo, topo_head",
        INPUT("A", EDGES)),
};

#undef ROW
#undef INPUT

const clrs_algorithm *clrs_algorithm_at(size_t index) {
    return index < CLRS_ALGORITHM_COUNT ? &table[index].public : NULL;
}

const clrs_entry *clrs_entry_find(const char *name) {
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        if (strcmp(table[i].public.name, name) == 0)
            return &table[i];
    return NULL;
}

const clrs_algorithm *clrs_algorithm_find(const char *name) {
    const clrs_entry *entry = clrs_entry_find(name);
    return entry ? &entry->public : NULL;
}

int clrs_default_length(const clrs_algorithm *algorithm, clrs_split split, size_t index) {
    static const int train_lengths[] = {4, 5, 10, 11, 12, 15, 19, 23, 28, 31};
    if (split == CLRS_SPLIT_VAL)
        return index + 4 <= (size_t)algorithm->val_longest ? (int)index + 4 : 0;
    if (index >= sizeof train_lengths / sizeof train_lengths[0])
        return 0;
    return train_lengths[index] <= algorithm->train_longest ? train_lengths[index] : 0;
}

int64_t clrs_default_seed(clrs_split split, size_t index) {
    static const int val_seeds[] = {3, 14, 35, 81, 94};
    if (split == CLRS_SPLIT_TRAIN)
        return index == 0 ? 0 : -1;
    return index < sizeof val_seeds / sizeof val_seeds[0] ? val_seeds[index] : -1;
}

uint64_t clrs_default_count(clrs_split split) { return split == CLRS_SPLIT_TRAIN ? 10000 : 125; }
