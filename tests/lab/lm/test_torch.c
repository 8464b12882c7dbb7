/*
 * The same model in torch, in a process of its own (bench/lm_peer.py): every
 * gradient against autograd in double, and the losses of twenty training steps
 * from the same weights and batches. Skipped where there is no torch.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/torch.h"

#include "problem.h"

#include "base/files.h"
#include "lm/rope_scaling.h"
#include "lm/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static nn_engine engine;
static const char *python;
static char folder[64];

static void need_torch(void) {
    lab_error error = {0};
    if (!getenv("WHET_SOURCE_DIR"))
        SKIP("needs WHET_SOURCE_DIR");
    python = python ? python : python_with_torch();
    if (!engine.kernels && !nn_engine_open(&engine, &error)) {
        engine.kernels = NULL;
        SKIP("%s", error.text);
    }
    snprintf(folder, sizeof folder, "/tmp/whet-torch.XXXXXX");
    REQUIRE(mkdtemp(folder));
}

__attribute__((constructor)) static void before_each(void) { check_before_each(need_torch); }

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0); /* NOLINT(cert-env33-c): a path of the test's own */
}

static FILE *begin_input(json_t *head) {
    char path[128];
    snprintf(path, sizeof path, "%s/in", folder);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && head != NULL);
    json_dumpf(head, file, JSON_COMPACT | JSON_REAL_PRECISION(17));
    fputc('\n', file);
    json_decref(head);
    return file;
}

static void put(FILE *file, float value) { fwrite(&value, sizeof value, 1, file); }

/* What the script answers to the input. */
static double *ask(const char *what, size_t *count) {
    char script[64];
    snprintf(script, sizeof script, "lm_peer.py %s", what);
    size_t size;
    double *values =
        (double *)(void *)lab_read_file(run_peer(python, script, folder), 1 << 28, &size, NULL);
    REQUIRE(values != NULL);
    *count = size / sizeof(double);
    return values;
}

static json_t *shape_of(const lm_network *network) {
    json_t *shape = lm_config_to_json(&network->config);
    json_object_set_new(shape, "policy_rows",
                        json_integer((json_int_t)network->layout.policy_rows));
    return shape;
}

static void put_piece(FILE *file, const lm_piece *piece) {
    float labels[PROBLEM_TOKENS] = {0}, weights[PROBLEM_TOKENS] = {0};
    for (size_t i = 0; i < piece->targets; i++) {
        labels[piece->at[i]] = (float)piece->labels[i];
        weights[piece->at[i]] = piece->weights[i];
    }
    put(file, (float)piece->rows);
    put(file, (float)piece->length);
    for (size_t i = 0; i < PROBLEM_TOKENS; i++)
        put(file, (float)piece->tokens[i]);
    fwrite(labels, sizeof(float), PROBLEM_TOKENS, file);
    fwrite(weights, sizeof(float), PROBLEM_TOKENS, file);
}

static void compare_tensor(const problem *p, const lm_tensor *tensor, const double *expected) {
    double largest = 0, worst = 0;
    for (size_t i = 0; i < tensor->rows * tensor->cols; i++) {
        double want = expected[tensor->offset + i];
        largest = fmax(largest, fabs(want));
        worst = fmax(worst, fabs((double)p->gradient[tensor->offset + i] - want));
    }
    CHECK_MSG(worst <= 2e-5 * largest + 1e-6, "%s: off by %g of %g", tensor->name, worst, largest);
}

/* What `whet tune` trains: the same numbers with frozen weights. */
static void compare_frozen(const problem *p, const double *expected) {
    static whet_policy_gradient found[64];
    const lm_config *config = &p->network.config;
    REQUIRE((size_t)config->layers * config->heads <= 64);
    lm_outcome outcome = lm_network_run_frozen(&p->network, &p->piece, p->workspace, found);
    CHECK_INT(outcome.status, WHET_OK);
    for (size_t layer = 0; layer < config->layers; layer++) {
        const double *own =
            expected + lm_layer_at(&p->network.layout, layer) + p->network.layout.policy;
        double sums[2] = {0}, wanted[2] = {0}, largest = 0;
        for (size_t i = 0; i < 2 * p->network.layout.policy_rows; i++) {
            wanted[i % 2] += own[i];
            largest = fmax(largest, fabs(own[i]));
        }
        for (size_t head = 0; head < p->network.policy_count; head++) {
            const double *value = found[layer * config->heads + head].value;
            sums[0] += value[0];
            sums[1] += value[1];
            if (p->network.layout.policy_rows == config->heads) {
                CHECK_NEAR(value[0], own[2 * head], 2e-5 * largest + 1e-6);
                CHECK_NEAR(value[1], own[2 * head + 1], 2e-5 * largest + 1e-6);
            }
        }
        CHECK_NEAR(sums[0], wanted[0], 4e-5 * largest + 2e-6);
        CHECK_NEAR(sums[1], wanted[1], 4e-5 * largest + 2e-6);
    }
}

static void compare_gradients(lm_config config) {
    static problem p;
    problem_set_up(&p, &engine, config, false);
    lm_outcome outcome = lm_network_run(&p.network, &p.piece, p.workspace, p.gradient);
    CHECK_INT(outcome.status, WHET_OK);
    FILE *file = begin_input(json_pack("{s:o}", "shape", shape_of(&p.network)));
    fwrite(p.weights, sizeof(float), p.network.layout.count, file);
    put_piece(file, &p.piece);
    CHECK_INT(fclose(file), 0);
    size_t count;
    double *expected = ask("gradients", &count);
    REQUIRE(count == 1 + p.network.layout.count);
    CHECK_NEAR(outcome.loss, expected[0], 2e-6 * expected[0]);
    for (size_t i = 0; i < lm_tensor_count(&config); i++) {
        lm_tensor tensor = lm_tensor_at(&config, &p.network.layout, i);
        compare_tensor(&p, &tensor, expected + 1);
    }
    if (strncmp(config.policy, "hinge:", 6) == 0)
        compare_frozen(&p, expected + 1);
    free(expected);
    problem_tear_down(&p);
    remove_folder();
}

TEST(every_gradient_is_that_of_torch) { compare_gradients(small_config()); }

TEST(every_gradient_of_swiglu_and_its_own_output_matrix_is_that_of_torch) {
    lm_config config = small_config();
    config.gate = LM_SWIGLU;
    config.tied = false;
    config.rope_dims = 6;
    compare_gradients(config);
}

TEST(every_gradient_without_positions_is_that_of_torch) {
    lm_config config = small_config();
    config.positions = LM_NO_POSITIONS;
    compare_gradients(config);
}

static lm_config adaptive_config(lm_learn learn) {
    lm_config config = small_config();
    snprintf(config.policy, sizeof config.policy, "adaptive");
    config.learn = learn;
    return config;
}

TEST(every_gradient_through_adaptive_temperature_is_that_of_torch) {
    compare_gradients(adaptive_config(LM_LEARN_NOTHING));
}

TEST(every_gradient_of_learned_polynomials_is_that_of_torch) {
    compare_gradients(adaptive_config(LM_LEARN_LAYER));
    need_torch(); /* another folder */
    compare_gradients(adaptive_config(LM_LEARN_HEAD));
}

static lm_config hinge_config(lm_learn learn, const char *rope) {
    lm_config config = small_config();
    lab_error error = {0};
    uint32_t context = config.context;
    snprintf(config.policy, sizeof config.policy, "hinge:0.1:-0.2:7");
    config.learn = learn;
    config.context = 8; /* so that positions go beyond what is scaled from */
    REQUIRE(lm_rope_scale(&config, rope, &error));
    config.context = context;
    return config;
}

TEST(gradients_of_hinges_under_every_scaling_of_positions_are_those_of_torch) {
    static const char *const ropes[] = {"none", "linear:2", "ntk:3", "yarn:4"};
    for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++) {
        for (lm_learn learn = LM_LEARN_LAYER; learn <= LM_LEARN_HEAD; learn++) {
            if (i > 0 || learn > LM_LEARN_LAYER) {
                need_torch(); /* another folder */
            }
            compare_gradients(hinge_config(learn, ropes[i]));
        }
    }
}

enum { STEPS = 20 };

static void put_sequences(FILE *file, const lm_sequences *sequences) {
    size_t longest = 0;
    for (size_t i = 0; i < sequences->count; i++)
        longest = sequences->list[i].count - 1 > longest ? sequences->list[i].count - 1 : longest;
    put(file, (float)sequences->count);
    put(file, (float)longest);
    for (int what = 0; what < 3; what++) /* tokens, labels, weights */
        for (size_t i = 0; i < sequences->count; i++)
            for (size_t j = 0; j < longest; j++) {
                const lm_sequence *sequence = &sequences->list[i];
                const lm_token *tokens = sequences->tokens + sequence->offset;
                bool is_real = j + 1 < sequence->count;
                float values[] = {is_real ? (float)tokens[j] : 0,
                                  is_real ? (float)tokens[j + 1] : 0,
                                  is_real && j + 1 >= sequence->answer ? 1 : 0};
                put(file, values[what]);
            }
}

static json_t *training_head(const lm_config *config, const lm_training *training) {
    lm_network network = {.config = *config};
    REQUIRE(lm_layout_of(config, &network.layout));
    json_t *rates = json_array();
    for (uint64_t step = 0; step < STEPS; step++)
        json_array_append_new(rates, json_real(lm_rate_at(training, step)));
    return json_pack("{s:o, s:o, s:f, s:f, s:f, s:f}", "shape", shape_of(&network), "rates", rates,
                     "decay", training->decay, "clip", training->clip, "beta1", training->beta1,
                     "beta2", training->beta2);
}

static void compare_training(lm_config config) {
    lab_error error = {0};
    lm_training training = lm_training_default();
    training.steps = STEPS;
    training.warm_up = 5;
    training.batch = 12;
    config.vocabulary = LM_CLRS_VOCABULARY;
    config.context = 256;
    REQUIRE(lm_training_add_task(&training, "insertion_sort", &error) &&
            lm_training_add_task(&training, "bfs:hints", &error));
    lm_trainer *trainer = lm_trainer_create(&engine, &config, &training, NULL, &error);
    lm_source *source = lm_source_create(&training, config.context, &error);
    REQUIRE(trainer && source);
    FILE *file = begin_input(training_head(&config, &training));
    fwrite(lm_trainer_weights(trainer), sizeof(float), lm_trainer_parameters(trainer), file);
    double losses[STEPS];
    lm_sequences sequences = {0};
    for (size_t i = 0; i < STEPS; i++) {
        lm_step result = {0};
        REQUIRE(lm_source_draw(source, &sequences, &error));
        put_sequences(file, &sequences);
        REQUIRE(lm_trainer_step(trainer, &result, &error)); /* draws the same */
        losses[i] = result.loss;
    }
    CHECK_INT(fclose(file), 0);
    size_t count;
    double *expected = ask("train", &count);
    REQUIRE(count == STEPS);
    for (size_t i = 0; i < STEPS; i++)
        CHECK_MSG(fabs(losses[i] - expected[i]) <= 1e-4 * expected[i],
                  "step %zu: %.7f, torch has %.7f", i, losses[i], expected[i]);
    CHECK(losses[STEPS - 1] < 0.9 * losses[0]);
    free(expected);
    lm_sequences_free(&sequences);
    lm_source_destroy(source);
    lm_trainer_destroy(trainer);
    remove_folder();
}

TEST(twenty_steps_have_the_losses_of_torch) { compare_training(small_config()); }

TEST(twenty_steps_with_adaptive_temperature_have_the_losses_of_torch) {
    compare_training(adaptive_config(LM_LEARN_NOTHING));
}

TEST(twenty_steps_with_learned_polynomials_have_the_losses_of_torch) {
    compare_training(adaptive_config(LM_LEARN_HEAD));
}
