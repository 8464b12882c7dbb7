/* `whet retrieval heads`: the data of Figures 2 and 7, a panel for each size and policy. */
#include "retrieval.h"

#include "registry_words.h"

#include "messages.h"
#include "results.h"
#include "text.h"

#include "base/signals.h"
#include "base/table.h"
#include "retrieval/evaluate.h"
#include "retrieval/figure_data.h"

#include <stdio.h>
#include <stdlib.h>

static const char name[] = "retrieval heads";
static const char *const default_policies[] = {"softmax", "adaptive"};

typedef struct arguments {
    text_list policies;
    const char *sizes, *json, *path;
    uint64_t count, items, seed;
} arguments;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"policy", OPTION_LIST, &given->policies, "NAME",
         "policy to apply instead of softmax and adaptive; may be repeated", .values = VALUE_WORD,
         .words = policy_words()},
        {"sizes", OPTION_TEXT, &given->sizes, "LIST",
         "items in a set, " LIST_FORM " (default 16..16384:x2)"},
        {"count", OPTION_AMOUNT, &given->count, "N", "number of sets of each size (default 32)",
         .aliases = "sets"},
        {"items", OPTION_AMOUNT, &given->items, "N",
         "number of items of each set, those with the largest priorities (default 16)"},
        seed_option(&given->seed, "seed of the sets (default 1)"),
        json_option(&given->json, "all coefficients as JSON instead of a table, or in FILE"),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "HEADS",
        .about = "Prints the coefficients that a trained head gives to the items with the largest\n"
                 "priorities, as in Figures 2 and 7. HEADS is a checkpoint, or a folder of 'whet\n"
                 "retrieval train', of which the first head is taken.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples = "whet retrieval heads run --sizes 16..1024:x4\n",
        .operands_limit = 1,
        .operands_least = 1,
        .operand_values = VALUE_FILE,
    };
    return parse_heads_options(&syntax, argc, argv, &given->path);
}

static double mean_of_largest(const retrieval_panel *panel) {
    double sum = 0;
    for (size_t s = 0; s < panel->sets; s++)
        sum += panel->coefficients[(s + 1) * panel->items - 1];
    return sum / (double)panel->sets;
}

/* A row of the table and an object of the JSON for one policy. */
static json_t *make_policy(laboratory *lab, const arguments *given, const number_list *sizes,
                           const whet_policy *policy, const char *policy_name, lab_table *table) {
    json_t *panels = json_array();
    lab_table_add(table, "%s", policy_name);
    for (size_t i = 0; i < sizes->count; i++) {
        retrieval_panel panel;
        if (lab_interrupted() ||
            !retrieval_panel_make(&lab->engine, &lab->heads.list[0], policy,
                                  (size_t)sizes->items[i], (size_t)given->count,
                                  (size_t)given->items, given->seed, &panel, &lab->error)) {
            lab_fail(&lab->error, LAB_STOPPED, "stopped");
            json_decref(panels);
            return NULL;
        }
        lab_table_add(table, "%.1f", 100 * mean_of_largest(&panel));
        json_array_append_new(panels, retrieval_panel_json(&panel));
        retrieval_panel_free(&panel);
    }
    return json_pack("{s:s, s:o}", "policy", policy_name, "panels", panels);
}

static int make_all(laboratory *lab, const arguments *given, const policy_list *policies,
                    const number_list *sizes) {
    lab_table table = lab_table_start(sizes->count + 1);
    char number[NUMBER_SIZE];
    lab_table_add(&table, "policy");
    for (size_t i = 0; i < sizes->count; i++)
        lab_table_add(&table, "%s", grouped(sizes->items[i], number));
    unsigned mark = lab_json_mark();
    json_t *all = json_array();
    for (size_t i = 0; i < policies->count && lab->error.kind == LAB_NO_ERROR; i++)
        json_array_append_new(all, make_policy(lab, given, sizes, &policies->policies[i],
                                               policies->names[i], &table));
    bool is_good = lab->error.kind == LAB_NO_ERROR;
    if (is_good)
        printf("mean coefficient of the item with the largest priority, %%\n");
    else
        table.failed = true; /* it is not whole, and not to be printed */
    is_good = lab_table_finish(&table, stdout) || lab_fail_memory(&lab->error);
    all = lab_json_whole(all, mark);
    if (is_good && given->json)
        is_good = lab_json_write(given->json, all, &lab->error);
    json_decref(all);
    return is_good ? STATUS_OK : report_lab_error(&lab->error);
}

static int run(const arguments *given, const number_list *sizes) {
    bool has_names = given->policies.count > 0;
    policy_list policies;
    int status = make_policy_list(has_names ? given->policies.items : default_policies,
                                  has_names ? given->policies.count : 2, &policies);
    if (status == STATUS_OK)
        status = reserve_output(&given->json, 1);
    laboratory lab;
    if (status != STATUS_OK) {
        free_policy_list(&policies);
        return status;
    }
    if (open_laboratory(&lab, 1, given->path)) {
        lab_catch_interrupts();
        status = make_all(&lab, given, &policies, sizes);
        close_laboratory(&lab);
    } else {
        status = report_lab_error(&lab.error);
    }
    free_policy_list(&policies);
    return status;
}

int retrieval_heads_command(int argc, char **argv) {
    arguments given = {.sizes = "16..16384:x2", .count = 32, .items = 16, .seed = SEED_DEFAULT};
    options_result parsed = parse(argc, argv, &given);
    int status = options_status(parsed);
    number_list sizes;
    if (parsed == OPTIONS_GIVEN)
        status = parse_number_list("sizes", given.sizes, 1, RETRIEVAL_EVAL_SIZE_MAX, &sizes)
                     ? run(&given, &sizes)
                     : STATUS_MISUSE;
    free(given.policies.items);
    return status;
}
