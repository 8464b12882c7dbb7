// Graphs for the tests, and plain ways to find out about them.
#ifndef WHET_TESTS_LAB_CLRS_GRAPH_H
#define WHET_TESTS_LAB_CLRS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

enum { NODES_MAX = 130 };

struct graph {
    size_t n;
    double weight[NODES_MAX][NODES_MAX]; // 0: no edge
    double distance[NODES_MAX][NODES_MAX];
    size_t hops[NODES_MAX][NODES_MAX]; // SIZE_MAX: out of reach
};

// From the input A of a question, with all distances.
void read_graph(struct graph *graph, const char *question);

// How many components the graph has without one node and without one edge; `n` for none of them.
size_t count_components(const struct graph *graph, size_t node, size_t u, size_t v);

// The weight of a lightest spanning tree of the component of a node, and how many nodes it has.
double lightest_tree(const struct graph *graph, size_t from, size_t *nodes);

bool reaches(const struct graph *graph, size_t from, size_t to);

#endif
