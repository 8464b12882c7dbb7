/*
 * Graph algorithms based on depth-first search. search_from() is the search;
 * hooks of each algorithm are called when a node is discovered, met again or
 * finished. The search keeps its own stack as links from each node to the one
 * below it, and scans a node's neighbours from the first one again whenever it
 * returns to the node.
 */
#include "clrs/algorithms.h"

#include <string.h>

enum { WHITE, GREY, BLACK };

typedef struct search search;

struct search {
    clrs_run *run;
    clrs_state traced;
    const uint8_t *edges;
    int *colour, *below;
    int clock;
    int *opened, *finished; /* times; NULL where the algorithm keeps none */

    int *parent;
    int *low;      /* the earliest reachable time, for articulation points and bridges */
    int *children; /* their number, or NULL */
    int *is_cut;
    int *is_bridge; /* [n][n] */
    int *list;      /* topological order: links, followed by the head */
    int *component; /* to be set to the root, or NULL */

    void (*discover)(search *of, int u, int v);
    void (*meet)(search *of, int u, int v);
    void (*finish)(search *of, int u);
};

static int smaller(int a, int b) { return a < b ? a : b; }

static void record_search(search *of) { record(of->run, of->traced); }

static bool is_unopened(const search *of, int u) {
    return of->colour[u] == WHITE || (of->opened && of->opened[u] == 0);
}

static void open_node(search *of, int u) {
    of->colour[u] = GREY;
    if (of->opened)
        of->opened[u] = ++of->clock;
    if (of->low)
        of->low[u] = of->clock;
    record_search(of);
}

/* The next white neighbour of u, having met the others before it; -1 if there is none. */
static int find_white_neighbour(search *of, int u) {
    int n = of->run->n;
    const uint8_t *neighbours = of->edges + (size_t)u * (size_t)n;
    for (int v = 0; v < n; v++) {
        if (!neighbours[v])
            continue;
        if (of->colour[v] == WHITE)
            return v;
        if (of->meet)
            of->meet(of, u, v);
    }
    return -1;
}

static void close_node(search *of, int u) {
    of->colour[u] = BLACK;
    if (of->finished)
        of->finished[u] = ++of->clock;
    if (of->finish)
        of->finish(of, u);
    record_search(of);
}

static void search_from(search *of, int root) {
    int u = root;
    record_search(of);
    for (;;) {
        if (of->component)
            of->component[u] = root;
        if (is_unopened(of, u))
            open_node(of, u);
        int v = find_white_neighbour(of, u);
        if (v >= 0) {
            if (of->discover)
                of->discover(of, u, v);
            of->colour[v] = GREY;
            of->below[v] = u;
            record_search(of);
            u = v;
            continue;
        }
        close_node(of, u);
        int next = of->below[u];
        if (next == u)
            return;
        of->below[u] = u;
        u = next;
    }
}

static search begin_search(clrs_run *run, clrs_state traced) {
    return (search){.run = run,
                    .traced = traced,
                    .edges = run->edges,
                    .colour = clrs_zeros(run),
                    .below = clrs_identity(run)};
}

static void keep_times(search *of) {
    of->opened = clrs_zeros(of->run);
    of->finished = clrs_zeros(of->run);
}

static void search_everywhere(search *of) {
    for (int s = 0; s < of->run->n; s++)
        if (of->colour[s] == WHITE)
            search_from(of, s);
}

static void set_parent(search *of, int u, int v) {
    of->parent[v] = u;
    if (of->children)
        of->children[u]++;
}

void clrs_dfs(clrs_run *run) {
    int *pi = clrs_identity(run);
    search of = begin_search(run, vector_state(pi, run->n));
    keep_times(&of);
    of.parent = pi;
    of.discover = set_parent;
    search_everywhere(&of);
    output(run, of.traced);
}

/* Inserts a node before all that were finished earlier. */
static void prepend(search *of, int u) {
    int *head = &of->list[of->run->n];
    if (of->colour[*head] == BLACK)
        of->list[u] = *head;
    *head = u;
}

void clrs_topological_sort(clrs_run *run) {
    int *topo = clrs_identity(run);
    topo[run->n] = 0;
    search of = begin_search(run, list_state(topo, run->n));
    of.list = topo;
    of.finish = prepend;
    search_everywhere(&of);
    output(run, of.traced);
}

/* An edge to a node seen before, unless it is the one to the parent. */
static void reach_up(search *of, int u, int v) {
    if (v == of->parent[u])
        return;
    of->low[u] = smaller(of->low[u], of->opened[v]);
    record_search(of);
}

static void find_cut(search *of, int u) {
    bool is_root = of->parent[u] == u;
    for (int v = 0; v < of->run->n; v++) {
        if (of->parent[v] != u)
            continue;
        of->low[u] = smaller(of->low[u], of->low[v]);
        if (!is_root && of->low[v] >= of->opened[u])
            of->is_cut[u] = 1;
    }
    if (is_root && of->children[u] > 1)
        of->is_cut[u] = 1;
}

static search begin_low_search(clrs_run *run, clrs_state traced) {
    search of = begin_search(run, traced);
    keep_times(&of);
    of.parent = clrs_identity(run);
    of.low = clrs_zeros(run);
    of.discover = set_parent;
    of.meet = reach_up;
    return of;
}

void clrs_articulation_points(clrs_run *run) {
    int *is_cut = clrs_zeros(run);
    search of = begin_low_search(run, vector_state(is_cut, run->n));
    of.children = clrs_zeros(run);
    of.is_cut = is_cut;
    of.finish = find_cut;
    search_everywhere(&of);
    output(run, of.traced);
}

static void find_bridges(search *of, int u) {
    int n = of->run->n;
    int(*is_bridge)[n] = (void *)of->is_bridge;
    for (int v = 0; v < n; v++) {
        if (of->parent[v] != u)
            continue;
        of->low[u] = smaller(of->low[u], of->low[v]);
        if (of->low[v] > of->opened[u])
            is_bridge[u][v] = is_bridge[v][u] = 1;
    }
}

void clrs_bridges(clrs_run *run) {
    int n = run->n;
    int(*is_bridge)[n] = clrs_square(run);
    const uint8_t(*A)[n] = (void *)run->edges;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            is_bridge[i][j] = A[i][j] || i == j ? 0 : -1;
    search of = begin_low_search(run, matrix_state(is_bridge[0], n));
    of.is_bridge = is_bridge[0];
    of.finish = find_bridges;
    search_everywhere(&of);
    output(run, of.traced);
}

static uint8_t *transpose(clrs_run *run) {
    int n = run->n;
    const uint8_t(*A)[n] = (void *)run->edges;
    uint8_t(*transposed)[n] = clrs_square(run);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            transposed[j][i] = A[i][j];
    return transposed[0];
}

/* Nodes by the time they were finished at, the last one first. */
static int *order_by_finish(const search *of) {
    clrs_run *run = of->run;
    int n = run->n;
    int *at_time = clrs_vectors(run, 2); /* a clock of 2n ticks */
    int *order = clrs_vector(run);
    for (int time = 0; time <= 2 * n; time++)
        at_time[time] = -1;
    for (int u = 0; u < n; u++)
        at_time[of->finished[u]] = u;
    int count = 0;
    for (int time = 2 * n; time >= 0; time--)
        if (at_time[time] >= 0)
            order[count++] = at_time[time];
    return order;
}

void clrs_strongly_connected_components(clrs_run *run) {
    int n = run->n;
    int *scc_id = clrs_identity(run);
    search of = begin_search(run, vector_state(scc_id, n));
    keep_times(&of);
    search_everywhere(&of);

    const int *order = order_by_finish(&of);
    of.edges = transpose(run);
    of.component = scc_id;
    for (int u = 0; u < n; u++) {
        of.colour[u] = WHITE;
        of.below[u] = u;
    }
    for (int i = 0; i < n; i++)
        if (of.colour[order[i]] == WHITE)
            search_from(&of, order[i]);
    output(run, of.traced);
}

/* The trace shows pi, which does not change until the nodes are ordered. */
void clrs_dag_shortest_paths(clrs_run *run) {
    int n = run->n;
    const double(*A)[n] = (void *)run->weights;
    int *pi = clrs_identity(run), *topo = clrs_identity(run), *is_known = clrs_zeros(run);
    double *distance = clrs_vector(run);
    topo[n] = 0;
    search of = begin_search(run, vector_state(pi, n));
    of.list = topo;
    of.finish = prepend;
    search_from(&of, run->source);

    int u = topo[n];
    for (int v = 0; v < n; v++)
        distance[v] = 0;
    is_known[u] = 1;
    for (; topo[u] != u; u = topo[u]) {
        record_search(&of);
        for (int v = 0; v < n; v++) {
            if (A[u][v] == 0)
                continue;
            if (!is_known[v] || distance[u] + A[u][v] < distance[v]) {
                distance[v] = distance[u] + A[u][v];
                pi[v] = u;
                is_known[v] = 1;
            }
        }
    }
    record_search(&of);
    output(run, of.traced);
}
