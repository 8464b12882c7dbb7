/* Training and recipes as functions: the same bits whatever the threads, resumed or not. */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/engine.h"

#include "base/files.h"
#include "retrieval/beyond.h"
#include "retrieval/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static retrieval_config small_config(void) {
    retrieval_config config = retrieval_config_default();
    config.width = 24;
    config.batch = 300; /* three tiles, the last one not full */
    config.steps = 20;
    return config;
}

static retrieval_head train(const retrieval_config *config, size_t threads) {
    whet_pool *pool = NULL;
    REQUIRE(whet_pool_create(threads, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    const uint64_t seeds[] = {4, 9};
    retrieval_run run = {
        .config = *config, .seeds = seeds, .seed_count = 2, .quiet = true, .executor = &executor};
    retrieval_heads heads;
    lab_error error = {0};
    REQUIRE(retrieval_train(&engine, &run, &heads, &error));
    whet_pool_destroy(pool);
    retrieval_head second = heads.list[1];
    retrieval_head_free(&heads.list[0]);
    free(heads.list);
    return second;
}

TEST(threads_change_nothing_in_the_weights) {
    retrieval_config config = small_config();
    retrieval_head one = train(&config, 1), three = train(&config, 3);
    size_t bytes = retrieval_layout_of(&config).count * sizeof(float);
    CHECK(same_bytes(one.parameters, three.parameters, bytes));
    retrieval_head_free(&one);
    retrieval_head_free(&three);
}

TEST(a_trainer_restored_goes_on_with_the_same_bits) {
    retrieval_config config = small_config();
    config.rate_end = 0;
    config.learn_scale = true;
    char path[64];
    snprintf(path, sizeof path, "/tmp/whet-train-%ld", (long)getpid());
    lab_error error = {0};
    retrieval_step result;
    retrieval_trainer *whole = retrieval_trainer_create(&engine, &config, 3, NULL, &error);
    retrieval_trainer *again = retrieval_trainer_create(&engine, &config, 3, NULL, &error);
    REQUIRE(whole && again);
    for (int i = 0; i < 20; i++) {
        if (i == 7)
            REQUIRE(retrieval_trainer_save(whole, path, &error));
        REQUIRE(retrieval_trainer_step(whole, &result, &error));
    }
    REQUIRE(retrieval_trainer_restore(again, path, &error));
    CHECK_INT(retrieval_trainer_done(again), 7);
    while (retrieval_trainer_done(again) < 20)
        REQUIRE(retrieval_trainer_step(again, &result, &error));
    retrieval_head a, b;
    REQUIRE(retrieval_trainer_head(whole, &a, &error) && retrieval_trainer_head(again, &b, &error));
    CHECK(
        same_bytes(a.parameters, b.parameters, retrieval_layout_of(&config).count * sizeof(float)));
    retrieval_head_free(&a);
    retrieval_head_free(&b);
    retrieval_trainer_destroy(whole);
    retrieval_trainer_destroy(again);
    unlink(path);
}

TEST(training_lowers_the_loss) {
    retrieval_config config = small_config();
    lab_error error = {0};
    retrieval_step result = {.loss = 0};
    retrieval_trainer *trainer = retrieval_trainer_create(&engine, &config, 1, NULL, &error);
    REQUIRE(trainer && retrieval_trainer_step(trainer, &result, &error));
    double before = result.loss;
    for (int i = 0; i < 200; i++)
        REQUIRE(retrieval_trainer_step(trainer, &result, &error));
    CHECK_MSG(result.loss < 0.8 * before, "from %g to %g", before, result.loss);
    retrieval_trainer_destroy(trainer);
}

TEST(a_loss_that_is_not_finite_is_an_error) {
    retrieval_config config = small_config();
    config.rate = 10;
    config.scale = 1e6;
    lab_error error = {0};
    retrieval_step result;
    retrieval_trainer *trainer = retrieval_trainer_create(&engine, &config, 1, NULL, &error);
    REQUIRE(trainer != NULL);
    bool is_good = true;
    for (int i = 0; i < 2000 && is_good; i++)
        is_good = retrieval_trainer_step(trainer, &result, &error);
    if (!is_good)
        CHECK(strstr(error.text, "not finite"));
    retrieval_trainer_destroy(trainer);
}

TEST(every_recipe_can_be_run_and_changes_no_size) {
    const uint64_t seed = 1;
    const size_t sizes[] = {16, 64};
    for (size_t i = 0; i < retrieval_recipes(); i++) {
        retrieval_recipe recipe = retrieval_recipe_at(i);
        CHECK_INT(retrieval_parameters(&recipe.config), 101770);
        CHECK_INT(recipe.config.size_min, 5);
        CHECK_INT(recipe.config.size_max, 16);
        CHECK(recipe.config.precision == RETRIEVAL_F32);
        CHECK(recipe.config.key_sees_class || strcmp(recipe.path, "b") == 0);
        retrieval_recipe_request request = {.seeds = &seed,
                                            .seed_count = 1,
                                            .steps = 3,
                                            .sizes = sizes,
                                            .size_count = 2,
                                            .sets = 5,
                                            .quiet = true};
        retrieval_evaluation result;
        lab_error error = {0};
        REQUIRE(retrieval_recipe_run(&engine, &recipe, &request, &result, &error));
        CHECK_INT(result.sizes, 2);
        CHECK_STR(result.name[0], recipe.policies[0]);
        retrieval_evaluation_free(&result);
    }
}
