/* `whet retrieval train`: every choice of the task, the model and its training is an option. */
#include "retrieval.h"

#include "confirm.h"
#include "messages.h"
#include "preferences.h"
#include "ranks.h"
#include "registry_words.h"

#include "base/choices.h"
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
    bool key_is_blind, is_confirmed;
    const char *mpi;
} arguments;

static options_result parse(int argc, char **argv, arguments *given) {
    retrieval_config *config = &given->config;
    const option_spec options[] = {
        OPTIONS_ABOUT("task"),
        {"seeds", OPTION_TEXT, &given->seeds, "LIST",
         "seeds, one head for each, such as 1..10 (default 1)", .aliases = "seed"},
        {"sizes", OPTION_TEXT, &given->sizes, "A-B",
         "range of the items in a set, drawn for each step, or one number (default 5-16)"},
        {"classes", OPTION_UNSIGNED, &given->classes, "N", "number of classes (default 10)",
         .least = 2, .most = RETRIEVAL_CLASSES_MAX},
        {"nearest", OPTION_NUMBER, &config->nearest, "S",
         "smallest part of the range of priorities, at its top, that a set uses; the part is "
         "log-uniform from S to 1 (default 1: always the whole range)"},
        OPTIONS_ABOUT("model"),
        {"depth", OPTION_UNSIGNED, &given->depth, "N",
         "number of hidden layers of each MLP (default 1)", .least = 1,
         .most = RETRIEVAL_DEPTH_MAX},
        {"width", OPTION_UNSIGNED, &given->width, "N", "width of the hidden layers (default 128)",
         .least = 1, .most = RETRIEVAL_WIDTH_MAX},
        {"rounding", OPTION_CHOICE, &given->precision, "TYPE",
         "what is rounded to bfloat16: {} (default bf16-products: operands of matrix products, as "
         "on TPUs; bf16: only priority and query; f32: nothing)",
         .aliases = "precision", .values = VALUE_WORD, .words = retrieval_precision_names},
        {"policy", OPTION_TEXT, &given->policy, "NAME",
         "policy in training, with gradients through beta (default softmax)", .values = VALUE_WORD,
         .words = policy_words()},
        {"scale", OPTION_NUMBER, &config->scale, "S", "factor on all logits (default 1)"},
        {"learn-scale", OPTION_FLAG, &config->learn_scale, NULL, "learn the factor of --scale"},
        {"blind-key", OPTION_FLAG, &given->key_is_blind, NULL,
         "hide the class of an item from its key"},
        OPTIONS_ABOUT("training"),
        {"steps", OPTION_UNSIGNED, &given->steps, "N", "number of steps (default 100000)",
         .most = LAB_STEPS_MAX},
        {"batch", OPTION_UNSIGNED, &given->batch, "N", "sets in a step (default 128)", .least = 1,
         .most = RETRIEVAL_BATCH_MAX},
        {"rate", OPTION_NUMBER, &config->rate, "R", "learning rate of Adam (default 0.001)"},
        {"rate-end", OPTION_NUMBER, &given->rate_end, "R",
         "final learning rate of a half-cosine schedule (default: constant)"},
        {"l2", OPTION_CHOICE, &given->l2, "KIND",
         "L2 regularisation: {} (default decoupled: w -= rate lambda w; loss adds lambda sum w^2)",
         .values = VALUE_WORD, .words = retrieval_l2_names},
        {"lambda", OPTION_NUMBER, &config->lambda, "L",
         "strength of the regularisation (default 0.001)"},
        {"leak", OPTION_NUMBER, &config->leak, "W",
         "weight of a penalty on logits that depend on the class (default 0; not with "
         "bf16-products)"},
        OPTIONS_ABOUT("run"),
        {"out-dir", OPTION_TEXT, &given->folder.path, "DIR",
         "folder for checkpoints and logs (default whet-retrieval)", .letter = 'o',
         .aliases = "out", .values = VALUE_FOLDER},
        {"resume", OPTION_FLAG, &given->folder.resume, NULL,
         "continue the run in the folder, if there is one; options not given keep its values, and "
         "--steps may be larger"},
        {"checkpoint-every", OPTION_UNSIGNED, &given->folder.checkpoint_interval, "N",
         "steps between checkpoints (default 5000; 0: only at the end)", .most = LAB_STEPS_MAX},
        {"log-every", OPTION_UNSIGNED, &given->folder.log_interval, "N",
         "steps between lines of the log (default 500; 0: no log); the first and last step have "
         "lines in any case",
         .most = LAB_STEPS_MAX},
        yes_option(&given->is_confirmed),
        threads_option(&given->threads),
        mpi_option(&given->mpi),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "",
        .about = "Trains heads on max retrieval, by default as the paper most likely did. Ctrl-C\n"
                 "stops a run so that --resume can continue it.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = BLAS_ENVIRONMENT,
        .examples = "whet retrieval train --steps 20000 --out-dir run\n"
                    "whet retrieval train --seeds 1..10 --out-dir ten\n"
                    "mpirun -n 5 whet retrieval train --seeds 1..10 --out-dir ten --resume\n",
    };
    int operands;
    return parse_options(&syntax, argc, argv, &operands);
}

/* The options have refused names that are not in the lists. */
static int choose_texts(arguments *given) {
    retrieval_config *config = &given->config;
    if (given->l2)
        retrieval_l2_parse(given->l2, &config->l2);
    if (given->precision)
        retrieval_precision_parse(given->precision, &config->precision);
    if (given->policy) {
        int status = store_policy(given->policy, config->policy, sizeof config->policy);
        if (status != STATUS_OK)
            return status;
    }
    number_range range;
    if (given->sizes) {
        if (!parse_draw_range("sizes", given->sizes, 1, RETRIEVAL_SIZE_MAX, &range))
            return STATUS_MISUSE;
        config->size_min = (uint32_t)range.first;
        config->size_max = (uint32_t)range.last;
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
        return report_lab_error(&wrong);
    laboratory lab;
    if (!open_laboratory(&lab, given->threads, NULL))
        return report_lab_error(&lab.error);
    retrieval_run request = {.config = given->config,
                             .seeds = seeds->items,
                             .seed_count = seeds->count,
                             .folder = given->folder,
                             .quiet = preferred.quiet,
                             .executor = &lab.executor};
    lab_ranks ranks;
    if (!join_ranks(given->mpi, &ranks, &request.ranks, &request.quiet, &lab.error)) {
        close_laboratory(&lab);
        return report_lab_error(&lab.error);
    }
    lab_catch_interrupts();
    int status = STATUS_OK;
    if (!given->is_confirmed && !request.ranks)
        status = confirm_seconds(retrieval_train_seconds(&lab.engine, &request), "", false);
    if (status == STATUS_OK && !retrieval_train(&lab.engine, &request, NULL, &lab.error))
        status = report_rank_error(request.ranks, &lab.error);
    else if (status == STATUS_OK && lab_is_first(request.ranks))
        printf("%zu head%s of %zu parameters, %llu step%s each: %s\n", seeds->count,
               seeds->count == 1 ? "" : "s", retrieval_parameters(&given->config),
               (unsigned long long)given->config.steps, given->config.steps == 1 ? "" : "s",
               given->folder.path);
    close_ranks(request.ranks, status);
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
    if (given.seeds && !parse_number_list("seeds", given.seeds, 0, INT64_MAX, &seeds))
        return STATUS_MISUSE;
    if (given.folder.resume) {
        /* once more, over what the run has */
        arguments recalled = defaults();
        if (!recall(given.folder.path, &recalled, &seeds, &error))
            return report_lab_error(&error);
        given = recalled;
        (void)parse(argc, argv, &given);
    }
    if (seeds.count == 0)
        seeds = (number_list){.items = {SEED_DEFAULT}, .count = 1};
    int status = choose_texts(&given);
    if (status != STATUS_OK)
        return status;
    choose_numbers(&given);
    return run(&given, &seeds);
}
