/* Scalings of RoPE for llama.cpp; see llama_rope.h. */
#include "tune/llama_rope.h"

#include "lm/gguf_rope.h"
#include "lm/rope_scaling.h"

#include <stdio.h>

enum { KEY_SIZE = 128 };

/* The base of models whose files do not say, as llama.cpp has it. */
static const double usual_base = 10000;

typedef struct metadata {
    const gguf_file *file;
    const char *path;
    char architecture[LM_ARCHITECTURE_MAX + 1];
} metadata;

/* A key of the model's architecture, such as "llama.rope.freq_base". */
static const char *key_of(const metadata *m, const char *what, char key[KEY_SIZE]) {
    snprintf(key, KEY_SIZE, "%s.%s", m->architecture, what);
    return key;
}

static bool has(const metadata *m, const char *what) {
    char key[KEY_SIZE];
    return gguf_find(m->file, key_of(m, what, key)) != NULL;
}

static bool get_size(const metadata *m, const char *what, uint32_t *value, lab_error *error) {
    char key[KEY_SIZE];
    return gguf_get_u32(m->file, key_of(m, what, key), value, error);
}

static bool get_base(const metadata *m, double *base, lab_error *error) {
    char key[KEY_SIZE];
    *base = usual_base;
    return !has(m, "rope.freq_base") ||
           gguf_get_double(m->file, key_of(m, "rope.freq_base", key), base, error);
}

/* Rotated elements of a head: all of them unless the file says otherwise. */
static bool get_rotated(const metadata *m, uint32_t *dims, lab_error *error) {
    uint32_t width, heads;
    if (has(m, "rope.dimension_count"))
        return get_size(m, "rope.dimension_count", dims, error);
    if (has(m, "attention.key_length"))
        return get_size(m, "attention.key_length", dims, error);
    if (!get_size(m, "embedding_length", &width, error) ||
        !get_size(m, "attention.head_count", &heads, error))
        return false;
    *dims = heads > 0 ? width / heads : 0;
    return true;
}

/* The context from before the file's own scaling, as lab/lm has it. Of a scaling that lab/lm cannot
 * compute, llama.cpp may know more. */
static bool get_trained(const metadata *m, uint32_t context, uint32_t *trained, lab_error *error) {
    static const char original[] = "rope.scaling.original_context_length";
    lab_error ignored;
    nn_rope_scaling s;
    *trained = context;
    if (!lm_gguf_get_rope(m->file, m->path, m->architecture, context, &s, &ignored))
        return !has(m, original) || get_size(m, original, trained, error);
    if (s.kind != NN_ROPE_PLAIN)
        *trained = (uint32_t)s.original;
    return true;
}

/* As much of a config as the scaling depends on. */
static bool get_config(const metadata *m, uint32_t trained, lm_config *config, lab_error *error) {
    *config = lm_config_default();
    config->positions = LM_ROPE;
    config->context = trained;
    return get_base(m, &config->rope_base, error) && get_rotated(m, &config->rope_dims, error);
}

static libllama_rope rope_of(const lm_config *config) {
    const nn_rope_scaling *s = &config->rope_scaling;
    bool is_plain = s->kind == NN_ROPE_PLAIN;
    return (libllama_rope){.kind = is_plain                  ? LIBLLAMA_ROPE_NONE
                                   : s->kind == NN_ROPE_YARN ? LIBLLAMA_ROPE_YARN
                                                             : LIBLLAMA_ROPE_LINEAR,
                           .base = config->rope_base,
                           .factor = is_plain ? 1 : s->factor,
                           .fast = s->fast,
                           .slow = s->slow,
                           .original = (uint32_t)s->original};
}

static bool read_file(const metadata *m, const char *name, libllama_rope *rope, uint32_t *trained,
                      uint32_t *context, lab_error *error) {
    lm_config config;
    if (!get_size(m, "context_length", context, error) || !get_trained(m, *context, trained, error))
        return false;
    if (!name)
        return true;
    if (!get_config(m, *trained, &config, error) || !lm_rope_scale(&config, name, error))
        return false;
    *rope = rope_of(&config);
    *context = config.context;
    return true;
}

static bool get_architecture(metadata *m, lab_error *error) {
    gguf_text text;
    if (!gguf_get_text(m->file, "general.architecture", &text, error))
        return false;
    snprintf(m->architecture, sizeof m->architecture, "%.*s",
             (int)(text.length < LM_ARCHITECTURE_MAX ? text.length : LM_ARCHITECTURE_MAX),
             text.bytes);
    return true;
}

bool tune_llama_rope(const char *model, const char *name, libllama_rope *rope, uint32_t *trained,
                     uint32_t *context, lab_error *error) {
    metadata m = {.path = model};
    gguf_file *file = gguf_open(model, error);
    if (!file)
        return false;
    m.file = file;
    bool is_read =
        get_architecture(&m, error) && read_file(&m, name, rope, trained, context, error);
    gguf_close(file);
    return is_read;
}
