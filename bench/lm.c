/*
 * Language models. Training: steps on full sequences, all of whose tokens
 * count, against the same model in torch on the same number of threads, and on
 * one thread against the products of a step by the BLAS alone, which are
 * recorded in a real step and repeated on the same memory. Decoding: one token
 * after the other after a cache of 4096.
 */
#include "lm.h"
#include "lm_peer.h"
#include "torch_peer.h"

#include "lm/decode.h"
#include "lm/trainer.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = BENCH_LM_ROWS, LENGTH = BENCH_LM_LENGTH, STEPS = 2, CACHE = 4096, DECODED = 16 };

/* Seconds in a quick run. */
#define QUICK_TRAINING 12
#define QUICK_DECODING 3

static const report_column training_columns[COLUMNS_MAX] = {
    {"times torch", COMPARE_SPEEDUP},
    {"of BLAS alone", COMPARE_SHARE},
};

/* A trainer and the sequences that it gets in every step. */
typedef struct training {
    nn_engine engine;
    lm_trainer *threaded, *alone; /* on all threads, on one */
    lm_sequences sequences;
    nn_record record;
    torch_peer torch;
    bool torch_failed;
    lab_error error;
} training;

static void run_steps(training *with, lm_trainer *trainer) {
    lm_step result;
    for (int i = 0; i < STEPS; i++)
        lm_trainer_step_on(trainer, &with->sequences, &result, &with->error);
}

static void run_threaded(void *argument) {
    training *with = argument;
    run_steps(with, with->threaded);
}

static void run_alone(void *argument) {
    training *with = argument;
    run_steps(with, with->alone);
}

static void run_products(void *argument) {
    training *with = argument;
    for (int i = 0; i < STEPS; i++)
        bench_blas_replay(&with->engine.blas, &with->record);
}

static void run_torch(void *argument) {
    training *with = argument;
    with->torch_failed = with->torch_failed || !bench_torch_steps(&with->torch, STEPS);
}

bool bench_lm_sequences(lm_sequences *made) {
    made->tokens = calloc((size_t)ROWS * (LENGTH + 1), sizeof *made->tokens);
    made->list = calloc(ROWS, sizeof *made->list);
    if (!made->tokens || !made->list)
        return false;
    lab_random random = lab_random_start(1);
    for (size_t i = 0; i < (size_t)ROWS * (LENGTH + 1); i++)
        made->tokens[i] = lab_random_below(&random, LM_CLRS_VOCABULARY);
    for (size_t i = 0; i < ROWS; i++)
        made->list[i] = (lm_sequence){.offset = i * (LENGTH + 1), .count = LENGTH + 1, .answer = 1};
    made->count = ROWS;
    made->token_count = (size_t)ROWS * (LENGTH + 1);
    return true;
}

static bool record_step(training *opened) {
    lm_step result;
    opened->engine.record = &opened->record;
    bool is_good = lm_trainer_step_on(opened->alone, &opened->sequences, &result, &opened->error);
    opened->engine.record = NULL;
    return is_good && (opened->record.count <= NN_RECORD_MAX ||
                       lab_fail(&opened->error, LAB_SYSTEM, "a step has too many products"));
}

static bool open_training(suite *with, training *opened) {
    lm_config config = lm_config_default();
    lm_training choices = lm_training_default();
    *opened = (training){.torch = {.channel = -1}};
    opened->engine =
        (nn_engine){.blas = with->blas.library, .kernels = nn_kernels_for_this_machine()};
    choices.loss = LM_LOSS_ALL;
    if (!bench_lm_sequences(&opened->sequences))
        return lab_fail_memory(&opened->error);
    if (!lm_training_add_task(&choices, "minimum", &opened->error))
        return false;
    opened->alone = lm_trainer_create(&opened->engine, &config, &choices, NULL, &opened->error);
    opened->threaded =
        lm_trainer_create(&opened->engine, &config, &choices, &with->executor, &opened->error);
    return opened->alone && opened->threaded && record_step(opened);
}

static void close_training(training *opened) {
    bench_torch_close(&opened->torch);
    lm_trainer_destroy(opened->alone);
    lm_trainer_destroy(opened->threaded);
    lm_sequences_free(&opened->sequences);
}

/* What the script needs to know: the shape and the number of threads. */
static char *describe_model(size_t threads) {
    lm_config config = lm_config_default();
    json_t *shape = lm_config_to_json(&config);
    json_object_set_new(shape, "policy_rows", json_integer(0));
    json_t *all = json_pack("{s:o, s:i, s:i, s:i}", "shape", shape, "threads", (int)threads, "rows",
                            ROWS, "length", LENGTH);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

static void report_training(suite *with, report_section *section, bool has_torch,
                            report_case *made) {
    const measurement *measured = &with->measured;
    report_entry *ours =
        bench_report_add_entry(section, made, measured, "whet", (report_against){{"torch", NULL}});
    if (has_torch)
        bench_report_set_bar(ours, 0, BAR_AT_LEAST, 1.5);
    bench_report_add_entry(section, made, measured, "torch", (report_against){{NULL}});
    ours = bench_report_add_entry(section, made, measured, "whet, one thread",
                                  (report_against){{NULL, "BLAS alone"}});
    bench_report_set_bar(ours, 1, BAR_AT_LEAST, 0.5);
    bench_report_add_entry(section, made, measured, "BLAS alone", (report_against){{NULL}});
}

static bool measure_training(suite *with, training *opened) {
    enum { WORK = STEPS * ROWS * LENGTH };
    contender list[] = {
        {.name = "whet", .run = run_threaded, .argument = opened, .work = WORK},
        {.name = "whet, one thread", .run = run_alone, .argument = opened, .work = WORK},
        {.name = "BLAS alone", .run = run_products, .argument = opened, .work = WORK},
        {.name = "torch", .run = run_torch, .argument = opened, .work = WORK},
    };
    size_t threads = whet_pool_threads(with->pool);
    char *model = describe_model(threads);
    bool has_torch = model && bench_torch_open(&opened->torch, lm_peer, model) &&
                     bench_torch_steps(&opened->torch, 1);
    free(model);
    bench_measure(list, has_torch ? 4 : 3, NULL, with->until, "lm training", &with->measured);
    if (opened->error.kind != LAB_NO_ERROR || opened->torch_failed)
        return bench_report_fail(with->report, "lm",
                                 opened->torch_failed ? "torch failed" : opened->error.text);
    report_section *section =
        bench_report_add_section(with->report, "lm", UNIT_TOKENS, training_columns);
    snprintf(section->title, sizeof section->title, "lm: training, %zu thread%s, against %s",
             threads, threads == 1 ? "" : "s", opened->torch.version);
    report_case made = {.label = "4 layers of 128, 32 x 128 tokens"};
    report_training(with, section, has_torch, &made);
    return bench_report_add_case(with->report, section, &made);
}

static bool bench_training(suite *with) {
    if (!bench_begin_case(with, "lm", "training", QUICK_TRAINING))
        return true;
    static training opened; /* the record is large */
    bool is_done = open_training(with, &opened)
                       ? measure_training(with, &opened)
                       : bench_report_fail(with->report, "lm", opened.error.text);
    close_training(&opened);
    return is_done;
}

typedef struct decoding {
    nn_engine engine;
    lm_model model;
    lm_matrices matrices;
    lm_decoder *decoder;
    float logits[LM_CLRS_VOCABULARY];
    lab_error error;
} decoding;

static bool fill_cache(decoding *opened) {
    lm_token tokens[CACHE];
    for (size_t i = 0; i < CACHE; i++)
        tokens[i] = (lm_token)('0' + i % 10);
    return lm_decoder_read(opened->decoder, 0, tokens, CACHE, opened->logits, &opened->error);
}

/* The cache grows by this much in each round, up to its capacity. */
static void run_decoding(void *argument) {
    decoding *with = argument;
    const size_t lane = 0;
    for (int i = 0; i < DECODED; i++) {
        lm_token token = (lm_token)('0' + i % 10);
        lm_decoder_step(with->decoder, &lane, &token, 1, with->logits, &with->error);
    }
}

static bool open_decoding(suite *with, decoding *opened, const league_arm *arm) {
    lm_config config = lm_config_default();
    *opened = (decoding){
        .engine = {.blas = with->blas.library, .kernels = nn_kernels_for_this_machine()}};
    config.context = CACHE + DECODED * (ROUNDS_MAX + 1);
    league_arm_configure(arm, BENCH_LM_LENGTH, 1, &config);
    if (!lm_model_create(&config, &opened->model, &opened->error))
        return false;
    lm_initialise(&config, &opened->model.layout, 1, opened->model.weights);
    if (!lm_matrices_create(&opened->model, &opened->engine, &opened->matrices, &opened->error))
        return false;
    const lm_decoder_options options = {.matrices = &opened->matrices,
                                        .executor = &with->executor,
                                        .lanes = 1,
                                        .capacity = config.context,
                                        .cache_type = WHET_F32};
    opened->decoder = lm_decoder_create(&options, &opened->error);
    return opened->decoder && fill_cache(opened);
}

static void close_decoding(decoding *opened) {
    lm_decoder_destroy(opened->decoder);
    lm_matrices_free(&opened->matrices);
    lm_model_free(&opened->model);
}

static bool measure_decoding(suite *with, const league_arms *arms, decoding *opened) {
    contender list[SERIES_MAX];
    for (size_t i = 0; i < arms->count; i++) {
        if (!open_decoding(with, &opened[i], &arms->list[i]))
            return bench_report_fail(with->report, "lm", opened[i].error.text);
        list[i] = (contender){.name = arms->list[i].name,
                              .run = run_decoding,
                              .argument = &opened[i],
                              .work = DECODED};
    }
    bench_measure(list, arms->count, NULL, with->until, "lm decoding", &with->measured);
    static const report_column columns[COLUMNS_MAX] = {{"times softmax", COMPARE_TIMES}};
    report_section *section = bench_report_add_section(with->report, "lm", UNIT_TOKENS, columns);
    snprintf(section->title, sizeof section->title, "lm: decoding behind a cache of %d tokens",
             CACHE);
    report_case made = {.label = "4 layers of 128"};
    for (size_t i = 0; i < arms->count; i++)
        bench_report_add_entry(section, &made, &with->measured, arms->list[i].name,
                               (report_against){{i > 0 ? "softmax" : NULL}});
    return bench_report_add_case(with->report, section, &made);
}

bool bench_lm_decoding(suite *with, const league_arms *arms) {
    if (!bench_begin_case(with, "lm", "decoding", QUICK_DECODING))
        return true;
    decoding opened[SERIES_MAX] = {{.decoder = NULL}};
    bool is_done = measure_decoding(with, arms, opened);
    for (size_t i = 0; i < arms->count; i++)
        close_decoding(&opened[i]);
    return is_done;
}

static bool bench_adaptive_decoding(suite *with) {
    static league_arms arms; /* is large */
    lab_error error = {.kind = LAB_NO_ERROR};
    arms.count = 0;
    return (league_arms_add(&arms, "softmax", &error) &&
            league_arms_add(&arms, "adaptive", &error) && bench_lm_decoding(with, &arms)) ||
           (error.kind != LAB_NO_ERROR && bench_report_fail(with->report, "lm", error.text));
}

bool bench_lm(suite *with) {
    if (!with->blas.scores)
        return true; /* the report says that there is no BLAS */
    if (with->options.policy_count > 0)
        return bench_lm_policies(with);
    return bench_training(with) && bench_adaptive_decoding(with);
}
