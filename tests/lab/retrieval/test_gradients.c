/*
 * Gradients of the whole model against central differences, every parameter
 * tensor of every variant: deeper, with keys that do not see the class, with a
 * learnable scale, with the leak's penalty, with adaptive temperature; folded and
 * with every item's key and value computed. Then the model whose products round.
 */
#include "support/check.h"
#include "support/engine.h"

#include "base/random.h"
#include "retrieval/model.h"
#include "retrieval/task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 5, N = 7, PROBES = 6 };

typedef struct problem {
    retrieval_model model;
    float *parameters, *gradient;
    retrieval_workspace *workspace;
    float priority[SETS * N], query[SETS];
    uint16_t class_of[SETS * N], label[SETS];
    retrieval_batch batch;
} problem;

typedef retrieval_workspace *workspace_maker(const retrieval_config *, size_t, size_t);

static void set_up(problem *p, retrieval_config config, workspace_maker *create) {
    p->model = (retrieval_model){
        .engine = &engine, .config = config, .layout = retrieval_layout_of(&config)};
    REQUIRE(whet_policy_parse(config.policy, &p->model.policy, NULL, 0) == WHET_OK);
    size_t count = p->model.layout.count;
    p->parameters = aligned_alloc(64, count * sizeof(float));
    p->gradient = aligned_alloc(64, count * sizeof(float));
    p->workspace = create(&config, SETS, N);
    REQUIRE(p->parameters && p->gradient && p->workspace);
    retrieval_initialise(&config, 3, p->parameters);
    p->model.parameters = p->parameters;
    lab_random random = lab_random_start(11);
    for (size_t i = 0; i < count; i++) /* biases too, which start at zero */
        p->parameters[i] += 0.05f * (float)lab_random_normal(&random);
    p->parameters[p->model.layout.scale] = 4; /* logits that differ */
    for (size_t s = 0; s < SETS; s++) {
        retrieval_top top = {.priority = -1};
        retrieval_draw_items(&random, &config, 1, 0, N,
                             (retrieval_items){p->priority + s * N, p->class_of + s * N}, &top);
        p->label[s] = p->class_of[s * N + top.index];
        p->query[s] = retrieval_draw_query(&random, &config);
    }
    p->batch = (retrieval_batch){SETS, N, p->priority, p->class_of, p->query, p->label};
}

static void tear_down(problem *p) {
    free(p->parameters);
    free(p->gradient);
    retrieval_workspace_destroy(p->workspace);
}

static double loss_with(problem *p, size_t index, float change) {
    float before = p->parameters[index];
    p->parameters[index] = before + change;
    double loss = retrieval_tile(&p->model, &p->batch, 1, p->workspace, NULL, NULL).loss;
    p->parameters[index] = before;
    return loss;
}

static void check_tensor(problem *p, const char *name, size_t offset, size_t count) {
    lab_random random = lab_random_start(lab_seed_for(1, name, offset));
    for (size_t k = 0; k < PROBES && k < count; k++) {
        size_t index = offset + lab_random_below(&random, (uint32_t)count);
        const float step = 4e-3f;
        /* Richardson's: the error of the plain difference falls with the fourth power. */
        double wide = (loss_with(p, index, step) - loss_with(p, index, -step)) / (2 * step);
        double narrow =
            (loss_with(p, index, step / 2) - loss_with(p, index, -step / 2)) / (double)step;
        double expected = (4 * narrow - wide) / 3;
        CHECK_MSG(fabs(p->gradient[index] - expected) < 3e-3 + 1e-2 * fabs(expected),
                  "%s[%zu]: %g, by differences %g", name, index - offset,
                  (double)p->gradient[index], expected);
    }
}

static void check_layers(problem *p, const char *name, const retrieval_layer *layers,
                         size_t depth) {
    size_t width = p->model.layout.width;
    for (size_t l = 0; l < depth; l++) {
        check_tensor(p, name, layers[l].weight, width * width);
        check_tensor(p, name, layers[l].bias, width);
    }
}

static void check_gradients_of(retrieval_config config, workspace_maker *create) {
    static problem p;
    config.precision = RETRIEVAL_F32;
    set_up(&p, config, create);
    const retrieval_layout *at = &p.model.layout;
    retrieval_outcome outcome =
        retrieval_tile(&p.model, &p.batch, 1, p.workspace, p.gradient, NULL);
    CHECK(outcome.is_finite && outcome.loss > 0);
    check_tensor(&p, "item slope", at->item_slope, at->width);
    check_tensor(&p, "item class", at->item_class, at->classes * at->width);
    check_tensor(&p, "item bias", at->item_bias, at->width);
    check_tensor(&p, "query slope", at->query_slope, at->width);
    check_tensor(&p, "query bias", at->query_bias, at->width);
    check_layers(&p, "psi_x", at->item, at->depth);
    check_layers(&p, "psi_q", at->query, at->depth);
    check_layers(&p, "phi", at->phi, at->depth);
    check_tensor(&p, "phi's last", at->phi[at->depth].weight, at->width * at->classes);
    check_tensor(&p, "phi's last bias", at->phi[at->depth].bias, at->classes);
    check_tensor(&p, "w_q", at->w_q, at->width * at->width);
    check_tensor(&p, "w_k", at->w_k, at->width * at->width);
    check_tensor(&p, "w_v", at->w_v, at->width * at->width);
    if (config.learn_scale)
        check_tensor(&p, "scale", at->scale, 1);
    tear_down(&p);
}

/* Folded and, where there is nothing in the way, not. */
static void check_gradients(retrieval_config config) {
    check_gradients_of(config, retrieval_workspace_create);
    if (config.leak == 0)
        check_gradients_of(config, retrieval_workspace_create_unfolded);
}

static retrieval_config small_config(void) {
    retrieval_config config = retrieval_config_default();
    config.width = 33;
    return config;
}

TEST(gradients_of_the_default_model) { check_gradients(small_config()); }

TEST(gradients_of_a_deeper_model) {
    retrieval_config config = small_config();
    config.depth = 3;
    check_gradients(config);
}

TEST(gradients_with_keys_that_do_not_see_the_class) {
    retrieval_config config = small_config();
    config.key_sees_class = false;
    config.depth = 2;
    check_gradients(config);
}

TEST(gradients_of_a_learnable_scale) {
    retrieval_config config = small_config();
    config.learn_scale = true;
    check_gradients(config);
}

TEST(gradients_of_the_penalty_on_leaks) {
    retrieval_config config = small_config();
    config.leak = 0.3;
    config.depth = 2;
    check_gradients(config);
}

TEST(gradients_through_adaptive_temperature) {
    retrieval_config config = small_config();
    snprintf(config.policy, sizeof config.policy, "adaptive");
    check_gradients(config);
}

TEST(gradients_through_a_map_that_does_not_sum_to_one) {
    retrieval_config config = small_config();
    snprintf(config.policy, sizeof config.policy, "softmax1");
    check_gradients(config);
}

TEST(the_model_of_the_paper_has_as_many_parameters_as_it_should) {
    retrieval_config config = retrieval_config_default();
    CHECK_INT(retrieval_parameters(&config), 101770);
}

TEST(the_pieces_used_in_evaluation_are_the_same_model) {
    static problem p;
    retrieval_config config = small_config();
    config.depth = 2;
    config.key_sees_class = false;
    config.precision = RETRIEVAL_BF16;
    set_up(&p, config, retrieval_workspace_create);
    size_t width = config.width;
    float logits[SETS * 10], expected[SETS * 10];
    retrieval_tile(&p.model, &p.batch, 1, p.workspace, NULL, expected);
    float *scratch = calloc((size_t)SETS * N * width * 8, sizeof(float));
    REQUIRE(scratch != NULL);
    float *direction = scratch + 2 * SETS * width, *mean = direction + SETS * width;
    float *keys = mean + SETS * width, *values = keys + SETS * N * width;
    float *spare = values + SETS * N * width, *table = spare + SETS * N * width;
    float shift[SETS], total[SETS];
    retrieval_directions(&p.model, p.query, SETS, scratch, direction, shift);
    retrieval_class_table(&p.model, table);
    retrieval_item_features(&p.model, table, p.priority, p.class_of, SETS * N, true, spare, keys);
    retrieval_item_features(&p.model, table, p.priority, p.class_of, SETS * N, false, spare,
                            values);
    for (size_t s = 0; s < SETS; s++) {
        float e[N];
        engine.kernels->score_forward(keys + s * N * width, N, width, direction + s * width,
                                      shift[s], e);
        whet_rows row = {.size = sizeof row, .rows = 1, .n = N, .in = e, .out = e};
        REQUIRE(whet_softmax(&row, NULL, NULL) == WHET_OK);
        engine.kernels->mix_forward(values + s * N * width, N, width, e, mean + s * width);
        total[s] = 1;
    }
    retrieval_answer(&p.model, mean, total, SETS, scratch, logits);
    for (size_t i = 0; i < SETS * 10; i++)
        CHECK_NEAR(logits[i], expected[i], 2e-5);
    free(scratch);
    tear_down(&p);
}

static void logits_of(problem *p, retrieval_config config, workspace_maker *create, float *logits,
                      float *gradient) {
    set_up(p, config, create);
    retrieval_tile(&p->model, &p->batch, 1, p->workspace, p->gradient, logits);
    memcpy(gradient, p->gradient, p->model.layout.count * sizeof(float));
    tear_down(p);
}

/* A second model with the same numbers but for the rounding: close, and not the same. */
TEST(rounded_products_change_a_model_a_little) {
    static problem p;
    static float logits[3][SETS * 10], gradient[3][1 << 15];
    retrieval_config config = small_config();
    config.depth = 2;
    config.key_sees_class = false;
    config.precision = RETRIEVAL_BF16;
    REQUIRE(retrieval_layout_of(&config).count <= 1 << 15);
    logits_of(&p, config, retrieval_workspace_create, logits[0], gradient[0]);
    logits_of(&p, config, retrieval_workspace_create_unfolded, logits[1], gradient[1]);
    config.precision = RETRIEVAL_BF16_PRODUCTS;
    logits_of(&p, config, retrieval_workspace_create, logits[2], gradient[2]);
    double largest = 0, exact = 0, rounded = 0;
    for (size_t i = 0; i < SETS * 10; i++) {
        largest = fmax(largest, fabs((double)logits[0][i]));
        exact = fmax(exact, fabs((double)logits[1][i] - (double)logits[0][i]));
        rounded = fmax(rounded, fabs((double)logits[2][i] - (double)logits[0][i]));
    }
    CHECK_MSG(exact < 2e-6 * largest, "unfolded: off by %g of %g", exact, largest);
    CHECK_MSG(rounded > 1e-4 * largest && rounded < 2e-2 * largest, "rounded: off by %g of %g",
              rounded, largest);
    double off = 0, size = 0;
    for (size_t i = 0; i < retrieval_layout_of(&config).count; i++) {
        off += pow((double)gradient[2][i] - (double)gradient[0][i], 2);
        size += pow((double)gradient[0][i], 2);
    }
    CHECK_MSG(size > 0 && sqrt(off / size) < 0.05, "gradients: off by %g of %g", sqrt(off),
              sqrt(size));
}
