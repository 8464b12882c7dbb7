/* Memory that runs out while a model is examined, a polynomial fitted and results are summed up. */
#define _POSIX_C_SOURCE 200809L

#include "support/lab_faults.h"

#include "support/engine.h"

#include "base/files.h"
#include "league/fit.h"
#include "league/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SAMPLES = 12 };

static lm_model model;
static league_task task;
static league_request request;
static char folder[64];

/* Kept from test to test: weights that nobody trained. */
static void make_model(void) {
    lab_error error = {0};
    lm_config config = lm_config_default();
    config.layers = 1;
    config.width = 16;
    config.heads = config.key_heads = 2;
    config.head_dim = config.rope_dims = 8;
    config.hidden = 16;
    config.context = 128;
    config.vocabulary = task_vocabulary(task_find("max"));
    config.has_sinks = config.has_query_betas = true;
    REQUIRE(league_task_find("max", &task));
    if (model.weights)
        return;
    REQUIRE(lm_model_create(&config, &model, &error));
    lm_initialise(&config, &model.layout, 1, model.weights);
}

static bool examine(lab_error *error) {
    lm_sequences sequences = {.count = 0};
    league_score score = {.heads = NULL};
    bool is_good = league_task_draw(&task, TASK_TEST, 9, SAMPLES, 100, &sequences, error);
    const league_exam exam = {.engine = &engine, .model = &model, .sequences = &sequences};
    is_good = is_good && league_examine(&exam, &score, error);
    free(score.heads);
    lm_sequences_free(&sequences);
    return is_good;
}

TEST(an_examination_reports_when_memory_runs_out) {
    make_model();
    lab_faults_try(examine, NULL);
}

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    REQUIRE(system(command) == 0); /* NOLINT(cert-env33-c): a path of the test's own */
}

/* One result of softmax, as its cell would write it. */
static void make_league(void) {
    lab_error error = {0};
    snprintf(folder, sizeof folder, "/tmp/whet-league-XXXXXX");
    REQUIRE(mkdtemp(folder) && league_task_find("max", &task));
    request = (league_request){.scale = league_scale_quick(),
                               .tasks = {task},
                               .task_count = 1,
                               .positions = {LM_MIX},
                               .position_count = 1,
                               .folder = folder,
                               .engine = &engine};
    REQUIRE(league_arms_add(&request.arms, "adaptive-inference", &error));
    const league_cell cell = {&request.tasks[0], LM_MIX, &request.arms.list[0], 1,
                              request.scale.rates[0]};
    char *path = league_cell_folder(&request, &cell);
    REQUIRE(path && lab_make_folder(path, &error));
    char *file = lab_path(path, "result.json");
    json_t *result = json_pack("{s:[{s:s, s:[{s:i, s:i, s:i}]}]}", "tests", "arm", "softmax",
                               "sizes", "multiple", 2, "samples", 8, "exact", 5);
    REQUIRE(file && lab_json_write(file, result, &error));
    json_decref(result);
    free(path);
    free(file);
}

static bool sum_up(lab_error *error) {
    league_results results = {.models = 0};
    bool is_good = league_results_read(&request, &results, error);
    json_t *json = is_good ? league_results_json(&results) : NULL;
    is_good = is_good && (json || lab_fail_memory(error));
    json_decref(json);
    league_results_free(&results);
    return is_good;
}

TEST(summing_up_reports_when_memory_runs_out) {
    make_league();
    lab_faults_try(sum_up, NULL);
    remove_folder();
}

__attribute__((destructor)) static void free_model(void) { lm_model_free(&model); }
