/* One model: trained, validated, tested at every size under its own policy and those that run it.
 */
#define _POSIX_C_SOURCE 200809L

#include "league/fit.h"
#include "league/league.h"

#include "base/files.h"
#include "base/folder_lock.h"
#include "base/signals.h"
#include "lm/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALIDATIONS = 2 }; /* at the training size and twice that */

char *league_cell_folder(const league_request *request, const league_cell *cell) {
    char arm[LEAGUE_ARM_NAME_SIZE];
    snprintf(arm, sizeof arm, "%s", cell->arm->name);
    for (char *at = arm; *at; at++)
        *at = *at == '/' ? ',' : *at;
    return lab_path(request->folder, "%s/%s/%s/seed-%llu-rate-%g", cell->task->name,
                    lm_positions_names[cell->positions], arm, (unsigned long long)cell->seed,
                    cell->rate);
}

bool league_cell_read(const league_request *request, const league_cell *cell, json_t **result,
                      lab_error *error) {
    char *folder = league_cell_folder(request, cell);
    char *path = folder ? lab_path(folder, "result.json") : NULL;
    *result = NULL;
    bool is_good = path != NULL || lab_fail_memory(error);
    if (path && lab_file_exists(path)) {
        *result = lab_json_read(path, error);
        is_good = *result != NULL;
    }
    free(path);
    free(folder);
    return is_good;
}

/* ---- training ---- */

static double processor_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Everything that a model's training is. *longest: tokens of its longest sequences. */
static bool choose(const league_request *request, const league_cell *cell, const char *folder,
                   lm_run *run, size_t *longest, lab_error *error) {
    const league_scale *scale = &request->scale;
    *run = (lm_run){
        .config = lm_config_default(),
        .training = lm_training_default(),
        .folder = {.path = folder, .checkpoint_interval = 500, .log_interval = 100, .resume = true},
        .quiet = request->quiet,
        .executor = request->executor};
    lm_config *config = &run->config;
    config->layers = scale->layers;
    config->width = scale->width;
    config->heads = config->key_heads = scale->heads;
    config->head_dim = config->rope_dims = scale->width / scale->heads;
    config->hidden = 3 * scale->width;
    config->context = (uint32_t)scale->tokens_max;
    config->positions = cell->positions;
    lm_training *training = &run->training;
    training->seed = cell->seed;
    training->batch = scale->batch;
    training->steps = scale->steps;
    training->warm_up = scale->steps / 20;
    training->rate = cell->rate;
    training->rate_end = cell->rate / 100;
    training->decay = 0;
    if (!league_task_train(cell->task, training, error) ||
        !lm_training_longest(training, config->context, longest, error))
        return false;
    config->vocabulary = lm_training_vocabulary(training);
    league_arm_configure(cell->arm, *longest, cell->seed, config);
    return true;
}

double league_cell_seconds(const league_request *request, const league_cell *cell) {
    lm_run run;
    size_t longest;
    return choose(request, cell, "", &run, &longest, NULL) ? lm_train_seconds(request->engine, &run)
                                                           : 0;
}

/* ---- testing ---- */

typedef struct test {
    const league_request *request;
    const league_cell *cell;
    const lm_model *model;
    size_t longest; /* tokens in training */
    lm_sequences sequences;
} test;

/* Samples at a size, at least eight. */
static size_t samples_at(const test *of, uint64_t multiple) {
    const league_scale *scale = &of->request->scale;
    enum { LEAST = 8, FULL = 8 };
    size_t count = multiple <= FULL ? scale->samples : scale->samples * FULL / (size_t)multiple;
    size_t least = scale->samples < LEAST ? scale->samples : LEAST;
    return count < least ? least : count;
}

/* A policy's score at a size. Where samples are too long, it has none. */
static bool score_at(test *of, const char *policy_name, task_split split, uint64_t multiple,
                     league_score *score, lab_error *error) {
    lab_error reason = {.kind = LAB_NO_ERROR};
    whet_policy policy;
    league_exam exam = {.engine = of->request->engine,
                        .executor = of->request->executor,
                        .model = of->model,
                        .sequences = &of->sequences};
    *score = (league_score){.samples = 0};
    if (policy_name) {
        if (whet_policy_parse(policy_name, &policy, NULL, 0) != WHET_OK)
            return lab_fail(error, LAB_INPUT, "'%s' is not a policy", policy_name);
        exam.policy = &policy;
    }
    if (!league_task_draw(of->cell->task, split, multiple * of->cell->task->train_max,
                          samples_at(of, multiple), of->request->scale.tokens_max, &of->sequences,
                          &reason)) {
        if (reason.kind == LAB_INPUT)
            return true;
        return lab_fail(error, reason.kind, "%s", reason.text);
    }
    return league_examine(&exam, score, error);
}

static json_t *heads_json(const test *of, const league_score *score) {
    json_t *list = json_array();
    size_t heads = (size_t)of->model->config.layers * of->model->config.heads;
    for (size_t i = 0; list && score->heads && i < heads; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o}", "entropy", lab_json_number(score->heads[i].entropy),
                            "entropy_after", lab_json_number(score->heads[i].entropy_after), "beta",
                            lab_json_number(score->heads[i].beta)));
    return list;
}

/* All sizes under one policy. Where no answer is right, larger sizes are taken to have none. */
static bool test_sizes(test *of, const char *policy, json_t *sizes, lab_error *error) {
    const league_scale *scale = &of->request->scale;
    bool is_lost = false;
    for (size_t i = 0; i < scale->multiple_count; i++) {
        uint64_t multiple = scale->multiples[i];
        league_score score = {.samples = 0};
        if (!is_lost && !score_at(of, policy, TASK_TEST, multiple, &score, error))
            return false;
        if (score.samples > 0 || is_lost)
            json_array_append_new(
                sizes,
                json_pack("{s:I, s:I, s:I, s:I, s:o, s:b, s:o}", "multiple", (json_int_t)multiple,
                          "size", (json_int_t)multiple * (json_int_t)of->cell->task->train_max,
                          "samples", (json_int_t)score.samples, "exact", (json_int_t)score.exact,
                          "loss", lab_json_number(is_lost ? NAN : score.loss), "skipped",
                          (int)is_lost, "heads", heads_json(of, &score)));
        is_lost = is_lost || (score.samples > 0 && score.exact == 0);
        free(score.heads);
    }
    return true;
}

/* The candidate that is right most often at twice the training size, by the loss where several
 * are. */
static bool choose_policy(test *of, char chosen[LM_POLICY_SIZE], lab_error *error) {
    double best_exact = -1, best_loss = INFINITY;
    for (size_t i = 0; league_candidates[i]; i++) {
        league_arm arm = {.name = ""};
        char policy[LM_POLICY_SIZE];
        league_score score;
        snprintf(arm.policy, sizeof arm.policy, "%s", league_candidates[i]);
        league_arm_policy(&arm, of->longest, of->cell->seed, policy);
        if (!score_at(of, policy, TASK_VALIDATION, 2, &score, error))
            return false;
        double exact = (double)score.exact;
        if (exact > best_exact || (exact == best_exact && score.loss < best_loss)) {
            best_exact = exact;
            best_loss = score.loss;
            snprintf(chosen, LM_POLICY_SIZE, "%s", policy);
        }
        free(score.heads);
    }
    return true;
}

static bool fit_policy(const test *of, char fitted[LM_POLICY_SIZE], lab_error *error) {
    const league_fit_request request = {.engine = of->request->engine,
                                        .executor = of->request->executor,
                                        .model = of->model,
                                        .task = of->cell->task,
                                        .samples = of->request->scale.samples,
                                        .tokens_max = of->request->scale.tokens_max};
    return league_fit(&request, fitted, error);
}

static bool test_arm(test *of, const league_arm *arm, json_t *tests, lab_error *error) {
    char policy[LM_POLICY_SIZE] = "";
    json_t *sizes = json_array();
    bool is_own = !arm->trained_as;
    if (!is_own)
        league_arm_policy(arm, of->longest, of->cell->seed, policy);
    bool is_good = (!arm->is_chosen || choose_policy(of, policy, error)) &&
                   (!arm->is_fitted || fit_policy(of, policy, error));
    is_good = is_good && test_sizes(of, is_own ? NULL : policy, sizes, error);
    json_array_append_new(tests,
                          json_pack("{s:s, s:s, s:o}", "arm", arm->name, "policy",
                                    is_own ? of->model->config.policy : policy, "sizes", sizes));
    return is_good;
}

/* The arm's own test, and those of the arms that run its models. */
static bool test_all(test *of, json_t *tests, lab_error *error) {
    league_arm other;
    if (!test_arm(of, of->cell->arm, tests, error))
        return false;
    for (size_t i = 0; league_arm_at(i, &other); i++)
        if (other.trained_as && strcmp(other.trained_as, of->cell->arm->name) == 0 &&
            !test_arm(of, &other, tests, error))
            return false;
    return true;
}

static bool validate(test *of, json_t *validation, lab_error *error) {
    for (uint64_t multiple = 1; multiple <= VALIDATIONS; multiple++) {
        league_score score;
        if (!score_at(of, NULL, TASK_VALIDATION, multiple, &score, error))
            return false;
        double samples = score.samples > 0 ? (double)score.samples : 1;
        json_array_append_new(validation,
                              json_pack("{s:I, s:f, s:o}", "multiple", (json_int_t)multiple,
                                        "right", (double)score.exact / samples, "loss",
                                        lab_json_number(score.loss)));
        free(score.heads);
    }
    return true;
}

/* The parameters that a model has learned for its policies: [layer][head][parameter]. */
static json_t *learned_json(const lm_model *model) {
    json_t *list = json_array();
    const lm_layout *at = &model->layout;
    for (size_t layer = 0; list && layer < model->config.layers; layer++)
        for (size_t i = 0; i < at->policy_rows * at->policy_parameters; i++)
            json_array_append_new(
                list,
                lab_json_number((double)model->weights[lm_layer_at(at, layer) + at->policy + i]));
    return list;
}

static bool test_model(test *of, json_t *result, lab_error *error) {
    json_t *validation = json_array(), *tests = json_array();
    bool is_good = validate(of, validation, error) && test_all(of, tests, error);
    json_object_set_new(result, "validation", validation);
    json_object_set_new(result, "tests", tests);
    json_object_set_new(result, "learned", learned_json(of->model));
    return is_good;
}

static bool test_checkpoint(const league_request *request, const league_cell *cell,
                            const char *path, size_t longest, json_t *result, lab_error *error) {
    lm_model model;
    if (!lm_model_load(path, &model, error))
        return false;
    test of = {.request = request, .cell = cell, .model = &model, .longest = longest};
    bool is_good = test_model(&of, result, error);
    lm_sequences_free(&of.sequences);
    lm_model_free(&model);
    return is_good;
}

/* ---- the cell ---- */

static json_t *describe(const league_cell *cell) {
    return json_pack("{s:s, s:s, s:s, s:I, s:f}", "task", cell->task->name, "positions",
                     lm_positions_names[cell->positions], "arm", cell->arm->name, "seed",
                     (json_int_t)cell->seed, "rate", cell->rate);
}

/* Failures of a model, such as a loss that is not finite, are results, too. */
static bool is_of_model(const lab_error *reason) {
    return strstr(reason->text, "finite") != NULL || strstr(reason->text, "out of range") != NULL;
}

static bool train_and_test(const league_request *request, const league_cell *cell,
                           const char *folder, const char *title, json_t *result,
                           lab_error *error) {
    lm_run run;
    lm_summary summary = {.steps = 0};
    lab_error reason = {.kind = LAB_NO_ERROR};
    size_t longest;
    char *checkpoint = lab_path(folder, "model.ckpt");
    bool is_good = checkpoint ? choose(request, cell, folder, &run, &longest, &reason)
                              : lab_fail_memory(&reason);
    run.title = title;
    double began = processor_seconds();
    is_good = is_good && lm_train(request->engine, &run, &summary, &reason);
    double seconds = processor_seconds() - began;
    if (is_good && summary.tokens > 0)
        json_object_set_new(result, "seconds_per_million_tokens",
                            json_real(1e6 * seconds / (double)summary.tokens));
    is_good = is_good && test_checkpoint(request, cell, checkpoint, longest, result, &reason);
    if (!is_good && is_of_model(&reason)) {
        json_object_set_new(result, "failed", json_string(reason.text));
        is_good = true;
    }
    if (is_good && checkpoint)
        remove(checkpoint);
    free(checkpoint);
    return is_good || lab_fail(error, reason.kind, "%s", reason.text);
}

static bool run_in(const league_request *request, const league_cell *cell, const char *folder,
                   const char *title, lab_error *error) {
    unsigned mark = lab_json_mark();
    json_t *result = describe(cell);
    char *training = lab_path(folder, "training"), *path = lab_path(folder, "result.json");
    bool is_good = (training && path && result) || lab_fail_memory(error);
    is_good = is_good && train_and_test(request, cell, training, title, result, error);
    result = lab_json_whole(result, mark);
    is_good = is_good && lab_json_write(path, result, error);
    json_decref(result);
    free(training);
    free(path);
    return is_good;
}

bool league_cell_run(const league_request *request, const league_cell *cell, const char *title,
                     bool *is_taken, lab_error *error) {
    lab_folder_lock lock = lab_folder_unlocked();
    lab_error reason = {.kind = LAB_NO_ERROR};
    json_t *done = NULL;
    char *folder = league_cell_folder(request, cell);
    bool is_good = folder ? lab_make_folder(folder, error) : lab_fail_memory(error);
    *is_taken = is_good && !lab_folder_take(&lock, folder, &reason);
    /* another process may have finished it meanwhile */
    if (is_good && !*is_taken) {
        is_good = league_cell_read(request, cell, &done, error) &&
                  (done || run_in(request, cell, folder, title, error));
        json_decref(done);
    }
    lab_folder_release(&lock);
    free(folder);
    return is_good;
}

double league_validation(const json_t *result) {
    const json_t *list = json_object_get(result, "validation");
    double sum = 0, loss = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        sum += json_number_value(json_object_get(json_array_get(list, i), "right"));
        loss += json_number_value(json_object_get(json_array_get(list, i), "loss"));
    }
    /* the loss decides between models that are right equally often */
    return json_array_size(list) == 0 ? -1 : sum - 1e-6 * loss;
}
