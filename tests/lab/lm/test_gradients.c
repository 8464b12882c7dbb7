/*
 * Gradients of whole models against central differences, every tensor of every
 * variant: both gates, tied or not, key heads shared or not, positions or none,
 * policies of several kinds, learned ones included.
 */
#include "support/check.h"
#include "support/engine.h"

#include "problem.h"

#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBES = 6 };

static double loss_with(problem *p, size_t index, float change) {
    float before = p->weights[index];
    p->weights[index] = before + change;
    REQUIRE(lm_network_refresh(&p->network));
    double loss = lm_network_run(&p->network, &p->piece, p->workspace, NULL).loss;
    p->weights[index] = before;
    return loss;
}

/* A central difference, divided by the step as rounded to the weight's precision. */
static double difference(problem *p, size_t index, float step) {
    float at = p->weights[index], above = at + step, below = at - step;
    return (loss_with(p, index, above - at) - loss_with(p, index, below - at)) /
           ((double)above - (double)below);
}

/* Richardson's extrapolation from three steps: its error falls with the sixth power of the step. */
static double extrapolated(problem *p, size_t index, float step) {
    double wide = difference(p, index, step);
    double middle = difference(p, index, step / 2);
    double narrow = difference(p, index, step / 4);
    double coarse = (4 * middle - wide) / 3, fine = (4 * narrow - middle) / 3;
    return (16 * fine - coarse) / 15;
}

/*
 * The derivative of the loss. With a beta that grows like exp(H) the loss bends so much that an
 * extrapolation from two of these steps is 1 % off; since it is computed in f32, smaller steps
 * drown in its rounding, of which a mean over several steps leaves less.
 */
static double derivative(problem *p, size_t index) {
    static const float steps[] = {8e-3f, 7.5e-3f, 7e-3f, 6.5e-3f};
    enum { STEPS = sizeof steps / sizeof *steps };
    double sum = 0;
    for (size_t i = 0; i < STEPS; i++)
        sum += extrapolated(p, index, steps[i]);
    return sum / STEPS;
}

static void check_tensor(problem *p, const lm_tensor *tensor) {
    lab_random random = lab_random_start(lab_seed_for(1, tensor->name, 0));
    size_t count = tensor->rows * tensor->cols;
    for (size_t k = 0; k < PROBES && k < count; k++) {
        size_t index = tensor->offset + lab_random_below(&random, (uint32_t)count);
        double expected = derivative(p, index);
        CHECK_MSG(fabs(p->gradient[index] - expected) < 6e-3 + 1e-2 * fabs(expected),
                  "%s[%zu]: %g, by differences %g", tensor->name, index - tensor->offset,
                  (double)p->gradient[index], expected);
    }
}

static void check_gradients(lm_config config) {
    static problem p;
    problem_set_up(&p, &engine, config, false);
    lm_outcome outcome = lm_network_run(&p.network, &p.piece, p.workspace, p.gradient);
    CHECK_INT(outcome.status, WHET_OK);
    CHECK(outcome.loss > 0);
    for (size_t i = 0; i < lm_tensor_count(&config); i++) {
        lm_tensor tensor = lm_tensor_at(&config, &p.network.layout, i);
        check_tensor(&p, &tensor);
    }
    problem_tear_down(&p);
}

static lm_config with_policy(const char *policy, lm_learn learn) {
    lm_config config = small_config();
    snprintf(config.policy, sizeof config.policy, "%s", policy);
    config.learn = learn;
    return config;
}

TEST(gradients_of_the_default_model) { check_gradients(small_config()); }

TEST(gradients_of_swiglu_and_an_output_matrix_of_its_own) {
    lm_config config = small_config();
    config.gate = LM_SWIGLU;
    config.tied = false;
    check_gradients(config);
}

TEST(gradients_without_positions) {
    lm_config config = small_config();
    config.positions = LM_NO_POSITIONS;
    check_gradients(config);
}

TEST(gradients_with_half_of_a_head_rotated_and_one_key_head) {
    lm_config config = small_config();
    config.rope_dims = 4;
    config.key_heads = 1;
    check_gradients(config);
}

TEST(gradients_with_scaled_positions) {
    static const nn_rope_kind kinds[] = {NN_ROPE_LINEAR, NN_ROPE_YARN};
    for (size_t i = 0; i < 2; i++) {
        lm_config config = small_config();
        config.rope_base = 100;
        config.rope_scaling = nn_rope_scaling_of(kinds[i], 4, 64);
        check_gradients(config);
    }
}

TEST(gradients_of_a_single_layer) {
    lm_config config = small_config();
    config.layers = 1;
    check_gradients(config);
}

TEST(gradients_of_other_families) {
    for (int variant = 0; variant < VARIANTS; variant++) {
        lm_config config = with_policy("hinge:-0.1:0.4:4.5", LM_LEARN_HEAD);
        set_variant(&config, variant);
        check_gradients(config);
    }
}

TEST(gradients_of_everything_at_once) {
    lm_config config = small_config();
    set_variant(&config, 3);
    config.has_biases = true;
    config.attention_cap = 2;
    config.output_cap = 3;
    config.head_dim = config.rope_dims = 38; /* longer than a token */
    check_gradients(config);
}

TEST(gradients_through_adaptive_temperature) {
    check_gradients(with_policy("adaptive", LM_LEARN_NOTHING));
}

TEST(gradients_through_other_policies) {
    check_gradients(with_policy("ssmax:0.7", LM_LEARN_NOTHING));
    check_gradients(with_policy("exp:-1", LM_LEARN_NOTHING));
    check_gradients(with_policy("entmax15", LM_LEARN_NOTHING));
}

TEST(gradients_of_a_polynomial_for_each_layer) {
    check_gradients(with_policy("adaptive", LM_LEARN_LAYER));
}

TEST(gradients_of_a_polynomial_for_each_head) {
    check_gradients(with_policy("poly:-0.1/0.8/0.2:floor=0.1", LM_LEARN_HEAD));
}

TEST(gradients_of_ssmax_for_each_head) {
    check_gradients(with_policy("ssmax:0.5:0.2", LM_LEARN_HEAD));
}

TEST(gradients_of_a_hinge_for_each_layer_and_head) {
    check_gradients(with_policy("hinge:0.2:-0.3:4.5", LM_LEARN_LAYER));
    check_gradients(with_policy("hinge:-0.1:0.4:4.5", LM_LEARN_HEAD));
}

TEST(gradients_of_a_composition_for_each_head) {
    check_gradients(with_policy("ssmax:0.5:0.2+entmax15", LM_LEARN_HEAD));
}

static lm_config learning(const char *policy, const char *parameters) {
    lm_config config = with_policy(policy, LM_LEARN_HEAD);
    snprintf(config.learned, sizeof config.learned, "%s", parameters);
    return config;
}

TEST(gradients_of_parameters_that_are_named) {
    check_gradients(learning("ssmax:0.5:0.4:0.8+entmax15", "s,b,g"));
    check_gradients(learning("ssmax:0.5:0.4:0.8", "g"));
    check_gradients(learning("entmax:1.3", "a"));
    check_gradients(learning("target:2.3", "H"));
}

TEST(gradients_with_slopes_of_positions) {
    static const lm_positions positions[] = {LM_ALIBI, LM_MIX};
    for (size_t i = 0; i < 2; i++) {
        lm_config config = with_policy("adaptive", LM_LEARN_HEAD);
        config.positions = positions[i];
        check_gradients(config);
    }
}

TEST(gradients_of_sinks) {
    static const char *const policies[] = {"softmax", "adaptive", "entmax15", "softmax1"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        lm_config config = with_policy(policies[i], LM_LEARN_NOTHING);
        config.has_sinks = true;
        check_gradients(config);
    }
}

TEST(gradients_of_betas_that_depend_on_the_query) {
    static const char *const policies[] = {"softmax", "entmax15", "stick-breaking"};
    static const lm_positions positions[] = {LM_ROPE, LM_ALIBI, LM_MIX};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        lm_config config = with_policy(policies[i], LM_LEARN_NOTHING);
        config.has_query_betas = true;
        config.has_sinks = i == 0;
        config.positions = positions[i];
        check_gradients(config);
    }
}

/* ---- limits ---- */

TEST(learned_parameters_stay_in_the_range_of_their_policy) {
    const lm_config config = learning("entmax:1.5", "a");
    static problem p;
    problem_set_up(&p, &engine, config, false);
    const float values[] = {0.2F, 1.25F, 7};
    for (size_t i = 0; i < 3; i++) {
        float *own = p.weights + lm_layer_at(&p.network.layout, 1) + p.network.layout.policy + 2;
        *own = values[i];
        CHECK(lm_network_refresh(&p.network) == (i == 1));
        lm_keep_policies_valid(&config, &p.network.layout, p.weights);
        CHECK(lm_network_refresh(&p.network));
        CHECK_NEAR(*own, i == 0 ? 1 : i == 1 ? 1.25 : 2, 1e-6);
    }
    problem_tear_down(&p);
}

static void check_refused(const lm_config *config, const char *reason) {
    lab_error error = {0};
    CHECK(!lm_config_check(config, &error));
    CHECK_MSG(strstr(error.text, reason), "%s", error.text);
}

TEST(what_cannot_be_learned_is_refused) {
    lm_config config = learning("ssmax:0.5", "s,x");
    check_refused(&config, "--learn-parameters: 's,x'");
    config = learning("topk:4", "k");
    check_refused(&config, "--learn-parameters: 'k'");
    config = with_policy("ssmax:0.5+entmax15", LM_LEARN_NOTHING);
    config.has_query_betas = true;
    check_refused(&config, "--query-betas: 'ssmax:0.5+entmax15' has a temperature of its own");
}

/* ---- frozen weights ---- */

/* Backward with frozen weights gives the policies the gradients that training gives them, bit for
 * bit. */
static void check_frozen(lm_config config) {
    static problem p;
    whet_parameter learnable[LM_POLICY_PARAMETERS_MAX];
    problem_set_up(&p, &engine, config, false);
    size_t count = lm_policy_parameters(&config, &p.network.policies[0], learnable);
    whet_policy_gradient *frozen =
        calloc((size_t)config.layers * config.heads, sizeof(whet_policy_gradient));
    REQUIRE(frozen && count > 0);
    lm_outcome trained = lm_network_run(&p.network, &p.piece, p.workspace, p.gradient);
    lm_outcome outcome = lm_network_run_frozen(&p.network, &p.piece, p.workspace, frozen);
    CHECK_INT(outcome.status, WHET_OK);
    CHECK_NEAR(outcome.loss, trained.loss, 0);
    for (size_t layer = 0; layer < config.layers; layer++) {
        const float *own =
            p.gradient + lm_layer_at(&p.network.layout, layer) + p.network.layout.policy;
        for (size_t i = 0; i < p.network.layout.policy_rows * count; i++) {
            const whet_policy_gradient *row = &frozen[layer * config.heads + i / count];
            double value;
            memcpy(&value, (const char *)row + learnable[i % count].gradient_offset, sizeof value);
            CHECK_MSG((float)value == own[i] && own[i] != 0, "layer %zu, parameter %zu: %g, not %g",
                      layer, i, value, (double)own[i]);
        }
    }
    free(frozen);
    problem_tear_down(&p);
}

TEST(frozen_weights_leave_the_gradients_of_policies_as_they_are) {
    check_frozen(with_policy("hinge:-0.1:0.4:4.5", LM_LEARN_HEAD));
    check_frozen(with_policy("hinge:0.2:-0.3:4.5", LM_LEARN_LAYER));
    check_frozen(with_policy("ssmax:0.5:0.2", LM_LEARN_HEAD));
    lm_config config = with_policy("hinge:0.1:0.1:2.5", LM_LEARN_HEAD);
    config.tied = !config.tied;
    config.rope_scaling = nn_rope_scaling_of(NN_ROPE_YARN, 4, 16);
    check_frozen(config);
    for (int variant = 0; variant < VARIANTS; variant++) {
        lm_config other = with_policy("hinge:-0.1:0.4:4.5", LM_LEARN_HEAD);
        set_variant(&other, variant);
        check_frozen(other);
    }
}

/* Runs with frozen weights, in the workspace given; the gradients are to be freed. */
static whet_policy_gradient *run_frozen(const problem *p, lm_workspace *workspace) {
    size_t heads = (size_t)p->network.config.layers * p->network.config.heads;
    whet_policy_gradient *gradients = calloc(heads, sizeof *gradients);
    REQUIRE(gradients && workspace);
    CHECK_INT(lm_network_run_frozen(&p->network, &p->piece, workspace, gradients).status, WHET_OK);
    return gradients;
}

TEST(activations_of_other_families_are_made_again) {
    static problem p;
    for (int variant = 0; variant < VARIANTS; variant++) {
        lm_config config = with_policy("hinge:-0.1:0.4:4.5", LM_LEARN_HEAD);
        set_variant(&config, variant);
        config.layers = 5;
        problem_set_up(&p, &engine, config, false);
        lm_workspace *lean = lm_workspace_create_lean(&p.network, PROBLEM_TOKENS);
        whet_policy_gradient *kept = run_frozen(&p, p.workspace), *again = run_frozen(&p, lean);
        CHECK(memcmp(kept, again, (size_t)config.layers * config.heads * sizeof *kept) == 0);
        CHECK(kept[0].value[0] != 0);
        free(kept);
        free(again);
        lm_workspace_destroy(lean);
        problem_tear_down(&p);
    }
}

TEST(betas_of_queries_are_made_again) {
    static problem p;
    lm_config config = with_policy("entmax15", LM_LEARN_NOTHING);
    config.has_query_betas = config.has_sinks = true;
    config.layers = 4;
    problem_set_up(&p, &engine, config, false);
    lm_workspace *lean = lm_workspace_create_lean(&p.network, PROBLEM_TOKENS);
    float *again = calloc(p.network.layout.count, sizeof(float));
    REQUIRE(lean && again);
    lm_network_run(&p.network, &p.piece, p.workspace, p.gradient);
    lm_network_run(&p.network, &p.piece, lean, again);
    CHECK(same_bytes(again, p.gradient, p.network.layout.count * sizeof(float)));
    free(again);
    lm_workspace_destroy(lean);
    problem_tear_down(&p);
}

TEST(activations_made_again_give_the_same_gradients_in_less_memory) {
    static problem p;
    lm_config config = with_policy("hinge:-0.1:0.4:4.5", LM_LEARN_HEAD);
    config.layers = 6;
    problem_set_up(&p, &engine, config, false);
    lm_workspace *lean = lm_workspace_create_lean(&p.network, PROBLEM_TOKENS);
    whet_policy_gradient *kept = run_frozen(&p, p.workspace), *again = run_frozen(&p, lean);
    size_t bytes = (size_t)config.layers * config.heads * sizeof *kept;
    CHECK(memcmp(kept, again, bytes) == 0);
    CHECK(kept[0].value[0] != 0);
    float *trained = calloc(p.network.layout.count, sizeof(float));
    REQUIRE(trained);
    lm_network_run(&p.network, &p.piece, p.workspace, p.gradient);
    lm_network_run(&p.network, &p.piece, lean, trained);
    CHECK(trained && memcmp(trained, p.gradient, p.network.layout.count * sizeof(float)) == 0);
    /* all of five layers but their inputs: q, k, v, what attention gave, its rows, and the MLP's */
    size_t floats = (2 * config.heads + 2 * config.key_heads) * (size_t)config.head_dim +
                    config.width + 2 * (size_t)config.hidden;
    size_t saved = floats * sizeof(float) + config.heads * sizeof(whet_stats);
    CHECK(lm_workspace_bytes(lean) + 5 * PROBLEM_TOKENS * saved <= lm_workspace_bytes(p.workspace));
    free(trained);
    free(kept);
    free(again);
    lm_workspace_destroy(lean);
    problem_tear_down(&p);
}
