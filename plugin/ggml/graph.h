/*
 * What stands in the place of the CPU backend's graph_compute: attention in a graph is described,
 * its nodes become custom operations, the host computes the graph, and the nodes become what they
 * were.
 */
#ifndef WHET_PLUGIN_GRAPH_H
#define WHET_PLUGIN_GRAPH_H

#include "llama/host.h"
#include "recording.h"
#include "settings.h"

/* Before the first graph; `rows` is NULL where nothing is recorded. */
void graph_start(const host *h, const settings *s, recording *rows);

/* Instead: no graph is computed. */
void graph_refuse(void);

/* A status of the host's. Any thread, several graphs at once. */
int graph_compute(host_backend *backend, host_graph *graph);

/* Attention operations so far. */
typedef struct graph_counts {
    unsigned long long handled, with_policy, left; /* left: to the host */
} graph_counts;

graph_counts graph_count(void);

/* Calls `tell` with lines on layers and heads that settings name and no graph had. */
void graph_tell_missing(void (*tell)(const char *line));

#endif
