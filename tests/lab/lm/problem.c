/* Made-up tokens for a small model. */
#include "problem.h"

#include "support/check.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

lm_config small_config(void) {
    lm_config config = lm_config_default();
    config.layers = 2;
    config.width = 36;
    config.heads = 6;
    config.key_heads = 3;
    config.head_dim = 10;
    config.rope_dims = 10;
    config.hidden = 45;
    config.vocabulary = 29;
    config.context = 64;
    return config;
}

void set_variant(lm_config *config, int variant) {
    bool is_gemma = variant >= 2;
    config->gate = is_gemma ? LM_GEGLU : LM_SWIGLU;
    config->has_biases = variant == 0;
    config->has_head_norms = variant == 1 || variant == 3;
    config->has_post_norms = is_gemma;
    config->window = is_gemma ? 7 : 0;
    config->window_period = is_gemma ? 2 : 0;
    config->attention_scale = is_gemma ? 0.4 : 0;
    config->attention_cap = variant == 2 ? 1.5 : 0;
    config->output_cap = variant == 2 ? 2.5 : 0;
    config->window_rope_base = variant == 3 ? 50 : 0;
}

static void draw_piece(problem *p, bool all) {
    lab_random random = lab_random_start(17);
    uint32_t vocabulary = p->network.config.vocabulary;
    p->piece = (lm_piece){.rows = PROBLEM_ROWS,
                          .length = PROBLEM_LENGTH,
                          .tokens = p->tokens,
                          .at = p->at,
                          .labels = p->labels,
                          .weights = p->target_weights,
                          .is_answer = p->is_answer};
    for (uint32_t i = 0; i < PROBLEM_TOKENS; i++) {
        p->tokens[i] = lab_random_below(&random, vocabulary);
        lm_token label = lab_random_below(&random, vocabulary);
        if (!all && i % 3 == 0)
            continue;
        size_t target = p->piece.targets++;
        p->at[target] = i;
        p->labels[target] = label;
        p->target_weights[target] = all ? 1 : 0.5F + lab_random_float(&random);
        p->is_answer[target] = i % 2 == 0;
    }
}

void problem_set_up(problem *p, const nn_engine *engine, lm_config config, bool all) {
    lab_error error = {0};
    lm_layout layout = {0};
    memset(p, 0, sizeof *p);
    REQUIRE(lm_config_check(&config, &error) && lm_layout_of(&config, &layout));
    p->weights = aligned_alloc(64, (layout.count + 15) / 16 * 64);
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): the layout is not empty */
    p->gradient = calloc(layout.count, sizeof(float));
    REQUIRE(p->weights && p->gradient);
    lm_initialise(&config, &layout, 3, p->weights);
    lab_random random = lab_random_start(11);
    for (size_t i = 0; i < layout.count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.*): lm_initialise has set it */
        p->weights[i] += 0.05F * (float)lab_random_normal(&random);
    REQUIRE(lm_network_create(engine, &config, p->weights, &p->network, &error));
    p->workspace = lm_workspace_create(&p->network, PROBLEM_TOKENS);
    REQUIRE(p->workspace);
    draw_piece(p, all);
}

void problem_tear_down(problem *p) {
    lm_workspace_destroy(p->workspace);
    lm_network_destroy(&p->network);
    free(p->gradient);
    free(p->weights);
}
