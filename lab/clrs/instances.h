/* One function for each kind of instance; the table of algorithms says which draws what. */
#ifndef WHET_LAB_CLRS_INSTANCES_H
#define WHET_LAB_CLRS_INSTANCES_H

#include "clrs/run.h"

bool clrs_draw_keys(clrs_run *run);
bool clrs_draw_search(clrs_run *run);
bool clrs_draw_gains(clrs_run *run);
bool clrs_draw_two_strings(clrs_run *run);
bool clrs_draw_search_tree(clrs_run *run);
bool clrs_draw_activities(clrs_run *run);
bool clrs_draw_tasks(clrs_run *run);
bool clrs_draw_directed_graph(clrs_run *run);
bool clrs_draw_acyclic_graph(clrs_run *run);
bool clrs_draw_sparse_graph(clrs_run *run);
bool clrs_draw_communities(clrs_run *run);
bool clrs_draw_graph_and_source(clrs_run *run);
bool clrs_draw_sparse_weighted_graph(clrs_run *run);
bool clrs_draw_weighted_graph(clrs_run *run);
bool clrs_draw_weighted_graph_and_source(clrs_run *run);
bool clrs_draw_weighted_acyclic_graph_and_source(clrs_run *run);
bool clrs_draw_haystack(clrs_run *run);
bool clrs_draw_segments(clrs_run *run);
bool clrs_draw_points(clrs_run *run);

#endif
