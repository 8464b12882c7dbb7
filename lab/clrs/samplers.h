/* One function for each kind of instance; the table of algorithms says which draws what. */
#ifndef WHET_LAB_CLRS_SAMPLERS_H
#define WHET_LAB_CLRS_SAMPLERS_H

#include "clrs/run.h"

bool clrs_sample_keys(clrs_run *run);
bool clrs_sample_search(clrs_run *run);
bool clrs_sample_gains(clrs_run *run);
bool clrs_sample_two_strings(clrs_run *run);
bool clrs_sample_search_tree(clrs_run *run);
bool clrs_sample_activities(clrs_run *run);
bool clrs_sample_tasks(clrs_run *run);
bool clrs_sample_directed_graph(clrs_run *run);
bool clrs_sample_acyclic_graph(clrs_run *run);
bool clrs_sample_sparse_graph(clrs_run *run);
bool clrs_sample_communities(clrs_run *run);
bool clrs_sample_graph_and_source(clrs_run *run);
bool clrs_sample_sparse_weighted_graph(clrs_run *run);
bool clrs_sample_weighted_graph(clrs_run *run);
bool clrs_sample_weighted_graph_and_source(clrs_run *run);
bool clrs_sample_weighted_acyclic_graph_and_source(clrs_run *run);
bool clrs_sample_haystack(clrs_run *run);
bool clrs_sample_segments(clrs_run *run);
bool clrs_sample_points(clrs_run *run);

#endif
