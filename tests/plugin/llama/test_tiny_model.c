/*
 * A whole model with random weights in an unmodified llama.cpp: contexts created before the
 * plug-in is loaded are the host's own, those created after go through it. Both must give the same
 * logits, for prompts and for tokens after them, with flash attention and without it, with caches
 * of other types, several sequences and several contexts at once.
 */
#include "flash.h"
#include "loaded.h"
#include "support/check.h"
#include "tiny.h"
#include <ggml-backend.h>
#include <ggml.h>
#include <llama.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROMPT = 150, AFTER = 6, VARIANTS = 10 };

/* ---- contexts ---- */

typedef struct variant {
    flash_kind flash;
    enum ggml_type keys, values;
    int sequences, threads;
    bool is_unified;
    double near; /* relative to the logits: the host rounds to the cache's type, including sums */
} variant;

static const variant variants[VARIANTS] = {
    {FLASH_AUTO, GGML_TYPE_F16, GGML_TYPE_F16, 1, 1, false, 2e-2},
    {FLASH_ON, GGML_TYPE_F16, GGML_TYPE_F16, 1, 2, false, 2e-2},
    {FLASH_OFF, GGML_TYPE_F16, GGML_TYPE_F16, 1, 1, false, 1e-2},
    {FLASH_ON, GGML_TYPE_F32, GGML_TYPE_F32, 1, 1, false, 2e-2},
    {FLASH_ON, GGML_TYPE_BF16, GGML_TYPE_BF16, 1, 1, false, 1e-1},
    {FLASH_ON, GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, 1, 1, false, 2e-1},
    {FLASH_ON, GGML_TYPE_Q8_0, GGML_TYPE_F16, 1, 1, false, 2e-1},
    {FLASH_ON, GGML_TYPE_F16, GGML_TYPE_F16, 2, 1, true, 2e-2},
    {FLASH_ON, GGML_TYPE_F16, GGML_TYPE_F16, 2, 1, false, 2e-2},
    {FLASH_OFF, GGML_TYPE_F16, GGML_TYPE_F16, 2, 1, false, 1e-2},
};

static struct llama_model *model;
static struct llama_context *stock[VARIANTS];

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct llama_context *make_context(const variant *v) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(TINY_CONTEXT * v->sequences);
    params.n_batch = params.n_ctx;
    params.n_ubatch = 64;
    params.n_seq_max = (uint32_t)v->sequences;
    params.n_threads = params.n_threads_batch = v->threads;
    set_flash(&params, v->flash);
    params.type_k = v->keys;
    params.type_v = v->values;
    params.kv_unified = v->is_unified;
    return llama_init_from_model(model, params);
}

static void start(void) {
    const char *folder = loaded_libraries(), *plugin = loaded_plugin();
    if (model)
        return;
    REQUIRE(folder && plugin);
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(folder);
    model = tiny_load("llama");
    REQUIRE(model != NULL);
    for (int i = 0; i < VARIANTS; i++)
        stock[i] = make_context(&variants[i]);
    REQUIRE(ggml_backend_load(plugin) != NULL);
}

__attribute__((constructor)) static void before(void) { check_before_each(start); }

/* ---- comparing ---- */

static void compare(int which) {
    const variant *v = &variants[which];
    size_t most = (size_t)PROMPT * (size_t)v->sequences * TINY_WORDS;
    float *expected = calloc(most, sizeof *expected), *found = calloc(most, sizeof *found);
    struct llama_context *ours = make_context(v);
    CHECK(stock[which] && ours);
    for (int step = 0; stock[which] && ours && step <= AFTER; step++) {
        int first = step == 0 ? 0 : PROMPT + step - 1, count = step == 0 ? PROMPT : 1;
        size_t n = (size_t)count * (size_t)v->sequences * TINY_WORDS;
        bool decoded = tiny_decode(stock[which], first, count, v->sequences, expected) &&
                       tiny_decode(ours, first, count, v->sequences, found);
        double off = decoded ? tiny_distance(found, expected, n) : (double)INFINITY;
        CHECK_MSG(off <= v->near, "variant %d, step %d: off by %g", which, step, off);
        CHECK_MSG(step > 0 || off > 0, "variant %d: the plug-in is not at work", which);
    }
    llama_free(ours);
    if (stock[which])
        llama_memory_clear(llama_get_memory(stock[which]), true);
    free(expected);
    free(found);
}

TEST(flash_attention_automatic) { compare(0); }
TEST(flash_attention_on_with_two_threads) { compare(1); }
TEST(flash_attention_off) { compare(2); }
TEST(a_cache_of_f32) { compare(3); }
TEST(a_cache_of_bf16) { compare(4); }
TEST(a_quantised_cache) { compare(5); }
TEST(keys_and_values_of_different_types) { compare(6); }
TEST(two_sequences_in_one_cache) { compare(7); }
TEST(two_sequences_in_caches_of_their_own) { compare(8); }
TEST(two_sequences_without_flash_attention) { compare(9); }

static void *compute_alone(void *result) {
    variant v = variants[0];
    struct llama_context *context = make_context(&v);
    bool decoded = context && tiny_decode(context, 0, PROMPT, 1, result);
    llama_free(context);
    return decoded ? result : NULL;
}

TEST(two_contexts_at_once_give_what_each_gives_alone) {
    size_t n = (size_t)PROMPT * TINY_WORDS;
    float *alone = calloc(n, sizeof *alone), *together[2];
    pthread_t threads[2];
    CHECK(compute_alone(alone) != NULL);
    for (int i = 0; i < 2; i++) {
        together[i] = calloc(n, sizeof *alone);
        REQUIRE(pthread_create(&threads[i], NULL, compute_alone, together[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        void *decoded = NULL;
        pthread_join(threads[i], &decoded);
        CHECK(decoded != NULL && same_bytes(alone, together[i], n * sizeof *alone));
        free(together[i]);
    }
    free(alone);
}
