/*
 * What `whet tune` spends its time on. Temperatures of a small model are trained for 60 steps, as
 * by the command's defaults. A forward and backward pass of a model of a thousand million weights,
 * frozen, on one thread, is compared with its matrix products by the BLAS alone, which are recorded
 * in a real pass and repeated on the same memory, those of recomputed activations included. Weights
 * and tokens are random: the time does not depend on them.
 */
#define _POSIX_C_SOURCE 200809L

#include "suite.h"

#include "base/clock.h"
#include "lm/model.h"
#include "tune/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { TEXTS = 50, LENGTH = 512, STEPS = 60, BATCH = 4, LARGE_LENGTH = 2048 };

/* Seconds in a quick run; both take as long as they take. */
#define QUICK_TRAINING 100
#define QUICK_PASS 200

/* A model with random weights. */
typedef struct subject {
    nn_engine engine;
    lm_model model;
    lm_network network;
    tune_network *tuned;
    lm_token *tokens;
    tune_sequence *texts;
    lab_error error;
} subject;

/* The shape of MiniMind2-small. */
static lm_config small_shape(void) {
    lm_config config = lm_config_default();
    config.layers = 8;
    config.width = 512;
    config.heads = 8;
    config.key_heads = 2;
    config.head_dim = config.rope_dims = 64;
    config.hidden = 1408;
    config.vocabulary = 6400;
    config.context = LENGTH;
    config.tied = true;
    return config;
}

/* The shape of TinyLlama-1.1B. */
static lm_config large_shape(void) {
    lm_config config = lm_config_default();
    config.layers = 22;
    config.width = 2048;
    config.heads = 32;
    config.key_heads = 4;
    config.head_dim = config.rope_dims = 64;
    config.hidden = 5632;
    config.vocabulary = 32000;
    config.context = LARGE_LENGTH;
    config.tied = false;
    return config;
}

static bool make_texts(subject *s, size_t count, size_t length) {
    lab_random random = lab_random_start(1);
    s->tokens = malloc(count * length * sizeof *s->tokens);
    s->texts = calloc(count, sizeof *s->texts);
    if (!s->tokens || !s->texts)
        return lab_fail_memory(&s->error);
    for (size_t i = 0; i < count * length; i++)
        s->tokens[i] = lab_random_below(&random, s->model.config.vocabulary);
    for (size_t i = 0; i < count; i++)
        s->texts[i] = (tune_sequence){s->tokens + i * length, length, 1};
    return true;
}

static bool open_subject(subject *s, const suite *with, lm_config config, size_t count,
                         size_t length, const whet_executor *executor) {
    *s =
        (subject){.engine = {.blas = with->blas.library, .kernels = nn_kernels_for_this_machine()}};
    if (!lm_model_create(&config, &s->model, &s->error))
        return false;
    lm_initialise(&config, &s->model.layout, 1, s->model.weights);
    if (!lm_network_create(&s->engine, &config, s->model.weights, &s->network, &s->error))
        return false;
    s->tuned = tune_network_open(&s->network, executor, length, &s->error);
    return s->tuned && make_texts(s, count, length);
}

static void close_subject(subject *s) {
    tune_network_close(s->tuned);
    lm_network_destroy(&s->network);
    lm_model_free(&s->model);
    free(s->tokens);
    free(s->texts);
}

/* ---- training ---- */

static bool train(subject *s, const suite *with, report_case *made) {
    const tune_calibration c = {.network = s->tuned,
                                .by = TUNE_BY_HEAD,
                                .layers = s->model.config.layers,
                                .heads = s->model.config.heads,
                                .n0 = LENGTH,
                                .longest = LENGTH,
                                .texts = s->texts,
                                .text_count = TEXTS,
                                .steps = STEPS,
                                .batch = BATCH,
                                .rate = 0.03,
                                .bound = 0.7,
                                .seed = 1};
    tune_ledger ledger;
    tune_state state;
    bool good = tune_ledger_open(NULL, json_object(), &ledger, &s->error);
    good = tune_state_create(&c, &state, &s->error) && good;
    double began = lab_now();
    good = good && tune_calibrate(&c, STEPS, "bench", &ledger, NULL, NULL, &state, &s->error);
    bench_report_add_fact(made, "seconds", lab_now() - began);
    bench_report_add_fact(made, "seconds at most", 120);
    bench_report_add_fact(made, "threads", (double)whet_pool_threads(with->pool));
    tune_state_free(&state);
    tune_ledger_close(&ledger);
    return good;
}

static bool bench_training(suite *with, report_section *section) {
    report_case made = {.label = "26 M weights, 60 steps"};
    if (!bench_begin_case(with, "tune", "training", QUICK_TRAINING))
        return true;
    subject s;
    bool good = open_subject(&s, with, small_shape(), TEXTS, LENGTH, &with->executor) &&
                train(&s, with, &made);
    close_subject(&s);
    return good ? bench_report_add_case(with->report, section, &made)
                : bench_report_fail(with->report, "tune", s.error.text);
}

/* ---- one pass of a large model ---- */

typedef struct large_pass {
    subject subject;
    tune_setting setting;
    double *gradient;
    nn_record record;
} large_pass;

static void run_pass(void *argument) {
    large_pass *pass = argument;
    subject *s = &pass->subject;
    size_t heads = pass->setting.layers * pass->setting.heads;
    tune_weighted one = {s->texts[0], 1.0 / LARGE_LENGTH};
    double loss;
    tune_network_gradient(s->tuned, &pass->setting, &one, 1, &loss, pass->gradient,
                          pass->gradient + heads, &s->error);
}

static void run_products(void *argument) {
    large_pass *pass = argument;
    bench_blas_replay(&pass->subject.engine.blas, &pass->record);
}

static bool open_pass(suite *with, large_pass *pass) {
    subject *s = &pass->subject;
    if (!open_subject(s, with, large_shape(), 1, LARGE_LENGTH, NULL))
        return false;
    size_t layers = s->model.config.layers, heads = s->model.config.heads;
    pass->gradient = calloc(2 * layers * heads, sizeof *pass->gradient);
    if (!pass->gradient || !tune_setting_create(layers, heads, LARGE_LENGTH, &pass->setting))
        return lab_fail_memory(&s->error);
    s->engine.record = &pass->record;
    run_pass(pass);
    s->engine.record = NULL;
    return s->error.kind == LAB_NO_ERROR &&
           (pass->record.count <= NN_RECORD_MAX ||
            lab_fail(&s->error, LAB_SYSTEM, "a pass has too many products"));
}

static void add_memory(report_case *made, const subject *s) {
    struct rusage usage = {.ru_maxrss = 0};
    getrusage(RUSAGE_SELF, &usage);
    double weights = (double)s->model.layout.count * sizeof(float);
    bench_report_add_fact(made, "weights GB", weights / 1e9);
    bench_report_add_fact(made, "peak memory beyond them GB",
                          (1024.0 * (double)usage.ru_maxrss - weights) / 1e9);
}

static bool measure_pass(suite *with, report_section *section, large_pass *pass) {
    contender list[] = {
        {.name = "whet", .run = run_pass, .argument = pass, .work = LARGE_LENGTH},
        {.name = "BLAS alone", .run = run_products, .argument = pass, .work = LARGE_LENGTH}};
    report_case made = {.label = "1.1 G weights, 2048"};
    if (!open_pass(with, pass))
        return bench_report_fail(with->report, "tune", pass->subject.error.text);
    bench_measure(list, 2, NULL, (effort){.rounds = 1}, "tune", &with->measured);
    report_entry *ours = bench_report_add_entry(section, &made, &with->measured, "whet",
                                                (report_against){{"BLAS alone"}});
    bench_report_set_bar(ours, 0, BAR_AT_LEAST, 0.6);
    bench_report_add_entry(section, &made, &with->measured, "BLAS alone", (report_against){{NULL}});
    add_memory(&made, &pass->subject);
    return bench_report_add_case(with->report, section, &made);
}

static bool bench_large(suite *with, report_section *section) {
    if (!bench_begin_case(with, "tune", "a large model", QUICK_PASS))
        return true;
    static large_pass pass; /* the record is large */
    bool is_done = measure_pass(with, section, &pass);
    close_subject(&pass.subject);
    tune_setting_free(&pass.setting);
    free(pass.gradient);
    return is_done;
}

bool bench_tune(suite *with) {
    static const report_column columns[COLUMNS_MAX] = {{"of BLAS alone", COMPARE_SHARE}};
    if (!with->blas.scores)
        return true; /* the report says that there is no BLAS */
    report_section *section = bench_report_add_section(with->report, "tune", UNIT_TOKENS, columns);
    snprintf(section->title, sizeof section->title,
             "tune: gradients of temperatures through frozen weights");
    return bench_training(with, section) && bench_large(with, section);
}
