/* The figures that are computed and not trained; see figures.h. */
#include "report/figures.h"
#include "base/csv.h"
#include "report/plot.h"
#include "theory/dispersion.h"
#include "theory/temperature.h"
#include "whet.h"
#include <math.h>
#include <stdlib.h>

/* ---- Figure 1 ---- */

enum { LAYERS = FIGURE_LAYERS, HEADS = FIGURE_HEADS, SIZES = FIGURE_SIZES };

bool figure_dispersion_measure(uint64_t seed, figure_dispersion_data *data) {
    transformer_shape shape = {LAYERS, HEADS, 16, 32, 1, seed};
    random_transformer *transformer = theory_transformer_create(&shape);
    bool good = transformer != NULL;
    for (size_t i = 0; good && i < SIZES; i++) {
        head_dispersion heads[LAYERS * HEADS];
        data->n[i] = (uint64_t)16 << i;
        good = theory_transformer_run(transformer, data->n[i], heads, NULL);
        for (size_t h = 0; good && h < (size_t)LAYERS * HEADS; h++)
            data->largest[i][h] = heads[h].largest;
    }
    theory_transformer_destroy(transformer);
    return good;
}

static void draw_dispersion(FILE *script, const void *context) {
    const figure_dispersion_data *data = context;
    fputs("$heads << END\n", script);
    for (size_t i = 0; i < SIZES; i++) {
        fprintf(script, "%llu", (unsigned long long)data->n[i]);
        for (size_t h = 0; h < (size_t)LAYERS * HEADS; h++)
            fprintf(script, " %.9g", data->largest[i][h]);
        fputc('\n', script);
    }
    fputs("END\n"
          "set title 'Every head of a random Transformer disperses'\n"
          "set logscale x 2\nset logscale y 10\nset xrange [16:65536]\nset yrange [1e-5:1]\n"
          "set xlabel 'n, the number of tokens'\n"
          "set ylabel 'largest coefficient on any one token'\nset format y '10^{%T}'\n"
          "plot 1/x with lines ls 16 title '1/n, uniform'",
          script);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int head = 0; head < HEADS; head++) {
            fprintf(script, ", $heads using 1:%d with linespoints ls %d ", 2 + layer * HEADS + head,
                    layer + 1);
            if (head == 0)
                fprintf(script, "title 'layer %d, four heads'", layer);
            else
                fputs("notitle", script);
        }
}

bool figure_dispersion(const char *path, uint64_t seed, lab_error *error) {
    figure_dispersion_data data;
    if (!figure_dispersion_measure(seed, &data))
        return lab_fail_memory(error);
    const plot_request request = {path, "Every head of a random Transformer disperses", 800, 500};
    return plot_draw(&request, draw_dispersion, &data, error);
}

/* ---- Figure 5 ---- */

enum { GRID = FIGURE_GRID };

static void draw_panel(FILE *script, size_t index, const double *surface) {
    const temperature_panel *panel = &theory_panels[index];
    fprintf(script, "$panel%zu << END\n", index);
    for (size_t t = 0; t < GRID; t++) {
        for (size_t l = 0; l < GRID; l++)
            fprintf(script, "%.6g %.6g %.6g\n",
                    panel->lambda_low +
                        (panel->lambda_high - panel->lambda_low) * (double)l / (GRID - 1),
                    panel->theta_low +
                        (panel->theta_high - panel->theta_low) * (double)t / (GRID - 1),
                    surface[t * GRID + l]);
        fputc('\n', script);
    }
    fprintf(script, "END\nset xrange [%g:%g]\nset yrange [%g:%g]\n", panel->lambda_low,
            panel->lambda_high, panel->theta_low, panel->theta_high);
    fprintf(script, "plot $panel%zu using 1:2:3 with image notitle\n", index);
}

static void draw_temperature(FILE *script, const void *context) {
    const double *surfaces = context;
    fputs("set multiplot layout 2,2 margins 0.085,0.87,0.1,0.9 spacing 0.21,0.15 title "
          "'Entropy of softmax(a/θ) for ten powers a_i = λ^i'\n"
          "set palette defined (0 '#440154', 1 '#3b528b', 2 '#21918c', 3 '#5ec962', 4 "
          "'#fde725')\n"
          "set xlabel 'λ'\nset ylabel 'temperature θ'\n"
          "set cblabel 'entropy H, nats' offset 0.5,0\n"
          "unset grid\n",
          script);
    for (size_t i = 0; i < THEORY_PANELS; i++)
        draw_panel(script, i, surfaces + i * GRID * GRID);
    fputs("unset multiplot\n", script);
}

double *figure_temperature_measure(void) {
    double *surfaces = malloc(sizeof(double) * THEORY_PANELS * GRID * GRID);
    for (size_t i = 0; surfaces && i < THEORY_PANELS; i++)
        theory_surface(&theory_panels[i], GRID, surfaces + i * GRID * GRID);
    return surfaces;
}

bool figure_temperature(const char *path, lab_error *error) {
    double *surfaces = figure_temperature_measure();
    if (!surfaces)
        return lab_fail_memory(error);
    const plot_request request = {path, "Entropy against temperature", 1000, 700};
    bool good = plot_draw(&request, draw_temperature, surfaces, error);
    free(surfaces);
    return good;
}

/* ---- beta of the policies ---- */

static const char *const entropy_policies[] = {"adaptive", "adaptive:hold", "exp:0.5",
                                               "adaptive:strength=0.5"};
static const char *const count_policies[] = {"length:16", "linear:16", "ssmax:0.43"};
enum {
    ENTROPY_POLICIES = sizeof entropy_policies / sizeof *entropy_policies,
    COUNT_POLICIES = sizeof count_policies / sizeof *count_policies
};

static double beta_of(const char *name, double entropy, uint64_t n) {
    whet_policy policy;
    whet_stats stats = whet_stats_empty();
    stats.n = n;
    stats.entropy = entropy;
    return whet_policy_parse(name, &policy, NULL, 0) == WHET_OK ? whet_policy_beta(&policy, &stats)
                                                                : (double)NAN;
}

enum { ENTROPY_STEPS = 240, COUNT_FIRST = 4, COUNT_LAST = 17 };

static double entropy_at(int step) { return 12.0 * step / ENTROPY_STEPS; }

static double beta_at_entropy(size_t policy, int step) {
    return beta_of(entropy_policies[policy], entropy_at(step), 131072);
}

static double beta_at_count(size_t policy, int power) {
    return beta_of(count_policies[policy], 1, (uint64_t)1 << power);
}

static void put_beta(lab_csv *csv, const char *policy, const char *what, double at, double beta) {
    lab_csv_text(csv, policy);
    lab_csv_text(csv, what);
    lab_csv_number(csv, at);
    lab_csv_number(csv, beta);
    lab_csv_end_line(csv);
}

void figure_policies_csv(FILE *file) {
    lab_csv csv = {.file = file};
    lab_csv_text(&csv, "policy");
    lab_csv_text(&csv, "against");
    lab_csv_text(&csv, "at");
    lab_csv_text(&csv, "beta");
    lab_csv_end_line(&csv);
    for (size_t p = 0; p < ENTROPY_POLICIES; p++)
        for (int i = 0; i <= ENTROPY_STEPS; i++)
            put_beta(&csv, entropy_policies[p], "entropy", entropy_at(i), beta_at_entropy(p, i));
    for (size_t p = 0; p < COUNT_POLICIES; p++)
        for (int i = COUNT_FIRST; i <= COUNT_LAST; i++)
            put_beta(&csv, count_policies[p], "n", (double)(1 << i), beta_at_count(p, i));
}

static void draw_policies(FILE *script, const void *context) {
    (void)context;
    fputs("$entropy << END\n", script);
    for (int i = 0; i <= ENTROPY_STEPS; i++) {
        fprintf(script, "%g", entropy_at(i));
        for (size_t p = 0; p < ENTROPY_POLICIES; p++)
            fprintf(script, " %.9g", beta_at_entropy(p, i));
        fputc('\n', script);
    }
    fputs("END\n$count << END\n", script);
    for (int i = COUNT_FIRST; i <= COUNT_LAST; i++) {
        fprintf(script, "%d", 1 << i);
        for (size_t p = 0; p < COUNT_POLICIES; p++)
            fprintf(script, " %.9g", beta_at_count(p, i));
        fputc('\n', script);
    }
    fputs(
        "END\nset multiplot layout 1,2 margins 0.08,0.96,0.15,0.88 spacing 0.1 title 'Temperatures "
        "that the policies choose'\n"
        "set logscale y 10\nset yrange [0.8:100]\nset ylabel 'inverse temperature β'\n"
        "set xlabel 'entropy H of the row'\nset xrange [0:12]\nset key center right\nplot ",
        script);
    for (size_t p = 0; p < ENTROPY_POLICIES; p++)
        fprintf(script, "%s$entropy using 1:%zu with lines ls %zu title '%s'", p ? ", " : "", p + 2,
                p + 1, entropy_policies[p]);
    fputs("\nset logscale x 2\nset xrange [16:131072]\nset xlabel 'n, the number of items'\nplot ",
          script);
    for (size_t p = 0; p < COUNT_POLICIES; p++)
        fprintf(script, "%s$count using 1:%zu with lines ls %zu title '%s'", p ? ", " : "", p + 2,
                p + 5, count_policies[p]);
    fputs("\nunset multiplot\n", script);
}

bool figure_policies(const char *path, lab_error *error) {
    const plot_request request = {path, "Inverse temperature against entropy and against n", 1000,
                                  450};
    return plot_draw(&request, draw_policies, NULL, error);
}
