/*
 * Evaluation: the same answers as a generation sample by sample would give, scored
 * by lab/clrs; the same bits whatever the number of threads.
 */
#include "support/check.h"

#include "lm/evaluate.h"
#include "lm/generate.h"
#include "lm/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static nn_engine engine;

/* A model that has seen a little of minimum and binary search: some answers are right. */
static void train_model(lm_model *model) {
    lab_error error = {0};
    if (!engine.kernels && !nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
    lm_config config = lm_config_default();
    lm_training training = lm_training_default();
    lm_step step;
    config.layers = 1;
    config.width = 32;
    config.heads = config.key_heads = 2;
    config.head_dim = config.rope_dims = 16;
    config.hidden = 48;
    config.context = 400;
    training.steps = 150;
    training.warm_up = 10;
    training.rate = 5e-3;
    REQUIRE(lm_training_add_tasks(&training, "minimum,binary_search", &error));
    lm_trainer *trainer = lm_trainer_create(&engine, &config, &training, NULL, &error);
    REQUIRE(trainer != NULL);
    for (size_t i = 0; i < training.steps; i++)
        REQUIRE(lm_trainer_step(trainer, &step, &error));
    REQUIRE(lm_model_create(&config, model, &error));
    memcpy(model->weights, lm_trainer_weights(trainer), model->layout.count * sizeof(float));
    lm_trainer_destroy(trainer);
}

static const lm_task *tasks(void) {
    static lm_task list[2];
    list[0] = (lm_task){clrs_algorithm_find("minimum"), false};
    list[1] = (lm_task){clrs_algorithm_find("binary_search"), true};
    return list;
}

static const uint64_t lengths[] = {4, 6};
static const lm_eval_policy own = {"trained", NULL};
enum { SAMPLES = 37 };

static lm_eval_request request_for(const lm_model *model) {
    return (lm_eval_request){.model = model,
                             .engine = &engine,
                             .tasks = tasks(),
                             .task_count = 2,
                             .lengths = lengths,
                             .length_count = 2,
                             .samples = SAMPLES,
                             .seed = 3,
                             .policies = &own,
                             .policy_count = 1,
                             .quiet = true};
}

/* ---- one by one ---- */

static bool collect(void *context, lm_token token, const char *text, size_t length) {
    (void)token;
    return lm_text_add(context, text, length) && ((lm_text *)context)->length < 120;
}

static void score_one_by_one(lm_model *model, const lm_task *task, uint64_t length,
                             clrs_score_sum *sum) {
    lab_error error = {0};
    clrs_sampler *sampler;
    clrs_sample sample;
    clrs_request wanted = clrs_request_default(task->algorithm->name, (int64_t)length);
    lm_opened opened = {.model = *model, .is_clrs = true};
    REQUIRE(lm_tokenizer_clrs(&opened.tokenizer, &error));
    wanted.seed = 3;
    wanted.hints = task->hints;
    REQUIRE(clrs_sampler_create(&wanted, &sampler) == CLRS_OK);
    for (int i = 0; i < SAMPLES; i++) {
        lm_text text = {NULL, 0, 0};
        lm_generated result;
        REQUIRE(clrs_sampler_next(sampler, &sample) == CLRS_OK);
        REQUIRE(lm_text_add(&text, "", 0));
        const lm_generate_request request = {.opened = &opened,
                                             .engine = &engine,
                                             .prompt = sample.question,
                                             .prompt_length = sample.question_length,
                                             .steps = sample.answer_length + 64,
                                             .take = collect,
                                             .context = &text};
        REQUIRE(lm_generate(&request, &result, &error));
        clrs_score score = clrs_score_answer(task->algorithm, (clrs_span){text.bytes, text.length},
                                             (clrs_span){sample.answer, sample.answer_length});
        sum->exact += score.exact;
        sum->final += score.final;
        free(text.bytes);
    }
    clrs_sampler_destroy(sampler);
    lm_tokenizer_free(&opened.tokenizer);
}

TEST(groups_of_lanes_answer_as_samples_one_by_one_do) {
    lm_model model;
    lm_evaluation result;
    lab_error error = {0};
    train_model(&model);
    lm_eval_request request = request_for(&model);
    REQUIRE(lm_evaluate(&request, &result, &error));
    uint64_t right = 0;
    for (size_t t = 0; t < 2; t++)
        for (size_t l = 0; l < 2; l++) {
            clrs_score_sum expected = {.samples = 0};
            const lm_eval_cell *cell = lm_eval_cell_at(&result, t, l, 0);
            score_one_by_one(&model, &tasks()[t], lengths[l], &expected);
            CHECK_INT(cell->sum.samples, SAMPLES);
            CHECK_INT(cell->sum.exact, expected.exact);
            CHECK_INT(cell->sum.final, expected.final);
            CHECK(cell->entropies[0].rows > 0);
            right += expected.exact;
        }
    CHECK_MSG(right > 0, "the model knows nothing, and the test says nothing");
    lm_evaluation_free(&result);
    lm_model_free(&model);
}

TEST(threads_change_neither_answers_nor_entropies) {
    lm_model model;
    lm_evaluation one, two;
    lab_error error = {0};
    whet_pool *pool;
    whet_policy adaptive = whet_policy_adaptive();
    const lm_eval_policy policies[] = {own, {"adaptive", &adaptive}};
    train_model(&model);
    REQUIRE(whet_pool_create(3, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    lm_eval_request request = request_for(&model), threaded;
    request.policies = policies;
    request.policy_count = 2;
    threaded = request;
    threaded.executor = &executor;
    REQUIRE(lm_evaluate(&request, &one, &error));
    REQUIRE(lm_evaluate(&threaded, &two, &error));
    json_t *a = lm_evaluation_json(&one), *b = lm_evaluation_json(&two);
    CHECK(a && json_equal(a, b));
    CHECK_INT(json_array_size(json_object_get(a, "rows")), 8);
    json_decref(a);
    json_decref(b);
    lm_evaluation_free(&one);
    lm_evaluation_free(&two);
    whet_pool_destroy(pool);
    lm_model_free(&model);
}

TEST(a_policy_changes_entropies_and_its_name_is_kept) {
    lm_model model;
    lm_evaluation result;
    lab_error error = {0};
    whet_policy sharp = whet_policy_fixed(4);
    const lm_eval_policy policies[] = {own, {"fixed:4", &sharp}};
    train_model(&model);
    lm_eval_request request = request_for(&model);
    request.policies = policies;
    request.policy_count = 2;
    request.task_count = 1;
    REQUIRE(lm_evaluate(&request, &result, &error));
    const lm_entropy *plain = lm_eval_cell_at(&result, 0, 1, 0)->entropies;
    const lm_entropy *other = lm_eval_cell_at(&result, 0, 1, 1)->entropies;
    CHECK(plain[0].after == plain[0].before);
    CHECK(other[0].after / (double)other[0].rows < other[0].before / (double)other[0].rows);
    json_t *json = lm_evaluation_json(&result);
    const json_t *row = json_array_get(json_object_get(json, "rows"), 1);
    CHECK_STR(json_string_value(json_object_get(row, "policy")), "fixed:4");
    CHECK_INT(json_array_size(json_array_get(json_object_get(row, "entropy"), 0)), 2);
    json_decref(json);
    lm_evaluation_free(&result);
    lm_model_free(&model);
}

TEST(samples_longer_than_the_context_leave_their_cells_empty) {
    lm_model model;
    lm_evaluation result;
    lab_error error = {0};
    const uint64_t longer[] = {4, 150};
    train_model(&model);
    lm_eval_request request = request_for(&model);
    request.lengths = longer;
    request.samples = 2;
    REQUIRE(lm_evaluate(&request, &result, &error));
    CHECK_INT(lm_eval_cell_at(&result, 0, 0, 0)->sum.samples, 2);
    CHECK_INT(lm_eval_cell_at(&result, 0, 1, 0)->sum.samples, 0);
    json_t *json = lm_evaluation_json(&result);
    const json_t *row = json_array_get(json_object_get(json, "rows"), 1);
    CHECK(json_is_null(json_object_get(json_object_get(row, "exact"), "mean")));
    json_decref(json);
    lm_evaluation_free(&result);
    lm_model_free(&model);
}

TEST(models_of_other_tokens_and_lengths_that_do_not_work_are_refused) {
    lm_model model;
    lm_evaluation result;
    lab_error error = {0};
    const uint64_t short_one[] = {1};
    train_model(&model);
    lm_eval_request request = request_for(&model);
    request.lengths = short_one;
    request.length_count = 1;
    CHECK(!lm_evaluate(&request, &result, &error));
    CHECK_INT(error.kind, LAB_INPUT);
    lm_model_free(&model);

    lm_config config = lm_config_default();
    config.vocabulary = 100;
    error = (lab_error){0};
    REQUIRE(lm_model_create(&config, &model, &error));
    request = request_for(&model);
    CHECK(!lm_evaluate(&request, &result, &error));
    CHECK_MSG(strstr(error.text, "CLRS-Text") != NULL, "%s", error.text);
    lm_model_free(&model);
}

TEST(a_model_knows_the_lengths_of_its_training) {
    lm_model model = {.description = json_pack("{s:{s:[i,i]}}", "training", "lengths", 4, 8)};
    CHECK(!lm_model_knows_length(&model, 3));
    CHECK(lm_model_knows_length(&model, 4));
    CHECK(lm_model_knows_length(&model, 8));
    CHECK(!lm_model_knows_length(&model, 9));
    json_decref(model.description);
    model.description = NULL;
    CHECK(!lm_model_knows_length(&model, 4));
}
