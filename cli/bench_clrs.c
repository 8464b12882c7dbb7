/* `whet bench clrs`: samples of CLRS-Text a second, as a table or as JSON. */
#include "bench.h"

#include "clrs_rates.h"
#include "commands.h"
#include "messages.h"
#include "options.h"
#include "text.h"

#include "base/machine.h"
#include "base/progress.h"
#include "base/table.h"

#include <stdio.h>

static const char *const kinds[2] = {"plain", "with hints"};

static void show_progress(const char *name) { lab_remark("%s", name); }

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
    printf("bar: %s %s a second, at least %s: %s (%.0f times the reference in Python)\n",
           kinds[hints], grouped((uint64_t)best, mean),
           grouped((uint64_t)clrs_rate_bar[hints], bar),
           best >= clrs_rate_bar[hints] ? "met" : "missed", best / clrs_reference_rate[hints]);
}

static int print_table(const clrs_rates *rates) {
    char cpu[96];
    lab_cpu_name(cpu, sizeof cpu);
    printf("processor  %s\n\nsamples a second of processor time, length %d, one thread\n", cpu,
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

static void print_rates(const char *name, clrs_rate plain, clrs_rate hinted) {
    printf("{\"algo\": \"%s\", \"plain\": {\"best\": %.0f, \"median\": %.0f}, \"hints\": "
           "{\"best\": %.0f, \"median\": %.0f}}",
           name, plain.best, plain.median, hinted.best, hinted.median);
}

static void print_json(const clrs_rates *rates) {
    printf("{\"unit\": \"samples_per_cpu_second\", \"length\": %d, \"rates\": [\n  ",
           CLRS_RATES_LENGTH);
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++) {
        print_rates(clrs_algorithm_at(i)->name, rates->each[0][i], rates->each[1][i]);
        fputs(",\n  ", stdout);
    }
    print_rates("harmonic mean", rates->mean[0], rates->mean[1]);
    printf("\n], \"bars\": {\"plain\": %.0f, \"hints\": %.0f}}\n", clrs_rate_bar[0],
           clrs_rate_bar[1]);
}

int command_bench_clrs(int argc, char **argv) {
    bool quick = false, as_json = false;
    const option_spec options[] = {
        {"quick", OPTION_FLAG, &quick, NULL, "fewer rounds"},
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON instead of a table"},
    };
    const command_syntax syntax = {
        .name = "bench clrs",
        .operands = "",
        .about = "Measures how many samples of CLRS-Text are made in a second, for each algorithm\n"
                 "at length 16, without and with hints, by one thread.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    int operands = 0;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    static clrs_rates rates;
    clrs_status status = bench_clrs_rates(quick, show_progress, &rates);
    lab_remark_clear();
    if (status != CLRS_OK) {
        complain("bench clrs: %s", clrs_status_text(status));
        return STATUS_FAILED;
    }
    if (!as_json)
        return print_table(&rates);
    print_json(&rates);
    return STATUS_OK;
}
