// Texts of a model's own; see written.h.
#include "written.h"

#include "support/check.h"

#include "base/random.h"
#include "lm/decode.h"
#include "lm/sample.h"

#include <stdlib.h>

// One token more for each lane of a decoder.
static void draw_tokens(const lm_opened *opened, const float *logits, size_t first, size_t length,
                        size_t at, uint64_t seed, lm_token *tokens) {
    size_t vocabulary = opened->model.config.vocabulary;
    for (size_t lane = 0; lane < WRITTEN_LANES; lane++) {
        size_t place = (first + lane) * length + at;
        lab_random random = lab_random_start(lab_seed_for(seed, "written", place));
        tokens[place] = at == 0 ? opened->tokenizer.begin
                                : lm_sample(logits + lane * vocabulary, vocabulary, 1, &random);
    }
}

static void write_lanes(const lm_opened *opened, const lm_matrices *matrices, size_t first,
                        size_t length, uint64_t seed, float *logits, lm_token *tokens) {
    lab_error error = {0};
    lm_decoder_options options = {
        .matrices = matrices, .lanes = WRITTEN_LANES, .capacity = length, .cache_type = WHET_F32};
    lm_decoder *decoder = lm_decoder_create(&options, &error);
    REQUIRE(decoder);
    for (size_t at = 0; at < length; at++) {
        size_t lanes[WRITTEN_LANES];
        lm_token last[WRITTEN_LANES];
        draw_tokens(opened, logits, first, length, at, seed, tokens);
        for (size_t lane = 0; lane < WRITTEN_LANES; lane++) {
            lanes[lane] = lane;
            last[lane] = tokens[(first + lane) * length + at];
        }
        REQUIRE(lm_decoder_step(decoder, lanes, last, WRITTEN_LANES, logits, &error));
    }
    lm_decoder_destroy(decoder);
}

lm_token *write_sequences(const nn_engine *engine, const lm_opened *opened, size_t count,
                          size_t length, uint64_t seed) {
    lab_error error = {0};
    lm_matrices matrices;
    lm_token *tokens = malloc(count * length * sizeof *tokens);
    float *logits = malloc(WRITTEN_LANES * opened->model.config.vocabulary * sizeof *logits);
    REQUIRE(tokens && logits && count % WRITTEN_LANES == 0);
    REQUIRE(lm_matrices_create(&opened->model, engine, &matrices, &error));
    for (size_t first = 0; first < count; first += WRITTEN_LANES) {
        write_lanes(opened, &matrices, first, length, seed, logits, tokens);
    }
    lm_matrices_free(&matrices);
    free(logits);
    return tokens;
}

void multiply_queries(lm_model *model, size_t head, double factor) {
    const lm_config *config = &model->config;
    const lm_layout *layout = &model->layout;
    float *rows = model->weights + lm_layer_at(layout, head / config->heads) + layout->query +
                  head % config->heads * config->head_dim * (size_t)config->width;
    for (size_t i = 0; i < config->head_dim * (size_t)config->width; i++) {
        rows[i] = (float)((double)rows[i] * factor);
    }
}
