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

const char clrs_ties_summary[] =
    "which of equal keys comes first: as in numpy's plain code (scalar,\n"
    "the default) or its vector code for x86 (simd)";
const char clrs_decimals_summary[] =
    "truncate numbers to so many decimals (default 3); none or, as in the reference, 0 leaves all "
    "their digits";
const char clrs_hints_summary[] = "with the steps of the algorithm, not its result alone";

static const subcommand verbs[] = {
    {"generate", "samples of one algorithm and length", command_clrs_generate},
    {"mix", "samples of many, in random order", command_clrs_mix},
    {"export", "whole data sets, as files for training and evaluation", command_clrs_export},
    {"score", "how many predictions are right", command_clrs_score},
    {"list", "the algorithms and their lengths", command_clrs_list},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

bool clrs_choose_decimals(const char *command, const char *text, int64_t *decimals) {
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
    complain("%s: --decimals: '%s' is neither a number from 0 to %d nor 'none'", command, text,
             CLRS_DECIMALS_MAX);
    return false;
}

bool clrs_choose_ties(const char *command, const char *text, clrs_ties *ties) {
    if (!text)
        return true;
    bool is_simd = strcmp(text, "simd") == 0;
    if (!is_simd && strcmp(text, "scalar") != 0) {
        complain("%s: --ties: '%s' is neither scalar nor simd", command, text);
        return false;
    }
    *ties = is_simd ? CLRS_TIES_SIMD : CLRS_TIES_SCALAR;
    return true;
}

const clrs_algorithm *clrs_choose_algorithm(const char *command, const char *name) {
    const clrs_algorithm *found = clrs_algorithm_find(name);
    if (found)
        return found;
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++) {
        const char *candidate = clrs_algorithm_at(i)->name;
        nearest_offer(&search, candidate);
    }
    if (search.found)
        complain("%s: unknown algorithm '%s'; did you mean '%s'?", command, name, search.found);
    else
        complain("%s: unknown algorithm '%s'; 'whet clrs list' lists them", command, name);
    return NULL;
}

int clrs_refuse(const char *command, const clrs_request *request, clrs_status status) {
    if (status == CLRS_ERROR_MEMORY) {
        complain("%s: out of memory for %s of length %lld, which may be too large", command,
                 request->algorithm, (long long)request->length);
        return STATUS_FAILED;
    }
    char message[CLRS_MESSAGE_SIZE];
    if (clrs_request_check(request, message) == CLRS_OK)
        complain("%s: %s: %s", command, request->algorithm, clrs_status_text(status));
    else
        complain("%s: %s", command, message);
    return STATUS_MISUSE;
}

int command_clrs(int argc, char **argv) {
    const verb_table table = {
        .command = "clrs",
        .about = "CLRS-Text: thirty textbook algorithms as questions and answers, byte for byte\n"
                 "those of google-deepmind/clrs.\n",
        .list = "generate, mix, export, score and list",
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
        {"names", OPTION_FLAG, &names, NULL, "print one name a line and nothing else"},
    };
    const command_syntax syntax = {
        .name = "clrs list",
        .operands = "",
        .about = "Lists the algorithms: the shortest length that works, the lengths of the\n"
                 "training set, and those of the evaluation set.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
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
