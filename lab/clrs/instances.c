/*
 * The instances. The draws and their order are part of the format: none may be
 * skipped, even if its result is not needed. Numbers are truncated here, as
 * soon as they are drawn, so that algorithms see what is printed.
 */
#include "clrs/instances.h"

#include <math.h>
#include <string.h>

enum { LETTERS = 4, COMMUNITIES = 4, HULL_ATTEMPTS = 1000 };

/* ---- Sequences ------------------------------------------------------------ */

static void draw_uniform(clrs_run *run, double *values, int count, double low, double high) {
    for (int i = 0; i < count; i++)
        values[i] = clrs_random_uniform(&run->random, low, high);
}

static void truncate_all(const clrs_run *run, double *values, int count) {
    if (run->decimals == 0)
        return;
    double scale = clrs_power_of_ten(run->decimals);
    for (int i = 0; i < count; i++)
        values[i] = trunc(values[i] * scale) / scale;
}

static void draw_letters(clrs_run *run, int *letters, int count) {
    for (int i = 0; i < count; i++)
        letters[i] = clrs_random_below(&run->random, LETTERS);
}

static bool sample_range(clrs_run *run, double low, double high) {
    run->entries = run->n;
    run->first = clrs_vector(run);
    draw_uniform(run, run->first, run->n, low, high);
    truncate_all(run, run->first, run->n);
    return true;
}

bool clrs_draw_keys(clrs_run *run) { return sample_range(run, 0, 1); }

bool clrs_draw_gains(clrs_run *run) { return sample_range(run, -1, 1); }

bool clrs_draw_search(clrs_run *run) {
    int n = run->entries = run->n;
    double *drawn = clrs_vector(run);
    int *order = clrs_vector(run);
    draw_uniform(run, drawn, n, 0, 1);
    clrs_argsort(drawn, order, n, run->ties);
    run->first = clrs_vector(run);
    for (int i = 0; i < n; i++)
        run->first[i] = drawn[order[i]];
    truncate_all(run, run->first, n);
    run->target = clrs_truncate(clrs_random_double(&run->random), run->decimals);
    return true;
}

/* Marks which letters belong to the second string: all from `split` on. */
static void mark_strings(clrs_run *run, int split) {
    run->entries = run->n;
    run->split = split;
    run->marks = clrs_vector(run);
    for (int i = 0; i < run->n; i++)
        run->marks[i] = i >= split;
}

bool clrs_draw_two_strings(clrs_run *run) {
    mark_strings(run, run->n - run->n / 2);
    run->numbers = clrs_vector(run);
    draw_letters(run, run->numbers, run->n);
    return true;
}

bool clrs_draw_haystack(clrs_run *run) {
    int needle_length = run->n < 5 ? 1 : run->n / 5;
    int haystack_length = run->n - needle_length;
    mark_strings(run, haystack_length);
    run->numbers = clrs_vector(run);
    int *haystack = run->numbers, *needle = run->numbers + haystack_length;
    draw_letters(run, needle, needle_length);
    draw_letters(run, haystack, haystack_length);
    int position = clrs_random_below(&run->random, haystack_length - needle_length);
    memmove(haystack + position, needle, (size_t)needle_length * sizeof *needle);
    return true;
}

/* numpy's sum, whose order of additions affects the last digits. */
static double pairwise_sum(const double *values, int count) {
    if (count < 8) {
        double sum = 0;
        for (int i = 0; i < count; i++)
            sum += values[i];
        return sum;
    }
    if (count > 128) {
        int half = count / 2 / 8 * 8;
        return pairwise_sum(values, half) + pairwise_sum(values + half, count - half);
    }
    double lanes[8];
    memcpy(lanes, values, sizeof lanes);
    int i = 8;
    for (; i <= count - 8; i += 8)
        for (int lane = 0; lane < 8; lane++)
            lanes[lane] += values[i + lane];
    double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                 ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    for (; i < count; i++)
        sum += values[i];
    return sum;
}

/* Probabilities of n keys and of the n + 1 gaps between them. */
bool clrs_draw_search_tree(clrs_run *run) {
    int n = run->n, count = 2 * n + 1;
    double *drawn = clrs_vectors(run, 2);
    draw_uniform(run, drawn, count, 0, 1);
    double sum = pairwise_sum(drawn, count);
    for (int i = 0; i < count; i++)
        drawn[i] /= sum;
    truncate_all(run, drawn, count);
    run->entries = n + 1;
    run->first = clrs_vector(run);
    memcpy(run->first, drawn, (size_t)n * sizeof *drawn);
    run->first[n] = 0; /* printed, but never used */
    run->second = drawn + n;
    return true;
}

bool clrs_draw_activities(clrs_run *run) {
    int n = run->entries = run->n;
    run->first = clrs_vector(run);
    run->second = clrs_vector(run);
    draw_uniform(run, run->first, n, 0, 1);
    draw_uniform(run, run->second, n, 0, 1);
    for (int i = 0; i < n; i++) {
        double a = run->first[i], b = run->second[i];
        run->first[i] = a < b ? a : b;
        run->second[i] = a < b ? b : a;
    }
    truncate_all(run, run->first, n);
    truncate_all(run, run->second, n);
    return true;
}

bool clrs_draw_tasks(clrs_run *run) {
    run->numbers = clrs_vector(run);
    for (int i = 0; i < run->n; i++)
        run->numbers[i] = clrs_random_below(&run->random, run->n) + 1;
    return sample_range(run, 0, 1);
}

/* ---- Graphs --------------------------------------------------------------- */

static void draw_coins(clrs_run *run, uint8_t *coins, int count, double q) {
    for (int i = 0; i < count; i++)
        coins[i] = (uint8_t)clrs_random_coin(&run->random, q);
}

/* Every pair of nodes, also a node and itself, is joined with probability 1 - q. */
static void draw_edges(clrs_run *run, double q) {
    int n = run->n;
    uint8_t(*edges)[n] = clrs_square(run);
    for (int i = 0; i < n; i++)
        draw_coins(run, edges[i], n, q);
    run->edges = edges[0];
}

/* An edge needs the coins of both directions. */
static void make_undirected(clrs_run *run) {
    int n = run->n;
    uint8_t(*edges)[n] = (void *)run->edges;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            edges[i][j] = edges[j][i] = edges[i][j] & edges[j][i];
}

/* Node i of the new graph is node order[i] of the old one. */
static void shuffle_nodes(clrs_run *run) {
    int n = run->n;
    int *order = clrs_vector(run);
    clrs_random_permutation(&run->random, order, n);
    uint8_t(*before)[n] = (void *)run->edges;
    uint8_t(*edges)[n] = clrs_square(run);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            edges[i][j] = before[order[i]][order[j]];
    run->edges = edges[0];
}

static void draw_acyclic(clrs_run *run, double q) {
    draw_edges(run, q);
    for (int i = 0; i < run->n; i++)
        memset(run->edges + (size_t)i * (size_t)run->n, 0, (size_t)i + 1);
    shuffle_nodes(run);
}

/* An edge whose weight is truncated to zero is removed. */
static void draw_weights(clrs_run *run, bool directed) {
    int n = run->n;
    uint8_t(*edges)[n] = (void *)run->edges;
    double(*weights)[n] = clrs_squares(run, 2);
    for (int i = 0; i < n; i++)
        draw_uniform(run, weights[i], n, 0, 1);
    for (int i = 0; !directed && i < n; i++)
        for (int j = 0; j <= i; j++)
            if (edges[i][j])
                weights[i][j] = weights[j][i] = sqrt(weights[i][j] * weights[j][i] + 0.001);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            weights[i][j] = edges[i][j] ? clrs_truncate(weights[i][j], run->decimals) : 0;
            edges[i][j] = weights[i][j] != 0;
        }
    run->weights = weights[0];
}

static void draw_source(clrs_run *run) { run->source = clrs_random_below(&run->random, run->n); }

bool clrs_draw_directed_graph(clrs_run *run) {
    draw_edges(run, 0.5);
    return true;
}

bool clrs_draw_acyclic_graph(clrs_run *run) {
    draw_acyclic(run, 0.5);
    return true;
}

bool clrs_draw_sparse_graph(clrs_run *run) {
    draw_edges(run, 0.8);
    make_undirected(run);
    return true;
}

bool clrs_draw_graph_and_source(clrs_run *run) {
    draw_edges(run, 0.5);
    make_undirected(run);
    draw_source(run);
    return true;
}

static void draw_weighted_graph(clrs_run *run, double q) {
    draw_edges(run, q);
    make_undirected(run);
    draw_weights(run, false);
}

bool clrs_draw_sparse_weighted_graph(clrs_run *run) {
    draw_weighted_graph(run, 0.8);
    return true;
}

bool clrs_draw_weighted_graph(clrs_run *run) {
    draw_weighted_graph(run, 0.5);
    return true;
}

bool clrs_draw_weighted_graph_and_source(clrs_run *run) {
    draw_weighted_graph(run, 0.5);
    draw_source(run);
    return true;
}

bool clrs_draw_weighted_acyclic_graph_and_source(clrs_run *run) {
    draw_acyclic(run, 0.5);
    draw_weights(run, true);
    draw_source(run);
    return true;
}

/* Four dense groups of nodes; then a few pairs are flipped, none from a later group to an earlier
 * one. */
bool clrs_draw_communities(clrs_run *run) {
    int n = run->n, size = n / COMMUNITIES;
    uint8_t(*edges)[n] = clrs_square(run);
    memset(edges, 0, (size_t)n * (size_t)n);
    for (int community = 0; community < COMMUNITIES; community++) {
        int start = community * size, end = community < COMMUNITIES - 1 ? start + size : n;
        for (int i = start; i < end; i++)
            draw_coins(run, edges[i] + start, end - start, 0.5);
    }
    for (int i = 0; i < n; i++) {
        int community = i / size < COMMUNITIES ? i / size : COMMUNITIES - 1;
        for (int j = 0; j < n; j++)
            edges[i][j] ^=
                (uint8_t)(clrs_random_coin(&run->random, 0.99) & (j >= community * size));
    }
    run->edges = edges[0];
    shuffle_nodes(run);
    return true;
}

/* ---- Points --------------------------------------------------------------- */

static bool turns_left(const double *x, const double *y, int a, int b, int c) {
    return (y[c] - y[a]) * (x[b] - x[a]) > (y[b] - y[a]) * (x[c] - x[a]);
}

static bool segments_cross(const double *x, const double *y) {
    return turns_left(x, y, 0, 2, 3) != turns_left(x, y, 1, 2, 3) &&
           turns_left(x, y, 0, 1, 2) != turns_left(x, y, 0, 1, 3);
}

/* Four points; a coin decides whether the segments 0-1 and 2-3 cross. */
bool clrs_draw_segments(clrs_run *run) {
    run->entries = 4;
    run->first = clrs_vector(run);
    run->second = clrs_vector(run);
    bool wanted = clrs_random_coin(&run->random, 0.5);
    do {
        draw_uniform(run, run->first, 4, 0, 1);
        draw_uniform(run, run->second, 4, 0, 1);
    } while (segments_cross(run->first, run->second) != wanted);
    truncate_all(run, run->first, 4);
    truncate_all(run, run->second, 4);
    return true;
}

static bool any_three_on_a_line(const double *x, const double *y, int count) {
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++) {
            double across = x[j] - x[i], up = y[j] - y[i];
            for (int k = j + 1; k < count; k++)
                if (fabs(across * (y[k] - y[i]) - up * (x[k] - x[i])) < 1e-12)
                    return true;
        }
    return false;
}

/* Points of a disk of radius 2. The second truncation matters. */
bool clrs_draw_points(clrs_run *run) {
    const double full_turn = 2.0 * 3.141592653589793;
    int n = run->entries = run->n;
    double *x = run->first = clrs_vector(run);
    double *y = run->second = clrs_vector(run);
    double *angles = clrs_vector(run);
    for (int attempt = 0; attempt < HULL_ATTEMPTS; attempt++) {
        draw_uniform(run, angles, n, 0, full_turn);
        for (int i = 0; i < n; i++) {
            double radius = 2.0 * sqrt(clrs_random_double(&run->random));
            x[i] = radius * cos(angles[i]) + 0.0;
            y[i] = radius * sin(angles[i]) + 0.0;
        }
        truncate_all(run, x, n);
        truncate_all(run, y, n);
        if (any_three_on_a_line(x, y, n))
            continue;
        truncate_all(run, x, n);
        truncate_all(run, y, n);
        return true;
    }
    return false;
}
