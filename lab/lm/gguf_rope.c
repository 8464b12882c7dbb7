/* Keys of RoPE scaling in GGUF files, as llama.cpp reads them. */
#include "lm/gguf_rope.h"

#include "lm/rope_scaling.h"

#include <stdio.h>

enum { KEY_SIZE = 128, KIND_SIZE = 16 };

typedef struct reading {
    const gguf_file *file;
    const char *path, *architecture;
    lab_error *error;
} reading;

/* The key if the file has it, else NULL. */
static const char *find(const reading *r, const char *what, char key[KEY_SIZE]) {
    snprintf(key, KEY_SIZE, "%.*s.%s", LM_ARCHITECTURE_MAX, r->architecture, what);
    return gguf_find(r->file, key) ? key : NULL;
}

/* An optional number, unchanged if missing. */
static bool get_number(const reading *r, const char *what, double *value) {
    char key[KEY_SIZE];
    return !find(r, what, key) || gguf_get_double(r->file, key, value, r->error);
}

static bool get_size(const reading *r, const char *what, uint32_t *value) {
    char key[KEY_SIZE];
    return !find(r, what, key) || gguf_get_u32(r->file, key, value, r->error);
}

/* Without a type, a factor means linear scaling. */
static bool get_kind(const reading *r, nn_rope_kind *kind) {
    char key[KEY_SIZE], name[KIND_SIZE];
    gguf_text text;
    *kind = NN_ROPE_LINEAR;
    if (!find(r, "rope.scaling.type", key))
        return true;
    if (!gguf_get_text(r->file, key, &text, r->error))
        return false;
    snprintf(name, sizeof name, "%.*s", text.length < KIND_SIZE ? (int)text.length : KIND_SIZE,
             text.bytes);
    return lm_rope_kind_parse(name, kind) ||
           lab_fail(r->error, LAB_INPUT,
                    "%s: unsupported rope.scaling.type '%s'; supported: none, linear, yarn",
                    r->path, name);
}

/* Older files have the factor under a key of its own, which goes second. */
static bool get_numbers(const reading *r, nn_rope_scaling *s) {
    double mixed = 1, attention = 1;
    uint32_t original = (uint32_t)s->original;
    if (!get_number(r, "rope.scale_linear", &s->factor) ||
        !get_number(r, "rope.scaling.factor", &s->factor) ||
        !get_number(r, "rope.scaling.attn_factor", &s->attention) ||
        !get_number(r, "rope.scaling.yarn_attn_factor", &attention) ||
        !get_number(r, "rope.scaling.yarn_beta_fast", &s->fast) ||
        !get_number(r, "rope.scaling.yarn_beta_slow", &s->slow) ||
        !get_number(r, "rope.scaling.yarn_ext_factor", &mixed) ||
        !get_size(r, "rope.scaling.original_context_length", &original))
        return false;
    s->original = original;
    s->attention *= attention;
    return s->kind != NN_ROPE_YARN || mixed == 1 ||
           lab_fail(r->error, LAB_INPUT, "%s: rope.scaling.yarn_ext_factor is not 1", r->path);
}

bool lm_gguf_get_rope(const gguf_file *file, const char *path, const char *architecture,
                      uint32_t context, nn_rope_scaling *scaling, lab_error *error) {
    const reading r = {file, path, architecture, error};
    nn_rope_scaling s = nn_rope_scaling_of(NN_ROPE_PLAIN, 0, context);
    if (!get_kind(&r, &s.kind) || !get_numbers(&r, &s))
        return false;
    s.factor = s.factor == 0 || s.kind == NN_ROPE_PLAIN ? 1 : s.factor; /* 0 means none */
    bool is_scaled = s.kind == NN_ROPE_YARN || s.factor != 1 || s.attention != 1;
    if (is_scaled && s.kind == NN_ROPE_PLAIN)
        s.kind = NN_ROPE_LINEAR;
    *scaling = is_scaled ? s : (nn_rope_scaling){.kind = NN_ROPE_PLAIN};
    return true;
}
