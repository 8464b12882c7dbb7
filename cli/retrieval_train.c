/* `whet retrieval train`: every choice of the task, the model and its training is an option. */
#include "retrieval.h"

#include "messages.h"

#include "base/signals.h"
#include "retrieval/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "retrieval train";

typedef struct arguments {
    retrieval_config config;
    nn_run_folder folder;
    const char *seeds, *sizes, *l2, *precision, *policy;
    uint64_t depth, width, classes, batch, steps, threads;
    double rate_end;
    bool key_is_blind, quiet;
} arguments;

static options_result parse(int argc, char **argv, arguments *given) {
    retrieval_config *config = &given->config;
    const option_spec options[] = {
        {"out", OPTION_TEXT, &given->folder.path, "FOLDER",
         "where checkpoints and logs go (default whet-retrieval)"},
        {"seed", OPTION_TEXT, &given->seeds, "LIST",
         "one head for each of these seeds, such as 1..10 (default 1)"},
        {"steps", OPTION_UNSIGNED, &given->steps, "N", "training steps (default 100000)"},
        {"batch", OPTION_UNSIGNED, &given->batch, "N", "sets in a step (default 128)"},
        {"rate", OPTION_NUMBER, &config->rate, "R", "learning rate of Adam (default 0.001)"},
        {"rate-end", OPTION_NUMBER, &given->rate_end, "R",
         "let the rate fall to this along a half cosine (default: constant)"},
        {"l2", OPTION_TEXT, &given->l2, "KIND",
         "decoupled (the default: w -= rate lambda w), loss (lambda sum w^2), loss-half or none"},
        {"lambda", OPTION_NUMBER, &config->lambda, "L", "its strength (default 0.001)"},
        {"sizes", OPTION_TEXT, &given->sizes, "A..B",
         "items in a set, one number a step (default 5..16)"},
        {"classes", OPTION_UNSIGNED, &given->classes, "N", "classes of items (default 10)"},
        {"depth", OPTION_UNSIGNED, &given->depth, "N", "hidden layers of each MLP (default 1)"},
        {"width", OPTION_UNSIGNED, &given->width, "N", "their width (default 128)"},
        {"precision", OPTION_TEXT, &given->precision, "TYPE",
         "what is rounded: bf16-products (the default) the operands of matrix products, as TPUs "
         "do; "
         "bf16 only priority and query; f32 nothing"},
        {"policy", OPTION_TEXT, &given->policy, "NAME",
         "in training; the gradient passes through beta (default softmax)"},
        {"scale", OPTION_NUMBER, &config->scale, "S", "a factor on all logits (default 1)"},
        {"learn-scale", OPTION_FLAG, &config->learn_scale, NULL, "learn that factor too"},
        {"blind-key", OPTION_FLAG, &given->key_is_blind, NULL,
         "keys do not see the class of their item"},
        {"nearest", OPTION_NUMBER, &config->nearest, "S",
         "draw the priorities of each set from the top s of their range, s log-uniform from this "
         "to 1 (default 1: all of it)"},
        {"leak", OPTION_NUMBER, &config->leak, "W",
         "weight of a penalty on logits that tell classes apart (default 0; not with "
         "bf16-products)"},
        {"resume", OPTION_FLAG, &given->folder.resume, NULL,
         "go on with the run in the folder, if there is one; what is not given again is as it was, "
         "and --steps may be more"},
        {"checkpoint-every", OPTION_UNSIGNED, &given->folder.checkpoint_interval, "N",
         "steps from one to the next (default 5000; 0: only at the end)"},
        {"log-every", OPTION_UNSIGNED, &given->folder.log_interval, "N",
         "a line of the log every so many steps, and for the first and the last (default 500; "
         "0: no log)"},
        threads_option(&given->threads),
        quiet_option(&given->quiet),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "",
        .about =
            "Trains heads on max retrieval, by default as the paper probably did. Ctrl-C stops\n"
            "a run such that --resume goes on with it.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = BLAS_ENVIRONMENT,
    };
    int operands;
    return parse_options(&syntax, argc, argv, &operands);
}

static int choose_texts(arguments *given) {
    retrieval_config *config = &given->config;
    if (given->l2 && !retrieval_l2_parse(given->l2, &config->l2))
        return refuse_value(name, "l2", given->l2, "one of decoupled, loss, loss-half and none");
    if (given->precision && !retrieval_precision_parse(given->precision, &config->precision))
        return refuse_value(name, "precision", given->precision,
                            "one of f32, bf16 and bf16-products");
    if (given->policy) {
        policy_list list;
        int status = make_policy_list(name, &given->policy, 1, &list);
        if (status != STATUS_OK)
            return status;
        free_policy_list(&list);
        if (strlen(given->policy) >= sizeof config->policy)
            return refuse_value(name, "policy", given->policy, "short enough");
        snprintf(config->policy, sizeof config->policy, "%s", given->policy);
    }
    if (given->sizes) {
        number_list sizes;
        if (!parse_number_list(name, "sizes", given->sizes, false, 1, RETRIEVAL_SIZE_MAX, &sizes))
            return STATUS_MISUSE;
        if (strchr(given->sizes, ','))
            return refuse_value(name, "sizes", given->sizes, "of the form A..B");
        config->size_min = (uint32_t)sizes.items[0];
        config->size_max = (uint32_t)sizes.items[sizes.count - 1];
    }
    return STATUS_OK;
}

static void choose_numbers(arguments *given) {
    retrieval_config *config = &given->config;
    config->depth = clamp_small(given->depth);
    config->width = clamp_small(given->width);
    config->classes = clamp_small(given->classes);
    config->batch = clamp_small(given->batch);
    config->steps = given->steps;
    config->key_sees_class = !given->key_is_blind;
    config->rate_end = given->rate_end < 0 ? config->rate : given->rate_end;
}

static int run(const arguments *given, const number_list *seeds) {
    lab_error wrong = {.kind = LAB_NO_ERROR};
    if (!retrieval_config_check(&given->config, &wrong))
        return report_lab_error(name, &wrong);
    laboratory lab;
    if (!open_laboratory(&lab, given->threads, NULL))
        return report_lab_error(name, &lab.error);
    retrieval_run request = {.config = given->config,
                             .seeds = seeds->items,
                             .seed_count = seeds->count,
                             .folder = given->folder,
                             .quiet = given->quiet,
                             .executor = &lab.executor};
    lab_catch_interrupts();
    int status = STATUS_OK;
    if (retrieval_train(&lab.engine, &request, NULL, &lab.error))
        printf("%zu head%s of %zu parameters, %llu steps each: %s\n", seeds->count,
               seeds->count == 1 ? "" : "s", retrieval_parameters(&given->config),
               (unsigned long long)given->config.steps, given->folder.path);
    else
        status = report_lab_error(name, &lab.error);
    close_laboratory(&lab);
    return status;
}

static arguments defaults(void) {
    return (arguments){
        .config = retrieval_config_default(),
        .folder = {.path = "whet-retrieval", .checkpoint_interval = 5000, .log_interval = 500},
        .depth = 1,
        .width = 128,
        .classes = 10,
        .batch = 128,
        .steps = 100000,
        .rate_end = -1};
}

/* Defaults that are the choices of the run in a folder, if there is one; and its seeds, where none
 * are given. */
static bool recall(const char *folder, arguments *chosen, number_list *seeds, lab_error *error) {
    retrieval_run run = {.config = chosen->config,
                         .seeds = seeds->items,
                         .seed_count = seeds->count,
                         .folder = chosen->folder};
    run.folder.path = folder;
    if (!retrieval_run_recall(&run, seeds->items, LIST_MAX, error))
        return false;
    seeds->count = run.seed_count;
    chosen->config = run.config;
    chosen->depth = run.config.depth;
    chosen->width = run.config.width;
    chosen->classes = run.config.classes;
    chosen->batch = run.config.batch;
    chosen->steps = run.config.steps;
    chosen->key_is_blind = !run.config.key_sees_class;
    bool is_constant = run.config.rate_end == run.config.rate;
    chosen->rate_end = is_constant ? chosen->rate_end : run.config.rate_end;
    chosen->folder = run.folder;
    return true;
}

int retrieval_train_command(int argc, char **argv) {
    lab_error error = {.kind = LAB_NO_ERROR};
    arguments given = defaults();
    number_list seeds = {.count = 0};
    options_result parsed = parse(argc, argv, &given);
    if (parsed != OPTIONS_GIVEN)
        return options_status(parsed);
    if (given.seeds && !parse_number_list(name, "seed", given.seeds, false, 0, INT64_MAX, &seeds))
        return STATUS_MISUSE;
    if (given.folder.resume) {
        /* once more, over what the run has */
        arguments recalled = defaults();
        if (!recall(given.folder.path, &recalled, &seeds, &error))
            return report_lab_error(name, &error);
        given = recalled;
        (void)parse(argc, argv, &given);
    }
    if (seeds.count == 0)
        seeds = (number_list){.items = {1}, .count = 1};
    int status = choose_texts(&given);
    if (status != STATUS_OK)
        return status;
    choose_numbers(&given);
    return run(&given, &seeds);
}
