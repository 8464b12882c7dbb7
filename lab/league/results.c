/* Results of cells gathered into one table of numbers, then summed up. */
#include "league/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of one model at one size under one arm. */
typedef struct point {
    double right, entropy, beta; /* right is NaN where nothing is known */
    uint64_t samples, exact;
} point;

typedef struct gathered {
    const league_request *request;
    point *points; /* [task][positions][arm][multiple][seed] */
    double *costs; /* [task][positions][arm][seed] */
    league_results *results;
} gathered;

/* ---- places ---- */

static size_t place_of(const league_request *r, size_t task, size_t positions, size_t arm,
                       size_t multiple) {
    return ((task * r->position_count + positions) * r->arms.count + arm) *
               r->scale.multiple_count +
           multiple;
}

static size_t entry_count(const league_request *r) { return place_of(r, r->task_count, 0, 0, 0); }

static point *points_of(const gathered *g, size_t task, size_t positions, size_t arm,
                        size_t multiple) {
    return g->points +
           place_of(g->request, task, positions, arm, multiple) * g->request->scale.seeds;
}

static double *costs_of(const gathered *g, size_t task, size_t positions, size_t arm) {
    const league_request *r = g->request;
    return g->costs +
           ((task * r->position_count + positions) * r->arms.count + arm) * r->scale.seeds;
}

const league_entry *league_entry_at(const league_results *results, size_t task, size_t positions,
                                    size_t arm, size_t multiple) {
    return &results->entries[place_of(results->request, task, positions, arm, multiple)];
}

static size_t arm_index(const league_request *r, const char *name) {
    const league_arm *arm = name ? league_arms_find(&r->arms, name) : NULL;
    return arm ? (size_t)(arm - r->arms.list) : SIZE_MAX;
}

/* ---- reading ---- */

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static double mean_of_heads(const json_t *size, const char *key) {
    const json_t *heads = json_object_get(size, "heads");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(heads); i++)
        sum += number_of(json_array_get(heads, i), key);
    return sum / (double)json_array_size(heads);
}

static void take_size(const gathered *g, size_t place[3], const json_t *size, size_t seed) {
    const league_scale *scale = &g->request->scale;
    for (size_t m = 0; m < scale->multiple_count; m++) {
        if ((double)scale->multiples[m] != number_of(size, "multiple"))
            continue;
        uint64_t samples = (uint64_t)json_integer_value(json_object_get(size, "samples"));
        uint64_t exact = (uint64_t)json_integer_value(json_object_get(size, "exact"));
        points_of(g, place[0], place[1], place[2], m)[seed] =
            (point){.right = samples ? (double)exact / (double)samples : 0,
                    .entropy = mean_of_heads(size, "entropy_after"),
                    .beta = mean_of_heads(size, "beta"),
                    .samples = samples,
                    .exact = exact};
    }
}

/* The training of an arm failed: so did whatever runs its models. */
static void take_failure(const gathered *g, const size_t place[3], size_t seed) {
    const league_request *r = g->request;
    const char *name = r->arms.list[place[2]].name;
    for (size_t a = 0; a < r->arms.count; a++) {
        const char *trained_as = r->arms.list[a].trained_as;
        if (a != place[2] && !(trained_as && strcmp(trained_as, name) == 0))
            continue;
        for (size_t m = 0; m < r->scale.multiple_count; m++)
            points_of(g, place[0], place[1], a, m)[seed] =
                (point){.right = 0, .entropy = NAN, .beta = NAN};
    }
}

static void take_result(const gathered *g, size_t task, size_t positions, size_t arm, size_t seed,
                        json_t *result) {
    const json_t *tests = json_object_get(result, "tests");
    size_t place[3] = {task, positions, arm};
    costs_of(g, task, positions, arm)[seed] = number_of(result, "seconds_per_million_tokens");
    if (json_object_get(result, "failed")) {
        take_failure(g, place, seed);
        json_array_append(g->results->failed, result);
        return;
    }
    for (size_t t = 0; t < json_array_size(tests); t++) {
        const json_t *test = json_array_get(tests, t);
        const json_t *sizes = json_object_get(test, "sizes");
        place[2] = arm_index(g->request, json_string_value(json_object_get(test, "arm")));
        for (size_t i = 0; place[2] != SIZE_MAX && i < json_array_size(sizes); i++)
            take_size(g, place, json_array_get(sizes, i), seed);
    }
}

static bool read_cell(const gathered *g, size_t task, size_t positions, size_t arm, size_t seed,
                      lab_error *error) {
    const league_request *r = g->request;
    league_cell cell = {.task = &r->tasks[task],
                        .positions = r->positions[positions],
                        .arm = &r->arms.list[arm],
                        .seed = r->scale.first_seed + seed};
    json_t *result = NULL;
    if (!league_rate(r, cell, &cell.rate, error) ||
        (cell.rate > 0 && !league_cell_read(r, &cell, &result, error)))
        return false;
    g->results->expected++;
    if (result) {
        g->results->models++;
        take_result(g, task, positions, arm, seed, result);
        json_decref(result);
    }
    return true;
}

static bool read_all(const gathered *g, lab_error *error) {
    const league_request *r = g->request;
    for (size_t t = 0; t < r->task_count; t++)
        for (size_t p = 0; p < r->position_count; p++)
            for (size_t a = 0; a < r->arms.count; a++)
                for (size_t s = 0; s < r->scale.seeds; s++)
                    if (!r->arms.list[a].trained_as && !read_cell(g, t, p, a, s, error))
                        return false;
    return true;
}

/* ---- summing up ---- */

/* Of shares, which no interval leaves. */
static lab_interval share_interval(const double *values, size_t count) {
    lab_interval interval = lab_mean_interval(values, count);
    if (isfinite(interval.low) && isfinite(interval.high)) {
        interval.low = fmax(interval.low, 0);
        interval.high = fmin(interval.high, 1);
    }
    return interval;
}

static void sum_entry(const gathered *g, const point *own, const point *base, league_entry *to) {
    double values[LEAGUE_SEEDS_MAX], differences[LEAGUE_SEEDS_MAX], entropy = 0, beta = 0;
    const point *last = NULL;
    for (size_t s = 0; s < g->request->scale.seeds; s++) {
        if (isnan(own[s].right))
            continue;
        last = &own[s];
        values[to->seeds++] = own[s].right;
        entropy += own[s].entropy;
        beta += own[s].beta;
        if (base && !isnan(base[s].right))
            differences[to->pairs++] = own[s].right - base[s].right;
    }
    if (to->seeds == 0)
        return;
    to->right = to->seeds == 1 && last->samples > 0 ? lab_share_interval(last->exact, last->samples)
                                                    : share_interval(values, to->seeds);
    to->right.mean = lab_mean_interval(values, to->seeds).mean;
    if (to->pairs > 0)
        to->difference = lab_mean_interval(differences, to->pairs);
    to->entropy = entropy / (double)to->seeds;
    to->beta = beta / (double)to->seeds;
}

static void sum_entries(const gathered *g) {
    const league_request *r = g->request;
    size_t softmax = arm_index(r, "softmax");
    for (size_t t = 0; t < r->task_count; t++)
        for (size_t p = 0; p < r->position_count; p++)
            for (size_t a = 0; a < r->arms.count; a++)
                for (size_t m = 0; m < r->scale.multiple_count; m++) {
                    const point *base = softmax == SIZE_MAX ? NULL : points_of(g, t, p, softmax, m);
                    sum_entry(g, points_of(g, t, p, a, m), base,
                              &g->results->entries[place_of(r, t, p, a, m)]);
                }
}

/* The mean of one model beyond its training size; NaN if nothing is known. */
static double mean_beyond(const gathered *g, size_t t, size_t p, size_t a, size_t s) {
    double sum = 0;
    size_t count = 0;
    for (size_t m = 0; m < g->request->scale.multiple_count; m++) {
        double right = points_of(g, t, p, a, m)[s].right;
        if (g->request->scale.multiples[m] > 1 && !isnan(right)) {
            sum += right;
            count++;
        }
    }
    return count ? sum / (double)count : (double)NAN;
}

static bool make_standing(const gathered *g, size_t p, size_t a, size_t softmax,
                          league_standing *to) {
    const league_request *r = g->request;
    size_t models = r->task_count * r->scale.seeds, count = 0, pairs = 0, costs = 0;
    double *values = calloc(2 * models + 1, sizeof *values), *differences = values + models;
    double cost = 0;
    for (size_t i = 0; values && i < models; i++) {
        size_t t = i / r->scale.seeds, s = i % r->scale.seeds;
        double own = mean_beyond(g, t, p, a, s);
        double base = softmax == SIZE_MAX ? (double)NAN : mean_beyond(g, t, p, softmax, s);
        if (!isnan(own))
            values[count++] = own;
        if (!isnan(own) && !isnan(base))
            differences[pairs++] = own - base;
        double ratio = softmax == SIZE_MAX
                           ? (double)NAN
                           : costs_of(g, t, p, a)[s] / costs_of(g, t, p, softmax)[s];
        if (isfinite(ratio) && ratio > 0) {
            cost += log(ratio);
            costs++;
        }
    }
    *to = (league_standing){.arm = a, .positions = p, .models = count};
    if (values && count > 0)
        to->right = share_interval(values, count);
    if (values && pairs > 0)
        to->difference = lab_mean_interval(differences, pairs);
    to->cost = costs ? exp(cost / (double)costs) : (double)NAN;
    bool is_made = values != NULL;
    free(values);
    return is_made;
}

static int by_right(const void *one, const void *other) {
    const league_standing *a = one, *b = other;
    if (a->right.mean != b->right.mean)
        return a->right.mean < b->right.mean ? 1 : -1;
    return a->positions != b->positions ? (a->positions > b->positions ? 1 : -1)
                                        : (a->arm > b->arm) - (a->arm < b->arm);
}

static bool make_ranks(const gathered *g) {
    const league_request *r = g->request;
    league_results *to = g->results;
    size_t softmax = arm_index(r, "softmax");
    for (size_t p = 0; p < r->position_count; p++)
        for (size_t a = 0; a < r->arms.count; a++) {
            if (!make_standing(g, p, a, softmax, &to->standings[to->standing_count]))
                return false;
            to->standing_count += to->standings[to->standing_count].models > 0;
        }
    qsort(to->standings, to->standing_count, sizeof *to->standings, by_right);
    return true;
}

bool league_results_read(const league_request *r, league_results *results, lab_error *error) {
    *results = (league_results){.request = r};
    size_t entries = entry_count(r), points = entries * r->scale.seeds;
    gathered g = {.request = r, .results = results};
    g.points = calloc(points + 1, sizeof *g.points);
    g.costs = calloc(points + 1, sizeof *g.costs);
    results->entries = calloc(entries + 1, sizeof *results->entries);
    results->standings = calloc(r->position_count * r->arms.count + 1, sizeof *results->standings);
    results->failed = json_array();
    bool is_good =
        (g.points && g.costs && results->entries && results->standings && results->failed) ||
        lab_fail_memory(error);
    for (size_t i = 0; is_good && i < points; i++) {
        g.points[i].right = NAN;
        g.costs[i] = NAN;
    }
    for (size_t i = 0; is_good && i < entries; i++)
        results->entries[i].entropy = results->entries[i].beta = NAN;
    is_good = is_good && read_all(&g, error);
    if (is_good) {
        sum_entries(&g);
        is_good = make_ranks(&g) || lab_fail_memory(error);
    }
    free(g.points);
    free(g.costs);
    if (!is_good)
        league_results_free(results);
    return is_good;
}

void league_results_free(league_results *results) {
    free(results->entries);
    free(results->standings);
    json_decref(results->failed);
    *results = (league_results){.models = 0};
}
