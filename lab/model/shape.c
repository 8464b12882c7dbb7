/* The shape of a model's attention, from its file; see shape.h. */
#include "model/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char known_names[] = "llama, qwen2, qwen3, gemma, gemma2 and gemma3";

/* What an architecture's name stands for. */
typedef struct architecture {
    const char *name;
    bool pairs_are_apart;
    bool has_head_norms;
    bool has_soft_cap;
    /* Number of layers of the one size whose logits are scaled by width / heads instead of by
     * head_dim; 0: none. */
    uint32_t layers_of_other_scale;
} architecture;

static const architecture architectures[] = {
    {"llama", false, false, false, 0}, {"qwen2", true, false, false, 0},
    {"qwen3", true, true, false, 0},   {"gemma", true, false, false, 0},
    {"gemma2", true, false, true, 46}, {"gemma3", true, true, false, 62},
};

static const architecture *find_architecture(gguf_text name, lab_error *error) {
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (gguf_text_is(name, architectures[i].name))
            return &architectures[i];
    lab_fail(error, LAB_INPUT, "unsupported architecture \"%.*s\"; supported: %s",
             name.length > 64 ? 64 : (int)name.length, name.bytes, known_names);
    return NULL;
}

enum { KEY_SIZE = 128 };

/* "llama.block_count" */
static const char *key_of(const model_shape *shape, const char *rest, char key[KEY_SIZE]) {
    snprintf(key, KEY_SIZE, "%s.%s", shape->architecture, rest);
    return key;
}

/* A number within limits; optional if `usual` is not 0. */
static bool get_number(const gguf_file *file, const model_shape *shape, const char *rest,
                       uint32_t most, uint32_t usual, uint32_t *number, lab_error *error) {
    char key[KEY_SIZE];
    *number = usual;
    if (usual != 0 && !gguf_find(file, key_of(shape, rest, key)))
        return true;
    if (!gguf_get_u32(file, key_of(shape, rest, key), number, error))
        return false;
    return (*number >= 1 && *number <= most) ||
           lab_fail(error, LAB_INPUT, "key \"%s\" is %u, out of range (1 to %u)", key, *number,
                    most);
}

/* One number for all layers or an array with one for each; they may be 0. */
static bool get_by_layer(const gguf_file *file, const model_shape *shape, const char *rest,
                         uint32_t *numbers, lab_error *error) {
    char key[KEY_SIZE];
    const gguf_value *value = gguf_find(file, key_of(shape, rest, key));
    if (!value || value->kind != GGUF_ARRAY) {
        if (!gguf_get_u32(file, key, &numbers[0], error))
            return false;
        for (uint32_t i = 1; i < shape->layers; i++)
            numbers[i] = numbers[0];
    } else {
        size_t count;
        int32_t *items = gguf_get_integers(file, key, &count, error);
        if (!items)
            return false;
        for (uint32_t i = 0; i < shape->layers && i < count; i++)
            numbers[i] = items[i] < 0 ? UINT32_MAX : (uint32_t)items[i];
        free(items);
        if (count < shape->layers)
            return lab_fail(error, LAB_INPUT, "key \"%s\" has %zu entries for %u layers", key,
                            count, shape->layers);
    }
    for (uint32_t i = 0; i < shape->layers; i++)
        if (numbers[i] > MODEL_HEADS_MAX)
            return lab_fail(error, LAB_INPUT, "key \"%s\" is more than %d", key, MODEL_HEADS_MAX);
    return true;
}

static bool get_heads(const gguf_file *file, model_shape *shape, lab_error *error) {
    char key[KEY_SIZE];
    if (!get_by_layer(file, shape, "attention.head_count", shape->heads, error))
        return false;
    if (!gguf_find(file, key_of(shape, "attention.head_count_kv", key)))
        memcpy(shape->kv_heads, shape->heads, sizeof shape->heads);
    else if (!get_by_layer(file, shape, "attention.head_count_kv", shape->kv_heads, error))
        return false;
    for (uint32_t i = 0; i < shape->layers; i++) {
        if (shape->heads[i] == 0 || shape->kv_heads[i] == 0)
            shape->heads[i] = shape->kv_heads[i] = 0;
        else if (shape->heads[i] % shape->kv_heads[i] != 0)
            return lab_fail(error, LAB_INPUT,
                            "layer %u: %u query heads cannot share %u key heads evenly", i,
                            shape->heads[i], shape->kv_heads[i]);
    }
    return shape->heads[0] > 0 ||
           lab_fail(error, LAB_INPUT, "the model's first layer has no attention");
}

/* An optional number, finite and not negative. */
static bool get_optional(const gguf_file *file, const model_shape *shape, const char *rest,
                         double *number, lab_error *error) {
    char key[KEY_SIZE];
    if (!gguf_find(file, key_of(shape, rest, key)))
        return true;
    if (!gguf_get_double(file, key, number, error))
        return false;
    return (isfinite(*number) && *number >= 0) ||
           lab_fail(error, LAB_INPUT, "key \"%s\" is %g", key, *number);
}

/* RoPE rotates queries and keys without changing their length, except for YaRN's factor. */
static bool get_rope_factor(const gguf_file *file, model_shape *shape, lab_error *error) {
    char key[KEY_SIZE];
    gguf_text type;
    double factor = 1, attention = 1;
    /* the second first by its earlier name, for files without the other */
    if (!get_optional(file, shape, "rope.scaling.attn_factor", &attention, error) ||
        !get_optional(file, shape, "rope.scale_linear", &factor, error) ||
        !get_optional(file, shape, "rope.scaling.factor", &factor, error))
        return false;
    bool is_yarn = gguf_find(file, key_of(shape, "rope.scaling.type", key)) &&
                   gguf_get_text(file, key, &type, NULL) && gguf_text_is(type, "yarn");
    shape->rope_factor = attention * (is_yarn && factor > 1 ? 1 + 0.1 * log(factor) : 1);
    return true;
}

static bool check_whole(const gguf_file *file, lab_error *error) {
    uint32_t parts = 1;
    if (gguf_find(file, "split.count") && !gguf_get_u32(file, "split.count", &parts, error))
        return false;
    return parts <= 1 || lab_fail(error, LAB_INPUT,
                                  "one of %u files of a split model; join them with "
                                  "llama-gguf-split --merge",
                                  parts);
}

static void get_names(const gguf_file *file, const architecture *known, model_shape *shape) {
    gguf_text name = {"", 0};
    gguf_get_text(file, "general.name", &name, NULL);
    size_t length = name.length < sizeof shape->name ? name.length : sizeof shape->name - 1;
    for (size_t i = 0; i < length; i++)
        shape->name[i] = name.bytes[i] >= ' ' && name.bytes[i] <= '~' ? name.bytes[i] : '?';
    snprintf(shape->architecture, sizeof shape->architecture, "%s", known->name);
}

static uint32_t share_of_a_head(const model_shape *shape) {
    return shape->heads[0] ? shape->width / shape->heads[0] : 0;
}

bool model_shape_read(const gguf_file *file, model_shape *shape, lab_error *error) {
    gguf_text name;
    if (!gguf_get_text(file, "general.architecture", &name, error) || !check_whole(file, error))
        return false;
    const architecture *known = find_architecture(name, error);
    if (!known)
        return false;
    *shape = (model_shape){.pairs_are_apart = known->pairs_are_apart,
                           .has_head_norms = known->has_head_norms};
    get_names(file, known, shape);
    uint32_t context = 0;
    char key[KEY_SIZE];
    gguf_get_u32(file, key_of(shape, "context_length", key), &context, NULL);
    shape->context = context;
    if (!get_number(file, shape, "block_count", MODEL_LAYERS_MAX, 0, &shape->layers, error) ||
        !get_number(file, shape, "embedding_length", 1 << 20, 0, &shape->width, error) ||
        !get_heads(file, shape, error) ||
        !get_number(file, shape, "attention.key_length", MODEL_HEAD_DIM_MAX, share_of_a_head(shape),
                    &shape->head_dim, error) ||
        !get_number(file, shape, "rope.dimension_count", MODEL_HEAD_DIM_MAX, shape->head_dim,
                    &shape->rotated, error) ||
        !get_rope_factor(file, shape, error))
        return false;
    /* early Gemma 2 files lack it, and llama.cpp uses 50 */
    shape->soft_cap = known->has_soft_cap ? 50 : 0;
    if (known->has_soft_cap &&
        !get_optional(file, shape, "attn_logit_softcapping", &shape->soft_cap, error))
        return false;
    if (shape->head_dim == 0 || shape->rotated > shape->head_dim || shape->rotated % 2 != 0)
        return lab_fail(error, LAB_INPUT, "heads of %u dimensions, of which RoPE would rotate %u",
                        shape->head_dim, shape->rotated);
    uint32_t scaled_by =
        shape->layers == known->layers_of_other_scale ? share_of_a_head(shape) : shape->head_dim;
    shape->scale = 1 / sqrt((double)scaled_by);
    return true;
}

size_t model_head_count(const model_shape *shape) {
    size_t count = 0;
    for (uint32_t i = 0; i < shape->layers; i++)
        count += shape->heads[i];
    return count;
}
