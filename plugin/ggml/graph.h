/*
 * The replacement of the CPU backend's graph_compute: attention in a graph is described, its nodes
 * become custom operations, the host computes the graph, and the nodes are restored.
 */
#ifndef WHET_PLUGIN_GRAPH_H
#define WHET_PLUGIN_GRAPH_H

#include "llama/host.h"
#include "recording.h"
#include "settings.h"

/* Called before the first graph; `rows` is NULL if nothing is recorded. */
void graph_start(const host *h, const settings *s, recording *rows);

/* Called instead if no graph may be computed. */
void graph_refuse(void);

/* Returns a status of the host. May be called by any thread, for several graphs at once. */
int graph_compute(host_backend *backend, host_graph *graph);

/* Attention operations so far. */
typedef struct graph_counts {
    unsigned long long handled, with_policy, left; /* left: to the host */
} graph_counts;

graph_counts graph_count(void);

/* Calls `report` with lines about layers and heads that settings name and no graph had. */
void graph_report_missing(void (*report)(const char *line));

#endif
