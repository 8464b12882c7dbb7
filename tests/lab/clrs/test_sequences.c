// What the algorithms on sequences, strings and points claim, on random instances: sorts sort,
// searches find, plans are the best there are, matches match, hulls contain all points.
#include "parse.h"
#include "samples.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool is_near(double a, double b) { return fabs(a - b) < 1e-9; }

// ---- Sorting and searching -------------------------------------------------------------------

static bool is_sorted(const char *question, const char *answer) {
    struct values key = input_values(question, "key"), sorted = answer_values(answer);
    qsort(key.at, key.count, sizeof *key.at, compare_doubles);
    bool is_right = key.count == sorted.count;
    for (size_t i = 0; is_right && i < key.count; i++)
        is_right = key.at[i] == sorted.at[i];
    free_values(&key);
    free_values(&sorted);
    return is_right;
}

TEST(insertion_sort_sorts) { check_samples("insertion_sort", 127, is_sorted); }
TEST(bubble_sort_sorts) { check_samples("bubble_sort", 64, is_sorted); }
TEST(heapsort_sorts) { check_samples("heapsort", 127, is_sorted); }
TEST(quicksort_sorts) { check_samples("quicksort", 127, is_sorted); }

// Whether exactly `rank` keys may precede the key that the answer points at.
static bool has_rank(const char *question, const char *answer, size_t rank) {
    struct values key = input_values(question, "key"), found = answer_values(answer);
    size_t below = 0, equal = 0, place = (size_t)found.at[0];
    bool is_right = found.count == 1 && place < key.count;
    for (size_t i = 0; is_right && i < key.count; i++) {
        below += key.at[i] < key.at[place];
        equal += key.at[i] == key.at[place];
    }
    if (rank == SIZE_MAX)
        rank = key.count / 2;
    free_values(&key);
    free_values(&found);
    return is_right && below <= rank && rank < below + equal;
}

static bool is_least(const char *question, const char *answer) {
    return has_rank(question, answer, 0);
}

static bool is_median(const char *question, const char *answer) {
    return has_rank(question, answer, SIZE_MAX);
}

TEST(minimum_finds_the_least_key) { check_samples("minimum", 127, is_least); }
TEST(quickselect_finds_the_median) { check_samples("quickselect", 127, is_median); }

static bool is_place_of_target(const char *question, const char *answer) {
    struct values key = input_values(question, "key"), target = input_values(question, "target");
    struct values found = answer_values(answer);
    size_t place = 0;
    while (place < key.count - 1 && key.at[place] < target.at[0])
        place++;
    bool is_right = found.at[found.count - 1] == (double)place;
    free_values(&key);
    free_values(&target);
    free_values(&found);
    return is_right;
}

TEST(binary_search_finds_the_place_of_its_target) {
    check_samples("binary_search", 127, is_place_of_target);
}

static bool is_greatest_sum(const char *question, const char *answer) {
    struct values key = input_values(question, "key"), range = answer_values(answer);
    double best = -INFINITY, claimed = 0;
    for (size_t i = 0; i < key.count; i++) {
        double sum = 0;
        for (size_t j = i; j < key.count; j++) {
            sum += key.at[j];
            best = sum > best ? sum : best;
        }
    }
    bool is_right = range.count == 2 && range.at[0] <= range.at[1];
    for (size_t i = (size_t)range.at[0]; is_right && i <= (size_t)range.at[1]; i++)
        claimed += key.at[i];
    free_values(&key);
    free_values(&range);
    return is_right && is_near(best, claimed);
}

TEST(kadane_finds_the_greatest_sum) {
    check_samples("find_maximum_subarray_kadane", 127, is_greatest_sum);
}

// ---- Dynamic programming ---------------------------------------------------------------------

enum { TABLE_MAX = 66 };

static double table[TABLE_MAX][TABLE_MAX];

// The cost of multiplying matrices i ... j as the splits say.
static double chain_cost(const struct values *p, const struct values *split, size_t i, size_t j) {
    if (i == j)
        return 0;
    size_t k = (size_t)split->at[i * split->columns + j];
    if (k < i || k >= j)
        return INFINITY;
    return chain_cost(p, split, i, k) + chain_cost(p, split, k + 1, j) +
           p->at[i - 1] * p->at[k] * p->at[j];
}

static bool is_cheapest_chain(const char *question, const char *answer) {
    struct values p = input_values(question, "p"), split = answer_values(answer);
    size_t n = p.count;
    bool has_zero = false; // with which the reference may stop before its last improvement
    for (size_t i = 0; i < n; i++)
        has_zero = has_zero || p.at[i] == 0;
    for (size_t length = 0; length < n; length++)
        for (size_t i = 1; i + length < n; i++) {
            size_t j = i + length;
            table[i][j] = length == 0 ? 0 : INFINITY;
            for (size_t k = i; k < j; k++)
                table[i][j] = fmin(table[i][j],
                                   table[i][k] + table[k + 1][j] + p.at[i - 1] * p.at[k] * p.at[j]);
        }
    bool is_right = has_zero || is_near(table[1][n - 1], chain_cost(&p, &split, 1, n - 1));
    free_values(&p);
    free_values(&split);
    return is_right;
}

TEST(matrix_chains_are_split_at_least_cost) {
    check_samples("matrix_chain_order", 33, is_cheapest_chain);
}

static bool is_longest_subsequence(const char *question, const char *answer) {
    struct values marks = input_values(question, "string"), key = input_values(question, "key");
    struct values b = answer_values(answer);
    size_t n = key.count, nx = 0;
    while (nx < n && marks.at[nx] == 0)
        nx++;
    size_t ny = n - nx;
    for (size_t i = 0; i <= nx; i++)
        for (size_t j = 0; j <= ny; j++)
            table[i][j] = i == 0 || j == 0 ? 0
                          : key.at[i - 1] == key.at[nx + j - 1]
                              ? table[i - 1][j - 1] + 1
                              : fmax(table[i - 1][j], table[i][j - 1]);
    size_t i = nx, j = ny;
    double length = 0;
    while (i > 0 && j > 0) {
        double arrow = b.at[(i - 1) * n + nx + j - 1];
        length += arrow == 0;
        i -= arrow <= 1;
        j -= arrow != 1;
    }
    bool is_right = length == table[nx][ny];
    free_values(&marks);
    free_values(&key);
    free_values(&b);
    return is_right;
}

TEST(arrows_lead_along_a_longest_common_subsequence) {
    check_samples("lcs_length", 64, is_longest_subsequence);
}

struct tree {
    struct values p, q, root;
};

// The expected cost of searching keys i ... j - 1 in the tree that the roots make.
static double tree_cost(const struct tree *tree, size_t i, size_t j) {
    double weight = tree->q.at[i];
    for (size_t k = i; k < j; k++)
        weight += tree->p.at[k] + tree->q.at[k + 1];
    if (i == j)
        return weight;
    size_t root = (size_t)tree->root.at[i * tree->root.columns + j];
    if (root < i || root >= j)
        return INFINITY;
    return weight + tree_cost(tree, i, root) + tree_cost(tree, root + 1, j);
}

static bool is_best_tree(const char *question, const char *answer) {
    struct tree tree = {input_values(question, "p"), input_values(question, "q"),
                        answer_values(answer)};
    size_t n = tree.q.count - 1;
    for (size_t length = 0; length <= n; length++)
        for (size_t i = 0; i + length <= n; i++) {
            size_t j = i + length;
            double weight = tree.q.at[i], best = length == 0 ? 0 : INFINITY;
            for (size_t k = i; k < j; k++) {
                weight += tree.p.at[k] + tree.q.at[k + 1];
                best = fmin(best, table[i][k] + table[k + 1][j]);
            }
            table[i][j] = best + weight;
        }
    bool is_right = tree.p.count == n + 1 && is_near(table[0][n], tree_cost(&tree, 0, n));
    free_values(&tree.p);
    free_values(&tree.q);
    free_values(&tree.root);
    return is_right;
}

TEST(search_trees_are_the_best_there_are) { check_samples("optimal_bst", 48, is_best_tree); }

// ---- Greedy ----------------------------------------------------------------------------------

struct activity {
    double start, finish;
};

static int compare_activities(const void *a, const void *b) {
    const struct activity *x = a, *y = b;
    int order = compare_doubles(&x->finish, &y->finish);
    return order ? order : compare_doubles(&x->start, &y->start);
}

// How many of these, in order of their ends, can follow each other.
static size_t count_compatible(struct activity *list, size_t count) {
    qsort(list, count, sizeof *list, compare_activities);
    double end = -INFINITY;
    size_t taken = 0;
    for (size_t i = 0; i < count; i++)
        if (list[i].start >= end) {
            end = list[i].finish;
            taken++;
        }
    return taken;
}

static bool is_largest_selection(const char *question, const char *answer) {
    struct values s = input_values(question, "s"), f = input_values(question, "f");
    struct values selected = answer_values(answer);
    struct activity all[128] = {{0}}, chosen[128] = {{0}};
    size_t count = 0;
    bool has_moment = false; // an activity without duration may be met too late among its equals
    for (size_t i = 0; i < s.count && i < 128; i++) {
        all[i] = (struct activity){s.at[i], f.at[i]};
        has_moment = has_moment || s.at[i] == f.at[i];
        if (selected.at[i] == 1)
            chosen[count++] = all[i];
    }
    size_t most = count_compatible(all, s.count);
    bool is_right = count_compatible(chosen, count) == count && (has_moment || count == most);
    free_values(&s);
    free_values(&f);
    free_values(&selected);
    return is_right;
}

TEST(as_many_activities_as_possible_are_selected) {
    check_samples("activity_selector", 127, is_largest_selection);
}

// All tasks selected can be done in time, one after the other, and the heaviest is among them.
static bool is_schedule(const char *question, const char *answer) {
    struct values d = input_values(question, "d"), w = input_values(question, "w");
    struct values selected = answer_values(answer);
    double deadlines[128] = {0}, heaviest = 0, heaviest_selected = 0;
    size_t count = 0;
    for (size_t i = 0; i < d.count && i < 128; i++) {
        heaviest = fmax(heaviest, w.at[i]);
        if (selected.at[i] != 1)
            continue;
        heaviest_selected = fmax(heaviest_selected, w.at[i]);
        deadlines[count++] = d.at[i];
    }
    qsort(deadlines, count, sizeof *deadlines, compare_doubles);
    bool is_right = count > 0 && heaviest == heaviest_selected;
    for (size_t i = 0; i < count; i++)
        is_right = is_right && deadlines[i] >= (double)(i + 1);
    free_values(&d);
    free_values(&w);
    free_values(&selected);
    return is_right;
}

TEST(scheduled_tasks_are_in_time) { check_samples("task_scheduling", 127, is_schedule); }

// ---- Strings ---------------------------------------------------------------------------------

static bool is_first_match(const char *question, const char *answer) {
    struct values marks = input_values(question, "string"), key = input_values(question, "key");
    struct values match = answer_values(answer);
    size_t h = 0, s = 0;
    while (h < key.count && marks.at[h] == 0)
        h++;
    size_t m = key.count - h;
    for (; s + m <= h; s++)
        if (memcmp(key.at + s, key.at + h, m * sizeof *key.at) == 0)
            break;
    bool is_right = match.count == 1 && match.at[0] == (double)s && s + m <= h;
    free_values(&marks);
    free_values(&key);
    free_values(&match);
    return is_right;
}

TEST(the_naive_matcher_finds_the_first_match) {
    check_samples("naive_string_matcher", 127, is_first_match);
}
TEST(the_matcher_of_knuth_morris_and_pratt_finds_the_first_match) {
    check_samples("kmp_matcher", 127, is_first_match);
}

// ---- Geometry --------------------------------------------------------------------------------

static double cross(const struct values *x, const struct values *y, size_t i, size_t j, size_t k) {
    return (x->at[j] - x->at[i]) * (y->at[k] - y->at[i]) -
           (y->at[j] - y->at[i]) * (x->at[k] - x->at[i]);
}

// Where no point is near the other segment's line, parameters of the crossing decide.
static bool is_crossing(const char *question, const char *answer) {
    struct values x = input_values(question, "x"), y = input_values(question, "y");
    struct values found = answer_values(answer);
    double a = cross(&x, &y, 0, 1, 2), b = cross(&x, &y, 0, 1, 3);
    double c = cross(&x, &y, 2, 3, 0), d = cross(&x, &y, 2, 3, 1);
    double nearest = fmin(fmin(fabs(a), fabs(b)), fmin(fabs(c), fabs(d)));
    double along_second = a / (a - b), along_first = c / (c - d);
    bool crosses = along_first > 0 && along_first < 1 && along_second > 0 && along_second < 1;
    bool is_right = nearest < 1e-12 || found.at[0] == (double)crosses;
    is_right = is_right && x.count == 4 && y.count == 4 && found.count == 1;
    free_values(&x);
    free_values(&y);
    free_values(&found);
    return is_right;
}

TEST(segments_intersect_where_they_cross) { check_samples("segments_intersect", 127, is_crossing); }

// A point is on the hull if all others lie on one side of a line through it and another point.
static bool is_corner(const struct values *x, const struct values *y, size_t i) {
    for (size_t j = 0; j < x->count; j++) {
        if (j == i)
            continue;
        bool all_left = true;
        for (size_t k = 0; all_left && k < x->count; k++)
            all_left = k == i || k == j || cross(x, y, i, j, k) > -1e-12;
        if (all_left)
            return true;
    }
    return false;
}

static bool is_hull(const char *question, const char *answer) {
    struct values x = input_values(question, "x"), y = input_values(question, "y");
    struct values in_hull = answer_values(answer);
    bool is_right = in_hull.count == x.count, has_line = false;
    for (size_t i = 0; i < x.count; i++) // which a second truncation can make of three points
        for (size_t j = 0; j < i; j++)
            for (size_t k = 0; k < j; k++)
                has_line = has_line || fabs(cross(&x, &y, i, j, k)) < 1e-12;
    for (size_t i = 0; is_right && !has_line && i < x.count; i++)
        is_right = (in_hull.at[i] == 1) == is_corner(&x, &y, i);
    free_values(&x);
    free_values(&y);
    free_values(&in_hull);
    return is_right;
}

TEST(graham_finds_the_hull) { check_samples("graham_scan", 48, is_hull); }
TEST(jarvis_finds_the_hull) { check_samples("jarvis_march", 48, is_hull); }
