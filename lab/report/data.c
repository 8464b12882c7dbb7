/* Results as CSV; see data.h. */
#include "report/data.h"

#include "base/csv.h"
#include "report/figures.h"
#include "report/published.h"
#include "report/results.h"
#include "theory/temperature.h"

#include <math.h>
#include <stdlib.h>

/* A line of texts; NULL ends it. */
static void header(lab_csv *csv, const char *const *names) {
    for (; *names; names++)
        lab_csv_text(csv, *names);
    lab_csv_end_line(csv);
}

static double number_of(const json_t *object, const char *name) {
    const json_t *number = json_object_get(object, name);
    return json_is_number(number) ? json_number_value(number) : (double)NAN;
}

static void text_of(lab_csv *csv, const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    lab_csv_text(csv, text ? text : "");
}

/* ---- evaluations ---- */

static const char *const measures[] = {"accuracy", "cross_entropy", "entropy", "weight_on_maximum",
                                       "beta"};
enum { MEASURES = sizeof measures / sizeof *measures };

static void put_rows(lab_csv *csv, const char *first, const json_t *evaluation) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(evaluation, "rows"), i, row) {
        if (first)
            lab_csv_text(csv, first);
        text_of(csv, row, "policy");
        lab_csv_number(csv, number_of(row, "n"));
        for (size_t m = 0; m < MEASURES; m++) {
            lab_csv_number(csv, results_value(row, measures[m], "mean"));
            lab_csv_number(csv, results_value(row, measures[m], "low"));
            lab_csv_number(csv, results_value(row, measures[m], "high"));
        }
        lab_csv_end_line(csv);
    }
}

/* "policy", "n", and each measure with its interval. */
static void measures_header(lab_csv *csv) {
    static const char *const endings[] = {"", "_low", "_high"};
    char name[64];
    lab_csv_text(csv, "policy");
    lab_csv_text(csv, "n");
    for (size_t m = 0; m < MEASURES; m++)
        for (size_t part = 0; part < 3; part++) {
            snprintf(name, sizeof name, "%s%s", measures[m], endings[part]);
            lab_csv_text(csv, name);
        }
    lab_csv_end_line(csv);
}

static void put_evaluation(FILE *file, const json_t *evaluation) {
    lab_csv csv = {.file = file};
    measures_header(&csv);
    put_rows(&csv, NULL, evaluation);
}

void data_accuracy(FILE *file, const experiment *e) {
    put_evaluation(file, e->evaluation[experiment_paper]);
}

void data_accuracy_f32(FILE *file, const experiment *e) {
    put_evaluation(file, e->evaluation[RETRIEVAL_F32]);
}

void data_sharpness(FILE *file, const experiment *e) { put_evaluation(file, e->sharpness); }

static void put_published(lab_csv *csv, const published_size *size, const char *policy) {
    bool is_softmax = policy && policy[0] == 's';
    lab_csv_number(csv, size ? is_softmax ? size->softmax : size->adaptive : (double)NAN);
    lab_csv_text(csv, !size ? "" : size->is_certain ? "certain" : "uncertain");
}

void data_table1(FILE *file, const experiment *e) {
    static const char *const names[] = {"policy", "n",     "accuracy_percent",  "low",
                                        "high",   "error", "published_percent", "published_is",
                                        NULL};
    lab_csv csv = {.file = file};
    size_t i;
    const json_t *row;
    header(&csv, names);
    json_array_foreach(json_object_get(e->table, "rows"), i, row) {
        double n = number_of(row, "n");
        text_of(&csv, row, "policy");
        lab_csv_number(&csv, n);
        lab_csv_number(&csv, 100 * results_value(row, "accuracy", "mean"));
        lab_csv_number(&csv, 100 * results_value(row, "accuracy", "low"));
        lab_csv_number(&csv, 100 * results_value(row, "accuracy", "high"));
        lab_csv_number(&csv, 100 * results_value(row, "accuracy", "error"));
        put_published(&csv, published_at(n), json_string_value(json_object_get(row, "policy")));
        lab_csv_end_line(&csv);
    }
}

void data_ties(FILE *file, const experiment *e) {
    static const char *const names[] = {"n", "ceiling_percent", "softmax_percent",
                                        "adaptive_percent", NULL};
    lab_csv csv = {.file = file};
    results_axes axes = results_axes_of(e->table);
    header(&csv, names);
    for (size_t s = 0; s < axes.size_count; s++) {
        double n = axes.sizes[s];
        lab_csv_number(&csv, n);
        lab_csv_number(&csv, published_tie_ceiling(n, 10));
        lab_csv_number(
            &csv, 100 * results_value(results_row(e->table, "softmax", n), "accuracy", "mean"));
        lab_csv_number(
            &csv, 100 * results_value(results_row(e->table, "adaptive", n), "accuracy", "mean"));
        lab_csv_end_line(&csv);
    }
}

void data_beyond(FILE *file, const experiment *e) {
    lab_csv csv = {.file = file};
    size_t i;
    const json_t *recipe;
    lab_csv_text(&csv, "recipe");
    measures_header(&csv);
    json_array_foreach(json_object_get(e->beyond, "recipes"), i, recipe) {
        put_rows(&csv, json_string_value(json_object_get(recipe, "name")),
                 json_object_get(recipe, "evaluation"));
    }
}

/* ---- figures ---- */

void data_figure1(FILE *file, const experiment *e) {
    static const char *const names[] = {"n", "layer", "head", "largest_coefficient", NULL};
    (void)e;
    lab_csv csv = {.file = file};
    figure_dispersion_data data;
    if (!figure_dispersion_measure(1, &data))
        return;
    header(&csv, names);
    for (size_t i = 0; i < FIGURE_SIZES; i++)
        for (size_t head = 0; head < (size_t)FIGURE_LAYERS * FIGURE_HEADS; head++) {
            size_t layer = head / FIGURE_HEADS;
            lab_csv_number(&csv, (double)data.n[i]);
            lab_csv_number(&csv, (double)layer);
            lab_csv_number(&csv, (double)(head % FIGURE_HEADS));
            lab_csv_number(&csv, data.largest[i][head]);
            lab_csv_end_line(&csv);
        }
}

static void put_panel(lab_csv *csv, const json_t *panel) {
    size_t s, i;
    const json_t *row, *value;
    json_array_foreach(json_object_get(panel, "coefficients"), s, row) {
        json_array_foreach(row, i, value) {
            lab_csv_number(csv, number_of(panel, "n"));
            lab_csv_number(csv, (double)s);
            lab_csv_number(csv, (double)(json_array_size(row) - i));
            lab_csv_number(csv, json_number_value(value));
            lab_csv_end_line(csv);
        }
    }
}

static void put_panels(FILE *file, const json_t *panels) {
    static const char *const names[] = {"n", "set", "rank_from_the_largest", "coefficient", NULL};
    lab_csv csv = {.file = file};
    size_t p;
    const json_t *panel;
    header(&csv, names);
    json_array_foreach(panels, p, panel) { put_panel(&csv, panel); }
}

void data_figure2(FILE *file, const experiment *e) {
    put_panels(file, json_object_get(e->panels, "softmax"));
}

void data_figure7(FILE *file, const experiment *e) {
    put_panels(file, json_object_get(e->panels, "adaptive"));
}

void data_figure5(FILE *file, const experiment *e) {
    static const char *const names[] = {"panel", "lambda", "theta", "entropy", NULL};
    (void)e;
    lab_csv csv = {.file = file};
    double *surfaces = figure_temperature_measure();
    if (!surfaces)
        return;
    header(&csv, names);
    for (size_t i = 0; i < (size_t)THEORY_PANELS * FIGURE_GRID * FIGURE_GRID; i++) {
        size_t panel = i / (FIGURE_GRID * FIGURE_GRID);
        const temperature_panel *range = &theory_panels[panel];
        double across = (double)(i % FIGURE_GRID) / (FIGURE_GRID - 1);
        double along = (double)(i / FIGURE_GRID % FIGURE_GRID) / (FIGURE_GRID - 1);
        lab_csv_number(&csv, (double)panel);
        lab_csv_number(&csv, range->lambda_low + (range->lambda_high - range->lambda_low) * across);
        lab_csv_number(&csv, range->theta_low + (range->theta_high - range->theta_low) * along);
        lab_csv_number(&csv, surfaces[i]);
        lab_csv_end_line(&csv);
    }
    free(surfaces);
}

void data_figure6(FILE *file, const experiment *e) {
    static const char *const names[] = {"n", "entropy", "best_beta", "used_in_the_fit", NULL};
    lab_csv csv = {.file = file};
    size_t i;
    const json_t *point;
    header(&csv, names);
    json_array_foreach(json_object_get(e->fit, "points"), i, point) {
        lab_csv_number(&csv, number_of(point, "n"));
        lab_csv_number(&csv, number_of(point, "entropy"));
        lab_csv_number(&csv, number_of(point, "beta"));
        lab_csv_number(&csv, json_is_true(json_object_get(point, "used")) ? 1 : 0);
        lab_csv_end_line(&csv);
    }
}

void data_policies(FILE *file, const experiment *e) {
    (void)e;
    figure_policies_csv(file);
}

void data_training(FILE *file, const experiment *e) {
    static const char *const names[] = {"step", "loss", "accuracy", NULL};
    lab_csv csv = {.file = file};
    size_t i;
    const json_t *point;
    header(&csv, names);
    json_array_foreach(json_object_get(e->fresh, "curve"), i, point) {
        for (size_t column = 0; names[column]; column++)
            lab_csv_number(&csv, number_of(point, names[column]));
        lab_csv_end_line(&csv);
    }
}

void data_clrs(FILE *file, const experiment *e) {
    static const char *const names[] = {"arm",       "algorithm",  "length", "exact",
                                        "exact_low", "exact_high", NULL};
    lab_csv csv = {.file = file};
    size_t a, i;
    const json_t *arm, *row;
    header(&csv, names);
    json_array_foreach(json_object_get(e->clrs, "arms"), a, arm) {
        json_array_foreach(json_object_get(arm, "rows"), i, row) {
            text_of(&csv, arm, "name");
            text_of(&csv, row, "algorithm");
            lab_csv_number(&csv, number_of(row, "length"));
            lab_csv_number(&csv, results_value(row, "exact", "mean"));
            lab_csv_number(&csv, results_value(row, "exact", "low"));
            lab_csv_number(&csv, results_value(row, "exact", "high"));
            lab_csv_end_line(&csv);
        }
    }
}
