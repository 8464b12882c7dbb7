/* The thirty algorithms, grouped by the book's chapters into files. */
#ifndef WHET_LAB_CLRS_ALGORITHMS_H
#define WHET_LAB_CLRS_ALGORITHMS_H

#include "clrs/run.h"
#include "clrs/trace.h"

/* sorting.c */
void clrs_insertion_sort(clrs_run *run);
void clrs_bubble_sort(clrs_run *run);
void clrs_heapsort(clrs_run *run);
void clrs_quicksort(clrs_run *run);

/* Partitions the keys p ... r by the last of them, and returns its new position. */
int clrs_partition(clrs_run *run, int *P, int p, int r, clrs_state traced);

/* searching.c */
void clrs_minimum(clrs_run *run);
void clrs_binary_search(clrs_run *run);
void clrs_quickselect(clrs_run *run);

/* divide_and_conquer.c */
void clrs_find_maximum_subarray_kadane(clrs_run *run);

/* dynamic_programming.c */
void clrs_matrix_chain_order(clrs_run *run);
void clrs_lcs_length(clrs_run *run);
void clrs_optimal_bst(clrs_run *run);

/* greedy.c */
void clrs_activity_selector(clrs_run *run);
void clrs_task_scheduling(clrs_run *run);

/* depth_first.c */
void clrs_dfs(clrs_run *run);
void clrs_topological_sort(clrs_run *run);
void clrs_articulation_points(clrs_run *run);
void clrs_bridges(clrs_run *run);
void clrs_strongly_connected_components(clrs_run *run);
void clrs_dag_shortest_paths(clrs_run *run);

/* graphs.c */
void clrs_bfs(clrs_run *run);
void clrs_bellman_ford(clrs_run *run);
void clrs_dijkstra(clrs_run *run);
void clrs_mst_prim(clrs_run *run);
void clrs_mst_kruskal(clrs_run *run);
void clrs_floyd_warshall(clrs_run *run);

/* strings.c */
void clrs_naive_string_matcher(clrs_run *run);
void clrs_kmp_matcher(clrs_run *run);

/* geometry.c */
void clrs_segments_intersect(clrs_run *run);
void clrs_graham_scan(clrs_run *run);
void clrs_jarvis_march(clrs_run *run);

#endif
