// Training, loading, evaluating and fitting heads while memory runs out: each time a message about
// memory, no block left, and earlier checkpoints and results as they were.
#define _POSIX_C_SOURCE 200809L

#include "support/faults.h"
#include "support/engine.h"
#include "support/lab_faults.h"

#include "base/files.h"
#include "report/experiment.h"
#include "retrieval/evaluate.h"
#include "retrieval/figure_data.h"
#include "retrieval/fit.h"
#include "retrieval/train.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[64];
static retrieval_heads heads;
static retrieval_precision precision = RETRIEVAL_F32;
static size_t sets = 3;

static void make_scratch(void) {
    snprintf(folder, sizeof folder, "/tmp/whet-faults.XXXXXX");
    REQUIRE(mkdtemp(folder));
}

static void remove_scratch(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0); // NOLINT(cert-env33-c): a path of our own
}

// Two heads of few steps, gone on with where they are.
static bool train(uint64_t steps, retrieval_heads *trained, lab_error *error) {
    const uint64_t seeds[] = {1, 2};
    retrieval_run run = {
        .config = retrieval_config_default(),
        .seeds = seeds,
        .seed_count = 2,
        .folder = {.path = folder, .checkpoint_interval = 1, .log_interval = 1, .resume = true},
        .quiet = true};
    run.config.precision = precision;
    run.config.width = 4;
    run.config.classes = 2;
    run.config.batch = 3;
    run.config.steps = steps;
    return retrieval_train(&engine, &run, trained, error);
}

static bool train_on(lab_error *error) {
    retrieval_heads trained;
    bool is_done = train(3, &trained, error);
    if (is_done)
        retrieval_heads_free(&trained);
    return is_done;
}

// Whatever was saved last is whole, and no further back than it was.
static void check_heads(bool is_done) {
    lab_error error = {.kind = LAB_NO_ERROR};
    retrieval_heads loaded;
    if (!CHECK_MSG(retrieval_heads_load(folder, &loaded, &error), "%s", error.text))
        return;
    CHECK_INT(loaded.count, 2);
    for (size_t i = 0; i < loaded.count; i++)
        CHECK(loaded.list[i].step >= (is_done ? 3 : 1));
    retrieval_heads_free(&loaded);
}

TEST(training_fails_in_good_order_and_keeps_its_checkpoints) {
    make_scratch();
    lab_error error = {.kind = LAB_NO_ERROR};
    REQUIRE(train(1, NULL, &error));
    lab_faults_try(train_on, check_heads);
    remove_scratch();
}

static bool load(lab_error *error) {
    retrieval_heads loaded;
    bool is_done = retrieval_heads_load(folder, &loaded, error);
    if (is_done)
        retrieval_heads_free(&loaded);
    return is_done;
}

TEST(heads_are_loaded_or_for_want_of_memory_not) {
    make_scratch();
    lab_error error = {.kind = LAB_NO_ERROR};
    REQUIRE(train(1, NULL, &error));
    lab_faults_try(load, NULL);
    remove_scratch();
}

static bool evaluate(lab_error *error) {
    const size_t sizes[] = {5, 300};
    const char *const names[] = {"softmax", "adaptive"};
    const whet_policy policies[] = {whet_policy_softmax(), whet_policy_adaptive()};
    retrieval_eval_request request = {.heads = &heads,
                                      .sizes = sizes,
                                      .size_count = 2,
                                      .sets = sets,
                                      .policies = policies,
                                      .names = names,
                                      .policy_count = 2,
                                      .quiet = true};
    retrieval_evaluation result;
    if (!retrieval_evaluate(&engine, &request, &result, error))
        return false;
    json_t *json = retrieval_evaluation_json(&result);
    if (json)
        CHECK_INT(json_array_size(json_object_get(json, "rows")), 4);
    bool is_done = json || lab_fail_memory(error);
    json_decref(json);
    retrieval_evaluation_free(&result);
    return is_done;
}

static bool fit(lab_error *error) {
    const size_t sizes[] = {16, 64};
    retrieval_fit_request request = {.heads = &heads,
                                     .sizes = sizes,
                                     .size_count = 2,
                                     .sets = 8,
                                     .degree = 2,
                                     .cap = 64,
                                     .quiet = true};
    retrieval_fit made;
    if (!retrieval_fit_make(&engine, &request, &made, error))
        return false;
    json_t *json = retrieval_fit_json(&made);
    bool is_done = json || lab_fail_memory(error);
    json_decref(json);
    retrieval_fit_free(&made);
    return is_done;
}

static bool make_panel(lab_error *error) {
    whet_policy policy = whet_policy_adaptive();
    retrieval_panel panel;
    if (!retrieval_panel_make(&engine, &heads.list[0], &policy, 20, 3, 16, 1, &panel, error))
        return false;
    json_t *json = retrieval_panel_json(&panel);
    bool is_done = json || lab_fail_memory(error);
    json_decref(json);
    retrieval_panel_free(&panel);
    return is_done;
}

static void with_heads(bool (*work)(lab_error *error)) {
    make_scratch();
    lab_error error = {.kind = LAB_NO_ERROR};
    REQUIRE(train(1, &heads, &error));
    lab_faults_try(work, NULL);
    retrieval_heads_free(&heads);
    remove_scratch();
}

TEST(an_evaluation_is_whole_or_none) { with_heads(evaluate); }
TEST(so_is_one_of_heads_whose_products_are_rounded) {
    precision = RETRIEVAL_BF16_PRODUCTS;
    sets = 24; /* enough for cells to pay */
    with_heads(evaluate);
    precision = RETRIEVAL_F32;
    sets = 3;
}
TEST(a_fit_is_whole_or_none) { with_heads(fit); }
TEST(a_panel_is_whole_or_none) { with_heads(make_panel); }

static bool recall_evaluation(lab_error *error) {
    experiment_options options = {.folder = folder,
                                  .seeds = 1,
                                  .steps = 1,
                                  .sets = 2,
                                  .largest = 16,
                                  .quiet = true,
                                  .engine = &engine};
    experiment of = experiment_start(&options);
    bool is_done = experiment_evaluation(&of, RETRIEVAL_F32, error) != NULL;
    experiment_end(&of);
    return is_done;
}

// Made once, it is read from then on, and its file never harmed.
TEST(a_result_that_is_kept_is_found_again_or_not_for_want_of_memory) {
    make_scratch();
    lab_error error = {.kind = LAB_NO_ERROR};
    REQUIRE(recall_evaluation(&error));
    lab_faults_try(recall_evaluation, NULL);
    remove_scratch();
}
