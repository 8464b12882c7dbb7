/*
 * The query's side at nodes against the same at every query: shares that
 * interpolate, and one tile of many sets, which uses nodes, against the sum of
 * small ones, which do not.
 */
#include "support/check.h"
#include "support/engine.h"

#include "base/random.h"
#include "retrieval/model.h"
#include "retrieval/nodes.h"
#include "retrieval/task.h"

#include <math.h>
#include <stdlib.h>

enum { SETS = 96, SMALL = 16, N = 5 };

TEST(shares_give_a_smooth_function_back_everywhere) {
    const retrieval_nodes nodes = retrieval_nodes_make();
    const float places[] = {0, 1, 0.5f, 0x1p-24f, 1 - 0x1p-24f, nodes.at[0], nodes.at[23], 0.3f};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        float share[RETRIEVAL_NODES];
        double sum = 0, value = 0;
        retrieval_node_shares(&nodes, &places[i], 1, share);
        for (size_t j = 0; j < RETRIEVAL_NODES; j++) {
            sum += (double)share[j];
            value += (double)share[j] * tanh(4 * (double)nodes.at[j] - 1);
        }
        CHECK_NEAR(sum, 1, 3e-7);
        CHECK_NEAR(value, tanh(4 * (double)places[i] - 1), 3e-7);
    }
}

TEST(steep_slopes_are_told_from_others) {
    float slopes[] = {1, -6, 0, 3};
    CHECK(retrieval_nodes_suffice(slopes, 4));
    slopes[3] = -6.1f;
    CHECK(!retrieval_nodes_suffice(slopes, 4));
    slopes[3] = NAN;
    CHECK(!retrieval_nodes_suffice(slopes, 4));
}

typedef struct sums {
    double loss;
    size_t correct;
    float *gradient; /* [count] */
} sums;

/* All sets in tiles of `sets`. */
static sums in_tiles_of(size_t sets, const retrieval_model *model, const retrieval_batch *all) {
    size_t count = model->layout.count;
    sums total = {.gradient = calloc(count, sizeof(float))};
    float *gradient = aligned_alloc(64, (count + 15) / 16 * 64);
    retrieval_workspace *workspace = retrieval_workspace_create(&model->config, sets, N);
    REQUIRE(total.gradient && gradient && workspace);
    for (size_t first = 0; first < all->sets; first += sets) {
        retrieval_batch batch = {sets,
                                 N,
                                 all->priority + first * N,
                                 all->class_of + first * N,
                                 all->query + first,
                                 all->label + first};
        retrieval_outcome outcome =
            retrieval_tile(model, &batch, 1.0F / SETS, workspace, gradient, NULL);
        CHECK(outcome.is_finite);
        total.loss += outcome.loss;
        total.correct += outcome.correct;
        for (size_t i = 0; i < count; i++)
            total.gradient[i] += gradient[i];
    }
    free(gradient);
    retrieval_workspace_destroy(workspace);
    return total;
}

static void compare(retrieval_config config, float slopes) {
    static float priority[SETS * N], query[SETS];
    static uint16_t class_of[SETS * N], label[SETS];
    config.precision = RETRIEVAL_BF16; /* with rounded products there are no nodes */
    retrieval_model model = {.engine = &engine,
                             .config = config,
                             .layout = retrieval_layout_of(&config),
                             .policy = whet_policy_softmax()};
    float *parameters = aligned_alloc(64, (model.layout.count + 15) / 16 * 64);
    REQUIRE(parameters);
    retrieval_initialise(&config, 3, parameters);
    parameters[model.layout.scale] = 4;
    for (size_t j = 0; j < config.width; j++)
        parameters[model.layout.query_slope + j] *= slopes;
    model.parameters = parameters;
    lab_random random = lab_random_start(7);
    for (size_t s = 0; s < SETS; s++) {
        retrieval_top top = {.priority = -1};
        retrieval_items items = {priority + s * N, class_of + s * N};
        retrieval_draw_items(&random, &config, 1, 0, N, items, &top);
        label[s] = items.class_of[top.index];
        query[s] = retrieval_draw_query(&random, &config);
    }
    const retrieval_batch all = {SETS, N, priority, class_of, query, label};
    sums one = in_tiles_of(SETS, &model, &all), many = in_tiles_of(SMALL, &model, &all);
    double difference = 0, size = 0;
    for (size_t i = 0; i < model.layout.count; i++) {
        difference += pow((double)one.gradient[i] - (double)many.gradient[i], 2);
        size += pow((double)many.gradient[i], 2);
    }
    CHECK_NEAR(one.loss, many.loss, 1e-5 * many.loss);
    CHECK(one.correct == many.correct);
    CHECK_MSG(sqrt(difference / size) < 1e-5, "gradients differ by %g of their size",
              sqrt(difference / size));
    free(one.gradient);
    free(many.gradient);
    free(parameters);
}

TEST(a_tile_by_nodes_is_the_sum_of_tiles_by_queries) { compare(retrieval_config_default(), 1); }

TEST(the_same_with_slopes_as_steep_as_nodes_allow) { compare(retrieval_config_default(), 2.6f); }

TEST(the_same_with_slopes_that_are_too_steep_for_nodes) { compare(retrieval_config_default(), 10); }

TEST(the_same_with_a_learnable_scale_and_the_penalty_on_leaks) {
    retrieval_config config = retrieval_config_default();
    config.learn_scale = true;
    config.leak = 0.01;
    config.width = 33;
    compare(config, 1);
}
