/*
 * Training on max retrieval, one thread: training steps against the same model
 * in torch, and against the products of a step by the BLAS alone, which are
 * recorded in a real step and repeated on the same memory.
 */
#include "retrieval_peer.h"
#include "suite.h"
#include "torch_peer.h"

#include "retrieval/trainer.h"

#include <stdio.h>

enum { STEPS = 48, TORCH_STEPS = 12 };

/* The time of the only case in a quick run. */
#define QUICK_SECONDS 5

static const report_column columns[COLUMNS_MAX] = {
    {"times torch", COMPARE_SPEEDUP},
    {"of BLAS alone", COMPARE_SHARE},
};

typedef struct training {
    nn_engine engine;
    retrieval_trainer *trainer;
    nn_record record;
    torch_peer torch;
    bool torch_failed;
    lab_error error;
} training;

static void run_ours(void *argument) {
    training *with = argument;
    retrieval_step result;
    for (int i = 0; i < STEPS; i++)
        retrieval_trainer_step(with->trainer, &result, &with->error);
}

static void run_products(void *argument) {
    training *with = argument;
    for (int i = 0; i < STEPS; i++)
        bench_blas_replay(&with->engine.blas, &with->record);
}

static void run_torch(void *argument) {
    training *with = argument;
    with->torch_failed = with->torch_failed || !bench_torch_steps(&with->torch, TORCH_STEPS);
}

static bool open_training(suite *with, training *opened) {
    retrieval_config config = retrieval_config_default();
    config.precision = RETRIEVAL_BF16; /* rounding the operands of products would slow torch down */
    *opened = (training){.torch = {.channel = -1}};
    opened->engine =
        (nn_engine){.blas = with->blas.library, .kernels = nn_kernels_for_this_machine()};
    opened->trainer = retrieval_trainer_create(&opened->engine, &config, 1, NULL, &opened->error);
    if (!opened->trainer)
        return false;
    retrieval_step result;
    opened->engine.record = &opened->record;
    bool is_good = retrieval_trainer_step(opened->trainer, &result, &opened->error);
    opened->engine.record = NULL;
    return is_good && opened->record.count <= NN_RECORD_MAX;
}

static void close_training(training *opened) {
    bench_torch_close(&opened->torch);
    retrieval_trainer_destroy(opened->trainer);
}

static bool measure(suite *with, training *opened) {
    contender list[3] = {
        {.name = "whet", .run = run_ours, .argument = opened, .work = STEPS},
        {.name = "BLAS alone", .run = run_products, .argument = opened, .work = STEPS},
        {.name = "torch", .run = run_torch, .argument = opened, .work = TORCH_STEPS},
    };
    bool has_torch = bench_torch_open(&opened->torch, retrieval_peer, NULL) &&
                     bench_torch_steps(&opened->torch, 2);
    bench_measure(list, has_torch ? 3 : 2, NULL, with->until, "retrieval", &with->measured);
    if (opened->error.kind != LAB_NO_ERROR || opened->torch_failed)
        return bench_report_fail(with->report, "retrieval",
                                 opened->torch_failed ? "torch failed" : opened->error.text);
    report_section *section =
        bench_report_add_section(with->report, "retrieval", UNIT_STEPS, columns);
    snprintf(section->title, sizeof section->title,
             "retrieval: training steps, one thread, against %s", opened->torch.version);
    report_case made = {.label = "width 128, batch 128, sizes 5 to 16"};
    report_entry *ours = bench_report_add_entry(section, &made, &with->measured, "whet",
                                                (report_against){{"torch", "BLAS alone"}});
    if (has_torch)
        bench_report_set_bar(ours, 0, BAR_AT_LEAST, 10);
    bench_report_set_bar(ours, 1, BAR_AT_LEAST, 0.5);
    bench_report_add_entry(section, &made, &with->measured, "BLAS alone", (report_against){{NULL}});
    bench_report_add_entry(section, &made, &with->measured, "torch", (report_against){{NULL}});
    return bench_report_add_case(with->report, section, &made);
}

bool bench_retrieval(suite *with) {
    if (!with->blas.scores)
        return true; /* the report says that there is no BLAS */
    if (!bench_begin_case(with, "retrieval", "training", QUICK_SECONDS))
        return true;
    training opened;
    bool is_done = open_training(with, &opened)
                       ? measure(with, &opened)
                       : bench_report_fail(with->report, "retrieval", opened.error.text);
    close_training(&opened);
    return is_done;
}
