/* `whet clrs export`: reads what is wanted from the command line; lab/clrs/export.c writes it. */
#include "clrs.h"
#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "preferences.h"
#include "registry_words.h"

#include "base/signals.h"
#include "clrs/export.h"

#include <stdlib.h>
#include <string.h>

static const char command[] = "clrs export";

static const uint64_t count_not_given = UINT64_MAX;

enum { COUNT_MAX = 1000000000 };

typedef struct arguments {
    const char *split, *folder, *decimals, *ties;
    text_list algorithms, lengths, seeds;
    uint64_t count;
    bool hints;
} arguments;

static const char *const splits[] = {"train", "val", NULL};

/* Numbers of one option. */
typedef struct numbers {
    int64_t *items;
    size_t count;
} numbers;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"split", OPTION_CHOICE, &given->split, "NAME", "data set to write: {}",
         .values = VALUE_WORD, .words = splits},
        {"out-dir", OPTION_TEXT, &given->folder, "DIR",
         "folder to write to: new, empty, or holding the other split or an interrupted run of the "
         "same export",
         .letter = 'o', .aliases = "out", .values = VALUE_FOLDER},
        {"algo", OPTION_LIST, &given->algorithms, "NAME",
         "algorithm to write, or several with commas, instead of all; may be repeated",
         .aliases = "algorithm", .values = VALUE_WORD, .words = algorithm_words()},
        {"lengths", OPTION_LIST, &given->lengths, "LIST",
         "lengths, such as 4,5,10..12, instead of the split's own"},
        {"seeds", OPTION_LIST, &given->seeds, "LIST",
         "seeds, such as 1..5, instead of the split's own"},
        {"count", OPTION_UNSIGNED, &given->count, "N",
         "number of samples for each length and seed, instead of 10,000 (train) or 125 (val)",
         .least = 1, .most = COUNT_MAX},
        clrs_hints_option(&given->hints),
        {"decimals", OPTION_TEXT, &given->decimals, "D",
         "decimals that numbers are truncated to; none (the default) or 0 keeps all digits"},
        clrs_ties_option(&given->ties),
    };
    const command_syntax syntax = {
        .name = command,
        .operands = "",
        .about = "Writes DIR/SPLIT/ALGORITHM.json, one file per algorithm, as the reference's own\n"
                 "script does, with its lengths, seeds and counts unless others are given:\n"
                 "2,150,000 samples for training and 514,375 for evaluation.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "Files appear when they are complete. After an interruption the same command\n"
                "writes the missing files; where all exist, it compares them.\n",
        .examples = "whet clrs export --split val --out-dir clrs-text\n"
                    "whet clrs export --split train --out-dir small --algo bfs,dfs --count 100\n",
    };
    int operands = 0;
    return parse_options(&syntax, argc, argv, &operands);
}

/* All numbers of an option, which may be given several times. */
static int append_numbers(const char *option, const text_list *texts, uint64_t most, numbers *to) {
    static number_list list;
    for (size_t i = 0; i < texts->count; i++) {
        if (!parse_number_list(option, texts->items[i], 0, most, &list))
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
        const clrs_algorithm *algorithm = clrs_choose_algorithm(name);
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

static int write_files(const clrs_export *wanted) {
    lab_error error = {.kind = LAB_NO_ERROR};
    bool was_complete = false;
    lab_catch_interrupts();
    if (!clrs_export_write(wanted, &was_complete, &error))
        return report_lab_error(&error);
    if (was_complete && !wanted->quiet)
        complain("%s/%s: already complete", wanted->folder, clrs_split_name(wanted->split));
    return STATUS_OK;
}

static int run(const arguments *given, numbers *lengths, numbers *seeds) {
    if (!given->split || !given->folder) {
        complain("missing --%s", given->split ? "out-dir DIR" : "split NAME");
        return STATUS_MISUSE;
    }
    clrs_export wanted = {.folder = given->folder,
                          .split = strcmp(given->split, "train") == 0 ? CLRS_SPLIT_TRAIN
                                                                      : CLRS_SPLIT_VAL,
                          .hints = given->hints,
                          .quiet = preferred.quiet};
    if (!choose_algorithms(&wanted, &given->algorithms) ||
        !clrs_choose_decimals(given->decimals, &wanted.decimals) ||
        !clrs_choose_ties(given->ties, &wanted.ties))
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
