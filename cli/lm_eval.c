/* `whet lm eval`: how right a model is by algorithm and length, policy by policy. */
#include "lm.h"

#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "policy_list.h"
#include "preferences.h"
#include "registry_words.h"
#include "laboratory.h"
#include "results.h"

#include "base/grouped.h"
#include "base/signals.h"
#include "base/statistics.h"
#include "base/table.h"
#include "lm/evaluate.h"
#include "lm/open.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "lm eval";

typedef struct arguments {
    text_list policies, algorithms;
    const char *path, *lengths, *json, *csv, *heads_csv;
    uint64_t threads;
    option_range count, seed;
    bool hints;
} arguments;

static options_result parse(int argc, char **argv, arguments *given, int *operands) {
    const option_spec options[] = {
        {"policy", OPTION_LIST, &given->policies, "NAME",
         "policy to answer under (see 'whet policies'), or 'trained' (the default) for the one of "
         "its training; may be repeated",
         .values = VALUE_WORD, .words = policy_words()},
        {"algo", OPTION_LIST, &given->algorithms, "NAME",
         "algorithm to ask for, NAME:hints with its steps, or several with commas (default: those "
         "it was trained on); may be repeated",
         .aliases = "algorithm", .values = VALUE_WORD, .words = algorithm_words()},
        {"hints", OPTION_FLAG, &given->hints, NULL, "ask for the steps of every algorithm"},
        {"lengths", OPTION_TEXT, &given->lengths, "LIST",
         "lengths of the samples, " LIST_FORM " (default 4..16,24,32)"},
        {"count", OPTION_RANGE, &given->count, "N",
         "number of samples of each algorithm and length (default 128), the same under every "
         "policy",
         .aliases = "samples"},
        seed_range_option(&given->seed,
                          "seed of the samples (default 1); training has seeds of its own"),
        threads_option(&given->threads),
        OPTIONS_ABOUT("output"),
        json_option(&given->json, JSON_SUMMARY ", with every head's entropy"),
        csv_option(&given->csv, "file for a CSV line per algorithm, length and policy"),
        {"heads-csv", OPTION_TEXT, &given->heads_csv, "FILE",
         "file for a CSV line per head with its entropies in nats", .values = VALUE_FILE},
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "MODEL",
        .about =
            "Measures how often a model trained on CLRS-Text answers right, always taking the\n"
            "likeliest token: exact, the whole answer; final, what follows the last \" | \".\n"
            "Lengths it was trained on are marked; below each share is its 95 % interval.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "MODEL is a folder of 'whet lm train', or the file of a model.\n",
        .examples = "whet lm eval run --policy trained --policy adaptive --lengths 4..32\n",
        .operands_limit = 1,
        .operands_least = 1,
        .operand_values = VALUE_FILE,
    };
    options_result result = parse_options(&syntax, argc, argv, operands);
    given->path = result == OPTIONS_GIVEN && *operands ? argv[1] : NULL;
    return result;
}

/* ---- tables ---- */

static void add_task_name(lab_table *table, const lm_task *task) {
    lab_table_add(table, "%s%s", task->algorithm->name, task->hints ? ":hints" : "");
}

static void add_header(lab_table *table, const lm_eval_request *r) {
    lab_table_add(table, "algorithm");
    lab_table_add(table, "policy");
    for (size_t l = 0; l < r->length_count; l++)
        lab_table_add(table, "%llu%s", (unsigned long long)r->lengths[l],
                      lm_model_knows_length(r->model, r->lengths[l]) ? "*" : "");
}

typedef lab_interval (*measure)(const lm_evaluation *result, const lm_eval_cell *cell);

static lab_interval per_cent(uint64_t hits, uint64_t samples) {
    lab_interval share = lab_share_interval(hits, samples);
    return (lab_interval){100 * share.mean, 100 * share.low, 100 * share.high, 100 * share.error};
}

static lab_interval exact_of(const lm_evaluation *result, const lm_eval_cell *cell) {
    (void)result;
    return per_cent(cell->sum.exact, cell->sum.samples);
}

static lab_interval final_of(const lm_evaluation *result, const lm_eval_cell *cell) {
    (void)result;
    return per_cent(cell->sum.final, cell->sum.samples);
}

/* Without an interval. */
static lab_interval entropy_of(const lm_evaluation *result, const lm_eval_cell *cell) {
    const lm_config *c = &result->request->model->config;
    double sum = 0, rows = 0;
    for (size_t i = 0; i < (size_t)c->layers * c->heads; i++) {
        sum += cell->entropies[i].after;
        rows += (double)cell->entropies[i].rows;
    }
    return (lab_interval){sum / rows, (double)NAN, (double)NAN, (double)NAN};
}

/* What was measured at one length; not a number where nothing was asked. */
static lab_interval value_at(const lm_evaluation *result, size_t task, size_t length, size_t policy,
                             measure of) {
    const lm_eval_cell *cell = lm_eval_cell_at(result, task, length, policy);
    if (cell->sum.samples)
        return of(result, cell);
    return (lab_interval){(double)NAN, (double)NAN, (double)NAN, (double)NAN};
}

static void add_values(lab_table *table, const lm_evaluation *result, size_t task, size_t policy,
                       measure of) {
    add_task_name(table, &result->request->tasks[task]);
    lab_table_add(table, "%s", result->request->policies[policy].name);
    for (size_t l = 0; l < result->request->length_count; l++) {
        lab_interval value = value_at(result, task, l, policy, of);
        if (isfinite(value.mean))
            lab_table_add(table, "%.*f", of == entropy_of ? 3 : 1, value.mean);
        else
            lab_table_add(table, "-");
    }
}

static void add_intervals(lab_table *table, const lm_evaluation *result, size_t task, size_t policy,
                          measure of) {
    lab_table_add(table, "%s", "");
    lab_table_add(table, "95 %%");
    for (size_t l = 0; l < result->request->length_count; l++) {
        lab_interval value = value_at(result, task, l, policy, of);
        if (isfinite(value.mean))
            lab_table_add(table, "%.0f-%.0f", value.low, value.high);
        else
            lab_table_add(table, "%s", "");
    }
}

static bool print_measure(const lm_evaluation *result, measure of, bool only_hints) {
    const lm_eval_request *r = result->request;
    lab_table table = lab_table_start(r->length_count + 2);
    add_header(&table, r);
    for (size_t i = 0; i < r->task_count * r->policy_count; i++) {
        size_t task = i / r->policy_count, policy = i % r->policy_count;
        if (only_hints && !r->tasks[task].hints)
            continue;
        add_values(&table, result, task, policy, of);
        if (of != entropy_of)
            add_intervals(&table, result, task, policy, of);
    }
    return lab_table_finish(&table, stdout);
}

static bool print_tables(const lm_evaluation *result) {
    const lm_eval_request *r = result->request;
    bool has_hints = false;
    for (size_t t = 0; t < r->task_count; t++)
        has_hints = has_hints || r->tasks[t].hints;
    printf("exact answers, %%, of %llu samples, with 95 %% intervals (* trained on this length)\n",
           (unsigned long long)r->samples);
    bool good = print_measure(result, exact_of, false);
    if (has_hints) {
        printf("\nfinal results, %%\n");
        good = good && print_measure(result, final_of, true);
    }
    printf("\nmean entropy of all heads while answering, nats\n");
    return good && print_measure(result, entropy_of, false);
}

static int show(const arguments *given, const lm_evaluation *result) {
    if (!print_tables(result))
        return complain_of_memory();
    int status = STATUS_OK;
    if (given->json)
        status = keep_json(given->json, lm_evaluation_json(result));
    if (given->csv && status == STATUS_OK)
        status = keep_table(given->csv, lm_evaluation_csv, result);
    if (given->heads_csv && status == STATUS_OK)
        status = keep_table(given->heads_csv, lm_evaluation_heads_csv, result);
    return status;
}

/* ---- what is asked ---- */

/* The algorithms given, or those of the model's training. */
static bool choose_tasks(const arguments *given, const lm_model *model, lm_training *tasks,
                         lab_error *error) {
    *tasks = (lm_training){.task_count = 0};
    for (size_t i = 0; i < given->algorithms.count; i++)
        if (!lm_training_add_tasks(tasks, given->algorithms.items[i], error))
            return false;
    const json_t *trained =
        json_object_get(json_object_get(model->description, "training"), "algorithms");
    for (size_t i = 0; given->algorithms.count == 0 && i < json_array_size(trained); i++) {
        const char *task = json_string_value(json_array_get(trained, i));
        if (task && !lm_training_add_task(tasks, task, error))
            return false;
    }
    for (size_t i = 0; given->hints && i < tasks->task_count; i++)
        tasks->tasks[i].hints = true;
    return tasks->task_count > 0 ||
           lab_fail(error, LAB_INPUT,
                    "%s: does not record what it was trained on; name algorithms with --algo",
                    given->path);
}

static int evaluate(const arguments *given, const lm_opened *opened, const number_list *lengths,
                    const lm_eval_policy *policies, size_t policy_count) {
    laboratory lab;
    lm_training tasks;
    lm_evaluation result;
    lab_error error = {.kind = LAB_NO_ERROR};
    if (!opened->is_clrs)
        lab_fail(&error, LAB_INPUT, "%s: not a CLRS-Text model (different vocabulary)",
                 given->path);
    if (!opened->is_clrs || !choose_tasks(given, &opened->model, &tasks, &error))
        return report_lab_error(&error);
    if (!open_laboratory(&lab, given->threads, NULL))
        return report_lab_error(&lab.error);
    lm_eval_request request = {.model = &opened->model,
                               .engine = &lab.engine,
                               .executor = &lab.executor,
                               .tasks = tasks.tasks,
                               .task_count = tasks.task_count,
                               .lengths = lengths->items,
                               .length_count = lengths->count,
                               .samples = given->count.value,
                               .seed = given->seed.value,
                               .policies = policies,
                               .policy_count = policy_count,
                               .quiet = preferred.quiet};
    lab_catch_interrupts();
    int status = STATUS_OK;
    if (lm_evaluate(&request, &result, &error)) {
        status = show(given, &result);
        lm_evaluation_free(&result);
    } else {
        status = report_lab_error(&error);
    }
    close_laboratory(&lab);
    return status;
}

static int open_and_evaluate(const arguments *given, const number_list *lengths,
                             const lm_eval_policy *policies, size_t policy_count) {
    lm_opened opened;
    lab_error error = {.kind = LAB_NO_ERROR};
    int status;
    if (!lm_open(given->path, NULL, &opened, &error))
        status = report_lab_error(&error);
    else
        status = evaluate(given, &opened, lengths, policies, policy_count);
    lm_opened_free(&opened);
    return status;
}

/* "trained" stands for the model's own. */
static int choose_policies(const arguments *given, lm_eval_policy *list, whet_policy *policies,
                           size_t *count) {
    static const char *const usual[] = {"trained"};
    const char *const *names = given->policies.count ? given->policies.items : usual;
    *count = given->policies.count ? given->policies.count : 1;
    if (*count > LM_EVAL_POLICIES_MAX) {
        complain("--policy: %zu policies given; at most %d can be compared", *count,
                 LM_EVAL_POLICIES_MAX);
        return STATUS_MISUSE;
    }
    for (size_t i = 0; i < *count; i++) {
        char message[POLICY_REASON_SIZE];
        bool is_own = strcmp(names[i], usual[0]) == 0;
        list[i] = (lm_eval_policy){names[i], is_own ? NULL : &policies[i]};
        if (!is_own &&
            whet_policy_parse(names[i], &policies[i], message, sizeof message) != WHET_OK)
            return refuse_policy(names[i], message);
    }
    return STATUS_OK;
}

static int check_and_run(const arguments *given) {
    number_list lengths;
    lm_eval_policy list[LM_EVAL_POLICIES_MAX];
    whet_policy policies[LM_EVAL_POLICIES_MAX];
    size_t policy_count;
    if (!parse_number_list("lengths", given->lengths, 1, LM_LENGTH_MAX, &lengths))
        return STATUS_MISUSE;
    const char *const files[] = {given->json, given->csv, given->heads_csv};
    int status = choose_policies(given, list, policies, &policy_count);
    if (status == STATUS_OK)
        status = reserve_output(files, 3);
    return status == STATUS_OK ? open_and_evaluate(given, &lengths, list, policy_count) : status;
}

int lm_eval_command(int argc, char **argv) {
    arguments given = {.lengths = "4..16,24,32",
                       .count = {.value = 128, .least = 1, .most = LM_EVAL_SAMPLES_MAX},
                       .seed = {.value = SEED_DEFAULT, .most = LM_EVAL_SEED_LIMIT - 1}};
    int operands = 0;
    options_result parsed = parse(argc, argv, &given, &operands);
    int status = options_status(parsed);
    if (parsed == OPTIONS_GIVEN)
        status = check_and_run(&given);
    free(given.policies.items);
    free(given.algorithms.items);
    return status;
}
