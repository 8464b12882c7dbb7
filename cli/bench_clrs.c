/* `whet bench clrs`: samples of CLRS-Text a second, as a table or as JSON. */
#include "bench.h"

#include "clrs_rates.h"
#include "commands.h"
#include "messages.h"
#include "options.h"
#include "preferences.h"
#include "results.h"
#include "text.h"

#include "base/machine.h"
#include "base/progress.h"
#include "base/table.h"

#include <stdio.h>

static const char *const kinds[2] = {"plain", "with hints"};

static void show_progress(const char *name) { lab_remark("%s", name); }
static void say_nothing(const char *name) { (void)name; }

static void add_rate(lab_table *table, clrs_rate rate) {
    char text[NUMBER_SIZE];
    lab_table_add(table, "%s", grouped((uint64_t)rate.best, text));
    lab_table_add(table, "%s", grouped((uint64_t)rate.median, text));
}

static void add_row(lab_table *table, const char *name, clrs_rate plain, clrs_rate hinted) {
    lab_table_add(table, "%s", name);
    add_rate(table, plain);
    add_rate(table, hinted);
}

static void print_bar(const clrs_rates *rates, int hints) {
    char mean[NUMBER_SIZE], bar[NUMBER_SIZE];
    double best = rates->mean[hints].best;
    printf("bar: %s %s per second, at least %s: %s (%.0f times the Python reference)\n",
           kinds[hints], grouped((uint64_t)best, mean),
           grouped((uint64_t)clrs_rate_bar[hints], bar),
           best >= clrs_rate_bar[hints] ? "met" : "missed", best / clrs_reference_rate[hints]);
}

static int print_table(const clrs_rates *rates) {
    char cpu[96];
    lab_cpu_name(cpu, sizeof cpu);
    printf("processor  %s\n\nsamples per second of processor time, length %d, one thread\n", cpu,
           CLRS_RATES_LENGTH);
    lab_table table = lab_table_start(5);
    lab_table_add(&table, "algorithm");
    lab_table_add(&table, "plain: best");
    lab_table_add(&table, "median");
    lab_table_add(&table, "hints: best");
    lab_table_add(&table, "median");
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        add_row(&table, clrs_algorithm_at(i)->name, rates->each[0][i], rates->each[1][i]);
    add_row(&table, "harmonic mean", rates->mean[0], rates->mean[1]);
    if (!lab_table_finish(&table, stdout))
        return complain_of_memory();
    putchar('\n');
    print_bar(rates, 0);
    print_bar(rates, 1);
    return STATUS_OK;
}

static void write_rates(FILE *file, const char *name, clrs_rate plain, clrs_rate hinted) {
    fprintf(file,
            "{\"algo\": \"%s\", \"plain\": {\"best\": %.0f, \"median\": %.0f}, \"hints\": "
            "{\"best\": %.0f, \"median\": %.0f}}",
            name, plain.best, plain.median, hinted.best, hinted.median);
}

/* context: the clrs_rates */
static void write_json(FILE *file, const void *context) {
    const clrs_rates *rates = context;
    fprintf(file, "{\"unit\": \"samples_per_cpu_second\", \"length\": %d, \"rates\": [\n  ",
            CLRS_RATES_LENGTH);
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++) {
        write_rates(file, clrs_algorithm_at(i)->name, rates->each[0][i], rates->each[1][i]);
        fputs(",\n  ", file);
    }
    write_rates(file, "harmonic mean", rates->mean[0], rates->mean[1]);
    fprintf(file, "\n], \"bars\": {\"plain\": %.0f, \"hints\": %.0f}}\n", clrs_rate_bar[0],
            clrs_rate_bar[1]);
}

int command_bench_clrs(int argc, char **argv) {
    bool quick = false;
    const char *json = NULL;
    const option_spec options[] = {
        {"quick", OPTION_FLAG, &quick, NULL, "measure fewer rounds"},
        json_option(&json, JSON_SUMMARY),
    };
    const command_syntax syntax = {
        .name = "bench clrs",
        .operands = "",
        .about = "Measures how many samples of CLRS-Text are generated per second, for each\n"
                 "algorithm at length 16, without and with hints, by one thread.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples = "whet bench clrs --quick\n",
    };
    int operands = 0;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    int status = reserve_output(&json, 1);
    if (status != STATUS_OK)
        return status;
    static clrs_rates rates;
    clrs_status measured =
        bench_clrs_rates(quick, preferred.quiet ? say_nothing : show_progress, &rates);
    lab_remark_clear();
    if (measured != CLRS_OK) {
        complain("%s", clrs_status_text(measured));
        return STATUS_FAILED;
    }
    if (json)
        status = keep_table(json, write_json, &rates);
    return status == STATUS_OK ? print_table(&rates) : status;
}
