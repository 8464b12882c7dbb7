/* Typed values of GGUF metadata, with errors that name the key. */
#include "gguf/gguf.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_name(gguf_kind kind) {
    static const char *const names[] = {
        [GGUF_U8] = "an integer",  [GGUF_I8] = "an integer",      [GGUF_U16] = "an integer",
        [GGUF_I16] = "an integer", [GGUF_U32] = "an integer",     [GGUF_I32] = "an integer",
        [GGUF_FLOAT] = "a number", [GGUF_BOOL] = "true or false", [GGUF_TEXT] = "a text",
        [GGUF_ARRAY] = "an array", [GGUF_U64] = "an integer",     [GGUF_I64] = "an integer",
        [GGUF_DOUBLE] = "a number"};
    return names[kind];
}

/* The entry of a required key. */
static const gguf_value *need(const gguf_file *file, const char *key, lab_error *error) {
    const gguf_value *value = gguf_find(file, key);
    if (!value)
        lab_fail(error, LAB_INPUT, "the model has no key \"%s\"", key);
    return value;
}

static bool wrong_kind(const gguf_value *value, const char *wanted, lab_error *error) {
    int length = value->key.length > 64 ? 64 : (int)value->key.length;
    return lab_fail(error, LAB_INPUT, "key \"%.*s\" is %s, not %s", length, value->key.bytes,
                    kind_name(value->kind), wanted);
}

static bool out_of_range(const char *key, lab_error *error) {
    return lab_fail(error, LAB_INPUT, "key \"%s\" is out of range", key);
}

/* An integer of any width: its magnitude and whether it is negative. False for other kinds. */
static bool integer_at(gguf_kind kind, const uint8_t *bytes, uint64_t *magnitude,
                       bool *is_negative) {
    size_t size = kind == GGUF_U8 || kind == GGUF_I8     ? 1
                  : kind == GGUF_U16 || kind == GGUF_I16 ? 2
                  : kind == GGUF_U32 || kind == GGUF_I32 ? 4
                  : kind == GGUF_U64 || kind == GGUF_I64 ? 8
                                                         : 0;
    if (size == 0)
        return false;
    bool is_signed = kind == GGUF_I8 || kind == GGUF_I16 || kind == GGUF_I32 || kind == GGUF_I64;
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++)
        bits |= (uint64_t)bytes[i] << (8 * i);
    *is_negative = is_signed && (bits >> (8 * size - 1)) != 0;
    if (*is_negative && size < 8)
        bits |= ~UINT64_C(0) << (8 * size);
    *magnitude = *is_negative ? 0 - bits : bits;
    return true;
}

bool gguf_get_text(const gguf_file *file, const char *key, gguf_text *text, lab_error *error) {
    const gguf_value *value = need(file, key, error);
    if (!value)
        return false;
    if (value->kind != GGUF_TEXT)
        return wrong_kind(value, "a text", error);
    *text = (gguf_text){(const char *)value->bytes + 8, value->size - 8};
    return true;
}

bool gguf_get_u64(const gguf_file *file, const char *key, uint64_t *number, lab_error *error) {
    const gguf_value *value = need(file, key, error);
    bool is_negative;
    if (!value)
        return false;
    if (!integer_at(value->kind, value->bytes, number, &is_negative))
        return wrong_kind(value, "an integer", error);
    return !is_negative || out_of_range(key, error);
}

bool gguf_get_u32(const gguf_file *file, const char *key, uint32_t *number, lab_error *error) {
    uint64_t wide;
    if (!gguf_get_u64(file, key, &wide, error))
        return false;
    *number = (uint32_t)wide;
    return wide <= UINT32_MAX || out_of_range(key, error);
}

/* A magnitude and a sign as one number, if it fits between -limit - 1 and limit. */
static bool signed_integer(uint64_t magnitude, bool is_negative, int64_t limit, int64_t *number) {
    if (magnitude > (uint64_t)limit + (is_negative ? 1 : 0))
        return false;
    *number = is_negative && magnitude > 0 ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
    return true;
}

bool gguf_get_i64(const gguf_file *file, const char *key, int64_t *number, lab_error *error) {
    const gguf_value *value = need(file, key, error);
    uint64_t magnitude;
    bool is_negative;
    if (!value)
        return false;
    if (!integer_at(value->kind, value->bytes, &magnitude, &is_negative))
        return wrong_kind(value, "an integer", error);
    return signed_integer(magnitude, is_negative, INT64_MAX, number) || out_of_range(key, error);
}

/* A float or a double; false for other kinds. */
static bool double_at(gguf_kind kind, const uint8_t *bytes, double *number) {
    float narrow;
    if (kind == GGUF_DOUBLE) {
        memcpy(number, bytes, sizeof *number);
        return true;
    }
    if (kind != GGUF_FLOAT)
        return false;
    memcpy(&narrow, bytes, sizeof narrow);
    *number = (double)narrow;
    return true;
}

bool gguf_get_double(const gguf_file *file, const char *key, double *number, lab_error *error) {
    const gguf_value *value = need(file, key, error);
    if (!value)
        return false;
    return double_at(value->kind, value->bytes, number) || wrong_kind(value, "a number", error);
}

bool gguf_get_bool(const gguf_file *file, const char *key, bool *truth, lab_error *error) {
    const gguf_value *value = need(file, key, error);
    if (!value)
        return false;
    if (value->kind != GGUF_BOOL)
        return wrong_kind(value, "true or false", error);
    *truth = value->bytes[0] != 0;
    return true;
}

/* ---- arrays ---- */

/* An array, and memory for its elements of `each` bytes; NULL and an error otherwise. */
static const gguf_value *need_array(const gguf_file *file, const char *key, size_t each,
                                    void **memory, lab_error *error) {
    const gguf_value *value = need(file, key, error);
    if (!value)
        return NULL;
    if (value->kind != GGUF_ARRAY) {
        wrong_kind(value, "an array", error);
        return NULL;
    }
    *memory = calloc(value->count ? (size_t)value->count : 1, each);
    if (!*memory) {
        lab_fail_memory(error);
        return NULL;
    }
    return value;
}

static void *wrong_elements(void *memory, const char *key, const char *wanted, lab_error *error) {
    lab_fail(error, LAB_INPUT, "key \"%s\" is not an array of %s", key, wanted);
    free(memory);
    return NULL;
}

gguf_text *gguf_get_texts(const gguf_file *file, const char *key, size_t *count, lab_error *error) {
    void *memory;
    const gguf_value *value = need_array(file, key, sizeof(gguf_text), &memory, error);
    if (!value)
        return NULL;
    if (value->element != GGUF_TEXT)
        return wrong_elements(memory, key, "texts", error);
    gguf_text *texts = memory;
    const uint8_t *at = value->bytes;
    for (uint64_t i = 0; i < value->count; i++) {
        uint64_t length;
        memcpy(&length, at, sizeof length);
        texts[i] = (gguf_text){(const char *)at + sizeof length, (size_t)length};
        at += sizeof length + length;
    }
    *count = (size_t)value->count;
    return texts;
}

float *gguf_get_floats(const gguf_file *file, const char *key, size_t *count, lab_error *error) {
    void *memory;
    const gguf_value *value = need_array(file, key, sizeof(float), &memory, error);
    if (!value)
        return NULL;
    float *numbers = memory;
    size_t each = value->element == GGUF_DOUBLE ? sizeof(double) : sizeof(float);
    for (uint64_t i = 0; i < value->count; i++) {
        double number;
        if (!double_at(value->element, value->bytes + i * each, &number))
            return wrong_elements(memory, key, "numbers", error);
        if (isfinite(number) && fabs(number) > (double)FLT_MAX)
            return wrong_elements(memory, key, "numbers that fit in 32 bits", error);
        numbers[i] = (float)number;
    }
    *count = (size_t)value->count;
    return numbers;
}

int32_t *gguf_get_integers(const gguf_file *file, const char *key, size_t *count,
                           lab_error *error) {
    void *memory;
    const gguf_value *value = need_array(file, key, sizeof(int32_t), &memory, error);
    if (!value)
        return NULL;
    int32_t *numbers = memory;
    size_t each = value->count ? value->size / (size_t)value->count : 1;
    for (uint64_t i = 0; i < value->count; i++) {
        uint64_t magnitude;
        bool is_negative;
        int64_t number;
        if (!integer_at(value->element, value->bytes + i * each, &magnitude, &is_negative) ||
            !signed_integer(magnitude, is_negative, INT32_MAX, &number))
            return wrong_elements(memory, key, "integers of 32 bits", error);
        numbers[i] = (int32_t)number;
    }
    *count = (size_t)value->count;
    return numbers;
}
