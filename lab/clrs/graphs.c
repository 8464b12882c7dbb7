/* Graph algorithms other than depth-first searches: paths, spanning trees. */
#include "clrs/algorithms.h"

#include <string.h>

static size_t square(int n) { return (size_t)n * (size_t)n; }

/* By levels: each round goes one edge further than the one before. */
void clrs_bfs(clrs_run *run) {
    int n = run->n;
    const uint8_t(*A)[n] = (void *)run->edges;
    int *pi = clrs_identity(run), *reached = clrs_zeros(run), *before = clrs_vector(run);
    size_t bytes = (size_t)n * sizeof *reached;
    reached[run->source] = 1;
    do {
        memcpy(before, reached, bytes);
        record(run, vector_state(pi, n));
        for (int i = 0; i < n; i++) {
            if (!before[i])
                continue;
            for (int j = 0; j < n; j++) {
                if (!A[i][j])
                    continue;
                if (pi[j] == j && j != run->source)
                    pi[j] = i;
                reached[j] = 1;
            }
        }
    } while (memcmp(before, reached, bytes) != 0);
    output(run, vector_state(pi, n));
}

static bool same_distances(const double *a, const double *b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

void clrs_bellman_ford(clrs_run *run) {
    int n = run->n;
    const double(*A)[n] = (void *)run->weights;
    int *pi = clrs_identity(run), *known = clrs_zeros(run), *known_before = clrs_vector(run);
    double *d = clrs_vector(run), *before = clrs_vector(run);
    for (int v = 0; v < n; v++)
        d[v] = 0;
    known[run->source] = 1;
    do {
        memcpy(before, d, (size_t)n * sizeof *d);
        memcpy(known_before, known, (size_t)n * sizeof *known);
        record(run, vector_state(pi, n));
        for (int u = 0; u < n; u++) {
            if (!known_before[u])
                continue;
            for (int v = 0; v < n; v++) {
                if (A[u][v] == 0)
                    continue;
                if (!known[v] || before[u] + A[u][v] < d[v]) {
                    d[v] = before[u] + A[u][v];
                    pi[v] = u;
                }
                known[v] = 1;
            }
        }
    } while (!same_distances(d, before, n));
    output(run, vector_state(pi, n));
}

/*
 * Dijkstra's and Prim's algorithms differ in the key of a node alone: the length
 * of the path to it, or of its last edge. The queue is searched with a sort, so
 * that ties fall as they do in the reference.
 */
static void grow_tree(clrs_run *run, bool by_path) {
    int n = run->n;
    const double(*A)[n] = (void *)run->weights;
    int *pi = clrs_identity(run), *in_queue = clrs_zeros(run), *is_done = clrs_zeros(run);
    int *order = clrs_vector(run);
    double *key = clrs_vector(run), *queue = clrs_vector(run);
    for (int v = 0; v < n; v++)
        key[v] = 0;
    in_queue[run->source] = 1;
    record(run, vector_state(pi, n));
    for (int i = 0; i < n; i++) {
        for (int v = 0; v < n; v++)
            queue[v] = key[v] + (in_queue[v] ? 0.0 : 1e9);
        int u = clrs_argsort_first(queue, order, n, run->ties);
        if (!in_queue[u])
            break;
        is_done[u] = 1;
        in_queue[u] = 0;
        for (int v = 0; v < n; v++) {
            if (A[u][v] == 0 || is_done[v])
                continue;
            double candidate = by_path ? key[u] + A[u][v] : A[u][v];
            if (!in_queue[v] || candidate < key[v]) {
                pi[v] = u;
                key[v] = candidate;
                in_queue[v] = 1;
            }
        }
        record(run, vector_state(pi, n));
    }
    output(run, vector_state(pi, n));
}

void clrs_dijkstra(clrs_run *run) { grow_tree(run, true); }

void clrs_mst_prim(clrs_run *run) { grow_tree(run, false); }

void clrs_floyd_warshall(clrs_run *run) {
    int n = run->n;
    double(*D)[n] = clrs_squares(run, 2), (*before)[n] = clrs_squares(run, 2);
    uint8_t(*known)[n] = clrs_square(run), (*known_before)[n] = clrs_square(run);
    int(*Pi)[n] = clrs_square(run);
    memcpy(D, run->weights, square(n) * sizeof **D);
    memcpy(known, run->edges, square(n));
    for (int i = 0; i < n; i++) {
        known[i][i] = 1;
        for (int j = 0; j < n; j++)
            Pi[i][j] = i;
    }
    for (int k = 0; k < n; k++) {
        memcpy(before, D, square(n) * sizeof **D);
        memcpy(known_before, known, square(n));
        record(run, matrix_state(Pi[0], n));
        for (int i = 0; i < n; i++) {
            if (!known_before[i][k])
                continue;
            for (int j = 0; j < n; j++) {
                if (!known_before[k][j])
                    continue;
                double through_k = before[i][k] + before[k][j];
                if (!known[i][j] || through_k < D[i][j]) {
                    D[i][j] = through_k;
                    Pi[i][j] = Pi[k][j];
                }
                known[i][j] = 1;
            }
        }
    }
    output(run, matrix_state(Pi[0], n));
}

/* The root of a node's tree. Each step up makes all nodes passed so far children of the node that
 * was reached; `passed` is scratch. */
static int find_root(clrs_run *run, clrs_state traced, int *pi, int *passed, int node) {
    int count = 0, root = node;
    passed[count++] = node;
    while (pi[root] != root) {
        root = pi[root];
        for (int i = 0; i < count; i++)
            pi[passed[i]] = root;
        passed[count++] = root;
        record(run, traced);
    }
    return root;
}

typedef struct edge_list {
    int *from, *to, *order;
    int count;
} edge_list;

static edge_list sort_edges(clrs_run *run) {
    int n = run->n;
    const double(*A)[n] = (void *)run->weights;
    int *ends = clrs_square(run), *order = clrs_square(run);
    double *keys = clrs_square(run); /* there are no more than n (n - 1) / 2 */
    edge_list edges = {.from = ends, .to = ends + square(n) / 2, .order = order};
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            if (A[i][j] > 0) {
                edges.from[edges.count] = i;
                edges.to[edges.count] = j;
                keys[edges.count++] = A[i][j];
            }
    clrs_argsort(keys, order, edges.count, run->ties);
    return edges;
}

void clrs_mst_kruskal(clrs_run *run) {
    int n = run->n;
    int(*in_mst)[n] = clrs_square(run);
    clrs_state traced = matrix_state(in_mst[0], n);
    memset(in_mst, 0, square(n) * sizeof **in_mst);
    int *pi = clrs_identity(run), *passed = clrs_vector(run);
    record(run, traced);
    edge_list edges = sort_edges(run);
    for (int i = 0; i < edges.count; i++) {
        int u = edges.from[edges.order[i]], v = edges.to[edges.order[i]];
        record(run, traced);
        int root_u = find_root(run, traced, pi, passed, u);
        int root_v = find_root(run, traced, pi, passed, v);
        if (root_u < root_v)
            pi[root_u] = root_v;
        else
            pi[root_v] = root_u;
        if (root_u != root_v)
            in_mst[u][v] = in_mst[v][u] = 1;
        record(run, traced);
    }
    output(run, traced);
}
