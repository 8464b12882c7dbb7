#include "attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const mask_kind_names[mask_kind_count] = {"none",   "mask-f32", "mask-f16", "causal",
                                                      "window", "alibi",    "sinks",    "softcap",
                                                      "all",    "empty",    "nonfinite"};

const struct named_policy mixed_policies = {.name = "mixed"};

const char *types_name(const struct types *types) {
    static char name[48];
    snprintf(name, sizeof name, "%s.%s.%s.%s", type_name(types->q), type_name(types->k),
             type_name(types->v), type_name(types->out));
    return name;
}

bool types_fit(const struct types *types, const struct shape *shape) {
    return !(is_quantised(types->k) && shape->head_dim % 32 != 0) &&
           !(is_quantised(types->v) && shape->value_dim % 32 != 0);
}

// A format of the caller's: signed bytes times the scale in the context.
static void bytes_to_f32(const void *row, float *result, size_t n, void *context) {
    for (size_t i = 0; i < n; i++) {
        result[i] = *(const float *)context * (float)((const int8_t *)row)[i];
    }
}

static whet_tensor tensor_make(whet_type type, const struct shape *shape, size_t heads,
                               size_t positions, size_t dim, enum layout layout, uint64_t seed) {
    static float byte_scale = 1 / 74.0f;
    bool apart = layout == APART && !is_quantised(type) && type != WHET_CUSTOM;
    size_t element = element_bytes(type) * (apart ? 2 : 1);
    size_t row = row_bytes(type, dim) * (apart ? 2 : 1);
    size_t by_head = layout == INTERLEAVED ? row : positions * row;
    size_t by_position = layout == INTERLEAVED ? heads * row : row;
    char *data = allocate(shape->batch * heads * positions * row);
    whet_tensor tensor = {
        .data = data,
        .stride = {(ptrdiff_t)(heads * positions * row), (ptrdiff_t)by_head, (ptrdiff_t)by_position,
                   (ptrdiff_t)element},
        .to_f32 = type == WHET_CUSTOM ? bytes_to_f32 : NULL,
        .context = type == WHET_CUSTOM ? &byte_scale : NULL,
        .type = type,
    };
    float spread[2 * 576]; // a row with gaps, from which every other element counts
    for (size_t i = 0; i < shape->batch * heads * positions; i++) {
        size_t head = i / positions % heads, position = i % positions;
        char *at = data + i / positions / heads * heads * positions * row + head * by_head +
                   position * by_position;
        if (apart) {
            fill_row(spread, type, 2 * dim, seed + i, 1, 0);
            memcpy(at, spread, row);
        } else {
            fill_row(at, type, dim, seed + i, 1, 0);
        }
    }
    return tensor;
}

// The first element of a position, in every head of the first batch; quantised ones stay as they
// are.
static void set_position(whet_tensor *tensor, size_t heads, size_t position, float value) {
    if (is_quantised(tensor->type) || tensor->type == WHET_CUSTOM) {
        return;
    }
    for (size_t head = 0; head < heads; head++) {
        char *row = (char *)tensor->data + (ptrdiff_t)head * tensor->stride[1] +
                    (ptrdiff_t)position * tensor->stride[2];
        store(row, tensor->type, 0, value);
    }
}

static void *additive_mask(whet_attention *attention, enum mask_kind kind) {
    size_t queries = attention->queries, keys = attention->keys;
    whet_type type = kind == ADDITIVE_F16 ? WHET_F16 : WHET_F32;
    size_t heads = type == WHET_F16 ? 1 : attention->heads, bytes = element_bytes(type);
    void *data = allocate(heads * queries * keys * bytes);
    for (size_t i = 0; i < heads * queries * keys; i++) {
        size_t query = i / keys % queries, key = i % keys;
        bool masked = noise_bits(77, i) % 5 == 0;
        masked |= kind == EMPTY && query % 3 == 1;
        masked |= kind == ADDITIVE_F32 && keys > 2 && key == 1;
        store(data, type, i, masked ? -INFINITY : noise(78, i));
    }
    attention->mask = (whet_mask){
        .data = data,
        .stride = {0, heads == 1 ? 0 : (ptrdiff_t)(queries * keys * bytes),
                   (ptrdiff_t)(keys * bytes), 0},
        .type = type,
    };
    return data;
}

static void apply_mask(struct example *example, const struct shape *shape, enum mask_kind kind) {
    static const float slopes[heads_max] = {0.5f,    0.25f,   0.125f, 0.0625f,
                                            0.0312f, 0.0156f, 0,      0.7f};
    static const float sinks[heads_max] = {0.5f, -1, 2, 0, 4, -3, 1, -INFINITY};
    whet_attention *attention = &example->attention;
    int64_t last = (int64_t)shape->keys - (int64_t)shape->queries;
    if (kind == ADDITIVE_F32 || kind == ADDITIVE_F16 || kind == ALL_OF_THEM || kind == EMPTY) {
        example->mask = additive_mask(attention, kind);
    }
    if (kind == ADDITIVE_F32 && shape->keys > 2) {
        set_position(&attention->k, shape->kv_heads, 1, NAN);
        set_position(&attention->v, shape->kv_heads, 1, NAN);
    }
    if (kind == CAUSAL || kind == ALL_OF_THEM || kind == NOT_FINITE) {
        attention->flags = WHET_CAUSAL;
        attention->offset = last;
    }
    if (kind == WINDOW || kind == ALL_OF_THEM) {
        attention->window = shape->keys / 3 + 1;
        attention->offset = kind == WINDOW ? (int64_t)shape->keys / 2 : last;
    }
    if (kind == ALIBI || kind == ALL_OF_THEM) {
        attention->alibi_slopes = slopes;
        attention->offset = last;
    }
    if (kind == SINKS || kind == ALL_OF_THEM) {
        attention->sinks = sinks;
    }
    if (kind == SOFTCAP || kind == ALL_OF_THEM) {
        attention->softcap = 1.5f;
    }
    if (kind == NOT_FINITE) {
        set_position(&attention->q, 1, shape->queries / 2, NAN);
        set_position(&attention->k, shape->kv_heads, shape->keys - 1, INFINITY);
        set_position(&attention->v, 1, shape->keys * 3 / 4, NAN);
    }
}

void example_make(struct example *example, const struct shape *shape, const struct types *types,
                  const struct named_policy *policy, enum mask_kind mask, enum layout layout) {
    static const char *const by_head[heads_max] = {"adaptive",   "softmax", "topk:7",
                                                   "target:0.7", "sigmoid", "entmax15",
                                                   "ssmax:0.4",  "exp:2.5"};
    *example = (struct example){0};
    whet_attention *attention = &example->attention;
    *attention = (whet_attention){
        .size = sizeof *attention,
        .batch = shape->batch,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .queries = shape->queries,
        .keys = shape->keys,
        .head_dim = shape->head_dim,
        .value_dim = shape->value_dim,
        .scale = 2 / sqrtf((float)shape->head_dim),
    };
    enum layout of_queries = layout == INTERLEAVED ? CONTIGUOUS : layout;
    attention->q = tensor_make(types->q, shape, shape->heads, shape->queries, shape->head_dim,
                               of_queries, 1000000);
    attention->k = tensor_make(types->k, shape, shape->kv_heads, shape->keys, shape->head_dim,
                               layout, 2000000);
    attention->v = tensor_make(types->v, shape, shape->kv_heads, shape->keys, shape->value_dim,
                               layout, 3000000);
    example->rows = shape->batch * shape->heads * shape->queries;
    example->out_elements = example->rows * shape->value_dim;
    example->out = allocate(example->out_elements * element_bytes(types->out));
    attention->out = (whet_tensor_out){.data = example->out, .type = types->out};
    apply_mask(example, shape, mask);
    bool mixed = policy == &mixed_policies;
    for (size_t head = 0; head < shape->heads; head++) {
        example->policies[head] = mixed ? policy_named(by_head[head])->policy : policy->policy;
    }
    attention->policies = example->policies;
    attention->policy_count = mixed ? shape->heads : 1;
    example->q = (void *)attention->q.data;
    example->k = (void *)attention->k.data;
    example->v = (void *)attention->v.data;
    example->stats = allocate(example->rows * sizeof *example->stats);
}

void example_free(struct example *example) {
    free(example->q);
    free(example->k);
    free(example->v);
    free(example->out);
    free(example->mask);
    free(example->stats);
}
