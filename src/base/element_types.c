/* The table of element types and its conversions: see element_types.h. */
#include "base/element_types.h"
#include "base/checked.h"
#include "base/last_error.h"
#include "isa/half.h"
#include <string.h>

static void load_f32(const kernels *k, const void *row, ptrdiff_t stride, size_t n, float *result) {
    const char *at = row;
    (void)k;
    for (size_t i = 0; i < n; i++)
        memcpy(&result[i], at + (ptrdiff_t)i * stride, sizeof(float));
}

static void load_f16(const kernels *k, const void *row, ptrdiff_t stride, size_t n, float *result) {
    const char *at = row;
    if (stride == (ptrdiff_t)sizeof(uint16_t)) {
        k->f16_to_f32((const uint16_t *)row, result, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, at + (ptrdiff_t)i * stride, sizeof bits);
        result[i] = half_to_float(bits);
    }
}

static void load_bf16(const kernels *k, const void *row, ptrdiff_t stride, size_t n,
                      float *result) {
    const char *at = row;
    if (stride == (ptrdiff_t)sizeof(uint16_t)) {
        k->bf16_to_f32((const uint16_t *)row, result, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, at + (ptrdiff_t)i * stride, sizeof bits);
        result[i] = brain_to_float(bits);
    }
}

#define BLOCKS_LOADER(type)                                                                        \
    static void load_##type(const kernels *k, const void *row, ptrdiff_t stride, size_t n,         \
                            float *result) {                                                       \
        (void)stride;                                                                              \
        k->type##_to_f32(row, result, n);                                                          \
    }
BLOCKS_LOADER(q8_0)
BLOCKS_LOADER(q4_0)
BLOCKS_LOADER(q4_1)
BLOCKS_LOADER(q5_0)
BLOCKS_LOADER(q5_1)
BLOCKS_LOADER(iq4_nl)

static void store_f32(const kernels *k, const float *values, size_t n, void *row,
                      ptrdiff_t stride) {
    char *at = row;
    (void)k;
    if (stride == (ptrdiff_t)sizeof(float)) {
        memcpy(row, values, n * sizeof(float));
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(at + (ptrdiff_t)i * stride, &values[i], sizeof(float));
}

static void store_f16(const kernels *k, const float *values, size_t n, void *row,
                      ptrdiff_t stride) {
    char *at = row;
    if (stride == (ptrdiff_t)sizeof(uint16_t)) {
        k->f32_to_f16(values, (uint16_t *)row, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = float_to_half(values[i]);
        memcpy(at + (ptrdiff_t)i * stride, &bits, sizeof bits);
    }
}

static void store_bf16(const kernels *k, const float *values, size_t n, void *row,
                       ptrdiff_t stride) {
    char *at = row;
    if (stride == (ptrdiff_t)sizeof(uint16_t)) {
        k->f32_to_bf16(values, (uint16_t *)row, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = float_to_brain(values[i]);
        memcpy(at + (ptrdiff_t)i * stride, &bits, sizeof bits);
    }
}

/* Whether decode reads types other than f32 in place; see DECODED_TYPES. */
#ifdef WHET_F32_ALONE
#define IS_DECODED false
#else
#define IS_DECODED true
#endif

/* A type for caches alone. The scale decides on the alignment. */
#define BLOCKS(type_name, size, load)                                                              \
    {                                                                                              \
        .name = (type_name), .block = QUANT_BLOCK, .block_bytes = (size),                          \
        .alignment = sizeof(uint16_t), .is_cache = true, .is_decoded = IS_DECODED,                 \
        .to_f32 = (load)                                                                           \
    }

const element_type whet_element_types[ELEMENT_TYPES] = {
    [WHET_F32] = {.name = "f32",
                  .bytes = 4,
                  .block = 1,
                  .block_bytes = 4,
                  .alignment = 4,
                  .is_input = true,
                  .is_cache = true,
                  .is_output = true,
                  .is_mask = true,
                  .is_f32 = true,
                  .is_decoded = true,
                  .to_f32 = load_f32,
                  .from_f32 = store_f32},
    [WHET_F16] = {.name = "f16",
                  .bytes = 2,
                  .block = 1,
                  .block_bytes = 2,
                  .alignment = 2,
                  .is_input = true,
                  .is_cache = true,
                  .is_output = true,
                  .is_mask = true,
                  .is_decoded = IS_DECODED,
                  .to_f32 = load_f16,
                  .from_f32 = store_f16},
    [WHET_BF16] = {.name = "bf16",
                   .bytes = 2,
                   .block = 1,
                   .block_bytes = 2,
                   .alignment = 2,
                   .is_input = true,
                   .is_cache = true,
                   .is_output = true,
                   .is_decoded = IS_DECODED,
                   .to_f32 = load_bf16,
                   .from_f32 = store_bf16},
    [WHET_Q8_0] = BLOCKS("q8_0", Q8_0_BYTES, load_q8_0),
    [WHET_Q4_0] = BLOCKS("q4_0", Q4_0_BYTES, load_q4_0),
    [WHET_Q4_1] = BLOCKS("q4_1", Q4_1_BYTES, load_q4_1),
    [WHET_Q5_0] = BLOCKS("q5_0", Q5_0_BYTES, load_q5_0),
    [WHET_Q5_1] = BLOCKS("q5_1", Q5_1_BYTES, load_q5_1),
    [WHET_IQ4_NL] = BLOCKS("iq4_nl", IQ4_NL_BYTES, load_iq4_nl),
    [ELEMENT_TYPE_CUSTOM] =
        {.name = "custom", .block = 1, .alignment = 1, .is_cache = true, .is_callers = true},
    [ELEMENT_TYPE_UNKNOWN] = {.name = "unknown", .block = 1, .alignment = 1},
};

const char *whet_type_name(whet_type type) {
    const element_type *found = element_type_of(type);
    if (found != &whet_element_types[ELEMENT_TYPE_UNKNOWN])
        return found->name;
    whet_refuse(WHET_ERROR_ARGUMENT, "type %u is not an element type", (unsigned)type);
    return NULL;
}

whet_status whet_type_parse(const char *name, whet_type *type) {
    if (!name || !type)
        return whet_refuse(WHET_ERROR_ARGUMENT, "%s is NULL", name ? "type" : "name");
    for (int i = 0; i < ELEMENT_TYPE_UNKNOWN; i++)
        if (strcmp(name, whet_element_types[i].name) == 0) {
            *type = i == ELEMENT_TYPE_CUSTOM ? WHET_CUSTOM : (whet_type)i;
            return WHET_OK;
        }
    return whet_refuse(WHET_ERROR_ARGUMENT, "name '%.60s' is not an element type", name);
}

size_t whet_type_row_bytes(whet_type type, size_t n) {
    const element_type *found = element_type_of(type);
    size_t bytes;
    if (found->block_bytes == 0)
        whet_refuse(WHET_ERROR_ARGUMENT, "type %u (%s) has no size", (unsigned)type, found->name);
    else if (n % found->block != 0)
        whet_refuse(WHET_ERROR_ARGUMENT, "n is %zu, but %s has blocks of %zu elements", n,
                    found->name, found->block);
    else if (!size_multiply(n / found->block, found->block_bytes, &bytes))
        whet_refuse(WHET_ERROR_OVERFLOW, "n is %zu, more than memory can hold", n);
    else
        return bytes;
    return 0;
}
