/*
 * Arrays of f32, f16 or bf16 elements with strides, laid into memory that is
 * exactly as large as they need: where each element lies, its value, and whether
 * anything but the elements was written to. Of quantised types, a block is what
 * lies and is visited as one element.
 */
#ifndef WHET_FUZZ_ELEMENTS_H
#define WHET_FUZZ_ELEMENTS_H

#include "base/types.h"
#include "input.h"
#include "isa/half.h"
#include "whet.h"

enum { FUZZ_AXES = 4, FUZZ_CANARY = 0xa5 };

/* Elements of a caller's own type are bytes here. */
static inline size_t fuzz_type_size(whet_type type) {
    if (type_block_bytes(type) > 0) {
        return type_block_bytes(type);
    }
    return type == WHET_F32 ? 4 : type == WHET_CUSTOM ? 1 : 2;
}

static inline float fuzz_load(const void *at, whet_type type) {
    if (type == WHET_F32) {
        float value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return type == WHET_F16 ? half_to_float(bits) : brain_to_float(bits);
}

static inline void fuzz_store(void *at, whet_type type, float value) {
    if (type == WHET_F32) {
        memcpy(at, &value, sizeof value);
        return;
    }
    uint16_t bits = type == WHET_F16 ? float_to_half(value) : float_to_brain(value);
    memcpy(at, &bits, sizeof bits);
}

typedef struct fuzz_array {
    unsigned char *memory; /* owned */
    unsigned char *base;   /* element 0, 0, 0, 0 */
    size_t bytes;
    size_t count[FUZZ_AXES];
    ptrdiff_t stride[FUZZ_AXES]; /* in bytes */
    whet_type type;
} fuzz_array;

/* Memory for an array whose counts, strides and type are set; `slack` bytes in front, which a
 * misaligned array has. Everything is filled with the canary. */
static inline void fuzz_array_allocate(fuzz_array *array, size_t slack) {
    ptrdiff_t low = 0;
    ptrdiff_t high = (ptrdiff_t)fuzz_type_size(array->type);
    for (int axis = 0; axis < FUZZ_AXES; axis++) {
        if (array->count[axis] == 0) {
            low = high = 0;
            break;
        }
        ptrdiff_t reach = (ptrdiff_t)(array->count[axis] - 1) * array->stride[axis];
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    array->bytes = (size_t)(high - low) + slack;
    array->memory = fuzz_allocate(array->bytes);
    array->base = array->memory + slack - low;
    memset(array->memory, FUZZ_CANARY, array->bytes);
}

static inline unsigned char *fuzz_at(const fuzz_array *array, size_t a, size_t b, size_t c,
                                     size_t d) {
    return array->base + (ptrdiff_t)a * array->stride[0] + (ptrdiff_t)b * array->stride[1] +
           (ptrdiff_t)c * array->stride[2] + (ptrdiff_t)d * array->stride[3];
}

static inline float fuzz_get(const fuzz_array *array, size_t a, size_t b, size_t c, size_t d) {
    return fuzz_load(fuzz_at(array, a, b, c, d), array->type);
}

/* Calls `visit` for every element, in order. */
typedef void (*fuzz_visitor)(unsigned char *at, whet_type type, void *context);

static inline void fuzz_each(const fuzz_array *array, fuzz_visitor visit, void *context) {
    for (size_t a = 0; a < array->count[0]; a++) {
        for (size_t b = 0; b < array->count[1]; b++) {
            for (size_t c = 0; c < array->count[2]; c++) {
                for (size_t d = 0; d < array->count[3]; d++) {
                    visit(fuzz_at(array, a, b, c, d), array->type, context);
                }
            }
        }
    }
}

typedef struct fuzz_filler {
    fuzz_random random;
    fuzz_temper temper;
} fuzz_filler;

static inline void fuzz_fill_one(unsigned char *at, whet_type type, void *context) {
    fuzz_filler *filler = context;
    fuzz_store(at, type, fuzz_value(&filler->random, filler->temper));
}

static inline void fuzz_fill(const fuzz_array *array, uint64_t seed, fuzz_temper temper) {
    fuzz_filler filler = {{seed}, temper};
    fuzz_each(array, fuzz_fill_one, &filler);
}

/* Takes an element for known: what is then not the canary was written where nothing belongs. */
static inline void fuzz_erase_one(unsigned char *at, whet_type type, void *context) {
    (void)context;
    memset(at, FUZZ_CANARY, fuzz_type_size(type));
}

static inline bool fuzz_is_canary(const void *memory, size_t bytes) {
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != FUZZ_CANARY) {
            return false;
        }
    }
    return true;
}

/* Whether nothing between and beside the elements was written to. Destroys the elements. */
static inline bool fuzz_gaps_are_untouched(fuzz_array *array) {
    fuzz_each(array, fuzz_erase_one, NULL);
    return fuzz_is_canary(array->memory, array->bytes);
}

#endif
