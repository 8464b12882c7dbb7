// Distances by relaxing every pair through every node (Floyd and Warshall, in the plain form),
// components by spreading labels, trees by taking the nearest node again and again.
#include "graph.h"

#include "parse.h"
#include "support/check.h"

#include <math.h>
#include <stdint.h>

static void find_distances(struct graph *graph) {
    size_t n = graph->n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            bool joined = i != j && graph->weight[i][j] != 0;
            graph->distance[i][j] = i == j ? 0 : joined ? graph->weight[i][j] : INFINITY;
            graph->hops[i][j] = i == j ? 0 : joined ? 1 : SIZE_MAX / 2;
        }
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                double length = graph->distance[i][k] + graph->distance[k][j];
                size_t hops = graph->hops[i][k] + graph->hops[k][j];
                if (length < graph->distance[i][j])
                    graph->distance[i][j] = length;
                if (hops < graph->hops[i][j])
                    graph->hops[i][j] = hops;
            }
}

void read_graph(struct graph *graph, const char *question) {
    struct values values = input_values(question, "A");
    REQUIRE(values.columns <= NODES_MAX && values.rows == values.columns);
    graph->n = values.rows;
    for (size_t i = 0; i < graph->n; i++)
        for (size_t j = 0; j < graph->n; j++)
            graph->weight[i][j] = values.at[i * graph->n + j];
    free_values(&values);
    find_distances(graph);
}

bool reaches(const struct graph *graph, size_t from, size_t to) {
    return isfinite(graph->distance[from][to]);
}

size_t count_components(const struct graph *graph, size_t node, size_t u, size_t v) {
    size_t label[NODES_MAX], n = graph->n, count = 0;
    for (size_t i = 0; i < n; i++)
        label[i] = i;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                bool is_out = i == node || j == node || (i == u && j == v) || (i == v && j == u);
                if (!is_out && graph->weight[i][j] != 0 && label[i] < label[j]) {
                    label[j] = label[i];
                    changed = true;
                }
            }
    }
    for (size_t i = 0; i < n; i++)
        count += i != node && label[i] == i;
    return count;
}

double lightest_tree(const struct graph *graph, size_t from, size_t *nodes) {
    double nearest[NODES_MAX], sum = 0;
    bool is_in[NODES_MAX] = {false};
    size_t n = graph->n;
    for (size_t i = 0; i < n; i++)
        nearest[i] = i == from ? 0 : INFINITY;
    *nodes = 0;
    for (;;) {
        size_t next = n;
        for (size_t i = 0; i < n; i++)
            if (!is_in[i] && isfinite(nearest[i]) && (next == n || nearest[i] < nearest[next]))
                next = i;
        if (next == n)
            return sum;
        is_in[next] = true;
        sum += nearest[next];
        ++*nodes;
        for (size_t i = 0; i < n; i++)
            if (graph->weight[next][i] != 0 && graph->weight[next][i] < nearest[i])
                nearest[i] = graph->weight[next][i];
    }
}
