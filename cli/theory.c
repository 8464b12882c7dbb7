/*
 * `whet theory`: the paper's statements, each with both sides computed on real
 * numbers and a word on how tight it is. One function a statement; without a
 * name all of them.
 */
#include "base/table.h"
#include "commands.h"
#include "messages.h"
#include "options.h"
#include "text.h"
#include "theory/bounds.h"
#include "theory/dispersion.h"
#include "theory/precision.h"
#include "theory/temperature.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct theory_options {
    double spread, temperature, mass, gain;
    uint64_t layers, heads, seed;
} theory_options;

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void tell(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_wrapped(stdout, text, 0);
}

/* A size for people: exact while a double is, else a power of ten. */
static const char *size_text(double n, char text[NUMBER_SIZE]) {
    if (n < 1e15)
        return grouped((uint64_t)n, text);
    if (isfinite(n))
        snprintf(text, NUMBER_SIZE, "%.2e", n);
    else
        snprintf(text, NUMBER_SIZE, "beyond 1e308");
    return text;
}

static int finish(lab_table *table) {
    return lab_table_finish(table, stdout) ? STATUS_OK : complain_of_memory();
}

/* ---- how far a spread reaches ---- */

static int show_reach(const theory_options *o) {
    static const double masses[] = {0.01, 0.1, 0.5, 0.9, 0.99};
    char text[NUMBER_SIZE];
    tell("Reach (Lemma 2.1): logits with a spread of %g at temperature %g can put %g on one item "
         "while there are at most %s items.",
         o->spread, o->temperature, o->mass,
         size_text(theory_reach(o->spread, o->temperature, o->mass), text));
    lab_table table = lab_table_start(3);
    lab_table_add(&table, "mass on one item");
    lab_table_add(&table, "at most n");
    lab_table_add(&table, "spread needed for 131,072");
    for (size_t i = 0; i < sizeof masses / sizeof *masses; i++) {
        lab_table_add(&table, "%g", masses[i]);
        lab_table_add(&table, "%s",
                      size_text(theory_reach(o->spread, o->temperature, masses[i]), text));
        lab_table_add(&table, "%.2f", theory_spread_needed(131072, o->temperature, masses[i]));
    }
    return finish(&table);
}

/* ---- every head of a Transformer disperses ---- */

typedef struct layer_figures {
    double largest, spread, entropy, room;
} layer_figures;

static layer_figures over_heads(const head_dispersion *heads, size_t count) {
    layer_figures layer = {0, 0, 0, (double)INFINITY};
    for (size_t h = 0; h < count; h++) {
        layer.largest = fmax(layer.largest, heads[h].largest);
        layer.spread = fmax(layer.spread, heads[h].spread);
        layer.entropy += heads[h].entropy / (double)count;
        layer.room = fmin(layer.room, fmin(heads[h].low_room, heads[h].high_room));
    }
    return layer;
}

static int print_dispersion(const random_transformer *transformer, const theory_options *o) {
    size_t layers = (size_t)o->layers, heads = (size_t)o->heads;
    head_dispersion result[DISPERSION_LAYERS_MAX * DISPERSION_HEADS_MAX];
    double widest[DISPERSION_LAYERS_MAX] = {0}, last[DISPERSION_LAYERS_MAX] = {0};
    double tightest = (double)INFINITY;
    lab_table table = lab_table_start(2 + 2 * layers);
    lab_table_add(&table, "n");
    for (size_t l = 0; l < layers; l++)
        lab_table_add(&table, "layer %zu", l);
    lab_table_add(&table, "1/n");
    for (size_t l = 0; l < layers; l++)
        lab_table_add(&table, "H%zu/ln n", l);
    for (uint64_t n = 16; n <= 65536; n *= 4) {
        char text[NUMBER_SIZE];
        if (!theory_transformer_run(transformer, n, result, NULL))
            return complain_of_memory();
        lab_table_add(&table, "%s", grouped(n, text));
        for (size_t l = 0; l < layers; l++) {
            layer_figures figures = over_heads(result + l * heads, heads);
            lab_table_add(&table, "%.6f", figures.largest);
            widest[l] = fmax(widest[l], figures.spread);
            last[l] = figures.largest;
            tightest = fmin(tightest, figures.room);
        }
        lab_table_add(&table, "%.6f", 1 / (double)n);
        for (size_t l = 0; l < layers; l++)
            lab_table_add(&table, "%.4f",
                          over_heads(result + l * heads, heads).entropy / log((double)n));
    }
    int status = finish(&table);
    for (size_t l = 0; l < layers; l++)
        tell("Layer %zu: no logits of a query lie further apart than %.2f at any n, so no "
             "coefficient among 65,536 can exceed %.6f; the largest was %.6f.",
             l, widest[l], exp(widest[l]) / 65536, last[l]);
    tell("The closest that any coefficient came to its two-sided bound was a factor of %.3g.",
         tightest);
    return status;
}

static int show_dispersion(const theory_options *o) {
    transformer_shape shape = {.layers = (size_t)o->layers,
                               .heads = (size_t)o->heads,
                               .head_dim = 16,
                               .kinds = 32,
                               .gain = o->gain,
                               .seed = o->seed};
    tell("Dispersion (Theorem 2.2): a random Transformer, %zu layers of %zu heads, reads n tokens "
         "of "
         "a vocabulary of %zu, one of them only once. The largest coefficient that any head of a "
         "layer gives to any one token, and the heads' mean entropy as a share of ln n:",
         shape.layers, shape.heads, shape.kinds);
    random_transformer *transformer = theory_transformer_create(&shape);
    if (!transformer)
        return complain_of_memory();
    int status = print_dispersion(transformer, o);
    theory_transformer_destroy(transformer);
    return status;
}

/* ---- entropy falls with temperature ---- */

static int show_temperature(const theory_options *o) {
    (void)o;
    enum { POINTS = 101 };
    double *surface = malloc(sizeof(double) * POINTS * POINTS);
    if (!surface)
        return complain_of_memory();
    tell("Temperature (Proposition 3.2, Figure 5): entropy of softmax(e / theta) for e_i = "
         "lambda^i, "
         "i = 0 ... 9, and its slope -beta Var(e) against a central difference, on a grid of %d x "
         "%d:",
         POINTS, POINTS);
    lab_table table = lab_table_start(6);
    static const char *const header[] = {"lambda",           "theta",       "lowest H", "highest H",
                                         "largest dH/dbeta", "slope off by"};
    for (size_t i = 0; i < 6; i++)
        lab_table_add(&table, "%s", header[i]);
    for (size_t i = 0; i < THEORY_PANELS; i++) {
        const temperature_panel *panel = &theory_panels[i];
        surface_check check = theory_surface(panel, POINTS, surface);
        lab_table_add(&table, "%g to %g", panel->lambda_low, panel->lambda_high);
        lab_table_add(&table, "%g to %g", panel->theta_low, panel->theta_high);
        lab_table_add(&table, "%.4f", check.lowest);
        lab_table_add(&table, "%.4f", check.highest);
        lab_table_add(&table, "%.1e", check.largest_slope + 0.0);
        lab_table_add(&table, "%.1e", check.slope_error);
    }
    free(surface);
    int status = finish(&table);
    tell("The slope is never positive: a lower temperature never raises the entropy. Near lambda = "
         "1 "
         "all logits are equal and H = ln 10 = 2.3026 at any temperature; near lambda = 0 nine of "
         "the ten are.");
    return status;
}

/* ---- the answer is lost in half precision ---- */

enum { PRECISION_POINTS = 20 };

static int show_precision(const theory_options *o) {
    precision_point points[PRECISION_POINTS];
    char text[NUMBER_SIZE];
    theory_precision(o->spread, o->seed, PRECISION_POINTS, points);
    tell("Precision (Corollary): the sharpest head that a spread of %g allows. Its output with "
         "value 0 and with value 1 for the item it looks for, the others' values being random, "
         "rounded: the share of outputs that still differ.",
         o->spread);
    lab_table table = lab_table_start(5);
    lab_table_add(&table, "n");
    lab_table_add(&table, "coefficient");
    for (size_t f = 0; f < PRECISION_FORMATS; f++)
        lab_table_add(&table, "%s", theory_formats[f].name);
    for (size_t i = 3; i < PRECISION_POINTS; i += 2) {
        lab_table_add(&table, "%s", grouped(points[i].n, text));
        lab_table_add(&table, "%.3g", points[i].coefficient);
        for (size_t f = 0; f < PRECISION_FORMATS; f++)
            lab_table_add(&table, "%.3f", points[i].telling[f]);
    }
    int status = finish(&table);
    for (size_t f = 0; f < PRECISION_FORMATS; f++) {
        uint64_t end = theory_precision_end(points, PRECISION_POINTS, f);
        char expected[NUMBER_SIZE];
        size_text(theory_precision_expected(o->spread, &theory_formats[f]), expected);
        if (end)
            tell("In %s the output no longer depends on the item from n = %s on (half a step of "
                 "rounding is reached at %s).",
                 theory_formats[f].name, grouped(end, text), expected);
        else
            tell("In %s it still does at n = %s (half a step of rounding is reached at %s).",
                 theory_formats[f].name, grouped(points[PRECISION_POINTS - 1].n, text), expected);
    }
    return status;
}

/* ---- the command ---- */

typedef struct statement {
    const char *name;
    const char *summary;
    int (*show)(const theory_options *options);
} statement;

static const statement statements[] = {
    {"reach", "among how many items a spread can still put --mass on one", show_reach},
    {"dispersion", "every head of a random Transformer, up to 65,536 tokens", show_dispersion},
    {"temperature", "entropy against temperature, and its slope", show_temperature},
    {"precision", "where half precision loses which item it was", show_precision},
};

enum { STATEMENTS = sizeof statements / sizeof *statements };

static int show_all(const theory_options *options) {
    int status = STATUS_OK;
    for (size_t i = 0; i < STATEMENTS && status == STATUS_OK; i++) {
        if (i > 0)
            putchar('\n');
        status = statements[i].show(options);
    }
    return status;
}

static int show_named(const char *name, const theory_options *options) {
    nearest search = nearest_to(name, strlen(name));
    for (size_t i = 0; i < STATEMENTS; i++) {
        if (strcmp(statements[i].name, name) == 0)
            return statements[i].show(options);
        nearest_offer(&search, statements[i].name, strlen(statements[i].name));
    }
    if (search.best)
        complain("theory: no statement '%s'; did you mean '%s'?", name, search.best);
    else
        complain("theory: no statement '%s'; 'whet theory --help' lists them", name);
    return STATUS_MISUSE;
}

static bool options_make_sense(const theory_options *o) {
    if (!(o->spread >= 0))
        complain("theory: --spread must not be negative");
    else if (!(o->temperature > 0))
        complain("theory: --temperature must be above 0");
    else if (!(o->mass > 0 && o->mass < 1))
        complain("theory: --mass must lie between 0 and 1");
    else if (!(o->gain > 0))
        complain("theory: --gain must be above 0");
    else if (o->layers < 1 || o->layers > DISPERSION_LAYERS_MAX)
        complain("theory: --layers must be from 1 to %d", DISPERSION_LAYERS_MAX);
    else if (o->heads < 1 || o->heads > DISPERSION_HEADS_MAX)
        complain("theory: --heads must be from 1 to %d", DISPERSION_HEADS_MAX);
    else
        return true;
    return false;
}

int command_theory(int argc, char **argv) {
    theory_options o = {
        .spread = 8, .temperature = 1, .mass = 0.5, .gain = 1, .layers = 3, .heads = 4, .seed = 1};
    const option_spec options[] = {
        {"spread", OPTION_NUMBER, &o.spread, "D", "reach, precision: of the logits (default 8)"},
        {"temperature", OPTION_NUMBER, &o.temperature, "T", "reach: default 1"},
        {"mass", OPTION_NUMBER, &o.mass, "P", "reach: the coefficient wanted (default 0.5)"},
        {"layers", OPTION_UNSIGNED, &o.layers, "N", "dispersion: default 3"},
        {"heads", OPTION_UNSIGNED, &o.heads, "N", "dispersion: default 4"},
        {"gain", OPTION_NUMBER, &o.gain, "G",
         "dispersion: size of the query and key weights (default 1)"},
        {"seed", OPTION_UNSIGNED, &o.seed, "S", "of what is random (default 1)"},
    };
    char list[1024];
    int length = snprintf(list, sizeof list, "statements:\n");
    for (size_t i = 0; i < STATEMENTS; i++)
        length += snprintf(list + length, sizeof list - (size_t)length, "  %-12s %s\n",
                           statements[i].name, statements[i].summary);
    const command_syntax syntax = {
        .name = "theory",
        .operands = "[STATEMENT]",
        .about = "Computes both sides of what the paper states, and says how tight it is.\n"
                 "Without a statement all of them.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = list,
        .operands_limit = 1,
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    if (!options_make_sense(&o))
        return STATUS_MISUSE;
    return operands == 0 ? show_all(&o) : show_named(argv[1], &o);
}
