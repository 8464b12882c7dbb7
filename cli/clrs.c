/*
 * `whet clrs`: finds the verb, and has what the verbs share. The verbs are in
 * clrs_*.c, the work is done in lab/clrs.
 */
#include "clrs.h"

#include "commands.h"
#include "messages.h"
#include "verbs.h"

#include "base/number_range.h"
#include "base/table.h"

#include <stdio.h>
#include <string.h>

const char *const clrs_ties_words[] = {"scalar", "simd", NULL};

option_spec clrs_hints_option(bool *hints) {
    return (option_spec){"hints", OPTION_FLAG, hints, NULL,
                         "include the algorithm's steps, not only its result"};
}

option_spec clrs_decimals_option(const char **decimals) {
    return (option_spec){"decimals", OPTION_TEXT, decimals, "D",
                         "decimals that numbers are truncated to (default 3); none, or 0 as in the "
                         "reference, keeps all digits"};
}

option_spec clrs_ties_option(const char **ties) {
    return (option_spec){"ties",
                         OPTION_CHOICE,
                         ties,
                         "HOW",
                         "order of equal keys: {}, as numpy's plain code (the default) or its "
                         "vector code for x86 sorts them",
                         .values = VALUE_WORD,
                         .words = clrs_ties_words};
}

static const subcommand verbs[] = {
    {"generate", "print samples of one algorithm and length", command_clrs_generate},
    {"mix", "print samples of several, in random order", command_clrs_mix},
    {"export", "write whole data sets for training and evaluation", command_clrs_export},
    {"score", "count how many predictions are right", command_clrs_score},
    {"list", "list the algorithms and their lengths", command_clrs_list},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

bool clrs_choose_decimals(const char *text, int64_t *decimals) {
    if (!text)
        return true;
    if (strcmp(text, "none") == 0) {
        *decimals = 0;
        return true;
    }
    const char *end = text;
    uint64_t value;
    if (take_whole_number(&end, CLRS_DECIMALS_MAX, &value) && !*end) {
        *decimals = (int64_t)value;
        return true;
    }
    char range[32];
    snprintf(range, sizeof range, "0 to %d, or none", CLRS_DECIMALS_MAX);
    complain_of_number("decimals", text, range);
    return false;
}

bool clrs_choose_ties(const char *text, clrs_ties *ties) {
    if (!text)
        return true;
    *ties = strcmp(text, "simd") == 0 ? CLRS_TIES_SIMD : CLRS_TIES_SCALAR;
    return *ties == CLRS_TIES_SIMD || strcmp(text, "scalar") == 0;
}

void clrs_describe_unknown(const char *name, char *text, size_t size) {
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        nearest_offer(&search, clrs_algorithm_at(i)->name);
    if (search.found)
        snprintf(text, size, "unknown algorithm '%.64s'; did you mean '%s'?", name, search.found);
    else
        snprintf(text, size, "unknown algorithm '%.64s'; 'whet clrs list' lists them", name);
}

const clrs_algorithm *clrs_choose_algorithm(const char *name) {
    char text[160];
    const clrs_algorithm *found = clrs_algorithm_find(name);
    if (found)
        return found;
    clrs_describe_unknown(name, text, sizeof text);
    complain("%s", text);
    return NULL;
}

int clrs_refuse(const clrs_request *request, clrs_status status) {
    if (status == CLRS_ERROR_MEMORY) {
        complain("out of memory for %s of length %lld; try a shorter length", request->algorithm,
                 (long long)request->length);
        return STATUS_FAILED;
    }
    char message[CLRS_MESSAGE_SIZE];
    if (clrs_request_check(request, message) == CLRS_OK)
        complain("%s: %s", request->algorithm, clrs_status_text(status));
    else
        complain("%s", message);
    return STATUS_MISUSE;
}

int command_clrs(int argc, char **argv) {
    const verb_table table = {
        .command = "clrs",
        .about = "CLRS-Text: thirty textbook algorithms as questions and answers, byte for byte\n"
                 "those of google-deepmind/clrs.\n",
        .example = "whet clrs generate --algo insertion_sort --length 5 --hints --format text",
        .verbs = verbs,
        .count = VERB_COUNT,
    };
    return run_verb(&table, argc, argv);
}

/* "4 5 10 11" */
static void add_train_lengths(lab_table *table, const clrs_algorithm *algorithm) {
    char text[64] = "";
    size_t used = 0;
    for (size_t i = 0; used < sizeof text; i++) {
        int length = clrs_default_length(algorithm, CLRS_SPLIT_TRAIN, i);
        if (length == 0)
            break;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? " " : "", length);
    }
    lab_table_add(table, "%s", text);
}

static bool print_table(void) {
    lab_table table = lab_table_start(4);
    lab_table_add(&table, "algorithm");
    lab_table_add(&table, "shortest");
    lab_table_add(&table, "training lengths");
    lab_table_add(&table, "evaluation");
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++) {
        const clrs_algorithm *algorithm = clrs_algorithm_at(i);
        lab_table_add(&table, "%s", algorithm->name);
        lab_table_add(&table, "%d", algorithm->shortest);
        add_train_lengths(&table, algorithm);
        lab_table_add(&table, "4-%d", algorithm->val_longest);
    }
    return lab_table_finish(&table, stdout);
}

int command_clrs_list(int argc, char **argv) {
    bool names = false;
    const option_spec options[] = {
        {"names", OPTION_FLAG, &names, NULL, "print only names, one per line"},
    };
    const command_syntax syntax = {
        .name = "clrs list",
        .operands = "",
        .about = "Lists the algorithms with the shortest length that works, the lengths of the\n"
                 "training set, and those of the evaluation set.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples = "whet clrs list\n",
    };
    int operands = 0;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    if (!names)
        return print_table() ? STATUS_OK : complain_of_memory();
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        puts(clrs_algorithm_at(i)->name);
    return STATUS_OK;
}
