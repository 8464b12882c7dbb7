/*
 * The league as functions: what counts as right is what greedy decoding writes, arms follow from
 * the registry, rates are chosen by validation, and results are sums of what the cells say.
 */
#include "support/check.h"
#include "support/engine.h"

#include "base/files.h"
#include "league/fit.h"
#include "league/results.h"
#include "lm/decode.h"
#include "lm/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- examinations ---- */

enum { SAMPLES = 40 };

static lm_config tiny_config(const char *task) {
    lm_config config = lm_config_default();
    config.layers = 2;
    config.width = 32;
    config.heads = config.key_heads = 2;
    config.head_dim = config.rope_dims = 16;
    config.hidden = 48;
    config.context = 400;
    config.positions = LM_MIX;
    config.vocabulary = task_vocabulary(task_find(task));
    return config;
}

/* A model that is right now and then. */
static void train_model(const char *task, lm_config config, uint64_t steps, lm_model *model) {
    lab_error error = {0};
    lm_training training = lm_training_default();
    lm_step ignored;
    training.synthetic = task_find(task);
    training.length_min = 4;
    training.length_max = 8;
    training.steps = steps;
    training.warm_up = 10;
    training.rate = 4e-3;
    lm_trainer *trainer = lm_trainer_create(&engine, &config, &training, NULL, &error);
    REQUIRE(trainer);
    while (lm_trainer_done(trainer) < steps)
        REQUIRE(lm_trainer_step(trainer, &ignored, &error));
    REQUIRE(lm_model_create(&config, model, &error));
    memcpy(model->weights, lm_trainer_weights(trainer), model->layout.count * sizeof(float));
    lm_trainer_destroy(trainer);
}

static lm_token most_likely(const float *logits, size_t count) {
    lm_token best = 0;
    for (lm_token i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* Whether greedy decoding of a question gives its answer and ends. */
static bool decodes_rightly(lm_decoder *decoder, const lm_sequences *all, size_t index,
                            size_t vocabulary) {
    const lm_sequence *own = &all->list[index];
    const lm_token *tokens = all->tokens + own->offset;
    const size_t lane = 0;
    lab_error error = {0};
    float *logits = calloc(vocabulary, sizeof *logits);
    REQUIRE(logits);
    lm_decoder_reset(decoder, lane);
    REQUIRE(lm_decoder_read(decoder, lane, tokens, own->answer, logits, &error));
    bool is_right = true;
    for (size_t at = own->answer; is_right && at < own->count; at++) {
        lm_token token = most_likely(logits, vocabulary);
        is_right = token == tokens[at];
        if (is_right && at + 1 < own->count)
            REQUIRE(lm_decoder_step(decoder, &lane, &token, 1, logits, &error));
    }
    free(logits);
    return is_right;
}

static uint64_t count_decoded(const lm_model *model, const whet_policy *policy,
                              const lm_sequences *sequences) {
    lab_error error = {0};
    lm_matrices matrices;
    REQUIRE(lm_matrices_create(model, &engine, &matrices, &error));
    const lm_decoder_options options = {.matrices = &matrices,
                                        .policy = policy,
                                        .lanes = 1,
                                        .capacity = model->config.context,
                                        .cache_type = WHET_F32};
    lm_decoder *decoder = lm_decoder_create(&options, &error);
    REQUIRE(decoder);
    uint64_t right = 0;
    for (size_t i = 0; i < sequences->count; i++)
        right += decodes_rightly(decoder, sequences, i, model->config.vocabulary);
    lm_decoder_destroy(decoder);
    lm_matrices_free(&matrices);
    return right;
}

static void check_examination(const lm_model *model, const whet_policy *policy, uint64_t size,
                              const char *task_name) {
    league_task task;
    lm_sequences sequences = {0};
    lab_error error = {0};
    league_score alone, together;
    whet_pool *pool = NULL;
    REQUIRE(league_task_find(task_name, &task));
    REQUIRE(league_task_draw(&task, TASK_TEST, size, SAMPLES, 400, &sequences, &error));
    REQUIRE(whet_pool_create(3, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    league_exam exam = {
        .engine = &engine, .model = model, .policy = policy, .sequences = &sequences};
    REQUIRE(league_examine(&exam, &alone, &error));
    exam.executor = &executor;
    REQUIRE(league_examine(&exam, &together, &error));
    CHECK_INT(alone.samples, SAMPLES);
    CHECK_INT(alone.exact, count_decoded(model, policy, &sequences));
    CHECK(alone.exact == together.exact && alone.loss == together.loss);
    CHECK(same_bytes(alone.heads, together.heads, 4 * sizeof *alone.heads));
    CHECK(alone.heads[0].entropy > 0 && alone.heads[0].beta >= 1);
    free(alone.heads);
    free(together.heads);
    whet_pool_destroy(pool);
    lm_sequences_free(&sequences);
}

TEST(answers_count_as_right_where_greedy_decoding_writes_them) {
    lm_model model;
    whet_policy adaptive = whet_policy_adaptive();
    train_model("max", tiny_config("max"), 250, &model);
    check_examination(&model, NULL, 8, "max");
    check_examination(&model, NULL, 60, "max");
    check_examination(&model, &adaptive, 60, "max");
    lm_model_free(&model);
}

TEST(the_same_holds_for_sinks_and_betas_of_queries) {
    lm_model model;
    lm_config config = tiny_config("max");
    config.has_sinks = config.has_query_betas = true;
    snprintf(config.policy, sizeof config.policy, "entmax15");
    train_model("max", config, 250, &model);
    check_examination(&model, NULL, 8, "max");
    check_examination(&model, NULL, 61, "max");
    lm_model_free(&model);
}

/* A polynomial through the best betas must not do worse than softmax where it was fitted. */
TEST(a_fitted_polynomial_lowers_the_loss_where_it_was_fitted) {
    lm_model model;
    league_task task;
    lab_error error = {0};
    lm_sequences sequences = {0};
    char policy[LM_POLICY_SIZE];
    whet_policy fitted;
    league_score plain, sharpened;
    double losses[SAMPLES], entropies[SAMPLES], sum = 0;
    train_model("max", tiny_config("max"), 250, &model);
    REQUIRE(league_task_find("max", &task));
    const league_fit_request request = {
        .engine = &engine, .model = &model, .task = &task, .samples = 64, .tokens_max = 400};
    REQUIRE(league_fit(&request, policy, &error));
    REQUIRE(whet_policy_parse(policy, &fitted, NULL, 0) == WHET_OK);
    CHECK_MSG(strncmp(policy, "poly:", 5) == 0, "%s", policy);
    REQUIRE(league_task_draw(&task, TASK_TEST, 32, SAMPLES, 400, &sequences, &error));
    league_exam exam = {.engine = &engine,
                        .model = &model,
                        .sequences = &sequences,
                        .losses = losses,
                        .entropies = entropies};
    REQUIRE(league_examine(&exam, &plain, &error));
    for (size_t i = 0; i < SAMPLES; i++) {
        sum += losses[i] / SAMPLES;
        CHECK(entropies[i] > 0 && entropies[i] < log(34));
    }
    CHECK_NEAR(sum, plain.loss, 1e-9); /* all answers of max are equally long */
    exam.policy = &fitted;
    REQUIRE(league_examine(&exam, &sharpened, &error));
    CHECK_MSG(sharpened.loss < plain.loss, "%g, not below %g", sharpened.loss, plain.loss);
    free(plain.heads);
    free(sharpened.heads);
    lm_sequences_free(&sequences);
    lm_model_free(&model);
}

/* ---- tasks and arms ---- */

TEST(samples_of_splits_differ_and_long_ones_are_refused) {
    league_task task;
    for (size_t i = 0; league_task_at(i, &task); i++) {
        lm_sequences test = {0}, validation = {0};
        lab_error error = {0};
        REQUIRE(league_task_draw(&task, TASK_TEST, task.train_max, 3, 5000, &test, &error));
        REQUIRE(
            league_task_draw(&task, TASK_VALIDATION, task.train_max, 3, 5000, &validation, &error));
        CHECK_MSG(test.token_count != validation.token_count ||
                      !same_bytes(test.tokens, validation.tokens, 4 * test.token_count),
                  "%s", task.name);
        CHECK(!league_task_draw(&task, TASK_TEST, task.train_max, 3, 8, &test, &error));
        CHECK_INT(error.kind, LAB_INPUT);
        lm_sequences_free(&test);
        lm_sequences_free(&validation);
    }
}

TEST(every_arm_configures_a_valid_model) {
    league_arm arm;
    size_t count = 0;
    for (; league_arm_at(count, &arm); count++) {
        lab_error error = {0};
        lm_config config = lm_config_default();
        league_arm_configure(&arm, 67, 1, &config);
        CHECK_MSG(lm_config_check(&config, &error), "%s: %s", arm.name, error.text);
    }
    CHECK(count >= 21);
}

/* So that a new policy takes part without a change to the league. */
TEST(every_policy_of_the_registry_is_part_of_an_arm) {
    const whet_policy_info *info;
    for (size_t i = 0; (info = whet_policy_table(i)) != NULL; i++) {
        size_t length = strcspn(info->example, ":+");
        league_arm arm;
        bool is_part = false;
        for (size_t a = 0; league_arm_at(a, &arm); a++)
            is_part = is_part || (strcspn(arm.policy, ":+") == length &&
                                  strncmp(arm.policy, info->example, length) == 0);
        CHECK_MSG(is_part, "%s", info->example);
    }
}

TEST(arms_bring_those_whose_models_they_run) {
    league_arms arms = {.count = 0};
    lab_error error = {0};
    REQUIRE(league_arms_add(&arms, "chosen", &error));
    CHECK_INT(arms.count, 2);
    CHECK_STR(arms.list[0].name, "softmax");
    REQUIRE(league_arms_add(&arms, "length:100+topk:4", &error));
    CHECK_STR(league_arms_find(&arms, "length:100+topk:4")->policy, "length:100+topk:4");
    CHECK(!league_arms_add(&arms, "nonsense", &error));
    CHECK(strstr(error.text, "--policy: 'nonsense' is neither a policy nor a league arm"));
}

TEST(policies_at_random_differ_between_seeds_alone) {
    league_arms arms = {.count = 0};
    lab_error error = {0};
    char one[LM_POLICY_SIZE], same[LM_POLICY_SIZE], other[LM_POLICY_SIZE];
    REQUIRE(league_arms_add(&arms, "random", &error));
    league_arm_policy(&arms.list[0], 33, 1, one);
    league_arm_policy(&arms.list[0], 33, 1, same);
    league_arm_policy(&arms.list[0], 33, 2, other);
    CHECK_STR(one, same);
    CHECK(strcmp(one, other) != 0);
    CHECK(strstr(one, ":33"));
}

/* ---- results ---- */

typedef struct league {
    league_request request;
    char folder[64];
} league;

static void begin_league(league *l) {
    lab_error error = {0};
    *l = (league){.request = {.scale = league_scale_quick(),
                              .positions = {LM_MIX},
                              .position_count = 1,
                              .task_count = 1,
                              .engine = &engine,
                              .quiet = true}};
    snprintf(l->folder, sizeof l->folder, "/tmp/whet-league-XXXXXX");
    REQUIRE(mkdtemp(l->folder));
    l->request.folder = l->folder;
    l->request.scale.seeds = 3;
    l->request.scale.multiple_count = 3;
    REQUIRE(league_task_find("max", &l->request.tasks[0]));
    REQUIRE(league_arms_add(&l->request.arms, "softmax", &error));
    REQUIRE(league_arms_add(&l->request.arms, "ssmax", &error));
}

static void end_league(const league *l) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", l->folder);
    REQUIRE(system(command) == 0); /* NOLINT(cert-env33-c): a path of the test's own */
}

/* A result as a cell writes it: right in `exact` of 10 samples at each multiple. */
static void write_result(const league *l, size_t arm, uint64_t seed, double rate,
                         const int exact[3], double validation) {
    const league_request *r = &l->request;
    const league_cell cell = {&r->tasks[0], LM_MIX, &r->arms.list[arm], seed, rate};
    lab_error error = {0};
    char *folder = league_cell_folder(r, &cell);
    REQUIRE(folder && lab_make_folder(folder, &error));
    json_t *sizes = json_array();
    for (int i = 0; exact && i < 3; i++)
        json_array_append_new(sizes, json_pack("{s:i, s:i, s:i}", "multiple", 1 << i, "samples", 10,
                                               "exact", exact[i]));
    json_t *result =
        json_pack("{s:f, s:[{s:f, s:f}], s:[{s:s, s:o}]}", "seconds_per_million_tokens",
                  arm ? 3.0 : 2.0, "validation", "right", validation, "loss", 0.5, "tests", "arm",
                  r->arms.list[arm].name, "sizes", sizes);
    if (!exact)
        json_object_set_new(result, "failed", json_string("loss is not finite"));
    char *path = lab_path(folder, "result.json");
    REQUIRE(path && lab_json_write(path, result, &error));
    json_decref(result);
    free(path);
    free(folder);
}

TEST(shares_are_means_over_seeds_and_differences_are_paired) {
    league l;
    league_results results;
    lab_error error = {0};
    begin_league(&l);
    double rate = l.request.scale.rates[0];
    write_result(&l, 0, 1, rate, (const int[]){10, 6, 2}, 1);
    write_result(&l, 0, 2, rate, (const int[]){10, 8, 4}, 1);
    write_result(&l, 1, 1, rate, (const int[]){10, 9, 6}, 1);
    write_result(&l, 1, 2, rate, (const int[]){10, 10, 10}, 1);
    write_result(&l, 1, 3, rate, (const int[]){10, 10, 2}, 1);
    REQUIRE(league_results_read(&l.request, &results, &error));
    CHECK_INT(results.models, 5);
    CHECK_INT(results.expected, 6);
    const league_entry *base = league_entry_at(&results, 0, 0, 0, 2);
    const league_entry *own = league_entry_at(&results, 0, 0, 1, 2);
    CHECK_NEAR(base->right.mean, 0.3, 1e-12);
    CHECK_NEAR(own->right.mean, 0.6, 1e-12);
    CHECK_INT(own->seeds, 3);
    CHECK_INT(own->pairs, 2);
    CHECK_NEAR(own->difference.mean, 0.5, 1e-12);
    /* of two values: 12.706 standard errors of 0.1 */
    CHECK_NEAR(own->difference.high - 0.5, 12.706 * 0.1, 1e-3);
    CHECK_INT(results.standing_count, 2);
    CHECK_INT(results.standings[0].arm, 1);
    CHECK_NEAR(results.standings[0].right.mean, (0.75 + 1 + 0.6) / 3, 1e-12);
    CHECK_NEAR(results.standings[0].cost, 1.5, 1e-9);
    league_results_free(&results);
    end_league(&l);
}

TEST(a_training_that_failed_is_right_never_and_is_listed) {
    league l;
    league_results results;
    lab_error error = {0};
    begin_league(&l);
    write_result(&l, 1, 1, l.request.scale.rates[0], NULL, 0);
    REQUIRE(league_results_read(&l.request, &results, &error));
    CHECK_INT(league_entry_at(&results, 0, 0, 1, 1)->seeds, 1);
    CHECK_NEAR(league_entry_at(&results, 0, 0, 1, 1)->right.mean, 0, 0);
    CHECK_INT(league_entry_at(&results, 0, 0, 0, 1)->seeds, 0);
    CHECK_INT(json_array_size(results.failed), 1);
    league_results_free(&results);
    end_league(&l);
}

TEST(the_rate_is_the_best_in_validation_once_all_are_known) {
    league l;
    lab_error error = {0};
    double rate;
    begin_league(&l);
    l.request.scale.rates[1] = 5e-4;
    l.request.scale.rate_count = 2;
    const league_cell cell = {&l.request.tasks[0], LM_MIX, &l.request.arms.list[1], 2, 0};
    write_result(&l, 1, 1, l.request.scale.rates[0], (const int[]){9, 9, 9}, 0.7);
    REQUIRE(league_rate(&l.request, cell, &rate, &error));
    CHECK_NEAR(rate, 0, 0);
    write_result(&l, 1, 1, l.request.scale.rates[1], (const int[]){0, 0, 0}, 0.9);
    REQUIRE(league_rate(&l.request, cell, &rate, &error));
    CHECK_NEAR(rate, 5e-4, 0);
    end_league(&l);
}

TEST(a_damaged_result_is_an_error_that_names_it) {
    league l;
    league_results results;
    lab_error error = {0};
    begin_league(&l);
    const league_cell cell = {&l.request.tasks[0], LM_MIX, &l.request.arms.list[0], 1,
                              l.request.scale.rates[0]};
    write_result(&l, 0, 1, cell.rate, (const int[]){1, 1, 1}, 1);
    char *folder = league_cell_folder(&l.request, &cell), *path = lab_path(folder, "result.json");
    FILE *file = fopen(path, "w");
    REQUIRE(file && fputs("{\"tests\": [", file) >= 0 && fclose(file) == 0);
    CHECK(!league_results_read(&l.request, &results, &error));
    CHECK(strstr(error.text, path) != NULL);
    free(folder);
    free(path);
    end_league(&l);
}
