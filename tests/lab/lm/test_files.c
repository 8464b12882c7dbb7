/*
 * Models in files: a small one goes to a checkpoint, to GGUF of every type and to
 * llama2.c's form, and comes back; files that are cut short or lie are refused.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "gguf/write.h"
#include "lm/generate.h"
#include "lm/gguf_model.h"
#include "lm/llama2c.h"
#include "lm/open.h"
#include "lm/rope_scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

/* A path in a folder of this process's own. */
static const char *in_folder(const char *name) {
    static char paths[8][128];
    static size_t next;
    snprintf(folder, sizeof folder, "/tmp/whet-lm-files-%ld", (long)getpid());
    mkdir(folder, 0700);
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

__attribute__((destructor)) static void remove_folder(void) {
    static const char *const names[] = {"model.ckpt", "model.gguf", "again.gguf",    "model.bin",
                                        "tok19.bin",  "other.bin",  "tokenizer.bin", "damaged"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    rmdir(folder);
}

static void put_file(const char *path, const void *data, size_t size) {
    REQUIRE(replace_file_bytes(path, data, size));
}

/* ---- a model ---- */

enum { VOCABULARY = 19 };

static lm_config config_of(lm_gate gate, bool tied) {
    lm_config c = lm_config_default();
    c.layers = 2;
    c.width = 32;
    c.heads = 4;
    c.key_heads = 2;
    c.head_dim = 8;
    c.rope_dims = 8;
    c.hidden = 48;
    c.context = 64;
    c.vocabulary = VOCABULARY;
    c.gate = gate;
    c.tied = tied;
    return c;
}

/* Tokens: unknown, two marks, and the letters a to p. */
static void make_tokenizer(lm_tokenizer *t) {
    static const char *const marks[] = {"<unk>", "<s>", "</s>"};
    static const lm_piece_type types[] = {LM_PIECE_UNKNOWN, LM_PIECE_CONTROL, LM_PIECE_CONTROL};
    lab_error error = {0};
    REQUIRE(lm_tokenizer_start(t, LM_PIECES, VOCABULARY, 0, "test", &error));
    for (size_t i = 0; i < VOCABULARY; i++) {
        char letter[2] = {(char)('a' + i - 3), '\0'};
        const char *text = i < 3 ? marks[i] : letter;
        REQUIRE(lm_tokenizer_set(t, i, text, strlen(text), -(float)i,
                                 i < 3 ? types[i] : LM_PIECE_NORMAL, &error));
    }
    t->unknown = 0;
    t->begin = 1;
    t->end = 2;
    t->adds_begin = true;
    REQUIRE(lm_tokenizer_seal(t, &error));
}

static void make_opened(lm_opened *o, lm_config config) {
    lab_error error = {0};
    *o = (lm_opened){.format = "test"};
    REQUIRE(lm_model_create(&config, &o->model, &error));
    lm_initialise(&config, &o->model.layout, 3, o->model.weights);
    for (size_t i = 0; i < o->model.layout.count; i++)
        o->model.weights[i] *= 1.5f + (float)(i % 7) / 16;
    make_tokenizer(&o->tokenizer);
}

/* ---- what it says ---- */

static bool collect(void *context, lm_token token, const char *text, size_t length) {
    (void)text;
    (void)length;
    return lm_token_list_add(context, token);
}

/* The twenty tokens that follow a prompt, as text. */
static const char *says(const lm_opened *o) {
    static char list[4][600];
    static size_t next;
    static nn_engine engine;
    lab_error error = {0};
    if (!engine.kernels && !nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
    lm_token_list tokens = {NULL, 0, 0};
    const lm_generate_request request = {.opened = o,
                                         .engine = &engine,
                                         .prompt = "abcabc",
                                         .prompt_length = 6,
                                         .steps = 20,
                                         .take = collect,
                                         .context = &tokens};
    lm_generated result;
    char *text = list[next++ % 4];
    text[0] = '\0';
    if (!lm_generate(&request, &result, &error))
        snprintf(text, sizeof list[0], "%s", error.text);
    for (size_t i = 0, used = strlen(text); i < tokens.count && used < sizeof list[0]; i++)
        used += (size_t)snprintf(text + used, sizeof list[0] - used, "%u ", tokens.items[i]);
    free(tokens.items);
    return text;
}

static bool has_same_variants(const lm_config *a, const lm_config *b) {
    return a->has_biases == b->has_biases && a->has_head_norms == b->has_head_norms &&
           a->has_post_norms == b->has_post_norms && a->attention_scale == b->attention_scale &&
           a->attention_cap == b->attention_cap && a->output_cap == b->output_cap &&
           a->window == b->window && a->window_period == b->window_period &&
           a->window_rope_base == b->window_rope_base;
}

static void check_comes_back(const lm_opened *o, const char *path, double tolerance) {
    lm_opened back;
    lab_error error = {0};
    if (!CHECK(lm_open(path, NULL, &back, &error))) {
        printf("     %s\n", error.text);
        lm_opened_free(&back);
        return;
    }
    CHECK_INT(back.model.layout.count, o->model.layout.count);
    CHECK_INT(back.model.config.context, o->model.config.context);
    CHECK_INT(back.model.config.gate, o->model.config.gate);
    CHECK_STR(back.model.config.policy, o->model.config.policy);
    CHECK(has_same_variants(&back.model.config, &o->model.config));
    CHECK_INT(back.tokenizer.count, o->tokenizer.count);
    double worst = 0;
    for (size_t i = 0; i < o->model.layout.count; i++)
        worst = fmax(worst, fabs((double)back.model.weights[i] - (double)o->model.weights[i]));
    CHECK_MSG(worst <= tolerance, "weights are off by %g", worst);
    if (tolerance < 1e-5)
        CHECK_STR(says(&back), says(o));
    lm_opened_free(&back);
}

TEST(a_checkpoint_comes_back_with_its_tokenizer) {
    lm_opened o;
    lab_error error = {0};
    make_opened(&o, config_of(LM_SWIGLU, false));
    const char *path = in_folder("model.ckpt");
    REQUIRE(lm_store(path, &o, &error));
    check_comes_back(&o, path, 0);
    lm_opened_free(&o);
}

TEST(gguf_comes_back_as_llama_and_as_gemma_in_every_type) {
    static const struct {
        gguf_type type;
        double tolerance;
    } types[] = {{GGUF_F32, 1e-6}, {GGUF_F16, 2e-3}, {GGUF_BF16, 1e-2}, {GGUF_Q8_0, 2e-2}};
    const char *path = in_folder("model.gguf");
    for (int kind = 0; kind < 3; kind++) {
        lm_opened o;
        lab_error error = {0};
        lm_config config = config_of(kind == 2 ? LM_GEGLU : LM_SWIGLU, kind > 0);
        snprintf(config.policy, sizeof config.policy, kind == 1 ? "adaptive" : "softmax");
        make_opened(&o, config);
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            REQUIRE(lm_gguf_write(path, &o.model, &o.tokenizer, types[i].type, "test", &error));
            check_comes_back(&o, path, types[i].tolerance);
        }
        lm_opened_free(&o);
    }
}

/* ---- other families: qwen2, qwen3, gemma2, gemma3 ---- */

enum { QWEN2, QWEN3, GEMMA2, GEMMA3, FAMILIES };

static lm_config config_of_family(int family) {
    lm_config c = config_of(family >= GEMMA2 ? LM_GEGLU : LM_SWIGLU, family >= GEMMA2);
    c.has_biases = family == QWEN2;
    c.has_head_norms = family == QWEN3 || family == GEMMA3;
    c.has_post_norms = family >= GEMMA2;
    c.attention_cap = family == GEMMA2 ? 40 : 0;
    c.output_cap = family == GEMMA2 ? 20 : 0;
    c.window = family >= GEMMA2 ? 12 : 0;
    c.window_period = family == GEMMA2 ? 2 : family == GEMMA3 ? 6 : 0;
    c.window_rope_base = family == GEMMA3 ? 10000 : 0;
    return c;
}

/* With biases and gains that are not all alike. */
static void make_family(lm_opened *o, lm_config config) {
    make_opened(o, config);
    for (size_t i = 0; i < o->model.layout.count; i++)
        o->model.weights[i] += 0.01F * (float)(i % 7);
}

TEST(other_families_come_back_from_gguf_and_checkpoints) {
    const char *path = in_folder("model.gguf"), *checkpoint = in_folder("model.ckpt");
    for (int family = 0; family < FAMILIES; family++) {
        lm_opened o;
        lab_error error = {0};
        make_family(&o, config_of_family(family));
        REQUIRE(lm_gguf_write(path, &o.model, &o.tokenizer, GGUF_F32, "test", &error));
        check_comes_back(&o, path, 1e-6);
        REQUIRE(lm_store(checkpoint, &o, &error));
        check_comes_back(&o, checkpoint, 0);
        lm_opened_free(&o);
    }
}

TEST(families_that_llama_cpp_does_not_have_are_not_written) {
    const char *path = in_folder("again.gguf");
    for (int kind = 0; kind < 6; kind++) {
        lm_opened o;
        lab_error error = {0};
        lm_config c = config_of_family(kind < 2 ? QWEN2 : kind < 4 ? GEMMA2 : GEMMA3);
        c.has_head_norms = c.has_head_norms || kind == 0;
        c.attention_scale = kind == 1 ? 0.2 : 0;
        c.attention_cap = kind == 2 ? 0 : c.attention_cap;
        c.window_period = kind == 3 ? 3 : c.window_period;
        c.window_rope_base = kind == 4 ? 100 : c.window_rope_base;
        c.has_biases = c.has_biases || kind == 5;
        make_family(&o, c);
        CHECK(!lm_gguf_write(path, &o.model, &o.tokenizer, GGUF_F32, "test", &error));
        CHECK_MSG(error.kind == LAB_INPUT, "%d: %s", kind, error.text);
        CHECK(!lab_file_exists(path));
        lm_opened_free(&o);
    }
}

TEST(what_gguf_cannot_say_is_not_written) {
    const char *path = in_folder("again.gguf");
    for (int kind = 0; kind < 4; kind++) {
        lm_opened o;
        lab_error error = {0};
        lm_config config = config_of(kind == 0 ? LM_GEGLU : LM_SWIGLU, kind != 0);
        if (kind == 1)
            config.positions = LM_NO_POSITIONS;
        if (kind == 2)
            config.rope_dims = 4;
        if (kind == 3) {
            config.learn = LM_LEARN_HEAD;
            snprintf(config.policy, sizeof config.policy, "adaptive");
        }
        make_opened(&o, config);
        CHECK(!lm_gguf_write(path, &o.model, &o.tokenizer, GGUF_F32, "test", &error));
        CHECK_INT(error.kind, LAB_INPUT);
        CHECK(!lab_file_exists(path));
        lm_opened_free(&o);
    }
}

TEST(rows_without_a_token_become_unused_tokens) {
    lm_opened o, back;
    lab_error error = {0};
    lm_config config = config_of(LM_SWIGLU, true);
    const char *path = in_folder("model.gguf");
    config.vocabulary = VOCABULARY + 6;
    make_opened(&o, config);
    REQUIRE(lm_gguf_write(path, &o.model, &o.tokenizer, GGUF_F32, "test", &error));
    REQUIRE(lm_open(path, NULL, &back, &error));
    CHECK_INT(back.tokenizer.count, VOCABULARY + 6);
    CHECK_INT(back.tokenizer.pieces[VOCABULARY - 1].type, LM_PIECE_NORMAL);
    for (size_t i = VOCABULARY; i < back.tokenizer.count; i++)
        CHECK_INT(back.tokenizer.pieces[i].type, LM_PIECE_UNUSED);
    CHECK(strcmp(back.tokenizer.pieces[20].text, back.tokenizer.pieces[21].text) != 0);
    CHECK_STR(says(&back), says(&o));
    lm_opened_free(&back);
    lm_opened_free(&o);
}

TEST(more_tokens_than_rows_are_not_written) {
    lm_opened o;
    lab_error error = {0};
    lm_config config = config_of(LM_SWIGLU, true);
    config.vocabulary = VOCABULARY - 1;
    make_opened(&o, config);
    CHECK(!lm_gguf_write(in_folder("again.gguf"), &o.model, &o.tokenizer, GGUF_F32, "t", &error));
    CHECK_INT(error.kind, LAB_INPUT);
    lm_opened_free(&o);
}

/* ---- llama2.c's form, written here as its exporter does ---- */

static void add(lm_text *to, const void *data, size_t size) {
    REQUIRE(lm_text_add(to, data, size));
}

static void add_layers(lm_text *to, const lm_model *m, size_t offset, size_t count) {
    for (size_t layer = 0; layer < m->config.layers; layer++)
        add(to, m->weights + lm_layer_at(&m->layout, layer) + offset, count * sizeof(float));
}

static void write_llama2c(const lm_model *m, lm_text *to) {
    const lm_config *c = &m->config;
    const lm_layout *l = &m->layout;
    size_t queries = (size_t)c->heads * c->head_dim, keys = (size_t)c->key_heads * c->head_dim;
    const int32_t header[] = {
        (int32_t)c->width,     (int32_t)c->hidden,
        (int32_t)c->layers,    (int32_t)c->heads,
        (int32_t)c->key_heads, c->tied ? (int32_t)c->vocabulary : -(int32_t)c->vocabulary,
        (int32_t)c->context};
    const float table[64 * 8] = {0}; /* sines and cosines nobody reads */
    add(to, header, sizeof header);
    add(to, m->weights + l->embedding, c->vocabulary * c->width * sizeof(float));
    add_layers(to, m, l->attention_norm, c->width);
    add_layers(to, m, l->query, queries * c->width);
    add_layers(to, m, l->key, keys * c->width);
    add_layers(to, m, l->value, keys * c->width);
    add_layers(to, m, l->output, queries * c->width);
    add_layers(to, m, l->mlp_norm, c->width);
    add_layers(to, m, l->gate, c->hidden * c->width);
    add_layers(to, m, l->down, c->hidden * c->width);
    add_layers(to, m, l->up, c->hidden * c->width);
    add(to, m->weights + l->final_norm, c->width * sizeof(float));
    add(to, table, sizeof table);
    if (!c->tied)
        add(to, m->weights + l->head, c->vocabulary * c->width * sizeof(float));
}

static void write_tokenizer(const lm_tokenizer *t, lm_text *to) {
    const uint32_t longest = 8;
    add(to, &longest, 4);
    for (size_t i = 0; i < t->count; i++) {
        char text[16];
        snprintf(text, sizeof text, i == 1 || i == 2 ? "\n%s\n" : "%s", t->pieces[i].text);
        uint32_t length = (uint32_t)strlen(text);
        add(to, &t->pieces[i].score, 4);
        add(to, &length, 4);
        add(to, text, length);
    }
}

static void put_text(const char *path, lm_text *text) {
    put_file(path, text->bytes, text->length);
    free(text->bytes);
}

TEST(llama2c_comes_back_tied_or_not_with_the_tokenizer_beside_it) {
    for (int tied = 0; tied < 2; tied++) {
        lm_opened o;
        lm_text model = {NULL, 0, 0}, tokenizer = {NULL, 0, 0};
        make_opened(&o, config_of(LM_SWIGLU, tied != 0));
        write_llama2c(&o.model, &model);
        write_tokenizer(&o.tokenizer, &tokenizer);
        put_text(in_folder("model.bin"), &model);
        put_text(in_folder(tied ? "tok19.bin" : "tokenizer.bin"), &tokenizer);
        check_comes_back(&o, in_folder("model.bin"), 0);
        lm_opened_free(&o);
    }
}

static void check_refused(const char *path, const char *tokenizer, const char *complaint) {
    lm_opened o;
    lab_error error = {0};
    CHECK(!lm_open(path, tokenizer, &o, &error));
    CHECK_MSG(error.kind == LAB_INPUT && strstr(error.text, complaint), "'%s' is not '%s'",
              error.text, complaint);
    lm_opened_free(&o);
}

TEST(files_that_are_cut_short_or_lie_are_refused) {
    lm_opened o;
    lm_text model = {NULL, 0, 0}, tokenizer = {NULL, 0, 0};
    const char *path = in_folder("other.bin"), *damaged = in_folder("damaged");
    make_opened(&o, config_of(LM_SWIGLU, true));
    write_llama2c(&o.model, &model);
    write_tokenizer(&o.tokenizer, &tokenizer);
    put_file(in_folder("tokenizer.bin"), tokenizer.bytes, tokenizer.length);
    for (size_t size = 0; size < model.length; size = size < 64 ? size + 1 : 2 * size + 1) {
        put_file(path, model.bytes, size);
        check_refused(path, NULL, path);
    }
    /* every number of the header, with values that are no good anywhere */
    static const int32_t lies[] = {0, -1, 1, 3, 1000000, INT32_MAX, INT32_MIN};
    for (size_t at = 0; at < 7; at++)
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            int32_t kept;
            memcpy(&kept, model.bytes + 4 * at, 4);
            memcpy(model.bytes + 4 * at, &lies[i], 4);
            put_file(path, model.bytes, model.length);
            memcpy(model.bytes + 4 * at, &kept, 4);
            check_refused(path, NULL, path);
        }
    put_file(path, model.bytes, model.length);
    for (size_t size = 0; size < tokenizer.length; size++) {
        put_file(damaged, tokenizer.bytes, size);
        check_refused(path, damaged, damaged);
    }
    add(&tokenizer, "more", 4);
    put_file(damaged, tokenizer.bytes, tokenizer.length);
    check_refused(path, damaged, "more tokens");
    check_refused(path, in_folder("nowhere"), "nowhere");
    check_refused(in_folder("nowhere"), NULL, "nowhere");
    check_refused("/tmp", NULL, "/tmp");
    free(model.bytes);
    free(tokenizer.bytes);
    lm_opened_free(&o);
}

TEST(a_model_without_a_tokenizer_says_where_it_looked) {
    lm_opened o;
    lm_text model = {NULL, 0, 0};
    make_opened(&o, config_of(LM_SWIGLU, true));
    write_llama2c(&o.model, &model);
    unlink(in_folder("tok19.bin"));
    unlink(in_folder("tokenizer.bin"));
    put_text(in_folder("other.bin"), &model);
    check_refused(in_folder("other.bin"), NULL, "--tokenizer");
    lm_opened_free(&o);
}

TEST(a_tensor_that_no_plain_model_has_is_named) {
    static const char key[] = "llama.block_count";
    lm_opened o;
    lab_error error = {0};
    size_t size;
    const char *path = in_folder("model.gguf"), *damaged = in_folder("damaged");
    make_opened(&o, config_of(LM_SWIGLU, true));
    REQUIRE(lm_gguf_write(path, &o.model, &o.tokenizer, GGUF_F32, "test", &error));
    char *data = lab_read_file(path, 1 << 20, &size, &error);
    REQUIRE(data != NULL);
    for (size_t at = 0; at + sizeof key + 8 < size; at++)
        if (memcmp(data + at, key, sizeof key - 1) == 0)
            data[at + sizeof key - 1 + 4] = 1; /* behind the type: a layer less than it has */
    put_file(damaged, data, size);
    check_refused(damaged, NULL, "unsupported tensor 'blk.1.");
    free(data);
    lm_opened_free(&o);
}

/* A file of a family in which the byte `offset` behind the first occurrence of `text` is set. */
static void check_damaged(int family, const char *text, size_t offset, char byte,
                          const char *complaint) {
    lm_opened o;
    lab_error error = {0};
    size_t size, length = strlen(text), at = 0;
    const char *path = in_folder("model.gguf"), *damaged = in_folder("damaged");
    make_family(&o, config_of_family(family));
    REQUIRE(lm_gguf_write(path, &o.model, &o.tokenizer, GGUF_F32, "test", &error));
    char *data = lab_read_file(path, 1 << 20, &size, &error);
    REQUIRE(data != NULL);
    while (at + length < size && memcmp(data + at, text, length) != 0)
        at++;
    REQUIRE(at + length + offset < size);
    data[at + length + offset] = byte;
    put_file(damaged, data, size);
    check_refused(damaged, NULL, complaint);
    free(data);
    lm_opened_free(&o);
}

TEST(other_families_without_a_tensor_or_with_a_wrong_one_are_refused) {
    /* the last letter of a name, and a vector's length behind its name and number of dimensions */
    check_damaged(QWEN2, "blk.1.attn_k.bia", 0, 'x', "blk.1.attn_k.bias");
    check_damaged(QWEN2, "blk.0.attn_q.bia", 0, 'x', "attn_");
    check_damaged(QWEN2, "blk.1.attn_k.bias", 4, 8, "blk.1.attn_k.bias");
    check_damaged(QWEN3, "blk.0.attn_q_norm.weigh", 0, 'x', "blk.0.attn_q_norm.weight");
    check_damaged(QWEN3, "blk.1.attn_k_norm.weight", 4, 4, "blk.1.attn_k_norm.weight");
    check_damaged(GEMMA2, "blk.1.post_ffw_norm.weigh", 0, 'x', "blk.1.post_ffw_norm.weight");
    check_damaged(GEMMA3, "blk.0.post_attention_norm.weight", 4, 16, "post_attention_norm.weight");
    /* its sign: a float behind the key and its type */
    check_damaged(GEMMA2, "gemma2.attn_logit_softcapping", 7, (char)0xC2, "attention-cap");
    check_damaged(GEMMA2, "gemma2.final_logit_softcapping", 7, (char)0x7F, "output-cap");
    check_damaged(GEMMA3, "gemma3.attention.sliding_window", 7, (char)0x7F, "window");
}

static void write_scaled(const char *path, const char *type, const char *key, double value) {
    lab_error error = {0};
    gguf_writer *w = gguf_writer_start();
    static const float embedding[64] = {0};
    static const uint64_t dims[] = {8, 8};
    static const char *const sizes[] = {"block_count", "embedding_length", "feed_forward_length",
                                        "attention.head_count", "context_length"};
    gguf_put_text(w, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[64];
        snprintf(name, sizeof name, "llama.%s", sizes[i]);
        gguf_put_u32(w, name, i == 3 ? 2 : 8);
    }
    gguf_put_float(w, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    if (type)
        gguf_put_text(w, "llama.rope.scaling.type", type);
    gguf_put_float(w, key, (float)value);
    gguf_put_tensor(w, "token_embd.weight", 2, dims, GGUF_F32, embedding);
    REQUIRE(gguf_writer_finish(w, path, &error));
}

TEST(position_scalings_that_make_no_sense_are_refused) {
    static const struct {
        const char *type, *key;
        double value;
        const char *mention;
    } wrong[] = {
        {"longrope", "llama.rope.scaling.factor", 2, "rope.scaling.type 'longrope'"},
        {"linear", "llama.rope.scaling.factor", -1, "--rope"},
        {NULL, "llama.rope.scale_linear", 1e9, "--rope"},
        {"yarn", "llama.rope.scaling.factor", (double)NAN, "--rope"},
        {"yarn", "llama.rope.scaling.attn_factor", 0, "attention factor"},
        {"yarn", "llama.rope.scaling.yarn_beta_fast", 0.5, "0 < slow < fast"},
        {"yarn", "llama.rope.scaling.yarn_ext_factor", 0.5, "yarn_ext_factor"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *path = in_folder("damaged");
        write_scaled(path, wrong[i].type, wrong[i].key, wrong[i].value);
        check_refused(path, NULL, wrong[i].mention);
    }
}

static bool same_scaling(const nn_rope_scaling *a, const nn_rope_scaling *b) {
    return a->kind == b->kind && a->factor == b->factor && a->original == b->original &&
           a->attention == b->attention && a->fast == b->fast && a->slow == b->slow;
}

TEST(position_scalings_are_kept_in_both_kinds_of_files) {
    static const char *const scalings[] = {"none", "linear:1.5", "ntk:2", "yarn:4"};
    for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++) {
        lm_opened o, back = {.is_clrs = false}, stored = {.is_clrs = false};
        lab_error error = {0};
        make_opened(&o, config_of(LM_SWIGLU, true));
        lm_config *c = &o.model.config;
        uint32_t context = c->context;
        REQUIRE(lm_rope_scale(c, scalings[i], &error));
        CHECK_INT(c->rope_scaling.kind, i == 1 ? NN_ROPE_LINEAR : i == 3 ? NN_ROPE_YARN : 0);
        CHECK_INT(c->context, i == 0   ? context
                              : i == 1 ? context * 3 / 2
                                       : context * (i == 2 ? 2 : 4));
        const char *path = in_folder("model.gguf");
        REQUIRE(lm_gguf_write(path, &o.model, &o.tokenizer, GGUF_F32, "test", &error));
        REQUIRE(lm_open(path, NULL, &back, &error));
        CHECK_MSG(same_scaling(&back.model.config.rope_scaling, &c->rope_scaling), "%s",
                  scalings[i]);
        CHECK_NEAR(back.model.config.rope_base, c->rope_base, 1e-6 * c->rope_base);
        path = in_folder("model.ckpt");
        REQUIRE(lm_store(path, &o, &error));
        REQUIRE(lm_open(path, NULL, &stored, &error));
        CHECK(same_scaling(&stored.model.config.rope_scaling, &c->rope_scaling));
        CHECK_INT(stored.model.config.context, c->context);
        lm_opened_free(&o);
        lm_opened_free(&back);
        lm_opened_free(&stored);
    }
}

TEST(a_scaling_replaces_the_one_before_and_unknown_ones_are_refused) {
    static const char *const wrong[] = {"",         "yarn",       "yarn:",     "yarn:0.5",
                                        "yarn:x",   "ntk:2x",     "linear:-1", "cubic:2",
                                        "yarn:nan", "linear:1e9", "yarn:0x2"};
    lm_config c = config_of(LM_SWIGLU, true);
    uint32_t context = c.context;
    lab_error error = {0};
    REQUIRE(lm_rope_scale(&c, "yarn:4", &error) && lm_rope_scale(&c, "linear:2", &error));
    CHECK_INT(c.context, 2 * context);
    CHECK_NEAR(c.rope_scaling.original, context, 0);
    REQUIRE(lm_rope_scale(&c, "none", &error));
    CHECK_INT(c.context, context);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lab_error reason = {0};
        CHECK_MSG(!lm_rope_scale(&c, wrong[i], &reason), "'%s' was taken", wrong[i]);
        CHECK(strstr(reason.text, "--rope: ") == reason.text);
    }
    c.positions = LM_NO_POSITIONS;
    CHECK(!lm_rope_scale(&c, "yarn:4", &error));
}

TEST(gguf_cut_short_or_damaged_is_refused_or_harmless) {
    lm_opened o;
    lab_error error = {0};
    size_t size;
    const char *path = in_folder("model.gguf"), *damaged = in_folder("damaged");
    make_opened(&o, config_of(LM_SWIGLU, true));
    REQUIRE(lm_gguf_write(path, &o.model, &o.tokenizer, GGUF_Q8_0, "test", &error));
    char *data = lab_read_file(path, 1 << 20, &size, &error);
    REQUIRE(data != NULL);
    for (size_t cut = 0; cut < size; cut += cut < 3000 ? 7 : 997) {
        lm_opened back;
        lab_error reason = {0};
        put_file(damaged, data, cut);
        CHECK_MSG(!lm_open(damaged, NULL, &back, &reason), "cut to %zu", cut);
        CHECK_INT(reason.kind, LAB_INPUT);
        lm_opened_free(&back);
    }
    for (size_t at = 0; at < 3000 && at < size; at += 5) {
        lm_opened back;
        lab_error reason = {0};
        data[at] = (char)~data[at];
        put_file(damaged, data, size);
        data[at] = (char)~data[at];
        if (!lm_open(damaged, NULL, &back, &reason))
            CHECK_MSG(reason.kind == LAB_INPUT && reason.text[0], "byte %zu: %s", at, reason.text);
        lm_opened_free(&back);
    }
    free(data);
    lm_opened_free(&o);
}

/* ---- generation's own refusals ---- */

TEST(a_prompt_longer_than_the_context_is_refused) {
    lm_opened o;
    lm_generated result;
    lab_error error = {0};
    static nn_engine engine;
    if (!nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
    char prompt[100];
    memset(prompt, 'a', sizeof prompt);
    make_opened(&o, config_of(LM_SWIGLU, true));
    const lm_generate_request request = {.opened = &o,
                                         .engine = &engine,
                                         .prompt = prompt,
                                         .prompt_length = sizeof prompt,
                                         .steps = 5,
                                         .take = collect};
    CHECK(!lm_generate(&request, &result, &error));
    CHECK_INT(error.kind, LAB_INPUT);
    CHECK_MSG(strstr(error.text, "context") != NULL, "%s", error.text);
    lm_opened_free(&o);
}

TEST(the_context_ends_a_text) {
    lm_opened o;
    lm_generated result;
    lab_error error = {0};
    static nn_engine engine;
    lm_token_list tokens = {NULL, 0, 0};
    if (!nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
    make_opened(&o, config_of(LM_SWIGLU, true));
    o.tokenizer.end = o.tokenizer.begin = LM_NO_TOKEN; /* nothing else may end it */
    const lm_generate_request request = {.opened = &o,
                                         .engine = &engine,
                                         .prompt = "abc",
                                         .prompt_length = 3,
                                         .steps = 1000,
                                         .take = collect,
                                         .context = &tokens};
    REQUIRE(lm_generate(&request, &result, &error));
    CHECK_INT(result.prompt_tokens + result.tokens, 64);
    CHECK_INT(tokens.count, result.tokens);
    CHECK(!result.has_ended);
    free(tokens.items);
    lm_opened_free(&o);
}
