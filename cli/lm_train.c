/* `whet lm train`: every choice of the model, its questions and its training is an option. */
#include "lm.h"

#include "commands.h"
#include "lab_options.h"
#include "laboratory.h"
#include "messages.h"

#include "base/signals.h"
#include "lm/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "lm train";

typedef struct arguments {
    lm_config config;
    lm_training training;
    text_list algorithms;
    nn_run_folder folder;
    const char *lengths, *policy, *learn, *gate, *positions, *loss, *weigh;
    uint64_t layers, width, heads, key_heads, head_dim, hidden, context, rope_dims;
    uint64_t batch, accumulate, threads;
    bool hints, untied, quiet;
} arguments;

enum { UNSET = 0 }; /* of sizes that follow from others */

static options_result parse(int argc, char **argv, arguments *given) {
    lm_config *config = &given->config;
    lm_training *training = &given->training;
    const option_spec options[] = {
        {"out", OPTION_TEXT, &given->folder.path, "FOLDER",
         "where the checkpoint and the log go (default whet-lm)"},
        {"algorithm", OPTION_LIST, &given->algorithms, "NAME",
         "one to learn, as in 'whet clrs list', or several with commas; NAME:hints is\n"
         "learnt with its steps; may be repeated (default minimum)"},
        {"hints", OPTION_FLAG, &given->hints, NULL, "all of them with their steps"},
        {"lengths", OPTION_TEXT, &given->lengths, "A..B",
         "of the samples, all equally often (default 4..8)"},
        {"curriculum", OPTION_NUMBER, &training->curriculum, "S",
         "begin with the shortest and let the longest grow to B over this share of all steps\n"
         "(default 0)"},
        {"seed", OPTION_UNSIGNED, &training->seed, "N", "of weights and samples (default 1)"},
        {"steps", OPTION_UNSIGNED, &training->steps, "N", "training steps (default 10000)"},
        {"batch", OPTION_UNSIGNED, &given->batch, "N", "sequences at once (default 32)"},
        {"accumulate", OPTION_UNSIGNED, &given->accumulate, "N", "batches to a step (default 1)"},
        {"loss", OPTION_TEXT, &given->loss, "KIND", "on the answer (the default) or on all tokens"},
        {"weigh", OPTION_TEXT, &given->weigh, "KIND",
         "tokens alike (the default), or sequences, whose tokens then share a weight of 1"},
        {"rate", OPTION_NUMBER, &training->rate, "R", "learning rate of AdamW (default 0.001)"},
        {"rate-end", OPTION_NUMBER, &training->rate_end, "R",
         "where it has fallen to at the end, along a half cosine (default 0.00001)"},
        {"warm-up", OPTION_UNSIGNED, &training->warm_up, "N",
         "steps in which it rises at first (default 100)"},
        {"beta1", OPTION_NUMBER, &training->beta1, "B", "of AdamW (default 0.9)"},
        {"beta2", OPTION_NUMBER, &training->beta2, "B", "of AdamW (default 0.99)"},
        {"decay", OPTION_NUMBER, &training->decay, "D", "weight decay, of matrices (default 0.1)"},
        {"clip", OPTION_NUMBER, &training->clip, "C",
         "make gradients no longer than this (default 1; 0: never)"},
        {"layers", OPTION_UNSIGNED, &given->layers, "N", "of the model (default 4)"},
        {"width", OPTION_UNSIGNED, &given->width, "N", "of a token between layers (default 128)"},
        {"heads", OPTION_UNSIGNED, &given->heads, "N", "query heads (default 4)"},
        {"key-heads", OPTION_UNSIGNED, &given->key_heads, "N",
         "heads of keys and values (default: as many)"},
        {"head-dim", OPTION_UNSIGNED, &given->head_dim, "N", "of a head (default: width / heads)"},
        {"hidden", OPTION_UNSIGNED, &given->hidden, "N", "of the MLP (default: 3 widths)"},
        {"context", OPTION_UNSIGNED, &given->context, "N",
         "the longest sequence in tokens; longer samples are left out (default 4096)"},
        {"gate", OPTION_TEXT, &given->gate, "KIND", "of the MLP: geglu (the default) or swiglu"},
        {"positions", OPTION_TEXT, &given->positions, "KIND", "rope (the default) or none"},
        {"rope-base", OPTION_NUMBER, &config->rope_base, "B", "of RoPE (default 10000)"},
        {"rope-dims", OPTION_UNSIGNED, &given->rope_dims, "N",
         "elements of a head that are rotated (default: all)"},
        {"untied", OPTION_FLAG, &given->untied, NULL,
         "an output matrix of its own instead of the embedding"},
        {"policy", OPTION_TEXT, &given->policy, "NAME",
         "in every head; the gradient passes through beta (default softmax)"},
        {"learn-policy", OPTION_TEXT, &given->learn, "PER",
         "learn the policy's numbers, a set for each layer or each head"},
        {"resume", OPTION_FLAG, &given->folder.resume, NULL,
         "go on with the run in the folder, if there is one; what is not given again is as it was"},
        {"checkpoint-every", OPTION_UNSIGNED, &given->folder.checkpoint_interval, "N",
         "steps from one to the next (default 500; 0: only at the end)"},
        {"log-every", OPTION_UNSIGNED, &given->folder.log_interval, "N",
         "steps from one line of the log to the next (default 100; 0: no log)"},
        threads_option(&given->threads),
        quiet_option(&given->quiet),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "",
        .about = "Trains a decoder-only Transformer on CLRS-Text, whose samples are made on the\n"
                 "spot (seeds of 2^31 and more, which leaves the others for evaluation). Ctrl-C\n"
                 "stops a run such that --resume goes on with it.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = BLAS_ENVIRONMENT,
    };
    int operands;
    return parse_options(&syntax, argc, argv, &operands);
}

static int choose_names(arguments *given) {
    lm_config *config = &given->config;
    lm_training *training = &given->training;
    if (given->gate && !lm_gate_parse(given->gate, &config->gate))
        return refuse_value(name, "gate", given->gate, "one of geglu and swiglu");
    if (given->positions && !lm_positions_parse(given->positions, &config->positions))
        return refuse_value(name, "positions", given->positions, "one of rope and none");
    if (given->learn && !lm_learn_parse(given->learn, &config->learn))
        return refuse_value(name, "learn-policy", given->learn, "one of layer, head and nothing");
    if (given->loss && !lm_loss_parse(given->loss, &training->loss))
        return refuse_value(name, "loss", given->loss, "one of answer and all");
    if (given->weigh && !lm_weigh_parse(given->weigh, &training->weigh))
        return refuse_value(name, "weigh", given->weigh, "one of tokens and sequences");
    if (given->policy && strlen(given->policy) >= sizeof config->policy)
        return refuse_value(name, "policy", given->policy, "short enough");
    if (given->policy)
        snprintf(config->policy, sizeof config->policy, "%s", given->policy);
    return STATUS_OK;
}

/* A number at the beginning of a text, at most the largest that has nine digits; what follows it,
 * or NULL if there is none. */
static const char *parse_length(const char *text, uint64_t *number) {
    const char *at = text;
    for (*number = 0; *at >= '0' && *at <= '9' && at - text < 9; at++)
        *number = 10 * *number + (uint64_t)(*at - '0');
    return at > text ? at : NULL;
}

static int choose_lengths(arguments *given) {
    if (!given->lengths)
        return STATUS_OK;
    uint64_t first, last;
    const char *rest = parse_length(given->lengths, &first);
    last = first;
    if (rest && strncmp(rest, "..", 2) == 0)
        rest = parse_length(rest + 2, &last);
    if (!rest || *rest != '\0' || first > last)
        return refuse_value(name, "lengths", given->lengths, "of the form A..B with A up to B");
    given->training.length_min = clamp_small(first);
    given->training.length_max = clamp_small(last);
    return STATUS_OK;
}

static int choose_tasks(arguments *given) {
    lab_error error = {.kind = LAB_NO_ERROR};
    bool is_good = true;
    if (given->algorithms.count > 0)
        given->training.task_count = 0; /* instead of those of the run that is gone on with */
    else if (given->training.task_count == 0)
        is_good = lm_training_add_tasks(&given->training, "minimum", &error);
    for (size_t i = 0; is_good && i < given->algorithms.count; i++)
        is_good = lm_training_add_tasks(&given->training, given->algorithms.items[i], &error);
    for (size_t i = 0; given->hints && i < given->training.task_count; i++)
        given->training.tasks[i].hints = true;
    return is_good ? STATUS_OK : report_lab_error(name, &error);
}

/* Sizes that follow from others must come out even: a model that nobody asked for, with heads that
 * are only turned in part, could not be exported either. */
static int check_heads(const arguments *given) {
    const lm_config *config = &given->config;
    if (given->head_dim == UNSET && config->heads > 0 && config->width % config->heads != 0) {
        complain("%s: --heads: %u does not divide --width %u; --head-dim chooses another size",
                 name, config->heads, config->width);
        return STATUS_MISUSE;
    }
    if (given->rope_dims == UNSET && config->positions == LM_ROPE && config->head_dim % 2 != 0) {
        complain("%s: --head-dim: %u is odd, and RoPE turns elements in pairs: choose an even one, "
                 "--rope-dims or --positions none",
                 name, config->head_dim);
        return STATUS_MISUSE;
    }
    return STATUS_OK;
}

static int choose_sizes(arguments *given) {
    lm_config *config = &given->config;
    config->layers = clamp_small(given->layers);
    config->width = clamp_small(given->width);
    config->heads = clamp_small(given->heads);
    config->key_heads = given->key_heads == UNSET ? config->heads : clamp_small(given->key_heads);
    config->head_dim = clamp_small(given->head_dim);
    if (given->head_dim == UNSET && config->heads > 0)
        config->head_dim = config->width / config->heads;
    config->hidden = given->hidden == UNSET ? clamp_small(3 * (uint64_t)config->width)
                                            : clamp_small(given->hidden);
    config->context = clamp_small(given->context);
    config->rope_dims =
        given->rope_dims == UNSET ? config->head_dim / 2 * 2 : clamp_small(given->rope_dims);
    config->tied = !given->untied;
    given->training.batch = clamp_small(given->batch);
    given->training.accumulate = clamp_small(given->accumulate);
    return check_heads(given);
}

static void print_summary(const arguments *given, const lm_summary *summary) {
    printf("%zu parameters, %llu steps: %s\n", summary->parameters,
           (unsigned long long)summary->steps, given->folder.path);
    for (size_t i = 0; i < given->training.task_count; i++) {
        lm_tally tally = summary->tasks[i];
        if (tally.sequences > 0)
            printf("  %-30s %5.1f %% exact of the last %llu\n",
                   given->training.tasks[i].algorithm->name,
                   100 * (double)tally.exact / (double)tally.sequences,
                   (unsigned long long)tally.sequences);
    }
}

static int run(const arguments *given) {
    lab_error wrong = {.kind = LAB_NO_ERROR};
    laboratory lab;
    lm_summary summary;
    int status = STATUS_OK;
    if (!lm_config_check(&given->config, &wrong) || !lm_training_check(&given->training, &wrong))
        return report_lab_error(name, &wrong);
    if (!open_laboratory(&lab, given->threads, NULL))
        return report_lab_error(name, &lab.error);
    lm_run request = {.config = given->config,
                      .training = given->training,
                      .folder = given->folder,
                      .quiet = given->quiet,
                      .executor = &lab.executor};
    lab_catch_interrupts();
    if (lm_train(&lab.engine, &request, &summary, &lab.error))
        print_summary(given, &summary);
    else
        status = report_lab_error(name, &lab.error);
    close_laboratory(&lab);
    return status;
}

static int choose_and_run(arguments *given) {
    int status = choose_names(given);
    if (status == STATUS_OK)
        status = choose_lengths(given);
    if (status == STATUS_OK)
        status = choose_tasks(given);
    if (status == STATUS_OK)
        status = choose_sizes(given);
    return status == STATUS_OK ? run(given) : status;
}

static arguments defaults(void) {
    return (arguments){
        .config = lm_config_default(),
        .training = lm_training_default(),
        .folder = {.path = "whet-lm", .checkpoint_interval = 500, .log_interval = 100},
        .layers = 4,
        .width = 128,
        .heads = 4,
        .context = 4096,
        .batch = 32,
        .accumulate = 1};
}

/* Defaults that are the choices of the run in a folder, if there is one. */
static bool recall(const char *folder, arguments *chosen, lab_error *error) {
    lm_run run = {.config = chosen->config, .training = chosen->training, .folder = chosen->folder};
    run.folder.path = folder;
    if (!lm_run_recall(&run, error))
        return false;
    chosen->training = run.training;
    chosen->folder = run.folder;
    if (run.training.task_count == 0)
        return true; /* no run */
    chosen->config = run.config;
    chosen->layers = run.config.layers;
    chosen->width = run.config.width;
    chosen->heads = run.config.heads;
    chosen->key_heads = run.config.key_heads;
    chosen->head_dim = run.config.head_dim;
    chosen->hidden = run.config.hidden;
    chosen->context = run.config.context;
    chosen->rope_dims = run.config.rope_dims;
    chosen->untied = !run.config.tied;
    chosen->batch = run.training.batch;
    chosen->accumulate = run.training.accumulate;
    return true;
}

int lm_train_command(int argc, char **argv) {
    lab_error error = {.kind = LAB_NO_ERROR};
    arguments given = defaults();
    options_result parsed = parse(argc, argv, &given);
    int status = options_status(parsed);
    if (parsed == OPTIONS_GIVEN && given.folder.resume) {
        /* once more, over what the run has */
        arguments recalled = defaults();
        bool is_good = recall(given.folder.path, &recalled, &error);
        free(given.algorithms.items);
        given = recalled;
        parsed = is_good ? parse(argc, argv, &given) : OPTIONS_MISUSED;
        status = is_good ? options_status(parsed) : report_lab_error(name, &error);
    }
    if (parsed == OPTIONS_GIVEN)
        status = choose_and_run(&given);
    free(given.algorithms.items);
    return status;
}
