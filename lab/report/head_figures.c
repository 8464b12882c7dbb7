/* Figures of trained heads, from JSON to gnuplot; see head_figures.h. */
#include "report/head_figures.h"
#include "report/plot.h"
#include "report/published.h"
#include "report/results.h"
#include "whet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char palette[] = "set palette defined (0 '#ffffff', 1 '#c6dbef', 2 '#6baed6', 3 "
                              "'#2171b5', 4 '#08306b')\n";

/* ---- Figures 2 and 7 ---- */

typedef struct heads_data {
    const json_t *panels;
    const char *title;
} heads_data;

static void draw_heads_panel(FILE *script, size_t index, const json_t *panel) {
    const json_t *rows = json_object_get(panel, "coefficients");
    size_t items = json_array_size(json_array_get(rows, 0));
    fprintf(script, "$panel%zu << END\n", index);
    for (size_t set = 0; set < json_array_size(rows); set++) {
        for (size_t i = 0; i < items; i++)
            fprintf(script, "%.5g ",
                    json_number_value(json_array_get(json_array_get(rows, set), i)));
        fputc('\n', script);
    }
    fprintf(script,
            "END\nset title 'n = %lld' offset 0,-0.7\nset xrange [-0.5:%zu.5]\n"
            "set yrange [%zu.5:-0.5]\nplot $panel%zu matrix with image pixels notitle\n",
            (long long)json_integer_value(json_object_get(panel, "n")), items - 1,
            json_array_size(rows) - 1, index);
}

static void draw_heads(FILE *script, const void *context) {
    const heads_data *data = context;
    size_t count = json_array_size(data->panels), columns = (count + 1) / 2;
    fprintf(
        script,
        "set multiplot layout 2,%zu margins 0.02,0.98,0.13,0.85 spacing 0.02,0.08 title \"%s\\n"
        "each row a set, each column one of its 16 largest items, the maximum at the right\"\n%s",
        columns, data->title, palette);
    fputs("set cbrange [0:1]\nunset colorbox\nunset grid\nunset key\nset border 15\nunset xtics\n"
          "unset ytics\n",
          script);
    for (size_t i = 0; i < count; i++) {
        if (i + 1 == count)
            fputs("set colorbox horizontal user origin 0.3,0.075 size 0.4,0.02\n"
                  "set label 'coefficient' at screen 0.285,0.083 right tc '#333333'\n",
                  script);
        draw_heads_panel(script, i, json_array_get(data->panels, i));
    }
    fputs("unset multiplot\n", script);
}

bool figure_heads(const char *path, const json_t *panels, const char *title, lab_error *error) {
    heads_data data = {panels, title};
    if (json_array_size(panels) == 0)
        return lab_fail(error, LAB_INPUT, "%s: there are no sets to draw", path);
    const plot_request request = {path, title, 1000, 640};
    return plot_draw(&request, draw_heads, &data, error);
}

/* ---- Figure 6 ---- */

static double beta_at(const char *name, double entropy) {
    whet_policy policy;
    whet_stats stats = whet_stats_empty();
    stats.n = 1u << 20;
    stats.entropy = entropy;
    if (!name || whet_policy_parse(name, &policy, NULL, 0) != WHET_OK)
        return (double)NAN;
    return whet_policy_beta(&policy, &stats);
}

static const char *curve_of(const json_t *fit, const char *which) {
    return json_string_value(json_object_get(json_object_get(fit, which), "policy"));
}

static void draw_fit(FILE *script, const void *context) {
    const json_t *fit = context, *point;
    const char *names[] = {curve_of(fit, "least_squares"), curve_of(fit, "monotone"), "adaptive"};
    static const char *const titles[] = {"least squares", "monotone", "the published polynomial"};
    size_t i;
    double smallest = 0.5;
    fputs("$points << END\n", script);
    json_array_foreach(json_object_get(fit, "points"), i, point) {
        double beta = json_number_value(json_object_get(point, "beta"));
        if (!json_is_true(json_object_get(point, "used")))
            continue;
        smallest = beta > 0 ? fmin(smallest, beta) : smallest;
        fprintf(script, "%.5g %.5g\n", json_number_value(json_object_get(point, "entropy")), beta);
    }
    fputs("END\n$curves << END\n", script);
    double end = fmax(6, json_number_value(json_object_get(fit, "entropy_max")));
    for (int step = 0; step <= 300; step++) {
        double entropy = end * step / 300;
        fprintf(script, "%.5g %.6g %.6g %.6g\n", entropy, beta_at(names[0], entropy),
                beta_at(names[1], entropy), beta_at(names[2], entropy));
    }
    fprintf(script,
            "END\nset title 'The inverse temperature that suits a set best, against its entropy'\n"
            "set xlabel 'entropy H of softmax'\nset ylabel 'best β'\nset logscale y 10\n"
            "set xrange [0:%g]\nset yrange [%g:*]\nset key bottom right\n"
            "plot $points using 1:2 with points pt 7 ps 0.25 lc '#777777' title 'sets'",
            end, smallest / 1.2);
    for (size_t c = 0; c < 3; c++)
        fprintf(script, ", $curves using 1:%zu with lines ls %zu title '%s'", c + 2, c + 1,
                titles[c]);
}

bool figure_fit(const char *path, const json_t *fit, lab_error *error) {
    const plot_request request = {path, "The best inverse temperature against entropy", 800, 500};
    return plot_draw(&request, draw_fit, fit, error);
}

/* ---- curves over n ---- */

/* One column a policy, and for each its interval; a row a size. */
static void write_block(FILE *script, const json_t *evaluation, const results_axes *axes,
                        const char *measure, double factor) {
    fputs("$data << END\n", script);
    for (size_t s = 0; s < axes->size_count; s++) {
        fprintf(script, "%.9g", axes->sizes[s]);
        for (size_t p = 0; p < axes->policy_count; p++) {
            const json_t *row = results_row(evaluation, axes->policies[p], axes->sizes[s]);
            fprintf(script, " %.7g %.7g %.7g", factor * results_value(row, measure, "mean"),
                    factor * results_value(row, measure, "low"),
                    factor * results_value(row, measure, "high"));
        }
        fputc('\n', script);
    }
    fputs("END\n", script);
}

static void set_n_axis(FILE *script, const results_axes *axes) {
    if (axes->size_count > 0)
        fprintf(script, "set xrange [%g:%g]\n", axes->sizes[0], axes->sizes[axes->size_count - 1]);
    fputs("set logscale x 2\nset xlabel 'n, the number of items'\n", script);
}

/* Whether a policy has another map than softmax. */
static bool is_map(const char *name) {
    whet_policy policy;
    return whet_policy_parse(name, &policy, NULL, 0) == WHET_OK &&
           !whet_policy_is_temperature(&policy);
}

static bool has_values(const json_t *evaluation, const results_axes *axes, size_t policy,
                       const char *measure) {
    for (size_t s = 0; s < axes->size_count; s++)
        if (isfinite(results_value(results_row(evaluation, axes->policies[policy], axes->sizes[s]),
                                   measure, "mean")))
            return true;
    return false;
}

/* Curves over n: which measure, and the curve to compare them with. */
typedef struct curves {
    const json_t *evaluation;
    const char *measure, *title, *y_axis, *against;
    double factor;
} curves;

/* One side: temperatures, or softmax with the maps that are none. Never more curves than colours.
 */
static void plot_side(FILE *script, const curves *c, const results_axes *axes, bool of_maps) {
    fprintf(script, "set title '%s'\nplot %s", of_maps ? "other maps" : "temperatures", c->against);
    size_t style = 1; /* softmax has the first on both sides */
    for (size_t p = 0; p < axes->policy_count; p++) {
        const char *name = axes->policies[p];
        bool is_softmax = strcmp(name, "softmax") == 0;
        if ((is_map(name) != of_maps && !is_softmax) ||
            !has_values(c->evaluation, axes, p, c->measure))
            continue;
        size_t own = is_softmax ? 1 : ++style;
        if (p < 2) /* the two that the paper compares */
            fprintf(script,
                    ", $data using 1:%zu:%zu with filledcurves fs transparent solid 0.2 noborder "
                    "ls %zu notitle",
                    3 + 3 * p, 4 + 3 * p, own);
        fprintf(script, ", $data using 1:%zu with linespoints ls %zu title ", 2 + 3 * p, own);
        plot_text(script, name);
    }
    fputc('\n', script);
}

static void draw_curves(FILE *script, const void *context) {
    const curves *c = context;
    results_axes axes = results_axes_of(c->evaluation);
    write_block(script, c->evaluation, &axes, c->measure, c->factor);
    set_n_axis(script, &axes);
    fprintf(script,
            "set multiplot layout 1,2 margins 0.08,0.96,0.35,0.87 spacing 0.08 title '%s'\n"
            "set ylabel '%s'\n"
            "set key at screen 0.08,0.11 left center vertical maxrows 5 width 3\n",
            c->title, c->y_axis);
    plot_side(script, c, &axes, false);
    fputs("set key at screen 0.57,0.11 left center\nunset ylabel\n", script);
    plot_side(script, c, &axes, true);
    fputs("unset multiplot\n", script);
}

bool figure_accuracy(const char *path, const json_t *evaluation, const char *title,
                     lab_error *error) {
    const plot_request request = {path, title, 1000, 560};
    const curves accuracy = {evaluation,
                             "accuracy",
                             title,
                             "accuracy, %",
                             "[][0:100] 10 with lines lc '#555555' lw 1.5 dt 3 title 'guessing'",
                             100};
    return plot_draw(&request, draw_curves, &accuracy, error);
}

bool figure_entropy(const char *path, const json_t *evaluation, lab_error *error) {
    const plot_request request = {path, "Entropy of the coefficients against n", 1000, 560};
    const curves entropy = {
        evaluation,
        "entropy",
        "Entropy of the coefficients, inputs in f32",
        "entropy, nats",
        "[][0:10] log(x) with lines lc '#555555' lw 1.5 dt 3 title 'ln n, uniform'",
        1};
    return plot_draw(&request, draw_curves, &entropy, error);
}

static void draw_ties(FILE *script, const void *context) {
    results_axes axes = results_axes_of(context);
    fputs("$ties << END\n", script);
    for (size_t s = 0; s < axes.size_count; s++) {
        double n = axes.sizes[s];
        const published_size *paper = published_at(n);
        fprintf(script, "%.9g %.5g %.5g %.5g %.5g %.5g\n", n, published_tie_ceiling(n, 10),
                100 * results_value(results_row(context, "softmax", n), "accuracy", "mean"),
                100 * results_value(results_row(context, "adaptive", n), "accuracy", "mean"),
                paper ? paper->softmax : (double)NAN, paper ? paper->adaptive : (double)NAN);
    }
    fputs("END\n", script);
    set_n_axis(script, &axes);
    fputs("set title 'Inputs rounded to bfloat16: ties set the ceiling'\n"
          "set ylabel 'accuracy, %'\nset yrange [0:100]\nset key top right\n"
          "plot $ties using 1:2 with lines lc '#999999' lw 6 title 'any one of the tied top "
          "items', "
          "'' using 1:3 with linespoints ls 1 title 'softmax, here', "
          "'' using 1:4 with linespoints ls 2 title 'adaptive, here', "
          "'' using 1:5 with points pt 4 ps 1.2 lc '#0072B2' title 'softmax, published', "
          "'' using 1:6 with points pt 6 ps 1.2 lc '#D55E00' title 'adaptive, published'",
          script);
}

bool figure_ties(const char *path, const json_t *evaluation, lab_error *error) {
    const plot_request request = {path, "Ties of bfloat16 inputs set the ceiling", 800, 500};
    return plot_draw(&request, draw_ties, evaluation, error);
}

/* ---- cross-entropy against beta ---- */

static void draw_sharpness(FILE *script, const void *context) {
    results_axes axes = results_axes_of(context);
    fputs("$data << END\n", script);
    for (size_t p = 0; p < axes.policy_count; p++) {
        if (strncmp(axes.policies[p], "fixed:", 6) != 0)
            continue;
        fprintf(script, "%.17g", strtod(axes.policies[p] + 6, NULL));
        for (size_t s = 0; s < axes.size_count; s++)
            fprintf(script, " %.7g",
                    results_value(results_row(context, axes.policies[p], axes.sizes[s]),
                                  "cross_entropy", "mean"));
        fputc('\n', script);
    }
    fputs("END\nset title 'Sharper is not always better: cross-entropy at a fixed β'\n"
          "set xlabel 'inverse temperature β, the same for all rows'\n"
          "set ylabel 'cross-entropy, nats'\nset logscale x 2\nset logscale y 10\n"
          "set xrange [0.5:256]\nset ytics add (0.02, 0.05, 0.2, 0.5, 2, 5, 20)\n"
          "set key bottom right\nplot ",
          script);
    for (size_t s = 0; s < axes.size_count; s++)
        fprintf(script, "%s$data using 1:%zu with linespoints ls %zu title 'n = %.0f'",
                s ? ", " : "", s + 2, s % PLOT_STYLES + 1, axes.sizes[s]);
}

bool figure_sharpness(const char *path, const json_t *evaluation, lab_error *error) {
    const plot_request request = {path, "Cross-entropy against sharpness", 800, 500};
    return plot_draw(&request, draw_sharpness, evaluation, error);
}

/* ---- training ---- */

static void draw_training(FILE *script, const void *context) {
    const json_t *curve = json_object_get(context, "curve"), *point;
    size_t i;
    fputs("$curve << END\n", script);
    json_array_foreach(curve, i, point) {
        fprintf(script, "%.9g %.7g %.7g\n", json_number_value(json_object_get(point, "step")),
                json_number_value(json_object_get(point, "loss")),
                100 * json_number_value(json_object_get(point, "accuracy")));
    }
    fprintf(script,
            "END\nset multiplot layout 1,2 margins 0.08,0.97,0.19,0.86 spacing 0.11 title "
            "'Training of a fresh head, seed %lld, %lld steps'\n"
            "set xlabel 'step'\nset ylabel 'cross-entropy, nats' offset 1\nset logscale y 10\n"
            "set format x '%%.0f'\nset xtics 0,%g\nset key off\n"
            "plot $curve using 1:2 with lines ls 1 title 'cross-entropy'\n"
            "unset logscale y\nset ylabel 'accuracy, %%' offset 1\nset yrange [0:100]\n"
            "plot $curve using 1:3 with lines ls 2 title 'accuracy'\nunset multiplot\n",
            (long long)json_integer_value(json_object_get(context, "seed")),
            (long long)json_integer_value(json_object_get(context, "steps")),
            (double)json_integer_value(json_object_get(context, "steps")) / 4);
}

bool figure_training(const char *path, const json_t *fresh, lab_error *error) {
    const plot_request request = {path, "Loss and accuracy while a head is trained", 1000, 420};
    return plot_draw(&request, draw_training, fresh, error);
}
