/* Models as a list of numbers and tensors, written as GGUF by the host itself; see tiny.h. */
#include "tiny.h"
#include "support/random.h"
#include <ggml.h>
#include <gguf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 3, WIDTH = 128, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 32, FFN = 192, WINDOW = 40 };
enum { EXPERTS = 4, EXPERT_FFN = 64 };
enum { QUERY_RANK = 64, KEY_RANK = 512, ROTATED = 64, PLAIN = 32, PARTS_MAX = 24 };

typedef struct number {
    const char *name;
    uint32_t whole; /* or, if 0, */
    float fraction;
} number;

/* A tensor of a layer: [planes][rows][columns], where 0 is an axis that it does not have. */
typedef struct part {
    const char *name;
    int columns, rows, planes;
    double deviation;
} part;

typedef struct family {
    const char *name;
    number numbers[PARTS_MAX];
    part parts[PARTS_MAX];
    bool has_output; /* a matrix of its own */
} family;

#define FEED_FORWARD                                                                               \
    {"ffn_norm.weight", WIDTH, 0, 0, 0.1}, {"ffn_gate.weight", WIDTH, FFN, 0, 0.1},                \
        {"ffn_up.weight", WIDTH, FFN, 0, 0.1}, {                                                   \
        "ffn_down.weight", FFN, WIDTH, 0, 0.1                                                      \
    }

#define GROUPED_HEADS                                                                              \
    {"attn_norm.weight", WIDTH, 0, 0, 0.1}, {"attn_q.weight", WIDTH, HEADS * HEAD_DIM, 0, 0.25},   \
        {"attn_k.weight", WIDTH, KV_HEADS * HEAD_DIM, 0, 0.25},                                    \
        {"attn_v.weight", WIDTH, KV_HEADS * HEAD_DIM, 0, 0.1}, {                                   \
        "attn_output.weight", HEADS *HEAD_DIM, WIDTH, 0, 0.1                                       \
    }

#define RMS                                                                                        \
    { "attention.layer_norm_rms_epsilon", 0, 1e-5f }

static const family families[] = {
    {.name = "llama",
     .numbers = {{"attention.head_count_kv", KV_HEADS, 0},
                 {"rope.dimension_count", HEAD_DIM, 0},
                 RMS},
     .parts = {GROUPED_HEADS, FEED_FORWARD}},
    {.name = "gemma2",
     .numbers = {{"attention.head_count_kv", KV_HEADS, 0},
                 {"attention.key_length", HEAD_DIM, 0},
                 {"attention.value_length", HEAD_DIM, 0},
                 {"rope.dimension_count", HEAD_DIM, 0},
                 {"attention.sliding_window", WINDOW, 0},
                 {"attn_logit_softcapping", 0, 3},
                 RMS},
     .parts = {GROUPED_HEADS,
               FEED_FORWARD,
               {"post_attention_norm.weight", WIDTH, 0, 0, 0.1},
               {"post_ffw_norm.weight", WIDTH, 0, 0, 0.1}}},
    {.name = "gpt-oss",
     .numbers = {{"attention.head_count_kv", KV_HEADS, 0},
                 {"attention.key_length", HEAD_DIM, 0},
                 {"attention.value_length", HEAD_DIM, 0},
                 {"rope.dimension_count", HEAD_DIM, 0},
                 {"attention.sliding_window", WINDOW, 0},
                 {"expert_count", EXPERTS, 0},
                 {"expert_used_count", 2, 0},
                 {"expert_feed_forward_length", EXPERT_FFN, 0},
                 RMS},
     .parts = {GROUPED_HEADS,
               {"attn_sinks.weight", HEADS, 0, 0, 1},
               {"attn_output.bias", WIDTH, 0, 0, 0.1},
               {"post_attention_norm.weight", WIDTH, 0, 0, 0.1},
               {"ffn_gate_inp.weight", WIDTH, EXPERTS, 0, 0.1},
               {"ffn_gate_inp.bias", EXPERTS, 0, 0, 0.1},
               {"ffn_gate_exps.weight", WIDTH, EXPERT_FFN, EXPERTS, 0.1},
               {"ffn_gate_exps.bias", EXPERT_FFN, EXPERTS, 0, 0.1},
               {"ffn_up_exps.weight", WIDTH, EXPERT_FFN, EXPERTS, 0.1},
               {"ffn_up_exps.bias", EXPERT_FFN, EXPERTS, 0, 0.1},
               {"ffn_down_exps.weight", EXPERT_FFN, WIDTH, EXPERTS, 0.1},
               {"ffn_down_exps.bias", WIDTH, EXPERTS, 0, 0.1}},
     .has_output = true},
    {.name = "deepseek2",
     .numbers = {{"attention.head_count_kv", 1, 0},
                 {"attention.key_length", KEY_RANK + ROTATED, 0},
                 {"attention.value_length", KEY_RANK, 0},
                 {"attention.key_length_mla", PLAIN + ROTATED, 0},
                 {"attention.value_length_mla", HEAD_DIM, 0},
                 {"attention.q_lora_rank", QUERY_RANK, 0},
                 {"attention.kv_lora_rank", KEY_RANK, 0},
                 {"rope.dimension_count", ROTATED, 0},
                 {"leading_dense_block_count", LAYERS, 0},
                 {"expert_feed_forward_length", EXPERT_FFN, 0},
                 {"expert_shared_count", 1, 0},
                 RMS},
     .parts = {{"attn_norm.weight", WIDTH, 0, 0, 0.1},
               {"attn_q_a_norm.weight", QUERY_RANK, 0, 0, 0.1},
               {"attn_kv_a_norm.weight", KEY_RANK, 0, 0, 0.1},
               {"attn_q_a.weight", WIDTH, QUERY_RANK, 0, 0.1},
               {"attn_q_b.weight", QUERY_RANK, HEADS *(PLAIN + ROTATED), 0, 0.2},
               {"attn_kv_a_mqa.weight", WIDTH, KEY_RANK + ROTATED, 0, 0.1},
               {"attn_k_b.weight", PLAIN, KEY_RANK, HEADS, 0.1},
               {"attn_v_b.weight", KEY_RANK, HEAD_DIM, HEADS, 0.05},
               {"attn_output.weight", HEADS *HEAD_DIM, WIDTH, 0, 0.1},
               FEED_FORWARD}},
    {.name = "mpt",
     .numbers = {{"attention.head_count_kv", HEADS, 0},
                 {"attention.max_alibi_bias", 0, 8},
                 {"attention.layer_norm_epsilon", 0, 1e-5f}},
     .parts = {{"attn_norm.weight", WIDTH, 0, 0, 0.1},
               {"attn_qkv.weight", WIDTH, WIDTH + 2 * HEADS *HEAD_DIM, 0, 0.2},
               {"attn_output.weight", WIDTH, WIDTH, 0, 0.1},
               {"ffn_norm.weight", WIDTH, 0, 0, 0.1},
               {"ffn_up.weight", WIDTH, FFN, 0, 0.1},
               {"ffn_down.weight", FFN, WIDTH, 0, 0.1}}},
};

typedef struct writer {
    struct gguf_context *gguf;
    struct ggml_context *context;
    struct rng rng;
} writer;

/* Norms are about 1, all others about 0. */
static void add_tensor(writer *w, const char *name, const part *p) {
    const int64_t ne[] = {p->columns, p->rows ? p->rows : 1, p->planes ? p->planes : 1};
    struct ggml_tensor *tensor =
        ggml_new_tensor(w->context, GGML_TYPE_F32, 1 + (p->rows > 0) + (p->planes > 0), ne);
    ggml_set_name(tensor, name);
    rng_fill_normal(&w->rng, tensor->data, (size_t)ggml_nelements(tensor),
                    strstr(name, "norm") ? 1 : 0, p->deviation);
    gguf_add_tensor(w->gguf, tensor);
}

static void add_number(writer *w, const char *architecture, number n) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", architecture, n.name);
    if (n.whole > 0)
        gguf_set_val_u32(w->gguf, name, n.whole);
    else
        gguf_set_val_f32(w->gguf, name, n.fraction);
}

static void add_numbers(writer *w, const family *f) {
    const number common[] = {{"vocab_size", TINY_WORDS, 0},   {"context_length", TINY_CONTEXT, 0},
                             {"embedding_length", WIDTH, 0},  {"block_count", LAYERS, 0},
                             {"feed_forward_length", FFN, 0}, {"attention.head_count", HEADS, 0}};
    gguf_set_val_str(w->gguf, "general.architecture", f->name);
    gguf_set_val_str(w->gguf, "tokenizer.ggml.model", "no_vocab");
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        add_number(w, f->name, common[i]);
    for (size_t i = 0; i < PARTS_MAX && f->numbers[i].name; i++)
        add_number(w, f->name, f->numbers[i]);
}

static void add_tensors(writer *w, const family *f) {
    const part words = {NULL, WIDTH, TINY_WORDS, 0, 1}, norm = {NULL, WIDTH, 0, 0, 0.1};
    add_tensor(w, "token_embd.weight", &words);
    add_tensor(w, "output_norm.weight", &norm);
    if (f->has_output)
        add_tensor(w, "output.weight", &words);
    for (int layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < PARTS_MAX && f->parts[i].name; i++) {
            char name[96];
            snprintf(name, sizeof name, "blk.%d.%s", layer, f->parts[i].name);
            add_tensor(w, name, &f->parts[i]);
        }
}

static bool write_model(const family *f, const char *path) {
    struct ggml_init_params params = {.mem_size = (size_t)32 << 20};
    writer w = {.gguf = gguf_init_empty(), .context = ggml_init(params), .rng = rng_seeded(5)};
    add_numbers(&w, f);
    add_tensors(&w, f);
    bool written = gguf_write_to_file(w.gguf, path, false);
    gguf_free(w.gguf);
    ggml_free(w.context);
    return written;
}

struct llama_model *tiny_load(const char *architecture) {
    char path[] = "/tmp/whet-tiny.XXXXXX";
    struct llama_model *model = NULL;
    int file = mkstemp(path);
    if (file < 0)
        return NULL;
    close(file);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, architecture) == 0 && write_model(&families[i], path))
            model = llama_model_load_from_file(path, llama_model_default_params());
    unlink(path);
    return model;
}

static void add_token(struct llama_batch *batch, int position, int sequence) {
    int i = batch->n_tokens++;
    batch->token[i] = (position * 31 + sequence * 17 + position * position / 7) % TINY_WORDS;
    batch->pos[i] = position;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = sequence;
    batch->logits[i] = true;
}

bool tiny_decode(struct llama_context *context, int first, int count, int sequences, float *to) {
    struct llama_batch batch = llama_batch_init(count * sequences, 0, 1);
    for (int s = 0; s < sequences; s++)
        for (int i = 0; i < count; i++)
            add_token(&batch, first + i, s);
    bool decoded = llama_decode(context, batch) == 0;
    for (int i = 0; decoded && i < batch.n_tokens; i++)
        memcpy(to + (size_t)i * TINY_WORDS, llama_get_logits_ith(context, i),
               TINY_WORDS * sizeof(float));
    llama_batch_free(batch);
    return decoded;
}

double tiny_distance(const float *a, const float *b, size_t n) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / size);
}
