#include "tiny.h"

#include "gguf/write.h"
#include "support/check.h"
#include "support/random.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPECIAL = 3, BYTES = 256, VOCABULARY = SPECIAL + BYTES + 1, TENSORS_MAX = 256 };

tiny_model tiny_usual(const char *architecture) {
    return (tiny_model){.architecture = architecture,
                        .layers = 2,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 16,
                        .width = 64,
                        .context = 512,
                        .gain = 1,
                        .type = GGUF_F32,
                        .seed = 1};
}

// A model under construction: its floats are kept until it is written.
typedef struct construction {
    const tiny_model *model;
    gguf_writer *writer;
    struct rng rng;
    float *values[TENSORS_MAX];
    size_t count;
} construction;

// "llama.block_count"
static const char *key_of(const construction *c, const char *rest) {
    static char key[128];
    snprintf(key, sizeof key, "%s.%s", c->model->architecture, rest);
    return key;
}

static bool is(const construction *c, const char *architecture) {
    return strcmp(c->model->architecture, architecture) == 0;
}

static void put_numbers(construction *c) {
    const tiny_model *m = c->model;
    gguf_put_text(c->writer, "general.architecture", m->architecture);
    gguf_put_text(c->writer, "general.name", "tiny");
    gguf_put_u32(c->writer, key_of(c, "context_length"), m->context);
    gguf_put_u32(c->writer, key_of(c, "embedding_length"), m->width);
    gguf_put_u32(c->writer, key_of(c, "block_count"), m->layers);
    gguf_put_u32(c->writer, key_of(c, "feed_forward_length"), 2 * m->width);
    gguf_put_u32(c->writer, key_of(c, "attention.head_count"), m->heads);
    gguf_put_u32(c->writer, key_of(c, "attention.head_count_kv"), m->kv_heads);
    gguf_put_u32(c->writer, key_of(c, "attention.key_length"), m->head_dim);
    gguf_put_u32(c->writer, key_of(c, "attention.value_length"), m->head_dim);
    gguf_put_u32(c->writer, key_of(c, "rope.dimension_count"), m->head_dim);
    gguf_put_u32(c->writer, key_of(c, "vocab_size"), VOCABULARY);
    gguf_put_float(c->writer, key_of(c, "attention.layer_norm_rms_epsilon"), 1e-5f);
    gguf_put_float(c->writer, key_of(c, "rope.freq_base"), 10000.0f);
    if (is(c, "gemma3")) {
        // which hosts of 2025 want to know; wider than any text here
        gguf_put_u32(c->writer, key_of(c, "attention.sliding_window"), m->context);
    }
    if (m->soft_cap > 0) {
        gguf_put_float(c->writer, key_of(c, "attn_logit_softcapping"), (float)m->soft_cap);
    }
    if (m->yarn > 0) {
        gguf_put_text(c->writer, key_of(c, "rope.scaling.type"), "yarn");
        gguf_put_float(c->writer,
                       key_of(c, m->is_old ? "rope.scale_linear" : "rope.scaling.factor"),
                       (float)m->yarn);
        gguf_put_u32(c->writer, key_of(c, "rope.scaling.original_context_length"), m->context);
    }
}

// A vocabulary of bytes, and a blank as sentencepiece writes it.
static void put_tokens(construction *c) {
    static char texts[VOCABULARY][8];
    const char *tokens[VOCABULARY];
    float scores[VOCABULARY] = {0};
    int32_t types[VOCABULARY];
    for (int i = 0; i < VOCABULARY; i++) {
        snprintf(texts[i], sizeof texts[i], i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>");
        types[i] = i == 0 ? 2 : 3;
        if (i >= SPECIAL) {
            snprintf(texts[i], sizeof texts[i], "<0x%02X>", (unsigned)(i - SPECIAL));
            types[i] = 6;
        }
        tokens[i] = texts[i];
    }
    snprintf(texts[VOCABULARY - 1], sizeof texts[0], "\xe2\x96\x81");
    types[VOCABULARY - 1] = 1;
    gguf_put_text(c->writer, "tokenizer.ggml.model", "llama");
    gguf_put_texts(c->writer, "tokenizer.ggml.tokens", tokens, VOCABULARY);
    gguf_put_floats(c->writer, "tokenizer.ggml.scores", scores, VOCABULARY);
    gguf_put_integers(c->writer, "tokenizer.ggml.token_type", types, VOCABULARY);
    gguf_put_u32(c->writer, "tokenizer.ggml.bos_token_id", 1);
    gguf_put_u32(c->writer, "tokenizer.ggml.eos_token_id", 2);
    gguf_put_u32(c->writer, "tokenizer.ggml.unknown_token_id", 0);
}

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): tiny_write frees it, unless the test has failed */
// A tensor of normal numbers; `layer` < 0 for those of no layer, rows 0 for vectors.
static void put(construction *c, int layer, const char *rest, uint64_t columns, uint64_t rows,
                double mean, double deviation) {
    char name[64];
    size_t count = (size_t)(columns * (rows ? rows : 1));
    REQUIRE(c->count < TENSORS_MAX);
    float *values = c->values[c->count++] = malloc((count + 1) * sizeof *values);
    REQUIRE(values);
    rng_fill_normal(&c->rng, values, count, mean, deviation);
    if (layer < 0) {
        snprintf(name, sizeof name, "%s", rest);
    } else {
        snprintf(name, sizeof name, "blk.%d.%s", layer, rest);
    }
    gguf_put_tensor(c->writer, name, rows ? 2 : 1, (const uint64_t[]){columns, rows ? rows : 1},
                    rows ? c->model->type : GGUF_F32, values);
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

static void put_attention(construction *c, int layer) {
    const tiny_model *m = c->model;
    uint64_t width = m->width, queries = (uint64_t)m->heads * m->head_dim;
    uint64_t keys = (uint64_t)m->kv_heads * m->head_dim;
    double size = m->gain / sqrt((double)width);
    put(c, layer, "attn_norm.weight", width, 0, 1, 0.3);
    if (m->is_fused) {
        put(c, layer, "attn_qkv.weight", width, queries + 2 * keys, 0, size);
    } else {
        put(c, layer, "attn_q.weight", width, queries, 0, size);
        put(c, layer, "attn_k.weight", width, keys, 0, size);
        put(c, layer, "attn_v.weight", width, keys, 0, size);
    }
    if (m->has_biases) {
        put(c, layer, "attn_q.bias", queries, 0, 0, 0.5);
        put(c, layer, "attn_k.bias", keys, 0, 0, 0.5);
        put(c, layer, "attn_v.bias", keys, 0, 0, 0.5);
    }
    if (is(c, "qwen3") || is(c, "gemma3")) {
        put(c, layer, "attn_q_norm.weight", m->head_dim, 0, 1, 0.3);
        put(c, layer, "attn_k_norm.weight", m->head_dim, 0, 1, 0.3);
    }
    put(c, layer, "attn_output.weight", queries, width, 0, 1 / sqrt((double)queries));
    if (is(c, "gemma2") || is(c, "gemma3")) {
        put(c, layer, "post_attention_norm.weight", width, 0, 1, 0.3);
        put(c, layer, "post_ffw_norm.weight", width, 0, 1, 0.3);
    }
}

static void put_tensors(construction *c) {
    uint64_t width = c->model->width;
    double size = 1 / sqrt((double)width);
    put(c, -1, "token_embd.weight", width, VOCABULARY, 0, 1);
    put(c, -1, "output_norm.weight", width, 0, 1, 0.1);
    if (!is(c, "gemma") && !is(c, "gemma2")) { // theirs is that of the embeddings
        put(c, -1, "output.weight", width, VOCABULARY, 0, size);
    }
    for (int layer = 0; layer < (int)c->model->layers; layer++) {
        put_attention(c, layer);
        put(c, layer, "ffn_norm.weight", width, 0, 1, 0.1);
        put(c, layer, "ffn_gate.weight", width, 2 * width, 0, size);
        put(c, layer, "ffn_up.weight", width, 2 * width, 0, size);
        put(c, layer, "ffn_down.weight", 2 * width, width, 0, size);
    }
}

bool tiny_write(const tiny_model *model, const char *path) {
    construction c = {
        .model = model, .writer = gguf_writer_start(), .rng = rng_seeded(model->seed)};
    lab_error error = {0};
    put_numbers(&c);
    put_tokens(&c);
    put_tensors(&c);
    bool is_written = gguf_writer_finish(c.writer, path, &error);
    CHECK_MSG(is_written, "%s", error.text);
    for (size_t i = 0; i < c.count; i++) {
        free(c.values[i]);
    }
    return is_written; /* NOLINT(clang-analyzer-unix.Malloc): they are all of them */
}
