/* Measures and their limits, one function for each; see verdict.h. */
#include "report/verdict.h"

#include "base/random.h"
#include "report/clrs.h"
#include "report/published.h"
#include "report/results.h"
#include "report/table1.h"
#include "theory/temperature.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static void conclude(verdict *v, verdict_state state,
                                                           const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(v->found, sizeof v->found, format, arguments);
    va_end(arguments);
    v->state = state;
}

static verdict not_made(const char *subject, const char *part, const char *claim,
                        const char *measure) {
    return (verdict){.subject = subject,
                     .part = part,
                     .claim = claim,
                     .measure = measure,
                     .state = VERDICT_NOT_MADE,
                     .found = "not part of this run"};
}

/* ---- Table 1 ---- */

verdict verdict_table1(const json_t *table) {
    /* Of 22 figures one is expected beyond two standard errors by chance alone. Errors that are too
     * large would let anything pass. */
    enum { BEYOND_MOST = 2, ERROR_MOST = 3 };
    verdict v = not_made("Table 1", "table1",
                         "accuracy of softmax and of adaptive temperature from 16 to 16,384 items",
                         "within two standard errors of the difference: all figures at certain "
                         "sizes and all but two in total; errors of at most 3 points");
    table1_count count = table1_compare(table);
    if (count.all == 0)
        return v;
    bool is_close = count.certain > 0 && count.certain_within == count.certain &&
                    count.all - count.all_within <= BEYOND_MOST;
    bool is_sure = count.certain_error <= ERROR_MOST;
    conclude(
        &v,
        is_close && is_sure                             ? VERDICT_YES
        : is_close || 2 * count.all_within >= count.all ? VERDICT_PARTLY
                                                        : VERDICT_NO,
        "%zu of %zu figures within two standard errors, %zu of %zu at certain sizes; errors of "
        "up to %.1f points%s",
        count.all_within, count.all, count.certain_within, count.certain, count.certain_error,
        is_sure ? "" : ", too large to tell");
    return v;
}

verdict verdict_gain(const json_t *table) {
    verdict v = not_made("Table 1 (gain)", "table1",
                         "adaptive temperature is more accurate among many items",
                         "at certain sizes, the 95 % interval of the gain lies above 0");
    size_t i, sizes = 0, above = 0, positive = 0;
    double least = INFINITY, most = -INFINITY;
    const json_t *pair;
    json_array_foreach(json_object_get(table, "adaptive_against_softmax"), i, pair) {
        double n = json_number_value(json_object_get(pair, "n"));
        const published_size *size = published_at(n);
        double gain = results_value(pair, "gain", "mean"), low = results_value(pair, "gain", "low");
        if (!size || !size->is_certain || !isfinite(gain))
            continue;
        sizes++;
        above += low > 0;
        positive += gain > 0;
        least = fmin(least, 100 * gain);
        most = fmax(most, 100 * gain);
    }
    if (sizes > 0)
        conclude(&v,
                 above == sizes      ? VERDICT_YES
                 : positive == sizes ? VERDICT_PARTLY
                                     : VERDICT_NO,
                 "above 0 at %zu of %zu sizes, with gains of %+.1f to %+.1f points", above, sizes,
                 least, most);
    return v;
}

/* ---- Figures 1, 4 and 5: computed ---- */

verdict verdict_figure1(const figure_dispersion_data *data) {
    enum { FIRST = 8 }; /* from 4,096 tokens on */
    verdict v =
        not_made("Figure 1", "figure1", "every head's largest coefficient goes to zero like 1/n",
                 "slope of -0.9 to -1.1 between the logarithms, from 4,096 tokens on");
    double low = INFINITY, high = -INFINITY;
    if (!data)
        return v;
    for (size_t head = 0; head < (size_t)FIGURE_LAYERS * FIGURE_HEADS; head++) {
        double slope = log(data->largest[FIGURE_SIZES - 1][head] / data->largest[FIRST][head]) /
                       log((double)data->n[FIGURE_SIZES - 1] / (double)data->n[FIRST]);
        low = fmin(low, slope);
        high = fmax(high, slope);
    }
    conclude(&v, low >= -1.1 && high <= -0.9 ? VERDICT_YES : VERDICT_NO,
             "%d heads with slopes of %.2f to %.2f", FIGURE_LAYERS * FIGURE_HEADS, low, high);
    return v;
}

verdict verdict_figure4(double difference) {
    verdict v = not_made("Figure 4", NULL, "the listing of adaptive temperature",
                         "libwhet gives the listing's coefficients to 1e-6");
    if (isfinite(difference))
        conclude(&v, difference <= 1e-6 ? VERDICT_YES : VERDICT_NO,
                 "differences of at most %.0e in 200 random rows", difference);
    return v;
}

verdict verdict_figure5(const double *surfaces) {
    verdict v = not_made("Figure 5", "figure5", "a lower temperature never raises the entropy",
                         "no entropy of the four surfaces rises as the temperature falls");
    size_t rises = 0, steps = 0;
    if (!surfaces)
        return v;
    for (size_t panel = 0; panel < THEORY_PANELS; panel++)
        for (size_t t = 1; t < FIGURE_GRID; t++)
            for (size_t l = 0; l < FIGURE_GRID; l++) {
                const double *at = surfaces + (panel * FIGURE_GRID + t) * FIGURE_GRID + l;
                rises += at[-FIGURE_GRID] > at[0] + 1e-12;
                steps++;
            }
    conclude(&v, rises == 0 ? VERDICT_YES : VERDICT_NO, "%zu of %zu neighbouring temperatures rise",
             rises, steps);
    return v;
}

/* ---- Figures 2 and 7 ---- */

/* Mean over the sets of a panel: the coefficient of the right item, or the entropy. */
static double mean_top(const json_t *panel) {
    double sum = 0;
    size_t i;
    const json_t *row, *rows = json_object_get(panel, "coefficients");
    json_array_foreach(rows, i, row) sum +=
        json_number_value(json_array_get(row, json_array_size(row) - 1));
    return sum / (double)json_array_size(rows);
}

static double mean_entropy(const json_t *panel) {
    double sum = 0;
    size_t i;
    const json_t *value, *list = json_object_get(panel, "entropy");
    json_array_foreach(list, i, value) sum += json_number_value(value);
    return sum / (double)json_array_size(list);
}

verdict verdict_figure2(const json_t *panels) {
    verdict v =
        not_made("Figure 2", "figure2", "a head that is sharp among 16 items washes out among more",
                 "the largest item has over half of the weight at 16 items, under a fifth "
                 "at the most, and less at each doubling");
    size_t count = json_array_size(panels), falls = 0;
    if (count < 2)
        return v;
    double first = mean_top(json_array_get(panels, 0)), last = first;
    for (size_t i = 1; i < count; i++) {
        double next = mean_top(json_array_get(panels, i));
        falls += next < last;
        last = next;
    }
    bool is_sharp = first > 0.5, is_washed_out = last < 0.2;
    conclude(&v,
             is_sharp && is_washed_out && falls == count - 1 ? VERDICT_YES
             : last < first                                  ? VERDICT_PARTLY
                                                             : VERDICT_NO,
             "%.2f at 16 and %.2f at %lld items, less at %zu of %zu doublings", first, last,
             (long long)json_integer_value(json_object_get(json_array_get(panels, count - 1), "n")),
             falls, count - 1);
    return v;
}

verdict verdict_figure7(const json_t *plain, const json_t *sharp) {
    const double acts_from = 0.849; /* nats: below, the polynomial leaves a row alone */
    verdict v = not_made("Figure 7", "figure7",
                         "adaptive temperature makes the same head sharper on the same sets",
                         "a lower mean entropy in every panel with over 0.849 nats, from where on "
                         "the polynomial acts, and a higher one in none");
    size_t count = json_array_size(plain), panels = 0, lower = 0, higher = 0;
    double most = 0;
    if (count == 0 || json_array_size(sharp) != count)
        return v;
    for (size_t i = 0; i < count; i++) {
        double before = mean_entropy(json_array_get(plain, i));
        double change = before - mean_entropy(json_array_get(sharp, i));
        panels += before > acts_from;
        lower += before > acts_from && change > 0;
        higher += change < 0;
        most = fmax(most, change);
    }
    conclude(&v,
             panels > 0 && lower == panels && higher == 0 ? VERDICT_YES
             : lower > higher                             ? VERDICT_PARTLY
                                                          : VERDICT_NO,
             "lower in %zu of %zu such panels, by up to %.2f nats; higher in %zu", lower, panels,
             most, higher);
    return v;
}

/* ---- Figure 6 ---- */

typedef struct fit_point {
    double entropy, beta;
} fit_point;

static int by_entropy(const void *a, const void *b) {
    double x = ((const fit_point *)a)->entropy, y = ((const fit_point *)b)->entropy;
    return (x > y) - (x < y);
}

static size_t used_points(const json_t *fit, fit_point *points) {
    size_t i, count = 0;
    const json_t *point;
    json_array_foreach(json_object_get(fit, "points"), i, point) {
        if (json_is_true(json_object_get(point, "used")))
            points[count++] = (fit_point){json_number_value(json_object_get(point, "entropy")),
                                          json_number_value(json_object_get(point, "beta"))};
    }
    return count;
}

/* Mean of the logarithms of beta among points [from, to). */
static double mean_log_beta(const fit_point *points, size_t from, size_t to) {
    double sum = 0;
    for (size_t i = from; i < to; i++)
        sum += log(points[i].beta);
    return sum / (double)(to - from);
}

static double beta_of(const char *name, double entropy) {
    whet_policy policy;
    whet_stats stats = whet_stats_empty();
    stats.n = 1u << 20;
    stats.entropy = entropy;
    return name && whet_policy_parse(name, &policy, NULL, 0) == WHET_OK
               ? whet_policy_beta(&policy, &stats)
               : (double)NAN;
}

/* The largest factor between our curve and the published one where that one acts. */
static double factor_between(const json_t *fit) {
    const char *name =
        json_string_value(json_object_get(json_object_get(fit, "least_squares"), "policy"));
    double most = 1;
    for (int step = 20; step <= 110; step++) { /* from 1 to 5.5 nats */
        double entropy = step / 20.0;
        double ratio = beta_of(name, entropy) / beta_of("adaptive", entropy);
        if (!isfinite(ratio) || ratio <= 0)
            return INFINITY;
        most = fmax(most, fmax(ratio, 1 / ratio));
    }
    return most;
}

verdict verdict_figure6(const json_t *fit) {
    enum { LEAST = 20 };
    verdict v = not_made("Figure 6", "figure6",
                         "the best temperature of a set follows its entropy by a polynomial",
                         "the best beta is higher in each third of the entropies than in the one "
                         "before; and our polynomial within 1.25 times the published one");
    size_t capacity = json_array_size(json_object_get(fit, "points"));
    fit_point *points = capacity > 0 ? malloc(capacity * sizeof *points) : NULL;
    size_t count = points ? used_points(fit, points) : 0;
    if (count >= LEAST) {
        qsort(points, count, sizeof *points, by_entropy);
        double low = mean_log_beta(points, 0, count / 3);
        double middle = mean_log_beta(points, count / 3, 2 * count / 3);
        double high = mean_log_beta(points, 2 * count / 3, count);
        double factor = factor_between(fit);
        bool rises = low < middle && middle < high;
        conclude(&v,
                 rises && factor <= 1.25 ? VERDICT_YES
                 : rises                 ? VERDICT_PARTLY
                                         : VERDICT_NO,
                 "geometric means of beta %.2f, %.2f and %.2f; the polynomials differ by up to "
                 "%.1f times",
                 exp(low), exp(middle), exp(high), factor);
    }
    free(points);
    return v;
}

/* ---- Figures 8 and 9 ---- */

static const json_t *arm_of(const json_t *clrs, const char *trained, const char *policy) {
    size_t i;
    const json_t *arm;
    json_array_foreach(json_object_get(clrs, "arms"), i, arm) {
        const char *its_trained = json_string_value(json_object_get(arm, "trained"));
        const char *its_policy = json_string_value(json_object_get(arm, "policy"));
        if (its_trained && its_policy && strcmp(its_trained, trained) == 0 &&
            strcmp(its_policy, policy) == 0)
            return arm;
    }
    return NULL;
}

verdict verdict_figures89(const json_t *clrs) {
    verdict v = not_made("Figures 8 and 9", "clrs",
                         "trained with adaptive temperature, a language model answers longer "
                         "questions of CLRS-Text better",
                         "better by more than the 95 % intervals in most cells beyond the trained "
                         "lengths; a small decoder stands in for Gemma 2B");
    const json_t *plain = arm_of(clrs, "softmax", "softmax");
    const json_t *sharp = arm_of(clrs, "adaptive", "adaptive");
    size_t i, cells = 0, better = 0, worse = 0;
    const json_t *row;
    json_array_foreach(json_object_get(plain, "rows"), i, row) {
        const char *name = json_string_value(json_object_get(row, "algorithm"));
        const json_t *other =
            name ? clrs_row(sharp, name, json_integer_value(json_object_get(row, "length"))) : NULL;
        if (!other || json_is_true(json_object_get(row, "inside")))
            continue;
        cells++;
        better += results_value(other, "exact", "low") > results_value(row, "exact", "high");
        worse += results_value(other, "exact", "high") < results_value(row, "exact", "low");
    }
    if (cells > 0)
        conclude(&v,
                 2 * better > cells                      ? VERDICT_YES
                 : better > worse && 4 * better >= cells ? VERDICT_PARTLY
                                                         : VERDICT_NO,
                 "better in %zu of %zu cells, worse in %zu", better, cells, worse);
    else
        snprintf(v.found, sizeof v.found,
                 "not part of this run: whet reproduce --only clrs, half an hour");
    return v;
}

/* ---- the listing ---- */

/* Figure 4, step by step, in double. */
static void listing(const float *logits, size_t n, double *result) {
    static const double poly[] = {-0.037, 0.481, -2.3, 4.917, -1.791};
    double beta = 1;
    for (int pass = 0; pass < 2; pass++) {
        double most = -INFINITY, sum = 0, entropy = 0, value = 0;
        for (size_t i = 0; i < n; i++)
            most = fmax(most, beta * (double)logits[i]);
        for (size_t i = 0; i < n; i++)
            sum += result[i] = exp(beta * (double)logits[i] - most);
        for (size_t i = 0; i < n; i++) {
            result[i] /= sum;
            entropy -= result[i] * log(result[i] + 1e-9);
        }
        for (size_t i = 0; i < 5; i++)
            value = value * entropy + poly[i];
        beta = entropy > 0.5 ? fmax(value, 1) : 1;
    }
}

/* The largest difference between the library's coefficients and the listing's. */
static double listing_difference(void) {
    enum { ROWS = 200, LONGEST = 512 };
    float logits[LONGEST] = {0}, ours[LONGEST] = {0};
    double theirs[LONGEST], most = 0;
    lab_random random = lab_random_start(lab_seed_for(0, "listing", 0));
    whet_policy policy = whet_policy_adaptive();
    for (size_t row = 0; row < ROWS; row++) {
        size_t n = 2 + (size_t)(lab_random_double(&random) * (LONGEST - 2));
        double spread = 4 * lab_random_double(&random);
        for (size_t i = 0; i < n; i++)
            logits[i] = (float)(spread * lab_random_normal(&random));
        whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = logits, .out = ours};
        if (whet_softmax(&rows, &policy, NULL) != WHET_OK)
            return (double)NAN;
        listing(logits, n, theirs);
        for (size_t i = 0; i < n; i++)
            most = fmax(most, fabs((double)ours[i] - theirs[i]));
    }
    return most;
}

void verdicts_of(const experiment *e, verdict list[VERDICTS]) {
    figure_dispersion_data dispersion;
    bool is_measured = figure_dispersion_measure(1, &dispersion);
    double *surfaces = figure_temperature_measure();
    const json_t *plain = json_object_get(e->panels, "softmax");
    const json_t *sharp = json_object_get(e->panels, "adaptive");
    size_t i = 0;
    list[i++] = verdict_table1(e->table);
    list[i++] = verdict_gain(e->table);
    list[i++] = verdict_figure1(is_measured ? &dispersion : NULL);
    list[i++] = verdict_figure2(plain);
    list[i] = not_made("Figure 3", NULL, "the heads of Gemma 2B disperse",
                       "none: the model is not part of whet");
    snprintf(list[i++].found, sizeof list[0].found,
             "not part of this run: whet figure 3 -m MODEL.gguf draws it for a model of yours");
    list[i++] = verdict_figure4(listing_difference());
    list[i++] = verdict_figure5(surfaces);
    list[i++] = verdict_figure6(e->fit);
    list[i++] = verdict_figure7(plain, sharp);
    list[i++] = verdict_figures89(e->clrs);
    free(surfaces);
}
