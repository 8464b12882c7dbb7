/*
 * Training steps and decoding under policies and arms of the league, against the same model with
 * softmax: what a map, its temperature and learning its parameters cost. Steps are on one thread.
 */
#include "lm.h"

#include "league/arms.h"
#include "lm/trainer.h"

#include <stdio.h>
#include <string.h>

#define QUICK_SECONDS 20

/* A step costs at most this many of softmax's; where the map's exponent is learned, and powers take
 * the place of squares, at most the second. */
#define BAR 1.5
#define BAR_LEARNED_EXPONENT 2.0

typedef struct stepping {
    lm_trainer *trainer;
    const lm_sequences *sequences;
    lab_error *error;
} stepping;

static void run_step(void *argument) {
    const stepping *own = argument;
    lm_step result;
    lm_trainer_step_on(own->trainer, own->sequences, &result, own->error);
}

typedef struct comparison {
    nn_engine engine;
    league_arms arms;
    stepping steps[SERIES_MAX];
    lm_sequences sequences;
    lab_error error;
} comparison;

static bool open_arm(comparison *opened, size_t i) {
    lm_config config = lm_config_default();
    lm_training training = lm_training_default();
    training.loss = LM_LOSS_ALL;
    league_arm_configure(&opened->arms.list[i], BENCH_LM_LENGTH, 1, &config);
    if (!lm_training_add_task(&training, "minimum", &opened->error))
        return false;
    opened->steps[i] = (stepping){
        .trainer = lm_trainer_create(&opened->engine, &config, &training, NULL, &opened->error),
        .sequences = &opened->sequences,
        .error = &opened->error};
    return opened->steps[i].trainer != NULL;
}

static bool open_comparison(suite *with, comparison *opened) {
    opened->engine =
        (nn_engine){.blas = with->blas.library, .kernels = nn_kernels_for_this_machine()};
    if (!bench_lm_sequences(&opened->sequences))
        return lab_fail_memory(&opened->error);
    bool is_good = league_arms_add(&opened->arms, "softmax", &opened->error);
    for (size_t i = 0; is_good && i < with->options.policy_count; i++)
        is_good = league_arms_add(&opened->arms, with->options.policies[i], &opened->error);
    if (is_good && opened->arms.count > SERIES_MAX)
        is_good = lab_fail(&opened->error, LAB_INPUT, "--policy: more than %d policies at once",
                           SERIES_MAX - 1);
    for (size_t i = 0; is_good && i < opened->arms.count; i++)
        is_good = open_arm(opened, i);
    return is_good;
}

static bool measure(suite *with, comparison *opened) {
    static const report_column columns[COLUMNS_MAX] = {{"times softmax", COMPARE_TIMES}};
    contender list[SERIES_MAX];
    for (size_t i = 0; i < opened->arms.count; i++)
        list[i] = (contender){.name = opened->arms.list[i].name,
                              .run = run_step,
                              .argument = &opened->steps[i],
                              .work = BENCH_LM_ROWS * BENCH_LM_LENGTH,
                              .is_library = true};
    bench_measure(list, opened->arms.count, NULL, with->until, "lm policies", &with->measured);
    if (opened->error.kind != LAB_NO_ERROR)
        return bench_report_fail(with->report, "lm", opened->error.text);
    report_section *section = bench_report_add_section(with->report, "lm", UNIT_TOKENS, columns);
    snprintf(section->title, sizeof section->title, "lm: training by policy, 1 thread");
    report_case made = {.label = "4 layers of 128, 32 x 128 tokens"};
    for (size_t i = 0; i < opened->arms.count; i++) {
        const league_arm *arm = &opened->arms.list[i];
        bool learns_exponent = arm->learned && strcmp(arm->learned, "a") == 0;
        report_entry *entry = bench_report_add_entry(section, &made, &with->measured, arm->name,
                                                     (report_against){{i > 0 ? "softmax" : NULL}});
        if (i > 0)
            bench_report_set_bar(entry, 0, BAR_AT_MOST,
                                 learns_exponent ? BAR_LEARNED_EXPONENT : BAR);
    }
    return bench_report_add_case(with->report, section, &made);
}

bool bench_lm_policies(suite *with) {
    static comparison opened; /* arms are large */
    if (!bench_begin_case(with, "lm", "policies", QUICK_SECONDS))
        return true;
    opened = (comparison){.arms = {.count = 0}};
    bool is_done = open_comparison(with, &opened)
                       ? measure(with, &opened)
                       : bench_report_fail(with->report, "lm", opened.error.text);
    for (size_t i = 0; i < SERIES_MAX; i++)
        lm_trainer_destroy(opened.steps[i].trainer);
    lm_sequences_free(&opened.sequences);
    return is_done && bench_lm_decoding(with, &opened.arms);
}
