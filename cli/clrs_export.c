/* `whet clrs export`: reads what is wanted from the command line; lab/clrs/export.c writes it. */
#include "clrs.h"
#include "commands.h"
#include "lab_options.h"
#include "messages.h"

#include "base/signals.h"
#include "clrs/export.h"

#include <stdlib.h>
#include <string.h>

static const char command[] = "clrs export";

static const uint64_t count_not_given = UINT64_MAX;

typedef struct arguments {
    const char *split, *folder, *decimals, *ties;
    text_list algorithms, lengths, seeds;
    uint64_t count;
    bool hints, quiet;
} arguments;

/* Numbers of one option. */
typedef struct numbers {
    int64_t *items;
    size_t count;
} numbers;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"split", OPTION_TEXT, &given->split, "NAME", "train or val"},
        {"out", OPTION_TEXT, &given->folder, "DIR",
         "where to; a new or empty folder, one with the other split, or one in which the same "
         "export was stopped"},
        {"algo", OPTION_LIST, &given->algorithms, "NAMES",
         "these algorithms, with commas between, instead of all; may be repeated"},
        {"lengths", OPTION_LIST, &given->lengths, "LIST",
         "lengths, such as 4,5,10..12, instead of the split's own"},
        {"seeds", OPTION_LIST, &given->seeds, "LIST", "seeds instead of the split's own"},
        {"count", OPTION_UNSIGNED, &given->count, "K",
         "samples for each length and seed, instead of 10000 (train) or 125 (val)"},
        {"hints", OPTION_FLAG, &given->hints, NULL, clrs_hints_summary},
        {"decimals", OPTION_TEXT, &given->decimals, "D",
         "truncate numbers to so many decimals; none, the default, or 0 leaves all their digits"},
        {"ties", OPTION_TEXT, &given->ties, "HOW", clrs_ties_summary},
        {"quiet", OPTION_FLAG, &given->quiet, NULL, "show no progress"},
    };
    const command_syntax syntax = {
        .name = command,
        .operands = "",
        .about = "Writes DIR/SPLIT/ALGORITHM.json, one file for each algorithm, as the\n"
                 "reference's own script does, with its lengths, seeds and counts unless others\n"
                 "are given: 2,150,000 samples for training and 514,375 for evaluation.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "Files appear when they are complete. After an interruption the same command\n"
                "goes on with the files that are missing; where all are there, it compares.\n",
    };
    int operands = 0;
    return parse_options(&syntax, argc, argv, &operands);
}

/* All numbers of an option, which may be given several times. */
static int append_numbers(const char *option, const text_list *texts, uint64_t most, numbers *to) {
    static number_list list;
    for (size_t i = 0; i < texts->count; i++) {
        if (!parse_number_list(command, option, texts->items[i], false, 0, most, &list))
            return STATUS_MISUSE;
        int64_t *items = realloc(to->items, (to->count + list.count) * sizeof *items);
        if (!items)
            return complain_of_memory();
        to->items = items;
        for (size_t j = 0; j < list.count; j++)
            items[to->count++] = (int64_t)list.items[j];
    }
    return STATUS_OK;
}

static void add_algorithm(clrs_export *wanted, const clrs_algorithm *algorithm) {
    for (size_t i = 0; i < wanted->algorithm_count; i++)
        if (wanted->algorithms[i] == algorithm)
            return;
    wanted->algorithms[wanted->algorithm_count++] = algorithm;
}

/* One option's names, with commas between. */
static bool add_names(clrs_export *wanted, const char *names) {
    while (true) {
        char name[64];
        size_t length = strcspn(names, ",");
        size_t kept = length < sizeof name ? length : sizeof name - 1;
        memcpy(name, names, kept);
        name[kept] = '\0';
        const clrs_algorithm *algorithm = clrs_choose_algorithm(command, name);
        if (!algorithm)
            return false;
        add_algorithm(wanted, algorithm);
        if (names[length] == '\0')
            return true;
        names += length + 1;
    }
}

static bool choose_algorithms(clrs_export *wanted, const text_list *given) {
    for (size_t i = 0; i < given->count; i++)
        if (!add_names(wanted, given->items[i]))
            return false;
    for (size_t i = 0; given->count == 0 && i < CLRS_ALGORITHM_COUNT; i++)
        add_algorithm(wanted, clrs_algorithm_at(i));
    return true;
}

static bool choose_split(const char *name, clrs_split *split) {
    if (strcmp(name, "train") != 0 && strcmp(name, "val") != 0) {
        complain("%s: --split: '%s' is neither train nor val", command, name);
        return false;
    }
    *split = strcmp(name, "train") == 0 ? CLRS_SPLIT_TRAIN : CLRS_SPLIT_VAL;
    return true;
}

static int write_files(const clrs_export *wanted) {
    lab_error error = {.kind = LAB_NO_ERROR};
    bool was_complete = false;
    lab_catch_interrupts();
    if (!clrs_export_write(wanted, &was_complete, &error))
        return report_lab_error(command, &error);
    if (was_complete && !wanted->quiet)
        complain("%s: %s/%s is complete already", command, wanted->folder,
                 clrs_split_name(wanted->split));
    return STATUS_OK;
}

static int run(const arguments *given, numbers *lengths, numbers *seeds) {
    if (!given->split || !given->folder) {
        complain("%s: --split train|val and --out DIR are needed", command);
        return STATUS_MISUSE;
    }
    if (given->count == 0) {
        complain("%s: --count: at least one sample is needed", command);
        return STATUS_MISUSE;
    }
    clrs_export wanted = {.folder = given->folder, .hints = given->hints, .quiet = given->quiet};
    if (!choose_split(given->split, &wanted.split) ||
        !choose_algorithms(&wanted, &given->algorithms) ||
        !clrs_choose_decimals(command, given->decimals, &wanted.decimals) ||
        !clrs_choose_ties(command, given->ties, &wanted.ties))
        return STATUS_MISUSE;
    int status = append_numbers("lengths", &given->lengths, CLRS_LENGTH_MAX, lengths);
    if (status == STATUS_OK)
        status = append_numbers("seeds", &given->seeds, INT32_MAX, seeds);
    if (status != STATUS_OK)
        return status;
    wanted.lengths = lengths->items;
    wanted.length_count = lengths->count;
    wanted.seeds = seeds->items;
    wanted.seed_count = seeds->count;
    wanted.count = given->count == count_not_given ? 0 : given->count;
    return write_files(&wanted);
}

int command_clrs_export(int argc, char **argv) {
    arguments given = {.count = count_not_given};
    numbers lengths = {NULL, 0}, seeds = {NULL, 0};
    options_result result = parse(argc, argv, &given);
    int status = result == OPTIONS_GIVEN ? run(&given, &lengths, &seeds) : options_status(result);
    free(given.algorithms.items);
    free(given.lengths.items);
    free(given.seeds.items);
    free(lengths.items);
    free(seeds.items);
    return status;
}
