/*
 * Memory that runs out while models are read, written, packed and used: each
 * allocation fails in its turn, every time there is an error and nothing is left.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/faults.h"

#include "lm/evaluate.h"
#include "lm/generate.h"
#include "lm/gguf_model.h"
#include "lm/open.h"

#include <stdio.h>
#include <unistd.h>

static nn_engine engine;
static char checkpoint[64], gguf[64];

__attribute__((destructor)) static void remove_files(void) {
    unlink(checkpoint);
    unlink(gguf);
}

static lm_config small_shape(void) {
    lm_config c = lm_config_default();
    c.layers = 1;
    c.width = 16;
    c.heads = c.key_heads = 2;
    c.head_dim = c.rope_dims = 8;
    c.hidden = 24;
    c.context = 200;
    return c;
}

/* A model of CLRS-Text's tokens, as a checkpoint and as GGUF. */
static void make_files(void) {
    lab_error error = {0};
    lm_opened o = {.is_clrs = true};
    lm_config config = small_shape();
    if (!engine.kernels && !nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
    snprintf(checkpoint, sizeof checkpoint, "/tmp/whet-lm-faults-%ld.ckpt", (long)getpid());
    snprintf(gguf, sizeof gguf, "/tmp/whet-lm-faults-%ld.gguf", (long)getpid());
    REQUIRE(lm_model_create(&config, &o.model, &error));
    lm_initialise(&config, &o.model.layout, 1, o.model.weights);
    REQUIRE(lm_tokenizer_clrs(&o.tokenizer, &error));
    REQUIRE(lm_store(checkpoint, &o, &error));
    REQUIRE(lm_gguf_write(gguf, &o.model, &o.tokenizer, GGUF_F32, "test", &error));
    lm_opened_free(&o);
}

/* Fails every allocation of `work`, which must say so each time; `work` frees all it has. */
static void fail_each(bool (*work)(lab_error *error), long at_least) {
    for (long k = 1;; k++) {
        lab_error error = {0};
        faults_begin(k, FAULT_ONCE);
        bool good = work(&error);
        faults_end();
        CHECK_INT(faults_live(), 0);
        if (!faults_struck()) {
            CHECK_MSG(good, "%s", error.text);
            CHECK_MSG(k > at_least, "only %ld allocations", k);
            return;
        }
        CHECK_MSG(!good && error.kind == LAB_SYSTEM, "allocation %ld: '%s'", k, error.text);
    }
}

static bool open_checkpoint(lab_error *error) {
    lm_opened o;
    bool good = lm_open(checkpoint, NULL, &o, error);
    lm_opened_free(&o);
    return good;
}

static bool open_gguf(lab_error *error) {
    lm_opened o;
    bool good = lm_open(gguf, NULL, &o, error);
    lm_opened_free(&o);
    return good;
}

TEST(opening_a_model_says_when_memory_runs_out) {
    make_files();
    fail_each(open_checkpoint, 10);
    fail_each(open_gguf, 10);
}

static lm_opened opened;

static bool write_gguf(lab_error *error) {
    return lm_gguf_write(gguf, &opened.model, &opened.tokenizer, GGUF_Q8_0, "test", error);
}

static bool ignore(void *context, lm_token token, const char *text, size_t length) {
    (void)context;
    (void)token;
    (void)text;
    (void)length;
    return true;
}

static bool generate(lab_error *error) {
    lm_generated result;
    const lm_generate_request request = {.opened = &opened,
                                         .engine = &engine,
                                         .prompt = "minimum:\n",
                                         .prompt_length = 9,
                                         .steps = 5,
                                         .measures = true,
                                         .take = ignore};
    bool good = lm_generate(&request, &result, error);
    free(result.entropies);
    return good;
}

static bool evaluate(lab_error *error) {
    const lm_task task = {clrs_algorithm_find("minimum"), false};
    const uint64_t length = 4;
    const lm_eval_policy own = {"trained", NULL};
    const lm_eval_request request = {.model = &opened.model,
                                     .engine = &engine,
                                     .tasks = &task,
                                     .task_count = 1,
                                     .lengths = &length,
                                     .length_count = 1,
                                     .samples = 3,
                                     .policies = &own,
                                     .policy_count = 1,
                                     .quiet = true};
    lm_evaluation result;
    bool good = lm_evaluate(&request, &result, error);
    lm_evaluation_free(&result);
    return good;
}

TEST(using_a_model_says_when_memory_runs_out) {
    lab_error error = {0};
    make_files();
    REQUIRE(lm_open(checkpoint, NULL, &opened, &error));
    fail_each(write_gguf, 5);
    fail_each(generate, 10);
    fail_each(evaluate, 15);
    lm_opened_free(&opened);
}
