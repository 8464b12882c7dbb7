// Memory that runs out while a model is trained: every allocation fails in its turn, and each time
// there is an error that says so, and nothing is left behind.
#define _XOPEN_SOURCE 700

#include "support/faults.h"

#include "lm/train.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static nn_engine engine;

static lm_run tiny_run(void) {
    lm_run run = {.config = lm_config_default(), .training = lm_training_default(), .quiet = true};
    lab_error error = {0};
    run.config.layers = 2;
    run.config.width = 8;
    run.config.heads = run.config.key_heads = 2;
    run.config.head_dim = run.config.rope_dims = 4;
    run.config.hidden = 8;
    run.config.context = 128;
    run.config.learn = LM_LEARN_LAYER;
    strcpy(run.config.policy, "adaptive");
    run.training.batch = 3;
    run.training.length_max = 5;
    run.training.steps = 2;
    REQUIRE(lm_training_add_task(&run.training, "minimum", &error));
    return run;
}

TEST(training_without_memory_says_so) {
    lab_error error = {0};
    if (!nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
    lm_run run = tiny_run();
    for (long k = 1;; k++) {
        error = (lab_error){.kind = LAB_NO_ERROR};
        faults_begin(k, k % 2 ? FAULT_ONCE : FAULT_FOR_GOOD);
        bool is_done = lm_train(&engine, &run, NULL, &error);
        faults_end();
        CHECK_MSG(faults_live() == 0, "allocation %ld: %ld blocks are left", k, faults_live());
        CHECK_INT(is_done, !faults_struck());
        if (!faults_struck())
            break;
        CHECK_MSG(strstr(error.text, "memory") != NULL, "allocation %ld: %s", k, error.text);
    }
    nn_engine_close(&engine);
}

TEST(recalling_a_run_without_memory_says_so) {
    lab_error error = {0};
    char folder[] = "/tmp/whet-lm-faults.XXXXXX";
    if (!nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
    REQUIRE(mkdtemp(folder) != NULL);
    lm_run run = tiny_run();
    run.folder.path = folder;
    REQUIRE(lm_train(&engine, &run, NULL, &error));
    for (long k = 1;; k++) {
        lm_run recalled = {.folder = {.path = folder, .log_interval = 7}};
        error = (lab_error){.kind = LAB_NO_ERROR};
        faults_begin(k, k % 2 ? FAULT_ONCE : FAULT_FOR_GOOD);
        bool is_done = lm_run_recall(&recalled, &error);
        faults_end();
        CHECK_MSG(faults_live() == 0, "allocation %ld: %ld blocks are left", k, faults_live());
        CHECK_INT(is_done, !faults_struck());
        if (!faults_struck()) {
            CHECK(k > 20);
            CHECK_INT(recalled.folder.log_interval, 0);
            CHECK_INT(recalled.training.steps, run.training.steps);
            CHECK_INT(recalled.training.task_count, 1);
            CHECK_INT(recalled.config.hidden, run.config.hidden);
            CHECK_STR(recalled.config.policy, run.config.policy);
            break;
        }
        CHECK_MSG(strstr(error.text, "memory") != NULL, "allocation %ld: %s", k, error.text);
    }
    static const char *const files[] = {"model.ckpt", "manifest.json"};
    for (size_t i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        CHECK(unlink(path) == 0);
    }
    CHECK(rmdir(folder) == 0);
    nn_engine_close(&engine);
}

TEST(a_model_without_memory_says_so) {
    lm_run run = tiny_run();
    for (long k = 1;; k++) {
        lab_error error = {0};
        lm_model model;
        faults_begin(k, FAULT_ONCE);
        bool is_made = lm_model_create(&run.config, &model, &error);
        lm_model_free(&model);
        faults_end();
        CHECK_INT(faults_live(), 0);
        CHECK_INT(is_made, !faults_struck());
        if (!faults_struck())
            break;
    }
}
