/* Computational geometry: whether two segments intersect, and convex hulls. */
#include "clrs/algorithms.h"

#include <math.h>

typedef struct points {
    const double *x, *y;
} points;

/* Positive if k lies to the right of the line from i to j. */
static double direction(points at, int i, int j, int k) {
    return (at.x[k] - at.x[i]) * (at.y[j] - at.y[i]) - (at.x[j] - at.x[i]) * (at.y[k] - at.y[i]);
}

static bool is_between(double value, double a, double b) {
    return a < b ? a <= value && value <= b : b <= value && value <= a;
}

/* For a point on the line through i and j. */
static bool on_segment(points at, int i, int j, int k) {
    return is_between(at.x[k], at.x[i], at.x[j]) && is_between(at.y[k], at.y[i], at.y[j]);
}

static bool opposite(double a, double b) { return (a > 0 && b < 0) || (a < 0 && b > 0); }

void clrs_segments_intersect(clrs_run *run) {
    points at = {run->first, run->second};
    double d0 = direction(at, 2, 3, 0), d1 = direction(at, 2, 3, 1);
    double d2 = direction(at, 0, 1, 2), d3 = direction(at, 0, 1, 3);
    bool intersect = (opposite(d0, d1) && opposite(d2, d3)) ||
                     (d0 == 0 && on_segment(at, 2, 3, 0)) || (d1 == 0 && on_segment(at, 2, 3, 1)) ||
                     (d2 == 0 && on_segment(at, 0, 1, 2)) || (d3 == 0 && on_segment(at, 0, 1, 3));
    output(run, index_state(intersect));
}

static bool turns_right(points at, int i, int j, int k) {
    return (at.x[j] - at.x[i]) * (at.y[k] - at.y[i]) - (at.y[j] - at.y[i]) * (at.x[k] - at.x[i]) <=
           0;
}

/* The lowest point, and of several the leftmost. */
static int find_lowest(points at, int n) {
    int lowest = 0;
    for (int i = 1; i < n; i++)
        if (at.y[i] < at.y[lowest] || (at.y[i] == at.y[lowest] && at.x[i] < at.x[lowest]))
            lowest = i;
    return lowest;
}

void clrs_graham_scan(clrs_run *run) {
    int n = run->n;
    points at = {run->first, run->second};
    int *in_hull = clrs_zeros(run), *below = clrs_identity(run), *order = clrs_vector(run);
    double *angles = clrs_vector(run);
    record(run, vector_state(in_hull, n));
    int lowest = find_lowest(at, n), top = lowest;
    in_hull[lowest] = 1;
    record(run, vector_state(in_hull, n));
    for (int i = 0; i < n; i++)
        angles[i] = atan2(at.y[i] - at.y[lowest], at.x[i] - at.x[lowest]);
    angles[lowest] = -INFINITY;
    clrs_argsort(angles, order, n, run->ties);
    record(run, vector_state(in_hull, n));
    for (int i = 1; i < n; i++) {
        int next = order[i];
        while (i >= 3 && turns_right(at, below[top], top, next)) {
            int popped = top;
            if (below[popped] == popped) {
                run->endless = true; /* nothing is left to pop, and the turn stays a right one */
                return;
            }
            top = below[popped];
            below[popped] = popped;
            in_hull[popped] = 0;
            record(run, vector_state(in_hull, n));
        }
        in_hull[next] = 1;
        below[next] = top;
        top = next;
        record(run, vector_state(in_hull, n));
    }
    output(run, vector_state(in_hull, n));
}

void clrs_jarvis_march(clrs_run *run) {
    int n = run->n;
    points at = {run->first, run->second};
    int *in_hull = clrs_zeros(run);
    record(run, vector_state(in_hull, n));
    int last = find_lowest(at, n), end = last;
    do {
        in_hull[end] = 1;
        last = end;
        end = 0;
        record(run, vector_state(in_hull, n));
        for (int i = 0; i < n; i++) {
            if (end == last || (i != last && i != end && turns_right(at, last, end, i)))
                end = i;
            record(run, vector_state(in_hull, n));
        }
    } while (!in_hull[end]);
    output(run, vector_state(in_hull, n));
}
