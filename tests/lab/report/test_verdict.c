/* Verdicts on made-up results: each says yes to what the paper claims, and no to its opposite. */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"

#include "report/published.h"
#include "report/verdict.h"
#include "theory/temperature.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A table with the published figures moved by some points, each with a standard error. */
static json_t *table_with(double softmax_off, double adaptive_off, double error) {
    json_t *rows = json_array(), *pairs = json_array();
    for (int power = 4; power <= 14; power++) {
        double n = 1 << power;
        const published_size *size = published_at(n);
        REQUIRE(size != NULL);
        double softmax = size->softmax + softmax_off, adaptive = size->adaptive + adaptive_off;
        double gain = (adaptive - softmax) / 100;
        json_array_append_new(rows,
                              json_pack("{s:s, s:f, s:{s:f, s:f}}", "policy", "softmax", "n", n,
                                        "accuracy", "mean", softmax / 100, "error", error / 100));
        json_array_append_new(rows,
                              json_pack("{s:s, s:f, s:{s:f, s:f}}", "policy", "adaptive", "n", n,
                                        "accuracy", "mean", adaptive / 100, "error", error / 100));
        json_array_append_new(pairs, json_pack("{s:f, s:{s:f, s:f}}", "n", n, "gain", "mean", gain,
                                               "low", gain - error / 100));
    }
    return json_pack("{s:i, s:i, s:o, s:o}", "seeds", 10, "sets", 100, "rows", rows,
                     "adaptive_against_softmax", pairs);
}

static verdict_state table_state(double softmax_off, double adaptive_off, double error) {
    json_t *table = table_with(softmax_off, adaptive_off, error);
    verdict_state state = verdict_table1(table).state;
    json_decref(table);
    return state;
}

TEST(table_1_is_reproduced_within_two_standard_errors) {
    CHECK(table_state(0, 0, 1) == VERDICT_YES);
    CHECK(table_state(2.5, -2.5, 1) == VERDICT_YES); /* 1.8 errors of the difference */
    CHECK(table_state(3.5, 3.5, 1) == VERDICT_NO);   /* 2.5 of them, everywhere */
    CHECK(table_state(3.5, 0, 1) == VERDICT_PARTLY); /* only softmax is off */
    CHECK(table_state(0, 0, 5) == VERDICT_PARTLY);   /* errors of 7 points prove nothing */
    CHECK(verdict_table1(NULL).state == VERDICT_NOT_MADE);
}

TEST(the_gain_must_lie_above_zero_by_its_interval) {
    json_t *better = table_with(0, 0, 1), *unsure = table_with(0, 0, 10);
    json_t *worse = table_with(5, -5, 1);
    CHECK(verdict_gain(better).state == VERDICT_YES);
    CHECK(verdict_gain(unsure).state == VERDICT_PARTLY);
    CHECK(verdict_gain(worse).state == VERDICT_NO);
    CHECK(verdict_gain(NULL).state == VERDICT_NOT_MADE);
    json_decref(better);
    json_decref(unsure);
    json_decref(worse);
}

TEST(figure_1_wants_every_head_to_fall_like_1_over_n) {
    figure_dispersion_data data;
    REQUIRE(figure_dispersion_measure(1, &data));
    CHECK(verdict_figure1(&data).state == VERDICT_YES);
    for (size_t i = 0; i < FIGURE_SIZES; i++)
        data.largest[i][5] = 1 / sqrt((double)data.n[i]);
    CHECK(verdict_figure1(&data).state == VERDICT_NO);
    CHECK(verdict_figure1(NULL).state == VERDICT_NOT_MADE);
}

/* Panels of one set each whose right item has these coefficients, with these entropies. */
static json_t *panels_of(size_t count, const double *top, const double *entropy) {
    json_t *panels = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(panels,
                              json_pack("{s:i, s:[[f,f]], s:[f]}", "n", 16 << i, "coefficients",
                                        1 - top[i], top[i], "entropy", entropy[i]));
    return panels;
}

static verdict_state figure2_state(double first, double second, double third) {
    const double top[] = {first, second, third}, entropy[] = {0, 1, 2};
    json_t *panels = panels_of(3, top, entropy);
    verdict_state state = verdict_figure2(panels).state;
    json_decref(panels);
    return state;
}

TEST(figure_2_wants_a_sharp_head_that_washes_out) {
    CHECK(figure2_state(0.9, 0.5, 0.1) == VERDICT_YES);
    CHECK(figure2_state(0.9, 0.5, 0.3) == VERDICT_PARTLY); /* not washed out */
    CHECK(figure2_state(0.4, 0.3, 0.1) == VERDICT_PARTLY); /* never sharp */
    CHECK(figure2_state(0.9, 0.05, 0.1) == VERDICT_PARTLY);
    CHECK(figure2_state(0.9, 0.9, 0.95) == VERDICT_NO);
    CHECK(verdict_figure2(NULL).state == VERDICT_NOT_MADE);
}

static verdict_state figure7_state(double first, double second, double third) {
    const double top[] = {0.9, 0.5, 0.1}, plain[] = {0.2, 1, 2};
    const double sharp[] = {first, second, third};
    json_t *before = panels_of(3, top, plain), *after = panels_of(3, top, sharp);
    verdict_state state = verdict_figure7(before, after).state;
    json_decref(before);
    json_decref(after);
    return state;
}

TEST(figure_7_wants_lower_entropies_wherever_the_policy_acts) {
    CHECK(figure7_state(0.2, 0.9, 1.5) == VERDICT_YES);
    CHECK(figure7_state(0.2, 1, 1.5) == VERDICT_PARTLY);
    CHECK(figure7_state(0.3, 0.9, 1.5) == VERDICT_PARTLY); /* one is higher */
    CHECK(figure7_state(0.2, 1.1, 2.5) == VERDICT_NO);
    CHECK(verdict_figure7(NULL, NULL).state == VERDICT_NOT_MADE);
}

TEST(figure_4_wants_the_listing_s_coefficients) {
    CHECK(verdict_figure4(1e-7).state == VERDICT_YES);
    CHECK(verdict_figure4(1e-3).state == VERDICT_NO);
    CHECK(verdict_figure4((double)NAN).state == VERDICT_NOT_MADE);
}

TEST(figure_5_wants_no_entropy_to_rise) {
    double *surfaces = figure_temperature_measure();
    REQUIRE(surfaces != NULL);
    CHECK(verdict_figure5(surfaces).state == VERDICT_YES);
    surfaces[10 * FIGURE_GRID + 3] += 1; /* one temperature of one panel */
    CHECK(verdict_figure5(surfaces).state == VERDICT_NO);
    free(surfaces);
}

/* Points whose beta goes like exp(slope entropy), and a curve. */
static verdict_state figure6_state(double slope, const char *policy) {
    json_t *points = json_array();
    for (int i = 0; i < 60; i++)
        json_array_append_new(points, json_pack("{s:f, s:f, s:b}", "entropy", i / 10.0, "beta",
                                                exp(slope * i / 10.0), "used", 1));
    json_t *fit = json_pack("{s:{s:s}, s:o}", "least_squares", "policy", policy, "points", points);
    verdict_state state = verdict_figure6(fit).state;
    json_decref(fit);
    return state;
}

TEST(figure_6_wants_betas_that_rise_and_the_published_curve) {
    CHECK(figure6_state(0.3, "adaptive") == VERDICT_YES);
    CHECK(figure6_state(0.3, "fixed:30") == VERDICT_PARTLY);
    CHECK(figure6_state(-0.3, "adaptive") == VERDICT_NO);
    CHECK(verdict_figure6(NULL).state == VERDICT_NOT_MADE);
}

/* An arm with one algorithm: shares at the trained length and at two beyond it. */
static json_t *arm_of(const char *trained, double near, double far) {
    json_t *rows = json_array();
    const double shares[] = {0.9, near, far};
    for (int i = 0; i < 3; i++)
        json_array_append_new(rows, json_pack("{s:s, s:i, s:b, s:{s:f, s:f, s:f}}", "algorithm",
                                              "bfs", "length", 4 + i, "inside", i == 0, "exact",
                                              "mean", shares[i], "low", shares[i] - 0.05, "high",
                                              shares[i] + 0.05));
    return json_pack("{s:s, s:s, s:o}", "trained", trained, "policy", trained, "rows", rows);
}

static verdict_state clrs_state(double near, double far) {
    json_t *clrs =
        json_pack("{s:[o,o]}", "arms", arm_of("softmax", 0.4, 0.4), arm_of("adaptive", near, far));
    verdict_state state = verdict_figures89(clrs).state;
    json_decref(clrs);
    return state;
}

TEST(figures_8_and_9_want_most_cells_beyond_training_better) {
    CHECK(clrs_state(0.6, 0.6) == VERDICT_YES);
    CHECK(clrs_state(0.6, 0.4) == VERDICT_PARTLY);
    CHECK(clrs_state(0.42, 0.45) == VERDICT_NO); /* within the intervals */
    CHECK(clrs_state(0.6, 0.2) == VERDICT_NO);   /* as many worse */
    CHECK(verdict_figures89(NULL).state == VERDICT_NOT_MADE);
}

TEST(the_summary_names_every_subject_once_under_its_state) {
    verdict list[VERDICTS];
    for (size_t i = 0; i < VERDICTS; i++)
        list[i] = (verdict){.subject = "Figure x", .claim = "", .measure = ""};
    list[1] = (verdict){.subject = "Figure <no>", .claim = "", .measure = "", .state = VERDICT_NO};
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    REQUIRE(file != NULL);
    verdict_summary(file, list);
    fputc('\n', file);
    verdict_print(file, list);
    verdict_html(file, list);
    fclose(file);
    CHECK(strncmp(text, "Reproduced: Figure x, Figure x,", 31) == 0);
    CHECK(strstr(text, "Figure x. Not reproduced: Figure <no>.\n") != NULL);
    CHECK(strstr(text, "  Figure <no>        not reproduced") != NULL);
    CHECK(strstr(text, "Figure &lt;no></th><td class=\"no\">not reproduced</td>") != NULL);
    free(text);
}
