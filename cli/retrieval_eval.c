/* `whet retrieval eval`: tables of accuracy by size and policy, and all measures as JSON or CSV. */
#include "retrieval.h"

#include "messages.h"
#include "preferences.h"
#include "registry_words.h"
#include "results.h"
#include "text.h"

#include "base/signals.h"
#include "base/table.h"
#include "retrieval/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "retrieval eval";

static const char *const default_policies[] = {
    "softmax",   "adaptive",  "adaptive:hold", "exp:0.5", "target:0.5",
    "ssmax:0.5", "length:16", "linear:16",     "topk:8",  "hardmax",
    "sparsemax", "entmax15",  "softmax1",      "sigmoid", "stick-breaking"};

typedef struct arguments {
    text_list policies;
    const char *sizes, *json, *csv, *path;
    uint64_t seed, threads;
    option_range count;
} arguments;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"policy", OPTION_LIST, &given->policies, "NAME",
         "policy to measure (see 'whet policies') instead of the usual selection; may be repeated",
         .values = VALUE_WORD, .words = policy_words()},
        {"sizes", OPTION_TEXT, &given->sizes, "LIST",
         "items in a set, up to 1,048,576, " LIST_FORM " (default 16..16384:x2)"},
        {"count", OPTION_RANGE, &given->count, "N", "number of sets of each size (default 4096)",
         .aliases = "sets"},
        seed_option(&given->seed, "seed of the sets (default 1)"),
        threads_option(&given->threads),
        json_option(&given->json, JSON_SUMMARY),
        csv_option(&given->csv, CSV_SUMMARY),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "HEADS",
        .about =
            "Measures trained heads on larger sets than they were trained on, every policy on\n"
            "the same sets. HEADS is a checkpoint, or a folder of 'whet retrieval train'.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples =
            "whet retrieval eval run --policy softmax --policy adaptive --sizes 512..2048:x2\n",
        .operands_limit = 1,
        .operands_least = 1,
        .operand_values = VALUE_FILE,
    };
    return parse_heads_options(&syntax, argc, argv, &given->path);
}

static bool print_measure(const retrieval_evaluation *result, size_t measure, double factor,
                          int digits) {
    lab_table table = lab_table_start(result->sizes + 1);
    lab_table_add(&table, "policy");
    char number[NUMBER_SIZE];
    for (size_t s = 0; s < result->sizes; s++)
        lab_table_add(&table, "%s", grouped(result->size[s], number));
    for (size_t p = 0; p < result->policies; p++) {
        lab_table_add(&table, "%s", result->name[p]);
        for (size_t s = 0; s < result->sizes; s++) {
            double mean = result->summary[s * result->policies + p].measure[measure].mean;
            lab_table_add(&table, "%.*f", digits, factor * mean);
        }
    }
    return lab_table_finish(&table, stdout);
}

static bool print_pairs(const retrieval_evaluation *result) {
    lab_table table = lab_table_start(6);
    static const char *const titles[] = {
        "n", "gain, points", "95 % interval", "only adaptive", "only softmax", "p"};
    for (size_t i = 0; i < 6; i++)
        lab_table_add(&table, "%s", titles[i]);
    char number[NUMBER_SIZE];
    for (size_t s = 0; s < result->sizes; s++) {
        const lab_interval *gain = &result->gain[s];
        lab_table_add(&table, "%s", grouped(result->size[s], number));
        lab_table_add(&table, "%+.2f", 100 * gain->mean);
        lab_table_add(&table, "%+.2f to %+.2f", 100 * gain->low, 100 * gain->high);
        lab_table_add(&table, "%llu", (unsigned long long)result->paired[s].only_adaptive);
        lab_table_add(&table, "%llu", (unsigned long long)result->paired[s].only_softmax);
        lab_table_add(&table, "%.2g", result->paired[s].p);
    }
    return lab_table_finish(&table, stdout);
}

static int show(const arguments *given, const retrieval_evaluation *result) {
    printf("accuracy, %%, %zu head%s, %zu set%s of each size\n", result->heads,
           result->heads == 1 ? "" : "s", result->sets, result->sets == 1 ? "" : "s");
    bool is_printed = print_measure(result, RETRIEVAL_ACCURACY, 100, 1);
    printf("\ncross-entropy, nats\n");
    is_printed = is_printed && print_measure(result, RETRIEVAL_LOSS, 1, 2);
    printf("\nweight on the item to be found, %% of all weight\n");
    is_printed = is_printed && print_measure(result, RETRIEVAL_TOP_WEIGHT, 100, 1);
    if (result->has_pair) {
        printf("\nadaptive against softmax on the same sets\n");
        is_printed = is_printed && print_pairs(result);
        if (result->heads > 1)
            printf("The interval is for other heads trained in the same way, on other sets; p, by\n"
                   "McNemar's exact test, is for these heads on other sets.\n");
        else
            printf("Both are for this head on other sets; p is by McNemar's exact test.\n");
    }
    if (!is_printed)
        return complain_of_memory();
    int status = STATUS_OK;
    if (given->json)
        status = keep_json(given->json, retrieval_evaluation_json(result));
    if (given->csv && status == STATUS_OK)
        status = keep_table(given->csv, retrieval_evaluation_csv, result);
    return status;
}

static int run(const arguments *given, const policy_list *policies, const number_list *list) {
    laboratory lab;
    const char *const files[] = {given->json, given->csv};
    int status = reserve_output(files, 2);
    if (status != STATUS_OK)
        return status;
    if (!open_laboratory(&lab, given->threads, given->path))
        return report_lab_error(&lab.error);
    size_t sizes[LIST_MAX];
    copy_sizes(list, sizes);
    retrieval_eval_request request = {.heads = &lab.heads,
                                      .sizes = sizes,
                                      .size_count = list->count,
                                      .sets = (size_t)given->count.value,
                                      .seed = given->seed,
                                      .policies = policies->policies,
                                      .names = policies->names,
                                      .policy_count = policies->count,
                                      .executor = &lab.executor,
                                      .quiet = preferred.quiet};
    retrieval_evaluation result;
    lab_catch_interrupts();
    if (retrieval_evaluate(&lab.engine, &request, &result, &lab.error)) {
        status = show(given, &result);
        retrieval_evaluation_free(&result);
    } else {
        status = report_lab_error(&lab.error);
    }
    close_laboratory(&lab);
    return status;
}

static int check_and_run(const arguments *given) {
    number_list sizes;
    if (!parse_number_list("sizes", given->sizes, 1, RETRIEVAL_EVAL_SIZE_MAX, &sizes))
        return STATUS_MISUSE;
    bool has_names = given->policies.count > 0;
    policy_list policies;
    int status = make_policy_list(has_names ? given->policies.items : default_policies,
                                  has_names ? given->policies.count
                                            : sizeof default_policies / sizeof default_policies[0],
                                  &policies);
    if (status != STATUS_OK)
        return status;
    status = run(given, &policies, &sizes);
    free_policy_list(&policies);
    return status;
}

int retrieval_eval_command(int argc, char **argv) {
    arguments given = {.sizes = "16..16384:x2", .count = {4096, 1, 10000000}, .seed = SEED_DEFAULT};
    options_result parsed = parse(argc, argv, &given);
    int status = options_status(parsed);
    if (parsed == OPTIONS_GIVEN)
        status = check_and_run(&given);
    free(given.policies.items);
    return status;
}
