/*
 * Whole models of architectures whose attention differs, with flash attention and without it. Exact
 * attention must give the same logits in both modes, up to what rounding to the cache's f16 makes
 * of differences in the last bits; and the host's own, which rounds more, about the same.
 */
#include "flash.h"
#include "loaded.h"
#include "support/check.h"
#include "tiny.h"
#include <ggml-backend.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROMPT = 130, AFTER = 4, MODES = 2, ARCHITECTURES = 5 };

#define NEAR_HOST 3e-2  /* the host rounds queries, and sums of flash attention, to f16 */
#define NEAR_OTHER 1e-4 /* between the modes */

static const flash_kind modes[MODES] = {FLASH_ON, FLASH_OFF};
static const char *const names[ARCHITECTURES] = {"llama", "gemma2", "gpt-oss", "deepseek2", "mpt"};
static struct llama_model *models[ARCHITECTURES];
static struct llama_context *stock[ARCHITECTURES][MODES];

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct llama_context *make_context(struct llama_model *model, flash_kind flash) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = TINY_CONTEXT;
    params.n_batch = TINY_CONTEXT;
    params.n_ubatch = 64;
    params.n_threads = params.n_threads_batch = 1;
    set_flash(&params, flash);
    return llama_init_from_model(model, params);
}

static void start(void) {
    const char *folder = loaded_libraries(), *plugin = loaded_plugin();
    if (models[0])
        return;
    REQUIRE(folder && plugin);
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(folder);
    for (int i = 0; i < ARCHITECTURES; i++) {
        models[i] = tiny_load(names[i]);
        for (int mode = 0; mode < MODES && models[i]; mode++)
            stock[i][mode] = make_context(models[i], modes[mode]);
    }
    REQUIRE(ggml_backend_load(plugin) != NULL);
}

__attribute__((constructor)) static void before(void) { check_before_each(start); }

/* One prompt, or one token after it, in all contexts of a model. */
static void compare_step(struct llama_context *const *host, struct llama_context *const *ours,
                         int first, int count) {
    size_t n = (size_t)count * TINY_WORDS;
    float *expected = calloc(n, sizeof *expected), *found[MODES];
    for (int mode = 0; mode < MODES; mode++) {
        found[mode] = calloc(n, sizeof *expected);
        REQUIRE(expected && found[mode] && tiny_decode(host[mode], first, count, 1, expected) &&
                tiny_decode(ours[mode], first, count, 1, found[mode]));
        double off = tiny_distance(found[mode], expected, n);
        CHECK_MSG(off <= NEAR_HOST && off > 0, "mode %d, from %d: %g from the host's", mode, first,
                  off);
    }
    double off = tiny_distance(found[1], found[0], n);
    CHECK_MSG(off <= NEAR_OTHER, "from %d: off by %g without flash attention", first, off);
    for (int mode = 0; mode < MODES; mode++)
        free(found[mode]);
    free(expected);
}

static void compare(int which) {
    struct llama_context *ours[MODES];
#ifdef WHET_LLAMA_HAS_FLASH_FLAG
    if (!models[which])
        SKIP("this llama.cpp does not know the architecture");
#endif
    REQUIRE(models[which] && stock[which][0] && stock[which][1]);
    for (int mode = 0; mode < MODES; mode++) {
        ours[mode] = make_context(models[which], modes[mode]);
        REQUIRE(ours[mode] != NULL);
    }
    compare_step(stock[which], ours, 0, PROMPT);
    for (int i = 0; i < AFTER; i++)
        compare_step(stock[which], ours, PROMPT + i, 1);
    for (int mode = 0; mode < MODES; mode++)
        llama_free(ours[mode]);
}

TEST(grouped_heads) { compare(0); }
TEST(soft_caps_and_windows_of_gemma2) { compare(1); }
TEST(sinks_and_windows_of_gpt_oss) { compare(2); }
TEST(latent_attention_of_deepseek2) { compare(3); }
TEST(alibi_of_mpt) { compare(4); }
