/*
 * Training as functions: the same bits whatever the threads, resumed or not;
 * what is packed is what was drawn; and memory that grows with the context and
 * not with its square.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/engine.h"

#include "base/signals.h"
#include "lm/experiment.h"
#include "lm/train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 6 };

static lm_config small_model(void) {
    lm_config config = lm_config_default();
    config.layers = 2;
    config.width = 24;
    config.heads = config.key_heads = 2;
    config.head_dim = config.rope_dims = 12;
    config.hidden = 40;
    config.context = 512;
    return config;
}

static lm_training short_training(void) {
    lm_training training = lm_training_default();
    lab_error error = {0};
    training.batch = 40;
    training.accumulate = 2;
    training.steps = STEPS;
    training.warm_up = 2;
    training.curriculum = 0.5;
    REQUIRE(lm_training_add_task(&training, "insertion_sort", &error));
    REQUIRE(lm_training_add_task(&training, "bfs", &error));
    REQUIRE(lm_training_add_task(&training, "minimum:hints", &error));
    return training;
}

static lm_trainer *begin(const lm_config *config, const lm_training *training,
                         const whet_executor *executor) {
    lab_error error = {0};
    lm_trainer *trainer = lm_trainer_create(&engine, config, training, executor, &error);
    REQUIRE(trainer);
    return trainer;
}

/* How many samples were left out until then. */
static uint64_t go_to(lm_trainer *trainer, uint64_t step) {
    lab_error error = {0};
    lm_step result = {.left_out = 0};
    while (lm_trainer_done(trainer) < step)
        REQUIRE(lm_trainer_step(trainer, &result, &error));
    return result.left_out;
}

static bool same_weights(lm_trainer *a, lm_trainer *b) {
    return same_bytes(lm_trainer_weights(a), lm_trainer_weights(b),
                      lm_trainer_parameters(a) * sizeof(float));
}

static void check_threads(lm_config config) {
    lm_training training = short_training();
    lm_trainer *alone = begin(&config, &training, NULL);
    go_to(alone, STEPS);
    for (size_t threads = 2; threads <= 11; threads += 3) { /* also more than there are lanes */
        whet_pool *pool = NULL;
        REQUIRE(whet_pool_create(threads, &pool) == WHET_OK);
        whet_executor executor = whet_pool_executor(pool);
        lm_trainer *together = begin(&config, &training, &executor);
        go_to(together, STEPS);
        CHECK_MSG(same_weights(alone, together), "with %zu threads", threads);
        lm_trainer_destroy(together);
        whet_pool_destroy(pool);
    }
    lm_trainer_destroy(alone);
}

TEST(threads_change_nothing_in_the_weights) { check_threads(small_model()); }

TEST(nor_with_policies_that_are_learned) {
    lm_config config = small_model();
    snprintf(config.policy, sizeof config.policy, "adaptive");
    config.learn = LM_LEARN_HEAD;
    check_threads(config);
}

TEST(a_trainer_restored_at_any_step_goes_on_with_the_same_bits) {
    lm_config config = small_model();
    snprintf(config.policy, sizeof config.policy, "adaptive");
    config.learn = LM_LEARN_LAYER;
    config.context = 126; /* the longest samples of insertion_sort are left out */
    lm_training training = short_training();
    training.tasks[1] = training.tasks[2];
    training.task_count = 2;
    lm_trainer *whole = begin(&config, &training, NULL);
    char path[64];
    lab_error error = {0};
    uint64_t left_out = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        snprintf(path, sizeof path, "/tmp/whet-lm-%ld-%llu", (long)getpid(),
                 (unsigned long long)step);
        REQUIRE(lm_trainer_save(whole, path, &error));
        left_out = go_to(whole, step + 1);
    }
    CHECK(left_out > 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        lm_trainer *again = begin(&config, &training, NULL);
        snprintf(path, sizeof path, "/tmp/whet-lm-%ld-%llu", (long)getpid(),
                 (unsigned long long)step);
        REQUIRE(lm_trainer_restore(again, path, &error));
        CHECK_INT(lm_trainer_done(again), step);
        CHECK_INT(go_to(again, STEPS), left_out); /* since the start, whenever that was */
        CHECK(same_weights(whole, again));
        lm_trainer_destroy(again);
        unlink(path);
    }
    lm_trainer_destroy(whole);
}

/* A model with everything that a checkpoint may leave out, and a synthetic task. */
static void choose_synthetic(lm_config *config, lm_training *training) {
    *config = small_model();
    config->positions = LM_MIX;
    config->has_sinks = config->has_query_betas = true;
    config->learn = LM_LEARN_HEAD;
    snprintf(config->policy, sizeof config->policy, "entmax:1.5");
    snprintf(config->learned, sizeof config->learned, "a");
    *training = lm_training_default();
    training->synthetic = task_find("sort");
    training->steps = STEPS;
    training->length_max = 11;
}

TEST(a_synthetic_task_is_restored_with_the_same_bits_for_any_number_of_threads) {
    lm_config config;
    lm_training training;
    lab_error error = {0};
    whet_pool *pool = NULL;
    char path[64];
    choose_synthetic(&config, &training);
    REQUIRE(whet_pool_create(3, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    lm_trainer *whole = begin(&config, &training, NULL);
    lm_trainer *again = begin(&config, &training, &executor);
    snprintf(path, sizeof path, "/tmp/whet-lm-%ld-task", (long)getpid());
    go_to(whole, 2);
    REQUIRE(lm_trainer_save(whole, path, &error));
    go_to(whole, STEPS);
    REQUIRE(lm_trainer_restore(again, path, &error));
    go_to(again, STEPS);
    CHECK(same_weights(whole, again));
    config.has_sinks = false;
    lm_trainer *other = begin(&config, &training, NULL);
    CHECK(!lm_trainer_restore(other, path, &error));
    lm_trainer_destroy(other);
    lm_trainer_destroy(again);
    lm_trainer_destroy(whole);
    whet_pool_destroy(pool);
    remove(path);
}

TEST(options_of_a_synthetic_task_survive_json) {
    lm_config config, read_config;
    lm_training training, read_training;
    lab_error error = {0};
    choose_synthetic(&config, &training);
    json_t *shape = lm_config_to_json(&config), *options = lm_training_to_json(&training);
    REQUIRE(lm_config_from_json(shape, "x", &read_config, &error));
    REQUIRE(lm_training_from_json(options, "x", &read_training, &error));
    CHECK_STR(read_config.learned, "a");
    CHECK(read_config.has_sinks && read_config.has_query_betas && read_config.positions == LM_MIX);
    CHECK(read_training.synthetic == training.synthetic && read_training.task_count == 0);
    json_object_set_new(options, "task", json_string("sorting"));
    CHECK(!lm_training_from_json(options, "x", &read_training, &error));
    CHECK_STR(error.text, "x: damaged checkpoint: unknown task 'sorting'");
    json_decref(shape);
    json_decref(options);
}

TEST(tasks_that_cannot_be_learned_are_refused) {
    lm_config config;
    lm_training training;
    lab_error error = {0};
    choose_synthetic(&config, &training);
    training.synthetic = task_find("variables");
    CHECK(!lm_training_check(&training, &error));
    CHECK_STR(error.text, "--lengths: 4 is out of range (at least 37 for variables)");
    error = (lab_error){0};
    choose_synthetic(&config, &training);
    config.vocabulary = 20;
    CHECK(!lm_trainer_create(&engine, &config, &training, NULL, &error));
    CHECK_STR(error.text, "--vocabulary: sort has 37 tokens");
    error = (lab_error){0};
    choose_synthetic(&config, &training);
    config.context = 20;
    CHECK(!lm_trainer_create(&engine, &config, &training, NULL, &error));
    CHECK_STR(error.text, "sort of size 11 takes 24 tokens and does not fit --context 20");
}

/* In a process of its own, since a signal that came in stays. */
TEST(taking_up_a_run_can_be_interrupted) {
    lm_config config = small_model();
    lm_training training = short_training();
    lm_trainer *trainer = begin(&config, &training, NULL);
    lab_error error = {0};
    char path[64];
    snprintf(path, sizeof path, "/tmp/whet-lm-stopped-%ld", (long)getpid());
    go_to(trainer, 2);
    REQUIRE(lm_trainer_save(trainer, path, &error));
    lm_trainer *again = begin(&config, &training, NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        lab_catch_interrupts();
        raise(SIGINT);
        bool is_restored = lm_trainer_restore(again, path, &error);
        _exit(!is_restored && error.kind == LAB_STOPPED ? 7 : 1);
    }
    int status = 0;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    lm_trainer_destroy(again);
    lm_trainer_destroy(trainer);
    unlink(path);
}

TEST(a_model_is_loaded_from_the_checkpoint_of_its_training) {
    lm_config config = small_model();
    lm_training training = short_training();
    lm_trainer *trainer = begin(&config, &training, NULL);
    lab_error error = {0};
    lm_model model = {0}, again = {0};
    char path[64];
    snprintf(path, sizeof path, "/tmp/whet-lm-%ld", (long)getpid());
    go_to(trainer, 2);
    REQUIRE(lm_trainer_save(trainer, path, &error));
    REQUIRE(lm_model_load(path, &model, &error));
    CHECK_INT(model.step, 2);
    CHECK_INT(model.config.hidden, config.hidden);
    size_t bytes = model.layout.count * sizeof(float);
    CHECK(same_bytes(model.weights, lm_trainer_weights(trainer), bytes));
    REQUIRE(lm_model_save(path, &model, json_string(LM_TOKENS_CLRS), &error)); /* without moments */
    REQUIRE(lm_model_load(path, &again, &error));
    CHECK(same_bytes(model.weights, again.weights, bytes));
    CHECK(!lm_trainer_restore(trainer, path, &error)); /* nothing to train on with */
    CHECK(strstr(error.text, "no training state to resume from") != NULL);
    lm_model_free(&model);
    lm_model_free(&again);
    lm_trainer_destroy(trainer);
    unlink(path);
}

TEST(training_lowers_the_loss_under_every_kind_of_loss) {
    lm_config config = small_model();
    for (int kind = 0; kind < 4; kind++) {
        lm_training training = short_training();
        training.steps = 60;
        training.loss = kind & 1 ? LM_LOSS_ALL : LM_LOSS_ANSWER;
        training.weigh = kind & 2 ? LM_WEIGH_SEQUENCES : LM_WEIGH_TOKENS;
        training.batch = 8;
        lm_trainer *trainer = begin(&config, &training, NULL);
        lab_error error = {0};
        lm_step first, last = {0};
        REQUIRE(lm_trainer_step(trainer, &first, &error));
        for (int i = 1; i < 60; i++)
            REQUIRE(lm_trainer_step(trainer, &last, &error));
        CHECK_MSG(last.loss < 0.6 * first.loss, "from %g to %g", first.loss, last.loss);
        CHECK_INT(last.all.sequences, 16);
        lm_trainer_destroy(trainer);
    }
}

TEST(a_loss_that_is_not_finite_is_an_error) {
    lm_config config = small_model();
    lm_training training = short_training();
    lm_trainer *trainer = begin(&config, &training, NULL);
    lab_error error = {0};
    lm_step result;
    lm_trainer_weights(trainer)[100] = INFINITY;
    CHECK(!lm_trainer_step(trainer, &result, &error));
    CHECK_MSG(strstr(error.text, "not finite") != NULL, "%s", error.text);
    lm_trainer_destroy(trainer);
}

/* Every sequence is in one piece exactly, its answer's tokens are targets, and filling is little.
 */
TEST(what_is_packed_is_what_was_drawn) {
    lm_training training = short_training();
    lab_error error = {0};
    lm_source *source = lm_source_create(&training, 512, &error);
    lm_sequences sequences = {0};
    lm_packed packed = {0};
    REQUIRE(source && lm_source_draw(source, &sequences, &error));
    REQUIRE(lm_pack(&sequences, LM_LOSS_ANSWER, LM_WEIGH_TOKENS, &packed));
    size_t rows = 0, filled = 0, targets = 0, answers = 0;
    for (size_t p = 0; p < packed.count; p++) {
        const lm_piece *piece = &packed.pieces[p];
        for (size_t row = 0; row < piece->rows; row++, rows++) {
            const lm_sequence *from = &sequences.list[packed.order[rows]];
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): lm_source_draw made it */
            CHECK(same_bytes(piece->tokens + row * piece->length, sequences.tokens + from->offset,
                             (from->count - 1) * sizeof(lm_token)));
        }
        for (size_t i = 0; i < piece->targets; i++)
            if (piece->at[i] % piece->length + 1 < piece->length && i + 1 < piece->targets &&
                piece->at[i + 1] == piece->at[i] + 1)
                CHECK_INT(piece->labels[i], piece->tokens[piece->at[i] + 1]);
        filled += piece->rows * piece->length;
        targets += piece->targets;
    }
    for (size_t i = 0; i < sequences.count; i++)
        answers += sequences.list[i].count - sequences.list[i].answer;
    CHECK_INT(rows, sequences.count);
    CHECK_INT(targets, answers);
    CHECK_NEAR(packed.weight, (double)targets, 0);
    CHECK_MSG((double)filled < 1.1 * (double)(sequences.token_count - sequences.count),
              "%zu positions for %zu tokens", filled, sequences.token_count);
    lm_packed_free(&packed);
    lm_sequences_free(&sequences);
    lm_source_destroy(source);
}

TEST(a_sample_that_never_fits_the_context_is_an_error_with_its_length) {
    lm_config config = small_model();
    lm_training training = short_training();
    config.context = 40;
    lab_error error = {0};
    CHECK(!lm_trainer_create(&engine, &config, &training, NULL, &error)); /* not first at a step */
    CHECK_MSG(strstr(error.text, "does not fit --context 40") != NULL, "%s", error.text);
}

static double rope_bytes(const lm_config *config) {
    return 3.0 * config->context * config->rope_dims * sizeof(float);
}

TEST(memory_follows_the_sequences_and_not_the_context) {
    lm_config short_one = small_model(), long_one = small_model();
    lm_training training = short_training();
    short_one.context = 2000;
    long_one.context = 32768;
    lm_trainer *a = begin(&short_one, &training, NULL), *b = begin(&long_one, &training, NULL);
    go_to(a, 2);
    go_to(b, 2);
    CHECK(same_weights(a, b));
    CHECK_NEAR((double)lm_trainer_bytes(b) - rope_bytes(&long_one),
               (double)lm_trainer_bytes(a) - rope_bytes(&short_one), 1000);
    lm_trainer_destroy(a);
    lm_trainer_destroy(b);
}

TEST(memory_grows_when_a_longer_sequence_comes) {
    enum { LONG = 3000 };
    lm_config config = small_model();
    lm_training training = short_training();
    config.context = 4096;
    lm_trainer *trainer = begin(&config, &training, NULL);
    size_t before = lm_trainer_bytes(trainer);
    static lm_token tokens[LONG];
    for (size_t i = 0; i < LONG; i++)
        tokens[i] = (lm_token)(' ' + i % 60);
    lm_sequence one = {.count = LONG, .answer = LONG - 20};
    const lm_sequences sequences = {
        .tokens = tokens, .token_count = LONG, .list = &one, .count = 1};
    lab_error error = {0};
    lm_step result;
    REQUIRE(lm_trainer_step_on(trainer, &sequences, &result, &error));
    CHECK(lm_trainer_bytes(trainer) > before + before / 8);
    lm_trainer_destroy(trainer);
}

TEST(the_memory_that_is_told_beforehand_is_about_what_is_taken) {
    lm_training training = short_training();
    for (uint32_t layers = 1; layers <= 4; layers += 3) {
        lm_config config = lm_config_default();
        config.layers = layers;
        lm_needs needs;
        lab_error error = {0};
        REQUIRE(lm_trainer_needs(&config, &training, NULL, &needs, &error));
        lm_trainer *trainer = begin(&config, &training, NULL);
        go_to(trainer, 1);
        CHECK_INT(needs.parameters, lm_trainer_parameters(trainer));
        double image = 3.0 * (double)needs.parameters * sizeof(float);
        double taken = (double)lm_trainer_bytes(trainer) + image;
        CHECK_MSG(fabs((double)needs.bytes / taken - 1) < 0.25, "%zu told, %.0f taken", needs.bytes,
                  taken);
        lm_trainer_destroy(trainer);
    }
}

TEST(the_full_experiment_fits_its_longest_questions) {
    enum { LONGEST = 48, OVERLENGTH = 64 };
    lm_config config;
    lm_training training;
    size_t tokens;
    lab_error error = {0};
    lm_experiment(true, &config, &training);
    training.length_max = LONGEST;
    REQUIRE(lm_training_longest(&training, 1 << 20, &tokens, &error));
    CHECK_MSG(tokens > 10000 && 3 * tokens / 2 + OVERLENGTH < config.context, "%zu tokens", tokens);
}

/* The real memory of a piece with one sequence of `tokens` tokens, run once. */
static double bytes_for(size_t tokens, const char *policy) {
    lm_config config = small_model();
    lab_error error = {0};
    lm_layout layout;
    lm_network network;
    config.context = (uint32_t)tokens;
    snprintf(config.policy, sizeof config.policy, "%s", policy);
    REQUIRE(lm_layout_of(&config, &layout));
    float *weights = calloc(layout.count, sizeof(float));
    float *gradient = calloc(layout.count, sizeof(float));
    lm_token *ids = calloc(tokens, sizeof *ids);
    uint32_t *at = calloc(tokens, sizeof *at);
    float *ones = calloc(tokens, sizeof *ones);
    unsigned char *is_answer = calloc(tokens, 1);
    REQUIRE(weights && gradient && ids && at && ones && is_answer);
    lm_initialise(&config, &layout, 1, weights);
    for (uint32_t i = 0; i < tokens; i++) {
        ids[i] = i % 97;
        at[i] = i;
        ones[i] = 1;
    }
    REQUIRE(lm_network_create(&engine, &config, weights, &network, &error));
    lm_workspace *workspace = lm_workspace_create(&network, tokens);
    REQUIRE(workspace);
    size_t before = lm_workspace_bytes(workspace);
    lm_piece piece = {.rows = 1,
                      .length = tokens,
                      .tokens = ids,
                      .targets = tokens,
                      .at = at,
                      .labels = ids,
                      .weights = ones,
                      .is_answer = is_answer};
    CHECK_INT(lm_network_run(&network, &piece, workspace, gradient).status, WHET_OK);
    CHECK_INT(lm_workspace_bytes(workspace), before); /* and no more while it runs */
    lm_workspace_destroy(workspace);
    lm_network_destroy(&network);
    free(is_answer);
    free(ones);
    free(at);
    free(ids);
    free(gradient);
    free(weights);
    return (double)before;
}

TEST(activations_are_linear_in_the_context) {
    const char *const policies[] = {"softmax", "adaptive"};
    for (size_t i = 0; i < 2; i++) {
        double short_one = bytes_for(1000, policies[i]), twice = bytes_for(2000, policies[i]);
        double four_times = bytes_for(4000, policies[i]);
        double growth = (four_times - twice) / (twice - short_one); /* 2, or 4 for a square */
        CHECK_MSG(fabs(growth - 2) < 0.1, "%s: %.0f, %.0f and %.0f bytes", policies[i], short_one,
                  twice, four_times);
    }
}
