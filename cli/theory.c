/*
 * `whet theory`: the paper's statements, each with both sides computed on real
 * numbers and a word on how tight it is. One function a statement; without a
 * name all of them.
 */
#include "theory.h"

#include "help.h"
#include "messages.h"
#include "results.h"
#include "text.h"

#include "base/json.h"
#include "theory/bounds.h"
#include "theory/dispersion.h"
#include "theory/precision.h"
#include "theory/temperature.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tell_numbers(theory_run *run, const char *statement, const number_table *of, json_t *more) {
    json_t *result = more ? more : json_object();
    json_object_set_new(result, "rows", number_table_json(of));
    json_object_set_new(run->results, statement, result);
    return print_number_table(of);
}

/* ---- how far a spread reaches ---- */

enum { REACH_ROWS = 6 };

/* The usual masses with the one asked for in its place among them; how many. */
static size_t list_masses(double wanted, double masses[REACH_ROWS]) {
    static const double usual[REACH_ROWS - 1] = {0.01, 0.1, 0.5, 0.9, 0.99};
    size_t count = 0;
    bool has_wanted = false;
    for (size_t i = 0; i < REACH_ROWS - 1; i++) {
        if (!has_wanted && wanted <= usual[i]) {
            masses[count++] = wanted;
            has_wanted = true;
        }
        if (usual[i] != wanted)
            masses[count++] = usual[i];
    }
    if (!has_wanted)
        masses[count++] = wanted;
    return count;
}

static void tell_reach(const theory_run *run, double reach) {
    char among[64], text[NUMBER_TEXT_SIZE];
    if (reach < 2)
        snprintf(among, sizeof among, "only where there is no other");
    else if (isfinite(reach))
        snprintf(among, sizeof among, "while there are at most %s items",
                 number_text(reach, LOOK_SIZE, 0, text));
    else
        snprintf(among, sizeof among, "among more than 1e308 items");
    tell("Reach (Lemma 2.1): logits with a spread of %g at temperature %g can put %g on one item "
         "%s.",
         run->spread, run->temperature, run->mass, among);
}

static int show_reach(theory_run *run) {
    enum { COLUMNS = 3 };
    static const number_column columns[COLUMNS] = {
        {"mass on one item", "mass", LOOK_SIGNIFICANT, 6},
        {"at most n", "largest_n", LOOK_SIZE, 0},
        {"spread needed for 131,072", "spread_needed", LOOK_FIXED, 2}};
    double masses[REACH_ROWS], values[REACH_ROWS * COLUMNS];
    double reach = theory_reach(run->spread, run->temperature, run->mass);
    size_t rows = list_masses(run->mass, masses);
    tell_reach(run, reach);
    for (size_t i = 0; i < rows; i++) {
        values[i * COLUMNS] = masses[i];
        values[i * COLUMNS + 1] = theory_reach(run->spread, run->temperature, masses[i]);
        values[i * COLUMNS + 2] = theory_spread_needed(131072, run->temperature, masses[i]);
    }
    return tell_numbers(
        run, "reach",
        &(number_table){
            .columns = columns, .column_count = COLUMNS, .values = values, .rows = rows},
        json_pack("{s:f, s:f, s:f, s:o}", "spread", run->spread, "temperature", run->temperature,
                  "mass", run->mass, "largest_n", lab_json_number(reach)));
}

/* ---- every head of a Transformer disperses ---- */

typedef struct layer_figures {
    double largest, spread, entropy, slack;
} layer_figures;

static layer_figures over_heads(const head_dispersion *heads, size_t count) {
    layer_figures layer = {0, 0, 0, (double)INFINITY};
    for (size_t h = 0; h < count; h++) {
        layer.largest = fmax(layer.largest, heads[h].largest);
        layer.spread = fmax(layer.spread, heads[h].spread);
        layer.entropy += heads[h].entropy / (double)count;
        layer.slack = fmin(layer.slack, fmin(heads[h].low_slack, heads[h].high_slack));
    }
    return layer;
}

/* The largest coefficients of the layers, 1/n, then the entropies. */
typedef struct dispersion_columns {
    char text[2 * DISPERSION_LAYERS_MAX][2][40];
    number_column list[2 + 2 * DISPERSION_LAYERS_MAX];
} dispersion_columns;

static void name_columns(size_t layers, dispersion_columns *columns) {
    columns->list[0] = (number_column){"n", "n", LOOK_SIZE, 0};
    columns->list[1 + layers] = (number_column){"1/n", "uniform", LOOK_FIXED, 6};
    for (size_t i = 0; i < 2 * layers; i++) {
        bool is_entropy = i >= layers;
        size_t layer = is_entropy ? i - layers : i;
        char *title = columns->text[i][0], *key = columns->text[i][1];
        snprintf(title, sizeof columns->text[i][0], is_entropy ? "H%zu/ln n" : "layer %zu", layer);
        snprintf(key, sizeof columns->text[i][1], is_entropy ? "entropy_share_%zu" : "largest_%zu",
                 layer);
        columns->list[is_entropy ? i + 2 : i + 1] =
            (number_column){title, key, LOOK_FIXED, is_entropy ? 4 : 6};
    }
}

static int print_dispersion(const random_transformer *transformer, theory_run *run) {
    enum { ROWS = 7 };
    size_t layers = (size_t)run->layers, heads = (size_t)run->layer_heads, width = 2 + 2 * layers;
    head_dispersion result[DISPERSION_LAYERS_MAX * DISPERSION_HEADS_MAX];
    double widest[DISPERSION_LAYERS_MAX] = {0}, last[DISPERSION_LAYERS_MAX] = {0};
    double tightest = (double)INFINITY, values[ROWS * (2 + 2 * DISPERSION_LAYERS_MAX)];
    uint64_t n = 16;
    for (size_t i = 0; i < ROWS; i++, n *= 4) {
        if (!theory_transformer_run(transformer, n, result, NULL))
            return complain_of_memory();
        double *row = values + i * width;
        row[0] = (double)n;
        row[1 + layers] = 1 / (double)n;
        for (size_t l = 0; l < layers; l++) {
            layer_figures figures = over_heads(result + l * heads, heads);
            row[1 + l] = last[l] = figures.largest;
            row[2 + layers + l] = figures.entropy / log((double)n);
            widest[l] = fmax(widest[l], figures.spread);
            tightest = fmin(tightest, figures.slack);
        }
    }
    dispersion_columns columns;
    name_columns(layers, &columns);
    int status = tell_numbers(
        run, "dispersion",
        &(number_table){
            .columns = columns.list, .column_count = width, .values = values, .rows = ROWS},
        json_pack("{s:o, s:f}", "spread", lab_json_numbers(widest, layers), "tightest", tightest));
    for (size_t l = 0; l < layers; l++)
        tell("Layer %zu: no logits of a query lie further apart than %.2f at any n, so no "
             "coefficient among 65,536 can exceed %.6f; the largest was %.6f.",
             l, widest[l], exp(widest[l]) / 65536, last[l]);
    tell("The closest that any coefficient came to its two-sided bound was a factor of %.3g.",
         tightest);
    return status;
}

static int show_dispersion(theory_run *run) {
    transformer_shape shape = {.layers = (size_t)run->layers,
                               .heads = (size_t)run->layer_heads,
                               .head_dim = 16,
                               .kinds = 32,
                               .gain = run->gain,
                               .seed = run->seed};
    tell(
        "Dispersion (Theorem 2.2): a random Transformer, %zu layer%s of %zu head%s, reads n tokens "
        "of a vocabulary of %zu, one of them only once. The largest coefficient that any head of "
        "a layer gives to any one token, and the heads' mean entropy as a share of ln n:",
        shape.layers, shape.layers == 1 ? "" : "s", shape.heads, shape.heads == 1 ? "" : "s",
        shape.kinds);
    random_transformer *transformer = theory_transformer_create(&shape);
    if (!transformer)
        return complain_of_memory();
    int status = print_dispersion(transformer, run);
    theory_transformer_destroy(transformer);
    return status;
}

/* ---- entropy falls with temperature ---- */

static int show_temperature(theory_run *run) {
    enum { POINTS = 101, COLUMNS = 8 };
    static const number_column columns[COLUMNS] = {
        {"lambda", "lambda_low", LOOK_SIGNIFICANT, 3},
        {"to", "lambda_high", LOOK_SIGNIFICANT, 3},
        {"theta", "theta_low", LOOK_SIGNIFICANT, 3},
        {"to", "theta_high", LOOK_SIGNIFICANT, 3},
        {"lowest H", "lowest_entropy", LOOK_FIXED, 4},
        {"highest H", "highest_entropy", LOOK_FIXED, 4},
        {"largest dH/dbeta", "largest_slope", LOOK_SIGNIFICANT, 2},
        {"slope off by", "slope_error", LOOK_SIGNIFICANT, 2}};
    double values[THEORY_PANELS * COLUMNS], *surface = malloc(sizeof(double) * POINTS * POINTS);
    if (!surface)
        return complain_of_memory();
    tell("Temperature (Proposition 3.2, Figure 5): entropy H in nats of softmax(e / theta) for e_i "
         "= "
         "lambda^i, i = 0 ... 9, and its slope -beta Var(e) against a central difference, on a "
         "grid of %d x %d:",
         POINTS, POINTS);
    for (size_t i = 0; i < THEORY_PANELS; i++) {
        const temperature_panel *panel = &theory_panels[i];
        surface_check check = theory_surface(panel, POINTS, surface);
        const double row[COLUMNS] = {panel->lambda_low, panel->lambda_high, panel->theta_low,
                                     panel->theta_high, check.lowest, check.highest,
                                     /* no minus before a zero */
                                     check.largest_slope + 0.0, check.slope_error};
        memcpy(values + i * COLUMNS, row, sizeof row);
    }
    free(surface);
    int status = tell_numbers(
        run, "temperature",
        &(number_table){
            .columns = columns, .column_count = COLUMNS, .values = values, .rows = THEORY_PANELS},
        NULL);
    tell("The slope is never positive: a lower temperature never raises the entropy. Near lambda = "
         "1 all logits are equal and H = ln 10 = 2.3026 at any temperature; near lambda = 0 nine "
         "of the ten are.");
    return status;
}

/* ---- the answer is lost in half precision ---- */

enum { PRECISION_POINTS = 20 };

static void tell_ends(const theory_run *run, const precision_point *points) {
    char text[NUMBER_TEXT_SIZE], expected[NUMBER_TEXT_SIZE];
    for (size_t f = 0; f < PRECISION_FORMATS; f++) {
        uint64_t end = theory_precision_end(points, PRECISION_POINTS, f);
        uint64_t last = points[PRECISION_POINTS - 1].n;
        number_text(theory_precision_expected(run->spread, &theory_formats[f]), LOOK_SIZE, 0,
                    expected);
        if (end)
            tell("In %s the output no longer depends on the item from n = %s on (half a step of "
                 "rounding is reached at %s).",
                 theory_formats[f].name, grouped(end, text), expected);
        else
            tell("In %s it still does at n = %s (half a step of rounding is reached at %s).",
                 theory_formats[f].name, grouped(last, text), expected);
    }
}

static int show_precision(theory_run *run) {
    enum { COLUMNS = 2 + PRECISION_FORMATS };
    const number_column columns[COLUMNS] = {
        {"n", "n", LOOK_SIZE, 0},
        {"coefficient", "coefficient", LOOK_SIGNIFICANT, 3},
        {theory_formats[0].name, theory_formats[0].name, LOOK_FIXED, 3},
        {theory_formats[1].name, theory_formats[1].name, LOOK_FIXED, 3},
        {theory_formats[2].name, theory_formats[2].name, LOOK_FIXED, 3}};
    precision_point points[PRECISION_POINTS];
    double values[PRECISION_POINTS * COLUMNS];
    size_t rows = 0;
    theory_precision(run->spread, run->seed, PRECISION_POINTS, points);
    for (size_t i = 3; i < PRECISION_POINTS; i += 2, rows++) {
        double *row = values + rows * COLUMNS;
        row[0] = (double)points[i].n;
        row[1] = points[i].coefficient;
        memcpy(row + 2, points[i].telling, sizeof points[i].telling);
    }
    tell("Precision (Corollary): the sharpest head that a spread of %g allows. Its output with "
         "value 0 and with value 1 for the item it looks for, the others' values being random, "
         "rounded: the share of outputs that still differ.",
         run->spread);
    int status = tell_numbers(
        run, "precision",
        &(number_table){
            .columns = columns, .column_count = COLUMNS, .values = values, .rows = rows},
        json_pack("{s:f}", "spread", run->spread));
    tell_ends(run, points);
    putchar('\n');
    return status == STATUS_OK ? show_trained_precision(run) : status;
}

/* ---- the command ---- */

typedef struct statement {
    const char *name;
    const char *summary;
    int (*show)(theory_run *run);
} statement;

static const statement statements[] = {
    {"lemma", "coefficients of a trained head within their bounds", show_lemma},
    {"reach", "among how many items a spread can still put --mass on one", show_reach},
    {"dispersion", "every head of a random Transformer, up to 65,536 tokens", show_dispersion},
    {"spread", "logits of a trained head within the bound from singular values", show_spread},
    {"temperature", "entropy against temperature, and its slope", show_temperature},
    {"precision", "from where on half precision hides which item was picked", show_precision},
};

enum { STATEMENTS = sizeof statements / sizeof *statements };

static int show_all(theory_run *run) {
    int status = STATUS_OK;
    for (size_t i = 0; i < STATEMENTS && status == STATUS_OK; i++) {
        if (i > 0)
            putchar('\n');
        status = statements[i].show(run);
    }
    return status;
}

static int show_named(const char *name, theory_run *run) {
    for (size_t i = 0; i < STATEMENTS; i++)
        if (strcmp(statements[i].name, name) == 0)
            return statements[i].show(run);
    return STATUS_MISUSE;
}

static int unknown_statement(const char *name) {
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; i < STATEMENTS; i++)
        nearest_offer(&search, statements[i].name);
    if (search.found)
        complain("unknown statement '%s'; did you mean '%s'?", name, search.found);
    else
        complain("unknown statement '%s'; 'whet theory --help' lists them", name);
    return STATUS_MISUSE;
}

static int check_options(const theory_run *o) {
    if (!(o->spread >= 0))
        return refuse_range("spread", o->spread, "0 or more");
    if (!(o->temperature > 0))
        return refuse_range("temperature", o->temperature, "above 0");
    if (!(o->mass > 0 && o->mass < 1))
        return refuse_range("mass", o->mass, "above 0, below 1");
    if (!(o->gain > 0))
        return refuse_range("gain", o->gain, "above 0");
    return STATUS_OK;
}

static bool is_among(const char *name, const char *const *names) {
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* The value of an option that is NaN unless given. */
static void set_default(double *value, double usual) { *value = isnan(*value) ? usual : *value; }

static void set_count(uint64_t *value, uint64_t usual) { *value = *value ? *value : usual; }

/* Refuses options that a statement, named or not, does not use; those not given get defaults. */
static int settle_options(theory_run *o, const char *named) {
    const struct {
        const char *option;
        bool is_given;
        const char *users[4];
    } uses[] = {
        {"from", o->heads_path != NULL, {"lemma", "spread", "precision"}},
        {"spread", !isnan(o->spread), {"reach", "precision"}},
        {"temperature", !isnan(o->temperature), {"reach"}},
        {"mass", !isnan(o->mass), {"reach"}},
        {"num-layers", o->layers != 0, {"dispersion"}},
        {"num-heads", o->layer_heads != 0, {"dispersion"}},
        {"gain", !isnan(o->gain), {"dispersion"}},
    };
    for (size_t i = 0; named && i < sizeof uses / sizeof *uses; i++)
        if (uses[i].is_given && !is_among(named, uses[i].users)) {
            char names[WORDS_SIZE_MAX];
            complain("--%s is for %s, not for %s", uses[i].option, join_words(uses[i].users, names),
                     named);
            return STATUS_MISUSE;
        }
    set_default(&o->spread, 8);
    set_default(&o->temperature, 1);
    set_default(&o->mass, 0.5);
    set_default(&o->gain, 1);
    set_count(&o->layers, 3);
    set_count(&o->layer_heads, 4);
    return check_options(o);
}

/* Runs what was asked for, and keeps the results if it went well. */
static int run_statements(theory_run *run, const char *name, const char *json_path) {
    unsigned mark = lab_json_mark();
    run->results = json_object();
    int status = name ? show_named(name, run) : show_all(run);
    lab_error error = {.kind = LAB_NO_ERROR};
    run->results = lab_json_whole(run->results, mark);
    if (status == STATUS_OK && json_path && !lab_json_write(json_path, run->results, &error))
        status = report_lab_error(&error);
    json_decref(run->results);
    if (run->has_head)
        close_laboratory(&run->lab);
    return status;
}

int command_theory(int argc, char **argv) {
    const char *json_path = NULL;
    theory_run run = {
        .spread = NAN, .temperature = NAN, .mass = NAN, .gain = NAN, .seed = SEED_DEFAULT};
    const option_spec options[] = {
        {"from", OPTION_TEXT, &run.heads_path, "PATH",
         "checkpoint, or folder of 'whet retrieval train' whose first head is taken, for lemma, "
         "spread and precision (default: a head is trained for 2,000 steps)",
         .aliases = "heads", .values = VALUE_FILE},
        {"spread", OPTION_NUMBER, &run.spread, "D",
         "spread of the logits, for reach and precision (default 8)"},
        {"temperature", OPTION_NUMBER, &run.temperature, "T", "temperature, for reach (default 1)"},
        {"mass", OPTION_NUMBER, &run.mass, "P",
         "coefficient wanted on one item, for reach (default 0.5)"},
        {"num-layers", OPTION_UNSIGNED, &run.layers, "N",
         "number of layers, for dispersion (default 3)", .aliases = "layers", .least = 1,
         .most = DISPERSION_LAYERS_MAX},
        {"num-heads", OPTION_UNSIGNED, &run.layer_heads, "N",
         "number of heads per layer, for dispersion (default 4)", .aliases = "layer-heads",
         .least = 1, .most = DISPERSION_HEADS_MAX},
        {"gain", OPTION_NUMBER, &run.gain, "G",
         "size of the query and key weights, for dispersion (default 1)"},
        seed_option(&run.seed, "seed of everything random (default 1)"),
        json_option(&json_path, JSON_SUMMARY),
    };
    char list[1024];
    const char *words[STATEMENTS + 1] = {NULL};
    int length = snprintf(list, sizeof list, "statements:\n");
    for (size_t i = 0; i < STATEMENTS; i++)
        words[i] = statements[i].name;
    for (size_t i = 0; i < STATEMENTS; i++)
        length += snprintf(list + length, sizeof list - (size_t)length, "  %-12s %s\n",
                           statements[i].name, statements[i].summary);
    const command_syntax syntax = {
        .name = "theory",
        .operands = "[STATEMENT]",
        .about =
            "Computes both sides of the paper's statements and how tight each one is; without\n"
            "a STATEMENT, of all of them.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = list,
        .examples = "whet theory reach --spread 12 --mass 0.9\n"
                    "whet theory lemma --from run\n",
        .operands_limit = 1,
        .operand_values = VALUE_WORD,
        .operand_words = words,
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    const char *name = operands ? argv[1] : NULL;
    int status = name && !is_among(name, words) ? unknown_statement(name) : STATUS_OK;
    if (status == STATUS_OK)
        status = settle_options(&run, name);
    if (status == STATUS_OK)
        status = reserve_output(&json_path, 1);
    return status == STATUS_OK ? run_statements(&run, name, json_path) : status;
}
