/* `whet lm train`: every choice of the model, its questions and its training is an option. */
#include "lm.h"

#include "commands.h"
#include "confirm.h"
#include "lab_options.h"
#include "laboratory.h"
#include "messages.h"
#include "policy_list.h"
#include "preferences.h"
#include "ranks.h"
#include "registry_words.h"

#include "base/choices.h"
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
    const char *task, *lengths, *policy, *learn, *learned, *gate, *positions, *loss, *weigh;
    uint64_t layers, width, heads, key_heads, head_dim, hidden, context, rope_dims;
    uint64_t batch, accumulate, threads;
    option_range seed;
    bool hints, untied, is_confirmed;
    const char *mpi;
} arguments;

enum { UNSET = 0 }; /* of sizes that follow from others */

static options_result parse(int argc, char **argv, arguments *given) {
    lm_config *config = &given->config;
    lm_training *training = &given->training;
    const option_spec options[] = {
        OPTIONS_ABOUT("task"),
        {"algo", OPTION_LIST, &given->algorithms, "NAME",
         "algorithm to learn (see 'whet clrs list'; default minimum), NAME:hints with its steps, "
         "or "
         "several with commas; may be repeated",
         .aliases = "algorithm", .values = VALUE_WORD, .words = algorithm_words()},
        {"hints", OPTION_FLAG, &given->hints, NULL, "learn the steps of every algorithm"},
        {"task", OPTION_CHOICE, &given->task, "NAME",
         "synthetic task of the league to learn instead: {}", .values = VALUE_WORD,
         .words = task_words()},
        {"lengths", OPTION_TEXT, &given->lengths, "A-B",
         "range of lengths, all equally likely, or one length (default 4-8, or those of --task)"},
        {"curriculum", OPTION_NUMBER, &training->curriculum, "S",
         "share of all steps over which the longest length grows from A to B (default 0)"},
        seed_range_option(&given->seed, "seed of weights and samples (default 1)"),
        OPTIONS_ABOUT("model"),
        {"num-layers", OPTION_UNSIGNED, &given->layers, "N", "number of layers (default 4)",
         .aliases = "layers", .least = 1, .most = LM_LAYERS_MAX},
        {"width", OPTION_UNSIGNED, &given->width, "N", "width of the residual stream (default 128)",
         .least = 1, .most = LM_WIDTH_MAX},
        {"num-heads", OPTION_UNSIGNED, &given->heads, "N", "number of query heads (default 4)",
         .aliases = "heads", .least = 1, .most = LM_HEADS_MAX},
        {"num-key-heads", OPTION_UNSIGNED, &given->key_heads, "N",
         "number of key and value heads (default: one per query head)", .aliases = "key-heads",
         .least = 1, .most = LM_HEADS_MAX},
        {"head-dim", OPTION_UNSIGNED, &given->head_dim, "N",
         "dimensions of a head (default: width / heads)", .least = 1, .most = LM_HEAD_DIM_MAX},
        {"hidden", OPTION_UNSIGNED, &given->hidden, "N",
         "hidden width of the MLP (default: 3 times the width)", .least = 1, .most = LM_HIDDEN_MAX},
        {"context", OPTION_UNSIGNED, &given->context, "N",
         "longest sequence in tokens; longer samples are skipped (default 4096)", .least = 1,
         .most = LM_CONTEXT_MAX},
        {"gate", OPTION_CHOICE, &given->gate, "KIND", "gate of the MLP: {} (default geglu)",
         .values = VALUE_WORD, .words = lm_gate_names},
        {"positions", OPTION_CHOICE, &given->positions, "KIND",
         "position encoding: {} (default rope)", .values = VALUE_WORD, .words = lm_positions_names},
        {"rope-base", OPTION_NUMBER, &config->rope_base, "B", "base of RoPE (default 10000)"},
        {"rope-dims", OPTION_UNSIGNED, &given->rope_dims, "N",
         "dimensions of a head that RoPE rotates (default: all)", .least = 2,
         .most = LM_HEAD_DIM_MAX},
        {"untied", OPTION_FLAG, &given->untied, NULL,
         "give the output its own matrix instead of the embedding's"},
        {"policy", OPTION_TEXT, &given->policy, "NAME",
         "policy in every head, with gradients through beta (default softmax)",
         .values = VALUE_WORD, .words = policy_words()},
        {"learn-policy", OPTION_CHOICE, &given->learn, "PER",
         "learn the policy's parameters, one set per: {} (default nothing)", .values = VALUE_WORD,
         .words = lm_learn_names},
        {"learn-parameters", OPTION_TEXT, &given->learned, "NAMES",
         "names of the policy parameters to learn, such as s,b,g (default: coefficients of poly, s "
         "and b of ssmax, a and h of hinge); needs --learn-policy"},
        {"sinks", OPTION_FLAG, &config->has_sinks, NULL,
         "learn a sink for each head: a logit without a value"},
        {"query-betas", OPTION_FLAG, &config->has_query_betas, NULL,
         "compute beta from each token, as ASEntmax does; the policy must be a map"},
        OPTIONS_ABOUT("training"),
        {"steps", OPTION_UNSIGNED, &training->steps, "N", "number of steps (default 10000)",
         .most = LAB_STEPS_MAX},
        {"batch", OPTION_UNSIGNED, &given->batch, "N", "sequences in a batch (default 32)",
         .least = 1, .most = LM_BATCH_MAX},
        {"accumulate", OPTION_UNSIGNED, &given->accumulate, "N", "batches in a step (default 1)",
         .least = 1, .most = LM_ACCUMULATE_MAX},
        {"loss", OPTION_CHOICE, &given->loss, "KIND",
         "tokens that count in the loss: {} (default answer)", .values = VALUE_WORD,
         .words = lm_loss_names},
        {"weigh", OPTION_CHOICE, &given->weigh, "KIND",
         "what has equal weight in the loss: {} (default tokens)", .values = VALUE_WORD,
         .words = lm_weigh_names},
        {"rate", OPTION_NUMBER, &training->rate, "R", "learning rate of AdamW (default 0.001)"},
        {"rate-end", OPTION_NUMBER, &training->rate_end, "R",
         "final learning rate of the half-cosine schedule (default 0.00001)"},
        {"warm-up", OPTION_UNSIGNED, &training->warm_up, "N",
         "steps over which the rate rises at first (default 100)", .most = LAB_STEPS_MAX},
        {"beta1", OPTION_NUMBER, &training->beta1, "B", "beta1 of AdamW (default 0.9)"},
        {"beta2", OPTION_NUMBER, &training->beta2, "B", "beta2 of AdamW (default 0.99)"},
        {"decay", OPTION_NUMBER, &training->decay, "D",
         "weight decay of the matrices (default 0.1)"},
        {"clip", OPTION_NUMBER, &training->clip, "C",
         "largest gradient norm (default 1; 0: unlimited)"},
        OPTIONS_ABOUT("run"),
        {"out-dir", OPTION_TEXT, &given->folder.path, "DIR",
         "folder for checkpoint and log (default whet-lm)", .letter = 'o', .aliases = "out",
         .values = VALUE_FOLDER},
        {"resume", OPTION_FLAG, &given->folder.resume, NULL,
         "continue the run in the folder, if there is one; options not given keep its values"},
        {"checkpoint-every", OPTION_UNSIGNED, &given->folder.checkpoint_interval, "N",
         "steps between checkpoints (default 500; 0: only at the end)", .most = LAB_STEPS_MAX},
        {"log-every", OPTION_UNSIGNED, &given->folder.log_interval, "N",
         "steps between lines of the log (default 100; 0: no log)", .most = LAB_STEPS_MAX},
        yes_option(&given->is_confirmed),
        threads_option(&given->threads),
        mpi_option(&given->mpi),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "",
        .about = "Trains a decoder-only Transformer on CLRS-Text, or on a synthetic task of 'whet\n"
                 "league'. Samples are generated during training, from seeds of 2^31 and above;\n"
                 "smaller seeds are left for evaluation. Ctrl-C stops a run so that --resume can\n"
                 "continue it. Under mpirun, ranks train one model together, with the same result\n"
                 "as one alone.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = BLAS_ENVIRONMENT,
        .examples = "whet lm train --algo minimum --steps 2000 --out-dir run\n"
                    "whet lm train --algo insertion_sort:hints --policy adaptive --out-dir sort\n"
                    "whet lm train --task max --positions none --policy adaptive --out-dir max\n"
                    "mpirun -n 4 whet lm train --steps 2000 --out-dir run --resume\n",
    };
    int operands;
    return parse_options(&syntax, argc, argv, &operands);
}

/* The options have refused names that are not in the lists. */
static int choose_names(arguments *given) {
    lm_config *config = &given->config;
    lm_training *training = &given->training;
    if (given->gate)
        lm_gate_parse(given->gate, &config->gate);
    if (given->positions)
        lm_positions_parse(given->positions, &config->positions);
    if (given->learn)
        lm_learn_parse(given->learn, &config->learn);
    if (given->loss)
        lm_loss_parse(given->loss, &training->loss);
    if (given->weigh)
        lm_weigh_parse(given->weigh, &training->weigh);
    if (given->learned && strlen(given->learned) >= sizeof config->learned) {
        complain("--learn-parameters: list too long (%zu characters; at most %zu)",
                 strlen(given->learned), sizeof config->learned - 1);
        return STATUS_MISUSE;
    }
    if (given->learned && config->learn == LM_LEARN_NOTHING) {
        complain("--learn-parameters needs --learn-policy");
        return STATUS_MISUSE;
    }
    if (given->learned)
        snprintf(config->learned, sizeof config->learned, "%s", given->learned);
    return given->policy ? store_policy(given->policy, config->policy, sizeof config->policy)
                         : STATUS_OK;
}

static int choose_lengths(arguments *given) {
    number_range range;
    if (!given->lengths)
        return STATUS_OK;
    if (!parse_draw_range("lengths", given->lengths, 2, LM_LENGTH_MAX, &range))
        return STATUS_MISUSE;
    given->training.length_min = (uint32_t)range.first;
    given->training.length_max = (uint32_t)range.last;
    return STATUS_OK;
}

static int choose_tasks(arguments *given) {
    lab_error error = {.kind = LAB_NO_ERROR};
    bool is_good = true;
    lm_training *training = &given->training;
    if (given->task && given->algorithms.count > 0) {
        return refuse_together("task", "algo");
    }
    if (given->task) {
        training->synthetic = task_find(given->task);
        training->task_count = 0;
        training->length_min = training->synthetic->train_min;
        training->length_max = training->synthetic->train_max;
        given->config.vocabulary = lm_training_vocabulary(training);
    }
    if (given->algorithms.count > 0) { /* instead of those of the run that is resumed */
        training->task_count = 0;
        training->synthetic = NULL;
    } else if (!lm_training_has_task(training))
        is_good = lm_training_add_tasks(&given->training, "minimum", &error);
    for (size_t i = 0; is_good && i < given->algorithms.count; i++)
        is_good = lm_training_add_tasks(&given->training, given->algorithms.items[i], &error);
    for (size_t i = 0; given->hints && i < given->training.task_count; i++)
        given->training.tasks[i].hints = true;
    return is_good ? STATUS_OK : report_lab_error(&error);
}

/* Sizes that follow from others must be whole: a model whose heads RoPE rotates only in part could
 * not be exported either. */
static int check_heads(const arguments *given) {
    const lm_config *config = &given->config;
    if (given->head_dim == UNSET && config->heads > 0 && config->width % config->heads != 0) {
        complain("--num-heads: %u does not divide --width %u; set --head-dim", config->heads,
                 config->width);
        return STATUS_MISUSE;
    }
    if (given->rope_dims == UNSET && config->positions == LM_ROPE && config->head_dim % 2 != 0) {
        complain("--head-dim: %u is odd, but RoPE rotates pairs of dimensions; use an even number, "
                 "--rope-dims or --positions none",
                 config->head_dim);
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
    given->training.seed = given->seed.value;
    given->training.batch = clamp_small(given->batch);
    given->training.accumulate = clamp_small(given->accumulate);
    return check_heads(given);
}

static void print_summary(const arguments *given, const lm_summary *summary) {
    printf("%zu parameters, %llu step%s: %s\n", summary->parameters,
           (unsigned long long)summary->steps, summary->steps == 1 ? "" : "s", given->folder.path);
    if (given->training.synthetic && summary->all.sequences > 0)
        printf("  %-30s %5.1f %% exact of the last %llu\n", given->training.synthetic->name,
               100 * (double)summary->all.exact / (double)summary->all.sequences,
               (unsigned long long)summary->all.sequences);
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
        return report_lab_error(&wrong);
    if (!open_laboratory(&lab, given->threads, NULL))
        return report_lab_error(&lab.error);
    lm_run request = {.config = given->config,
                      .training = given->training,
                      .folder = given->folder,
                      .quiet = preferred.quiet,
                      .executor = &lab.executor};
    lab_ranks ranks;
    if (!join_ranks(given->mpi, &ranks, &request.ranks, &request.quiet, &lab.error)) {
        close_laboratory(&lab);
        return report_lab_error(&lab.error);
    }
    lab_catch_interrupts();
    if (!given->is_confirmed && !request.ranks)
        status = confirm_seconds(lm_train_seconds(&lab.engine, &request), "", false);
    if (status == STATUS_OK && !lm_train(&lab.engine, &request, &summary, &lab.error))
        status = report_rank_error(request.ranks, &lab.error);
    else if (status == STATUS_OK && lab_is_first(request.ranks))
        print_summary(given, &summary);
    close_ranks(request.ranks, status);
    close_laboratory(&lab);
    return status;
}

static int choose_and_run(arguments *given) {
    int status = choose_names(given);
    if (status == STATUS_OK)
        status = choose_tasks(given);
    if (status == STATUS_OK)
        status = choose_lengths(given);
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
        .seed = {.value = lm_training_default().seed, .most = LM_SEED_MAX},
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
    if (!lm_training_has_task(&run.training))
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
    chosen->seed.value = run.training.seed;
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
        status = is_good ? options_status(parsed) : report_lab_error(&error);
    }
    if (parsed == OPTIONS_GIVEN)
        status = choose_and_run(&given);
    free(given.algorithms.items);
    return status;
}
