/* Shapes and weights of GGUF files; see gguf_model.h. Tokenizers are in gguf_tokenizer.c. */
#include "lm/gguf_model.h"

#include "gguf/write.h"
#include "lm/gguf_tokenizer.h"
#include "lm/gguf_rope.h"
#include "lm/rope_scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char policy_key[] = "whet.policy";

/* What an architecture's name stands for. */
typedef struct architecture {
    const char *name;
    double attention_cap, output_cap; /* where a file does not say */
    double window_rope_base;          /* likewise */
    uint32_t window, window_period;   /* likewise; without a period there are no windows */
    /* Number of layers of the one size whose logits are scaled by width / heads instead of by
     * head_dim; 0: none. */
    uint32_t layers_of_other_scale;
    lm_gate gate;
    bool pairs_are_apart; /* RoPE's pairs are half of the rotated elements apart */
    bool is_scaled;       /* embeddings are divided by the root of the width */
    bool has_biases;      /* may have them */
    bool has_head_norms, has_post_norms;
} architecture;

static const architecture architectures[] = {
    {.name = "llama", .gate = LM_SWIGLU, .has_biases = true},
    {.name = "qwen2", .gate = LM_SWIGLU, .pairs_are_apart = true, .has_biases = true},
    {.name = "qwen3", .gate = LM_SWIGLU, .pairs_are_apart = true, .has_head_norms = true},
    {.name = "gemma", .gate = LM_GEGLU, .pairs_are_apart = true, .is_scaled = true},
    {.name = "gemma2",
     .gate = LM_GEGLU,
     .pairs_are_apart = true,
     .is_scaled = true,
     .has_post_norms = true,
     .attention_cap = 50,
     .output_cap = 30,
     .window = 4096,
     .window_period = 2,
     .layers_of_other_scale = 46},
    {.name = "gemma3",
     .gate = LM_GEGLU,
     .pairs_are_apart = true,
     .is_scaled = true,
     .has_head_norms = true,
     .has_post_norms = true,
     .window_period = 6,
     .window_rope_base = 10000,
     .layers_of_other_scale = 62},
};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

/* The scale of q . k, which files do not have; 0 is that by head_dim. */
static double attention_scale(const architecture *kind, const lm_config *c) {
    bool is_other = kind->layers_of_other_scale == c->layers && c->width >= c->heads;
    uint32_t share = c->width / c->heads;
    return is_other ? 1 / sqrt((double)share) : 0;
}

/* The state of reading one file. */
typedef struct reading {
    const gguf_file *file;
    const char *path;
    const architecture *kind;
} reading;

enum { KEY_SIZE = 96 };

static const char *key_of(const architecture *kind, const char *what, char key[KEY_SIZE]) {
    snprintf(key, KEY_SIZE, "%s.%s", kind->name, what);
    return key;
}

/* ---- the shape ---- */

static bool get_size(const reading *r, const char *what, uint32_t *value, lab_error *error) {
    char key[KEY_SIZE];
    return gguf_get_u32(r->file, key_of(r->kind, what, key), value, error);
}

/* An optional value, unchanged if missing. */
static bool get_size_if(const reading *r, const char *what, uint32_t *value, lab_error *error) {
    char key[KEY_SIZE];
    return !gguf_find(r->file, key_of(r->kind, what, key)) || get_size(r, what, value, error);
}

static bool refuse(const reading *r, lab_error *error, const char *why) {
    return lab_fail(error, LAB_INPUT, "%s: %s", r->path, why);
}

static bool get_number_if(const reading *r, const char *what, double *value, lab_error *error) {
    char key[KEY_SIZE];
    return !gguf_find(r->file, key_of(r->kind, what, key)) ||
           gguf_get_double(r->file, key, value, error);
}

/* Features that are not supported and change what a model computes. */
static bool has_nothing_special(const reading *r, lab_error *error) {
    uint32_t experts = 0;
    if (!get_size_if(r, "expert_count", &experts, error))
        return false;
    return experts == 0 || refuse(r, error, "unsupported: mixture of experts");
}

static bool get_numbers(const reading *r, lm_config *c, lab_error *error) {
    char key[KEY_SIZE];
    if (!gguf_get_double(r->file, key_of(r->kind, "attention.layer_norm_rms_epsilon", key),
                         &c->norm_epsilon, error))
        return false;
    return !gguf_find(r->file, key_of(r->kind, "rope.freq_base", key)) ||
           gguf_get_double(r->file, key, &c->rope_base, error);
}

static bool get_heads(const reading *r, lm_config *c, lab_error *error) {
    uint32_t value_dim;
    if (!get_size(r, "attention.head_count", &c->heads, error))
        return false;
    c->key_heads = c->heads;
    if (!get_size_if(r, "attention.head_count_kv", &c->key_heads, error))
        return false;
    if (c->heads == 0)
        return refuse(r, error, "no attention heads");
    c->head_dim = c->width / c->heads;
    if (!get_size_if(r, "attention.key_length", &c->head_dim, error))
        return false;
    value_dim = c->rope_dims = c->head_dim;
    if (!get_size_if(r, "attention.value_length", &value_dim, error) ||
        !get_size_if(r, "rope.dimension_count", &c->rope_dims, error))
        return false;
    if (value_dim != c->head_dim)
        return refuse(r, error, "unsupported: keys and values of different sizes");
    return true;
}

/* Caps, windows and scale. Without windows, all layers rotate alike. */
static bool get_variants(const reading *r, lm_config *c, lab_error *error) {
    const architecture *kind = r->kind;
    c->has_biases = kind->has_biases && gguf_find_tensor(r->file, "blk.0.attn_q.bias");
    c->has_head_norms = kind->has_head_norms;
    c->has_post_norms = kind->has_post_norms;
    c->attention_cap = kind->attention_cap;
    c->output_cap = kind->output_cap;
    if (kind->attention_cap > 0 &&
        !get_number_if(r, "attn_logit_softcapping", &c->attention_cap, error))
        return false;
    if (kind->has_post_norms && !get_number_if(r, "final_logit_softcapping", &c->output_cap, error))
        return false;
    c->attention_scale = attention_scale(kind, c);
    if (kind->window_period == 0)
        return true;
    uint32_t window = kind->window, period = kind->window_period;
    double base = kind->window_rope_base;
    if (!get_size_if(r, "attention.sliding_window", &window, error) ||
        (base > 0 && !get_size_if(r, "attention.sliding_window_pattern", &period, error)) ||
        (base > 0 && !get_number_if(r, "rope.freq_base_swa", &base, error)))
        return false;
    if (window > 0) {
        c->window = window;
        c->window_period = period;
        c->window_rope_base = base;
    }
    return true;
}

static bool get_policy(const reading *r, lm_config *c, lab_error *error) {
    gguf_text policy;
    if (!gguf_find(r->file, policy_key))
        return true;
    if (!gguf_get_text(r->file, policy_key, &policy, error))
        return false;
    if (policy.length >= sizeof c->policy)
        return refuse(r, error, "whet.policy: policy name too long");
    snprintf(c->policy, sizeof c->policy, "%.*s", (int)policy.length, policy.bytes);
    return true;
}

static bool get_architecture(reading *r, lab_error *error) {
    gguf_text name;
    if (!gguf_get_text(r->file, "general.architecture", &name, error))
        return false;
    for (size_t i = 0; i < ARCHITECTURES; i++)
        if (gguf_text_is(name, architectures[i].name)) {
            r->kind = &architectures[i];
            return true;
        }
    return lab_fail(error, LAB_INPUT,
                    "%s: unsupported architecture '%.*s'; supported: llama, qwen2, qwen3, gemma, "
                    "gemma2, gemma3",
                    r->path, name.length < 64 ? (int)name.length : 64, name.bytes);
}

static bool get_config(const reading *r, lm_config *c, lab_error *error) {
    lab_error reason = {.kind = LAB_NO_ERROR};
    const gguf_tensor *embedding = gguf_find_tensor(r->file, "token_embd.weight");
    *c = lm_config_default();
    c->gate = r->kind->gate;
    if (!embedding)
        return refuse(r, error, "missing tensor token_embd.weight");
    c->vocabulary = embedding->rows > LM_VOCABULARY_MAX ? UINT32_MAX : (uint32_t)embedding->rows;
    c->tied = gguf_find_tensor(r->file, "output.weight") == NULL;
    bool good =
        has_nothing_special(r, error) && get_size(r, "block_count", &c->layers, error) &&
        get_size(r, "embedding_length", &c->width, error) &&
        get_size(r, "context_length", &c->context, error) &&
        get_size(r, "feed_forward_length", &c->hidden, error) && get_numbers(r, c, error) &&
        get_heads(r, c, error) &&
        lm_gguf_get_rope(r->file, r->path, r->kind->name, c->context, &c->rope_scaling, error) &&
        get_variants(r, c, error) && get_policy(r, c, error);
    if (!good)
        return false;
    return lm_config_check(c, &reason) ||
           lab_fail(error, LAB_INPUT, "%s: impossible model: %s", r->path, reason.text);
}

/* ---- the weights ---- */

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Whether a tensor's rows, or the elements of a vector, are those of rotated heads. */
static bool is_rotated(const lm_config *c, const char *name) {
    static const char *const ends[] = {".attn_q.weight",      ".attn_k.weight",
                                       ".attn_q.bias",        ".attn_k.bias",
                                       ".attn_q_norm.weight", ".attn_k_norm.weight"};
    for (size_t i = 0; c->positions == LM_ROPE && i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* The position of row `row` of a head where pairs are apart: what we store as adjacent pairs is
 * half of the rotated elements apart there. */
static size_t row_apart(const lm_config *c, size_t row) {
    size_t in_head = row % c->head_dim, half = c->rope_dims / 2;
    if (in_head >= c->rope_dims)
        return row;
    return row - in_head + (in_head % 2 ? half : 0) + in_head / 2;
}

/* The factor of a scaled embedding, and its inverse for the norm before it is the output matrix. */
static float embedding_factor(const architecture *kind, const lm_config *c, const char *name) {
    double root = kind->is_scaled ? sqrt((double)c->width) : 1;
    return strcmp(name, "token_embd.weight") == 0               ? (float)(1 / root)
           : c->tied && strcmp(name, "output_norm.weight") == 0 ? (float)root
                                                                : 1.0f;
}

/* The pairs of a vector next to each other, as we store them. */
static bool join_pairs(const lm_config *c, float *vector, size_t count) {
    float *apart = malloc(count * sizeof(float));
    if (!apart)
        return false;
    memcpy(apart, vector, count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        vector[i] = apart[row_apart(c, i)];
    free(apart);
    return true;
}

static bool read_tensor(const reading *r, const lm_config *c, const lm_tensor *to, float *weights,
                        lab_error *error) {
    const gguf_tensor *from = gguf_get_tensor(r->file, to->name, to->cols, to->rows, error);
    if (!from)
        return false;
    bool is_apart = r->kind->pairs_are_apart && is_rotated(c, to->name);
    bool is_vector = to->rows == 1;
    float factor = 1 / embedding_factor(r->kind, c, to->name);
    for (size_t row = 0; row < to->rows; row++) {
        float *values = weights + to->offset + row * to->cols;
        gguf_dequantise(from, is_apart && !is_vector ? row_apart(c, row) : row, values);
        for (size_t i = 0; r->kind->is_scaled && i < to->cols; i++)
            values[i] *= factor;
    }
    return !is_apart || !is_vector || join_pairs(c, weights + to->offset, to->cols) ||
           lab_fail_memory(error);
}

/* Reports the first tensor that a supported model does not have. */
static bool refuse_tensor(const reading *r, const lm_model *model, lab_error *error) {
    for (uint64_t i = 0; i < r->file->n_tensors; i++) {
        gguf_text name = r->file->tensors[i].name;
        bool is_known = false;
        for (size_t t = 0; !is_known && t < lm_tensor_count(&model->config); t++)
            is_known = gguf_text_is(name, lm_tensor_at(&model->config, &model->layout, t).name);
        if (!is_known)
            return lab_fail(error, LAB_INPUT, "%s: unsupported tensor '%.*s'", r->path,
                            name.length < 64 ? (int)name.length : 64, name.bytes);
    }
    return refuse(r, error, "a tensor occurs twice");
}

static bool read_weights(const reading *r, lm_model *model, lab_error *error) {
    size_t count = lm_tensor_count(&model->config);
    for (size_t i = 0; i < count; i++) {
        lm_tensor tensor = lm_tensor_at(&model->config, &model->layout, i);
        if (!read_tensor(r, &model->config, &tensor, model->weights, error))
            return false;
    }
    return r->file->n_tensors == count || refuse_tensor(r, model, error);
}

static bool read_open_file(reading *r, lm_model *model, lm_tokenizer *tokenizer, lab_error *error) {
    lm_config config;
    lm_layout layout;
    if (!get_architecture(r, error) || !get_config(r, &config, error))
        return false;
    /* a small file may claim to be a large model; a weight takes at least a quarter of a byte */
    if (!lm_layout_of(&config, &layout) || layout.count / 4 > r->file->size)
        return refuse(r, error, "the file is too small for its model");
    return lm_model_create(&config, model, error) && read_weights(r, model, error) &&
           lm_gguf_get_tokenizer(r->file, r->path, config.vocabulary, tokenizer, error);
}

/* Closes the file, which may be NULL. */
static bool read_and_close(gguf_file *file, const char *path, lm_model *model,
                           lm_tokenizer *tokenizer, lab_error *error) {
    *model = (lm_model){.weights = NULL};
    *tokenizer = (lm_tokenizer){.count = 0};
    if (!file)
        return false;
    reading r = {.file = file, .path = path};
    bool good = read_open_file(&r, model, tokenizer, error);
    gguf_close(file);
    return good;
}

bool lm_gguf_read(const char *path, lm_model *model, lm_tokenizer *tokenizer, lab_error *error) {
    return read_and_close(gguf_open(path, error), path, model, tokenizer, error);
}

bool lm_gguf_read_memory(const void *bytes, size_t size, const char *name, lm_model *model,
                         lm_tokenizer *tokenizer, lab_error *error) {
    return read_and_close(gguf_open_memory(bytes, size, name, error), name, model, tokenizer,
                          error);
}

/* ---- writing ---- */

/* The architecture of a model; NULL if none has its combination of tensors. llama may have biases,
 * too, but files with them are usually qwen2's. */
static const architecture *architecture_of(const lm_config *c) {
    for (size_t i = ARCHITECTURES; i-- > 0;) {
        const architecture *kind = &architectures[i];
        bool is_of_qwen2 = kind->has_biases && kind->pairs_are_apart;
        if (kind->gate == c->gate && kind->has_head_norms == c->has_head_norms &&
            kind->has_post_norms == c->has_post_norms && is_of_qwen2 == c->has_biases)
            return kind;
    }
    return NULL;
}

/* Why llama.cpp would compute something else, or NULL. */
static const char *difference(const architecture *kind, const lm_config *c) {
    bool is_gemma2 = kind->attention_cap > 0, is_gemma3 = kind->window_rope_base > 0;
    if (c->positions != LM_ROPE || c->rope_dims != c->head_dim)
        return "llama.cpp rotates all elements of a head, this model does not";
    if (kind->is_scaled && !is_gemma3 && !c->tied)
        return "llama.cpp's gemma ties embeddings and output, this model does not";
    if (is_gemma2 != (c->attention_cap > 0) || (is_gemma2 && c->output_cap == 0) ||
        (c->output_cap > 0 && !is_gemma2 && !is_gemma3))
        return "llama.cpp caps the logits of gemma2, and the last ones of gemma3 if at all; this "
               "model differs";
    if (c->window > 0 && (c->window_period != kind->window_period ||
                          (c->window_rope_base > 0) != (kind->window_rope_base > 0)))
        return "llama.cpp has windows in every second layer of gemma2 and in five of six of "
               "gemma3, which have their own base of RoPE; this model differs";
    if (c->window > 0 && is_gemma3 && c->window_rope_base != kind->window_rope_base)
        return "windowed layers of llama.cpp's gemma3 rotate with base 10000, this model's do not";
    double scale = attention_scale(kind, c);
    if (fabs(c->attention_scale - scale) > 1e-6 * scale)
        return "llama.cpp derives another scale of attention from the model's shape";
    return NULL;
}

static bool can_be_written(const architecture *kind, const lm_config *c, const char *path,
                           lab_error *error) {
    bool is_learned = c->learn != LM_LEARN_NOTHING || c->has_sinks || c->has_query_betas;
    const char *why = is_learned ? "learned policies, sinks and betas cannot be stored in GGUF"
                      : !kind ? "no architecture of llama.cpp has this combination of gate, biases "
                                "and norms"
                              : difference(kind, c);
    return !why || lab_fail(error, LAB_INPUT, "%s: cannot write: %s", path, why);
}

static void put_rope_scaling(gguf_writer *w, const lm_config *c, const architecture *kind) {
    const nn_rope_scaling *s = &c->rope_scaling;
    const struct {
        const char *what;
        double value;
    } numbers[] = {{"rope.scaling.factor", s->factor},
                   {"rope.scaling.attn_factor", s->attention},
                   {"rope.scaling.yarn_beta_fast", s->fast},
                   {"rope.scaling.yarn_beta_slow", s->slow}};
    char key[KEY_SIZE];
    if (s->kind == NN_ROPE_PLAIN)
        return;
    gguf_put_text(w, key_of(kind, "rope.scaling.type", key), lm_rope_kind_name(s->kind));
    gguf_put_u32(w, key_of(kind, "rope.scaling.original_context_length", key),
                 (uint32_t)s->original);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        gguf_put_float(w, key_of(kind, numbers[i].what, key), (float)numbers[i].value);
}

/* gemma2 always has a window; one of the whole context hides nothing. */
static void put_variants(gguf_writer *w, const lm_config *c, const architecture *kind) {
    char key[KEY_SIZE];
    bool is_gemma2 = kind->attention_cap > 0;
    if (c->attention_cap > 0)
        gguf_put_float(w, key_of(kind, "attn_logit_softcapping", key), (float)c->attention_cap);
    if (c->output_cap > 0)
        gguf_put_float(w, key_of(kind, "final_logit_softcapping", key), (float)c->output_cap);
    if (c->window > 0 || is_gemma2)
        gguf_put_u32(w, key_of(kind, "attention.sliding_window", key),
                     c->window > 0 ? c->window : c->context);
}

static void put_shape(gguf_writer *w, const lm_config *c, const architecture *kind, gguf_type type,
                      const char *name) {
    char key[KEY_SIZE];
    /* llama.cpp's file type numbers, "mostly" this type */
    uint32_t file_type = type == GGUF_F32 ? 0 : type == GGUF_F16 ? 1 : type == GGUF_Q8_0 ? 7 : 32;
    const struct {
        const char *what;
        uint32_t value;
    } sizes[] = {{"context_length", c->context},
                 {"embedding_length", c->width},
                 {"block_count", c->layers},
                 {"feed_forward_length", c->hidden},
                 {"attention.head_count", c->heads},
                 {"attention.head_count_kv", c->key_heads},
                 {"attention.key_length", c->head_dim},
                 {"attention.value_length", c->head_dim},
                 {"rope.dimension_count", c->rope_dims},
                 {"vocab_size", c->vocabulary}};
    gguf_put_text(w, "general.architecture", kind->name);
    gguf_put_text(w, "general.name", name);
    gguf_put_u32(w, "general.file_type", file_type);
    gguf_put_u32(w, "general.quantization_version", 2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        gguf_put_u32(w, key_of(kind, sizes[i].what, key), sizes[i].value);
    gguf_put_float(w, key_of(kind, "attention.layer_norm_rms_epsilon", key),
                   (float)c->norm_epsilon);
    gguf_put_float(w, key_of(kind, "rope.freq_base", key), (float)c->rope_base);
    put_rope_scaling(w, c, kind);
    put_variants(w, c, kind);
    if (strcmp(c->policy, "softmax") != 0)
        gguf_put_text(w, policy_key, c->policy);
}

/* The weights with pairs apart and, for gemma, scaled embeddings, to be freed; NULL when memory
 * runs out. */
static float *changed_weights(const lm_model *model, const architecture *kind) {
    const lm_config *c = &model->config;
    float *made = malloc(model->layout.count * sizeof(float));
    for (size_t i = 0; made && i < lm_tensor_count(c); i++) {
        lm_tensor tensor = lm_tensor_at(c, &model->layout, i);
        bool is_apart = is_rotated(c, tensor.name);
        float factor = embedding_factor(kind, c, tensor.name);
        bool is_vector = tensor.rows == 1;
        size_t rows = is_vector ? tensor.cols : tensor.rows, cols = is_vector ? 1 : tensor.cols;
        for (size_t row = 0; row < rows; row++) {
            const float *from = model->weights + tensor.offset + row * cols;
            float *to = made + tensor.offset + (is_apart ? row_apart(c, row) : row) * cols;
            for (size_t j = 0; j < cols; j++)
                to[j] = factor * from[j];
        }
    }
    return made;
}

static void put_weights(gguf_writer *w, const lm_model *model, gguf_type type,
                        const float *weights) {
    for (size_t i = 0; i < lm_tensor_count(&model->config); i++) {
        lm_tensor tensor = lm_tensor_at(&model->config, &model->layout, i);
        bool is_matrix =
            !ends_with(tensor.name, "_norm.weight") && !ends_with(tensor.name, ".bias");
        bool fits = is_matrix && (type != GGUF_Q8_0 || tensor.cols % 32 == 0);
        const uint64_t dims[] = {tensor.cols, tensor.rows};
        gguf_put_tensor(w, tensor.name, is_matrix ? 2 : 1, dims, fits ? type : GGUF_F32,
                        weights + tensor.offset);
    }
}

bool lm_gguf_write(const char *path, const lm_model *model, const lm_tokenizer *tokenizer,
                   gguf_type type, const char *name, lab_error *error) {
    const lm_config *c = &model->config;
    const architecture *kind = architecture_of(c);
    if (!can_be_written(kind, c, path, error))
        return false;
    float *changed = kind->pairs_are_apart ? changed_weights(model, kind) : NULL;
    if (kind->pairs_are_apart && !changed)
        return lab_fail_memory(error);
    gguf_writer *w = gguf_writer_start();
    put_shape(w, c, kind, type, name);
    bool good = lm_gguf_put_tokenizer(w, tokenizer, c->vocabulary, error);
    put_weights(w, model, type, changed ? changed : model->weights);
    if (good)
        good = gguf_writer_finish(w, path, error);
    else
        gguf_writer_cancel(w);
    free(changed);
    return good;
}
