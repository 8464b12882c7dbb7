/* Reads a prompt and generates tokens; see generate.h. */
#include "lm/generate.h"

#include "base/clock.h"
#include "lm/sample.h"

#include <stdlib.h>
#include <string.h>

/* Everything to be freed at the end. */
typedef struct work {
    const lm_generate_request *request;
    lm_token_list prompt;
    lm_matrices matrices;
    lm_decoder *decoder;
    float *logits;
    lm_text text;
} work;

static bool read_prompt(work *w, lm_generated *result, lab_error *error) {
    const lm_generate_request *r = w->request;
    const lm_tokenizer *t = &r->opened->tokenizer;
    if (t->adds_begin && t->begin != LM_NO_TOKEN && !lm_token_list_add(&w->prompt, t->begin))
        return lab_fail_memory(error);
    if (!lm_tokenize(t, r->prompt, r->prompt_length, &w->prompt, error))
        return false;
    result->prompt_tokens = w->prompt.count;
    uint32_t context = r->opened->model.config.context;
    if (w->prompt.count == 0)
        return lab_fail(error, LAB_INPUT, "this model needs a prompt; use --prompt");
    if (w->prompt.count > context)
        return lab_fail(error, LAB_INPUT,
                        "the prompt has %zu tokens, more than the model's context of %u",
                        w->prompt.count, context);
    return true;
}

static bool make_decoder(work *w, lab_error *error) {
    const lm_generate_request *r = w->request;
    const lm_config *c = &r->opened->model.config;
    size_t left = c->context - w->prompt.count;
    if (!lm_matrices_create(&r->opened->model, r->engine, &w->matrices, error))
        return false;
    lm_decoder_options options = {.matrices = &w->matrices,
                                  .executor = r->executor,
                                  .policy = r->policy,
                                  .policies = r->policies,
                                  .lanes = 1,
                                  .capacity = w->prompt.count + (r->steps < left ? r->steps : left),
                                  .cache_type = r->cache_type,
                                  .measures = r->measures};
    w->logits = malloc(c->vocabulary * sizeof *w->logits);
    w->decoder = lm_decoder_create(&options, error);
    return w->decoder && (w->logits || lab_fail_memory(error));
}

static bool is_ending(const lm_tokenizer *t, lm_token token) {
    return token != LM_NO_TOKEN && (token == t->end || token == t->begin);
}

/* Chooses and reports tokens until the end. */
static bool write_on(work *w, lm_generated *result, lab_error *error) {
    const lm_generate_request *r = w->request;
    const lm_tokenizer *t = &r->opened->tokenizer;
    const size_t lane = 0;
    lab_random random = lab_random_start(lab_seed_for(r->seed, "generate", 0));
    lm_token last = w->prompt.items[w->prompt.count - 1];
    while (result->tokens < r->steps) {
        lm_token token =
            lm_sample(w->logits, r->opened->model.config.vocabulary, r->temperature, &random);
        result->has_ended = is_ending(t, token);
        if (result->has_ended)
            return true;
        w->text.length = 0;
        if (!lm_text_add(&w->text, "", 0) ||
            !lm_tokenizer_text(t, token, last == t->begin, &w->text))
            return lab_fail_memory(error);
        result->tokens++;
        if (!r->take(r->context, token, w->text.bytes, w->text.length) ||
            w->prompt.count + result->tokens >= r->opened->model.config.context)
            return true;
        last = token;
        if (result->tokens < r->steps &&
            !lm_decoder_step(w->decoder, &lane, &token, 1, w->logits, error))
            return false;
    }
    return true;
}

static bool keep_entropies(const work *w, lm_generated *result, lab_error *error) {
    const lm_config *c = &w->request->opened->model.config;
    size_t bytes = (size_t)c->layers * c->heads * sizeof *result->entropies;
    if (!w->request->measures)
        return true;
    result->entropies = malloc(bytes);
    if (!result->entropies)
        return lab_fail_memory(error);
    memcpy(result->entropies, lm_decoder_entropies(w->decoder), bytes);
    return true;
}

bool lm_generate(const lm_generate_request *request, lm_generated *result, lab_error *error) {
    work w = {.request = request};
    *result = (lm_generated){.tokens = 0};
    bool good = read_prompt(&w, result, error) && make_decoder(&w, error);
    double began = lab_now();
    good = good && lm_decoder_read(w.decoder, 0, w.prompt.items, w.prompt.count, w.logits, error);
    result->read_seconds = lab_now() - began;
    began = lab_now();
    good = good && write_on(&w, result, error);
    result->write_seconds = lab_now() - began;
    good = good && keep_entropies(&w, result, error);
    lm_decoder_destroy(w.decoder);
    lm_matrices_free(&w.matrices);
    free(w.prompt.items);
    free(w.logits);
    free(w.text.bytes);
    return good;
}
