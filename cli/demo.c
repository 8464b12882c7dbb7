/*
 * `whet demo`: a head disperses before your eyes, and what each policy makes of
 * it. Measured in demo_measure.c, it is shown as a table and a chart with a few
 * sentences, or drawn as a picture.
 */
#include "demo.h"

#include "base/atomic_file.h"
#include "chart.h"
#include "commands.h"
#include "messages.h"
#include "options.h"
#include "registry_words.h"
#include "terminal.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const default_policies[] = {
    "softmax", "adaptive", "adaptive:hold", "length:16", "exp:0.5", "target:0.5:cap=4096", "topk:8",
};

static int print_chart(const demo_result *result, terminal_style style) {
    int columns = standard_output_width();
    if (columns > 0 && columns < CHART_COLUMNS) {
        printf("\nThe chart needs a terminal of at least %d columns.\n", CHART_COLUMNS);
        return STATUS_OK;
    }
    char numbers[DEMO_SIZES][NUMBER_SIZE];
    const char *labels[DEMO_SIZES];
    for (size_t k = 0; k < DEMO_SIZES; k++)
        labels[k] = grouped(result->sizes[k], numbers[k]);
    chart_series *series = malloc(result->policies->count * sizeof *series);
    if (!series)
        return complain_of_memory();
    for (size_t i = 0; i < result->policies->count; i++)
        series[i] = (chart_series){result->policies->names[i], result->weight[i]};
    line_chart chart = {
        .title = "weight on the largest item (logarithmic)",
        .x_title = "n, the number of items",
        .x_labels = labels,
        .points = DEMO_SIZES,
        .series = series,
        .series_count = result->policies->count,
        .decades = result->decades,
    };
    putchar('\n');
    draw_chart(stdout, &chart, style);
    free(series);
    return STATUS_OK;
}

static size_t find_policy(const demo_result *result, const char *name) {
    size_t i = 0;
    while (i < result->policies->count && strcmp(result->policies->names[i], name) != 0)
        i++;
    return i;
}

/* The size from which on a policy does no better than softmax, or DEMO_SIZES. */
static size_t end_of_help(const demo_result *result, size_t policy) {
    size_t k = DEMO_SIZES;
    while (k > 0 && result->weight[policy][k - 1] < result->plain[k - 1] * 1.001)
        k--;
    return k;
}

static void tell_of_softmax(const demo_result *result) {
    char largest[NUMBER_SIZE];
    tell(
        "Softmax gives the right item %.0f %% of its weight among %d and %.2f %% among %s: the gap "
        "at the top shrinks with n, the head's slope does not grow.",
        100 * result->plain[0], DEMO_SMALLEST, 100 * result->plain[DEMO_SIZES - 1],
        grouped(DEMO_LARGEST, largest));
}

static void tell_of_adaptive(const demo_result *result) {
    size_t adaptive = find_policy(result, "adaptive");
    if (adaptive == result->policies->count)
        return;
    size_t end = end_of_help(result, adaptive);
    if (end == 0 || end == DEMO_SIZES)
        return;
    char number[NUMBER_SIZE];
    tell("The paper's rule, adaptive, stops helping beyond an entropy of 5.945, here from n = %s "
         "on: its polynomial is below 1 there, and beta stays 1.",
         grouped(result->sizes[end], number));
}

static void tell_of_sharpest(const demo_result *result) {
    size_t last = DEMO_SIZES - 1, sharpest = 0;
    for (size_t i = 1; i < result->policies->count; i++)
        if (result->weight[i][last] > result->weight[sharpest][last])
            sharpest = i;
    if (result->weight[sharpest][last] < 2 * result->plain[last])
        return;
    char number[NUMBER_SIZE];
    tell("Sharpest among %s items is %s, with %.3g %%.", grouped(result->sizes[last], number),
         result->policies->names[sharpest], 100 * result->weight[sharpest][last]);
}

static int show(const demo_result *result, const char *svg_path) {
    if (svg_path && strcmp(svg_path, "-") == 0) {
        write_demo_svg(stdout, result);
        return STATUS_OK;
    }
    if (svg_path) {
        if (replace_file(svg_path, write_demo_svg, result))
            return STATUS_OK;
        complain("%s: cannot write: %s", svg_path, strerror(errno));
        return STATUS_FAILED;
    }
    terminal_style style = standard_output_style();
    print_demo_table(result, style);
    int status = print_chart(result, style);
    if (status != STATUS_OK)
        return status;
    putchar('\n');
    tell_of_softmax(result);
    tell_of_adaptive(result);
    tell_of_sharpest(result);
    return STATUS_OK;
}

static int run(const policy_list *policies, uint64_t seed, const char *svg_path) {
    demo_result result = {.policies = policies};
    result.weight = calloc(policies->count, sizeof *result.weight);
    if (!result.weight)
        return complain_of_memory();
    whet_status measured = measure_demo(&result, seed);
    int status = STATUS_FAILED;
    if (measured == WHET_OK)
        status = show(&result, svg_path);
    else
        complain("%s", whet_status_text(measured));
    free(result.weight);
    return status;
}

/* Whether a path, which may be missing, is one for an SVG picture. */
static bool is_picture(const char *path) {
    size_t length = path ? strlen(path) : 0;
    return !path || strcmp(path, "-") == 0 ||
           (length > 4 && strcmp(path + length - 4, ".svg") == 0);
}

int command_demo(int argc, char **argv) {
    text_list names = {0};
    uint64_t seed = SEED_DEFAULT;
    const char *svg_path = NULL;
    const option_spec options[] = {
        {"policy", OPTION_LIST, &names, "NAME",
         "policy to show (see 'whet policies') instead of the usual selection; may be repeated",
         .values = VALUE_WORD, .words = policy_words()},
        seed_option(&seed, "seed of the priorities (default 1)"),
        {"out", OPTION_TEXT, &svg_path, "FILE",
         "file for the chart as an SVG picture, .svg, instead of the table ('-': standard output)",
         .letter = 'o', .aliases = "svg", .values = VALUE_FILE},
    };
    const command_syntax syntax = {
        .name = "demo",
        .operands = "",
        .about =
            "Shows how a head that is sharp among 16 items disperses as their number grows to\n"
            "131,072, and what each policy does about it: a table, a chart and a short\n"
            "explanation.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples = "whet demo\n"
                    "whet demo --policy softmax --policy sparsemax --policy linear:64\n"
                    "whet demo --out chart.svg\n",
    };
    int operands;
    options_result parsed = parse_options(&syntax, argc, argv, &operands);
    int status = options_status(parsed);
    if (parsed == OPTIONS_GIVEN && !is_picture(svg_path)) {
        complain("%s: charts are written as .svg", svg_path);
        status = STATUS_MISUSE;
    } else if (parsed == OPTIONS_GIVEN) {
        bool has_names = names.count > 0;
        policy_list policies;
        status = make_policy_list(has_names ? names.items : default_policies,
                                  has_names ? names.count
                                            : sizeof default_policies / sizeof *default_policies,
                                  &policies);
        if (status == STATUS_OK) {
            status = run(&policies, seed, svg_path);
            free_policy_list(&policies);
        }
    }
    free(names.items);
    return status;
}
