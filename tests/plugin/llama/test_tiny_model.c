/*
 * A whole model with random weights in an unmodified llama.cpp: contexts created before the
 * plug-in is loaded are the host's own, those created after go through it. Both must give the same
 * logits, for prompts and for tokens after them, with flash attention and without it, with caches
 * of other types, several sequences and several contexts at once.
 */
#include "flash.h"
#include "loaded.h"
#include "support/check.h"
#include "support/random.h"
#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>
#include <llama.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 3, WIDTH = 128, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 32, FFN = 192, WORDS = 96 };
enum { PROMPT = 150, AFTER = 6, CONTEXT = 256, VARIANTS = 10 };

/* ---- the model ---- */

static void add_tensor(struct gguf_context *gguf, struct ggml_context *context, const char *name,
                       int64_t columns, int64_t rows, double deviation) {
    static struct rng rng = {5};
    struct ggml_tensor *tensor = rows > 1
                                     ? ggml_new_tensor_2d(context, GGML_TYPE_F32, columns, rows)
                                     : ggml_new_tensor_1d(context, GGML_TYPE_F32, columns);
    ggml_set_name(tensor, name);
    rng_fill_normal(&rng, tensor->data, (size_t)(columns * rows), rows > 1 ? 0 : 1, deviation);
    gguf_add_tensor(gguf, tensor);
}

static void add_layer(struct gguf_context *gguf, struct ggml_context *context, int layer) {
    static const struct {
        const char *name;
        int columns, rows;
        double deviation;
    } parts[] = {
        {"attn_norm", WIDTH, 1, 0.1},
        {"attn_q", WIDTH, HEADS * HEAD_DIM, 0.25},
        {"attn_k", WIDTH, KV_HEADS * HEAD_DIM, 0.25},
        {"attn_v", WIDTH, KV_HEADS * HEAD_DIM, 0.1},
        {"attn_output", HEADS * HEAD_DIM, WIDTH, 0.1},
        {"ffn_norm", WIDTH, 1, 0.1},
        {"ffn_gate", WIDTH, FFN, 0.1},
        {"ffn_up", WIDTH, FFN, 0.1},
        {"ffn_down", FFN, WIDTH, 0.1},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, parts[i].name);
        add_tensor(gguf, context, name, parts[i].columns, parts[i].rows, parts[i].deviation);
    }
}

static bool write_model(const char *path) {
    struct gguf_context *gguf = gguf_init_empty();
    struct ggml_init_params params = {.mem_size = (size_t)16 << 20};
    struct ggml_context *context = ggml_init(params);
    gguf_set_val_str(gguf, "general.architecture", "llama");
    gguf_set_val_str(gguf, "tokenizer.ggml.model", "no_vocab");
    gguf_set_val_u32(gguf, "llama.vocab_size", WORDS);
    gguf_set_val_u32(gguf, "llama.context_length", CONTEXT);
    gguf_set_val_u32(gguf, "llama.embedding_length", WIDTH);
    gguf_set_val_u32(gguf, "llama.block_count", LAYERS);
    gguf_set_val_u32(gguf, "llama.feed_forward_length", FFN);
    gguf_set_val_u32(gguf, "llama.attention.head_count", HEADS);
    gguf_set_val_u32(gguf, "llama.attention.head_count_kv", KV_HEADS);
    gguf_set_val_u32(gguf, "llama.rope.dimension_count", HEAD_DIM);
    gguf_set_val_f32(gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    add_tensor(gguf, context, "token_embd.weight", WIDTH, WORDS, 1);
    add_tensor(gguf, context, "output_norm.weight", WIDTH, 1, 0.1);
    for (int layer = 0; layer < LAYERS; layer++)
        add_layer(gguf, context, layer);
    bool written = gguf_write_to_file(gguf, path, false);
    gguf_free(gguf);
    ggml_free(context);
    return written;
}

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
static char path[] = "/tmp/whet-tiny.XXXXXX";

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct llama_context *make_context(const variant *v) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(CONTEXT * v->sequences);
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
    int file = mkstemp(path);
    REQUIRE(folder && plugin && file >= 0);
    close(file);
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(folder);
    REQUIRE(write_model(path));
    model = llama_model_load_from_file(path, llama_model_default_params());
    unlink(path);
    REQUIRE(model != NULL);
    for (int i = 0; i < VARIANTS; i++)
        stock[i] = make_context(&variants[i]);
    REQUIRE(ggml_backend_load(plugin) != NULL);
}

__attribute__((constructor)) static void before(void) { check_before_each(start); }

/* ---- comparing ---- */

static void add_token(struct llama_batch *batch, int position, int sequence) {
    int i = batch->n_tokens++;
    batch->token[i] = (position * 31 + sequence * 17 + position * position / 7) % WORDS;
    batch->pos[i] = position;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = sequence;
    batch->logits[i] = true;
}

/* All logits of a prompt of all sequences, or of a token of each after it. */
static bool decode(struct llama_context *context, int first, int count, int sequences, float *to) {
    struct llama_batch batch = llama_batch_init(count * sequences, 0, 1);
    for (int s = 0; s < sequences; s++)
        for (int i = 0; i < count; i++)
            add_token(&batch, first + i, s);
    bool decoded = llama_decode(context, batch) == 0;
    for (int i = 0; decoded && i < batch.n_tokens; i++)
        memcpy(to + (size_t)i * WORDS, llama_get_logits_ith(context, i), WORDS * sizeof(float));
    llama_batch_free(batch);
    return decoded;
}

static double distance(const float *a, const float *b, size_t n) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / size);
}

static void compare(int which) {
    const variant *v = &variants[which];
    size_t most = (size_t)PROMPT * (size_t)v->sequences * WORDS;
    float *expected = calloc(most, sizeof *expected), *found = calloc(most, sizeof *found);
    struct llama_context *ours = make_context(v);
    CHECK(stock[which] && ours);
    for (int step = 0; stock[which] && ours && step <= AFTER; step++) {
        int first = step == 0 ? 0 : PROMPT + step - 1, count = step == 0 ? PROMPT : 1;
        size_t n = (size_t)count * (size_t)v->sequences * WORDS;
        bool decoded = decode(stock[which], first, count, v->sequences, expected) &&
                       decode(ours, first, count, v->sequences, found);
        double off = decoded ? distance(found, expected, n) : (double)INFINITY;
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
    bool decoded = context && decode(context, 0, PROMPT, 1, result);
    llama_free(context);
    return decoded ? result : NULL;
}

TEST(two_contexts_at_once_give_what_each_gives_alone) {
    size_t n = (size_t)PROMPT * WORDS;
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
