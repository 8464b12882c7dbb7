// What the graph algorithms claim, on random graphs: paths are shortest by an independent
// computation of all pairs, trees span at the least weight, orders are orders, cuts cut.
#include "graph.h"
#include "parse.h"
#include "samples.h"
#include "support/check.h"

#include <math.h>
#include <stdint.h>

static struct graph graph;

static bool is_near(double a, double b) { return fabs(a - b) < 1e-9; }

static size_t source_of(const char *question) {
    struct values source = input_values(question, "s");
    size_t node = (size_t)source.at[0];
    free_values(&source);
    return node;
}

// The graph, and the answer's numbers, of which there must be `expected`; 0 for one a node.
static bool read_sample(const char *question, const char *answer, size_t expected,
                        struct values *numbers) {
    read_graph(&graph, question);
    *numbers = answer_values(answer);
    return numbers->count == (expected ? expected : graph.n);
}

// ---- Paths -----------------------------------------------------------------------------------

// The length of the path that parents give, backwards from a node; NaN if they do not lead there.
static double path_length(const double *parents, size_t from, size_t to) {
    double length = 0;
    for (size_t steps = 0; to != from; steps++) {
        size_t before = (size_t)parents[to];
        if (steps > graph.n || graph.weight[before][to] == 0)
            return NAN;
        length += graph.weight[before][to];
        to = before;
    }
    return length;
}

static bool are_shortest(const double *parents, size_t from) {
    for (size_t to = 0; to < graph.n; to++) {
        if (to == from)
            continue;
        if (!reaches(&graph, from, to)) {
            if (parents[to] != (double)to)
                return false;
        } else if (!is_near(path_length(parents, from, to), graph.distance[from][to])) {
            return false;
        }
    }
    return true;
}

static bool has_shortest_paths(const char *question, const char *answer) {
    struct values pi;
    bool is_right = read_sample(question, answer, 0, &pi);
    is_right = is_right && are_shortest(pi.at, source_of(question));
    free_values(&pi);
    return is_right;
}

TEST(bellman_and_ford_find_shortest_paths) {
    check_samples("bellman_ford", 64, has_shortest_paths);
}
TEST(dijkstra_finds_shortest_paths) { check_samples("dijkstra", 64, has_shortest_paths); }
TEST(paths_in_acyclic_graphs_are_shortest) {
    check_samples("dag_shortest_paths", 64, has_shortest_paths);
}

static bool has_all_shortest_paths(const char *question, const char *answer) {
    read_graph(&graph, question);
    struct values pi = answer_values(answer);
    bool is_right = pi.count == graph.n * graph.n;
    for (size_t from = 0; is_right && from < graph.n; from++)
        for (size_t to = 0; is_right && to < graph.n; to++) {
            if (from == to)
                continue;
            const double *parents = pi.at + from * graph.n;
            is_right = reaches(&graph, from, to)
                           ? is_near(path_length(parents, from, to), graph.distance[from][to])
                           : parents[to] == (double)from;
        }
    free_values(&pi);
    return is_right;
}

TEST(floyd_and_warshall_find_all_shortest_paths) {
    check_samples("floyd_warshall", 33, has_all_shortest_paths);
}

static bool has_fewest_hops(const char *question, const char *answer) {
    struct values pi;
    bool is_right = read_sample(question, answer, 0, &pi);
    size_t from = source_of(question);
    for (size_t to = 0; is_right && to < graph.n; to++) {
        size_t parent = (size_t)pi.at[to];
        if (to == from || !reaches(&graph, from, to))
            is_right = parent == to;
        else
            is_right = graph.weight[parent][to] != 0 &&
                       graph.hops[from][parent] + 1 == graph.hops[from][to];
    }
    free_values(&pi);
    return is_right;
}

TEST(breadth_first_search_takes_the_fewest_hops) { check_samples("bfs", 127, has_fewest_hops); }

// ---- Depth first -----------------------------------------------------------------------------

// A node is a root if no root before it reaches it; all others hang on an edge, and no cycle
// exists.
static bool is_forest(const char *question, const char *answer) {
    struct values pi;
    bool is_right = read_sample(question, answer, 0, &pi), is_seen[NODES_MAX] = {false};
    for (size_t node = 0; is_right && node < graph.n; node++) {
        is_right = (pi.at[node] == (double)node) == !is_seen[node];
        for (size_t other = 0; !is_seen[node] && other < graph.n; other++)
            is_seen[other] = is_seen[other] || (other != node && reaches(&graph, node, other));
        size_t up = node;
        for (size_t steps = 0; is_right && pi.at[up] != (double)up; steps++) {
            is_right = steps < graph.n && graph.weight[(size_t)pi.at[up]][up] != 0;
            up = (size_t)pi.at[up];
        }
        is_seen[node] = true;
    }
    free_values(&pi);
    return is_right;
}

TEST(depth_first_search_makes_a_forest) { check_samples("dfs", 64, is_forest); }

static bool is_topological(const char *question, const char *answer) {
    read_graph(&graph, question);
    struct values list = answer_values(answer);
    size_t place[NODES_MAX], n = graph.n, count = 0;
    bool is_right = list.count == n + 1;
    for (size_t i = 0; i < n; i++)
        place[i] = SIZE_MAX;
    size_t node = (size_t)list.at[n];
    while (is_right && count < n && place[node] == SIZE_MAX) {
        place[node] = count++;
        node = (size_t)list.at[node];
    }
    is_right = is_right && count == n;
    for (size_t i = 0; is_right && i < n; i++)
        for (size_t j = 0; is_right && j < n; j++)
            is_right = graph.weight[i][j] == 0 || place[i] < place[j];
    free_values(&list);
    return is_right;
}

TEST(topological_order_goes_along_all_edges) {
    check_samples("topological_sort", 64, is_topological);
}

static bool has_cut_nodes(const char *question, const char *answer) {
    struct values is_cut;
    bool is_right = read_sample(question, answer, 0, &is_cut);
    size_t n = graph.n, whole = count_components(&graph, n, n, n);
    for (size_t node = 0; is_right && node < n; node++)
        is_right = (is_cut.at[node] == 1) == (count_components(&graph, node, n, n) > whole);
    free_values(&is_cut);
    return is_right;
}

TEST(articulation_points_hold_the_graph_together) {
    check_samples("articulation_points", 33, has_cut_nodes);
}

static bool has_bridges(const char *question, const char *answer) {
    read_graph(&graph, question);
    struct values is_bridge = answer_values(answer);
    size_t n = graph.n, whole = count_components(&graph, n, n, n);
    bool is_right = is_bridge.count == n * n;
    for (size_t i = 0; is_right && i < n; i++)
        for (size_t j = 0; is_right && j < n; j++) {
            bool joined = graph.weight[i][j] != 0;
            double expected = i == j ? 0 : joined ? 0 : -1;
            if (joined && i != j && count_components(&graph, n, i, j) > whole)
                expected = 1;
            is_right = is_bridge.at[i * n + j] == expected;
        }
    free_values(&is_bridge);
    return is_right;
}

TEST(bridges_hold_the_graph_together) { check_samples("bridges", 33, has_bridges); }

static bool has_components(const char *question, const char *answer) {
    struct values id;
    bool is_right = read_sample(question, answer, 0, &id);
    for (size_t i = 0; is_right && i < graph.n; i++)
        for (size_t j = 0; is_right && j < graph.n; j++) {
            bool together = reaches(&graph, i, j) && reaches(&graph, j, i);
            is_right = (id.at[i] == id.at[j]) == together;
        }
    free_values(&id);
    return is_right;
}

TEST(components_are_strongly_connected) {
    check_samples("strongly_connected_components", 64, has_components);
}

// ---- Spanning trees --------------------------------------------------------------------------

static bool is_lightest_tree(const char *question, const char *answer) {
    struct values pi;
    bool is_right = read_sample(question, answer, 0, &pi);
    size_t from = source_of(question), nodes, count = 1;
    double weight = 0, least = lightest_tree(&graph, from, &nodes);
    for (size_t node = 0; is_right && node < graph.n; node++) {
        size_t parent = (size_t)pi.at[node];
        is_right = isfinite(path_length(pi.at, from, node)) || parent == node;
        if (parent == node)
            continue;
        weight += graph.weight[parent][node];
        count++;
    }
    free_values(&pi);
    return is_right && count == nodes && is_near(weight, least);
}

TEST(prim_grows_the_lightest_tree) { check_samples("mst_prim", 64, is_lightest_tree); }

// The weight and the number of edges of the lightest forest.
static double lightest_forest(size_t *edges) {
    bool is_in[NODES_MAX] = {false};
    double weight = 0;
    *edges = 0;
    for (size_t node = 0; node < graph.n; node++) {
        if (is_in[node])
            continue;
        size_t nodes;
        weight += lightest_tree(&graph, node, &nodes);
        *edges += nodes - 1;
        for (size_t other = 0; other < graph.n; other++)
            is_in[other] = is_in[other] || reaches(&graph, node, other);
    }
    return weight;
}

static bool is_lightest_forest(const char *question, const char *answer) {
    read_graph(&graph, question);
    struct values in_mst = answer_values(answer);
    size_t n = graph.n, edges, count = 0;
    double least = lightest_forest(&edges), weight = 0;
    bool is_right = in_mst.count == n * n;
    for (size_t i = 0; is_right && i < n; i++)
        for (size_t j = 0; is_right && j < n; j++) {
            bool taken = in_mst.at[i * n + j] == 1;
            is_right =
                in_mst.at[j * n + i] == in_mst.at[i * n + j] && (!taken || graph.weight[i][j] != 0);
            if (taken && i < j) {
                weight += graph.weight[i][j];
                count++;
            }
        }
    free_values(&in_mst);
    return is_right && count == edges && is_near(weight, least);
}

TEST(kruskal_joins_the_lightest_forest) { check_samples("mst_kruskal", 64, is_lightest_forest); }
