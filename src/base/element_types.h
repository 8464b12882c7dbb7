/*
 * The table of element types: for each whet_type its size, what it may be used
 * for, and how rows of it become floats and floats rows of it. To support
 * another type, add a row and its conversion to element_types.c; kernels in
 * src/isa only make it faster.
 */
#ifndef WHET_ELEMENT_TYPES_H
#define WHET_ELEMENT_TYPES_H

#include "isa/kernels.h"
#include "whet.h"
#include <stdbool.h>

/* Elements that share a scale in the quantised types. */
#define QUANT_BLOCK 32

/* Bytes of a block: an f16 scale, in some types an f16 minimum, in some a fifth bit of each
 * element, then a byte or half a byte for each. */
#define Q8_0_BYTES (sizeof(uint16_t) + QUANT_BLOCK)
#define Q4_0_BYTES (sizeof(uint16_t) + QUANT_BLOCK / 2)
#define Q4_1_BYTES (2 * sizeof(uint16_t) + QUANT_BLOCK / 2)
#define Q5_0_BYTES (sizeof(uint16_t) + QUANT_BLOCK / 8 + QUANT_BLOCK / 2)
#define Q5_1_BYTES (2 * sizeof(uint16_t) + QUANT_BLOCK / 8 + QUANT_BLOCK / 2)
#define IQ4_NL_BYTES (sizeof(uint16_t) + QUANT_BLOCK / 2)

/*
 * n elements from `row` on, `stride` bytes apart, as floats in result; and the
 * same backwards. Quantised rows are always contiguous and ignore the stride.
 */
typedef void (*elements_to_f32)(const kernels *k, const void *row, ptrdiff_t stride, size_t n,
                                float *result);
typedef void (*elements_from_f32)(const kernels *k, const float *values, size_t n, void *row,
                                  ptrdiff_t stride);

typedef struct element_type {
    const char *name;
    size_t bytes;       /* of one element; 0 if single elements have no address */
    size_t block;       /* elements that are stored together: 1, or those that share a scale */
    size_t block_bytes; /* 0 where only the caller knows */
    size_t alignment;
    bool is_input;   /* queries and gradients of outputs, */
    bool is_cache;   /* keys and values, */
    bool is_output;  /* outputs and gradients, */
    bool is_mask;    /* masks may be of this type */
    bool is_decoded; /* decode reads contiguous rows in place; other rows are converted first */
    bool is_f32;     /* contiguous elements are floats already */
    bool is_callers; /* rows are converted by the tensor's own function */
    elements_to_f32 to_f32;
    elements_from_f32 from_f32;
} element_type;

/* The types up to the last one each have a row; WHET_CUSTOM follows them. */
#define ELEMENT_TYPE_LAST WHET_IQ4_NL
enum { ELEMENT_TYPE_CUSTOM = ELEMENT_TYPE_LAST + 1, ELEMENT_TYPE_UNKNOWN, ELEMENT_TYPES };

extern const element_type whet_element_types[ELEMENT_TYPES];

/* Never NULL: a value that is no type has an entry that may be used for nothing. */
static inline const element_type *element_type_of(whet_type type) {
    if ((unsigned)type <= ELEMENT_TYPE_LAST)
        return &whet_element_types[type];
    return &whet_element_types[type == WHET_CUSTOM ? ELEMENT_TYPE_CUSTOM : ELEMENT_TYPE_UNKNOWN];
}

/* Whether rows have no elements that could be addressed one by one. */
static inline bool elements_are_blocks(const element_type *type) { return type->bytes == 0; }

/* Bytes of a contiguous row of n elements; 0 where only the caller knows. */
static inline size_t element_row_bytes(const element_type *type, size_t n) {
    return n / type->block * type->block_bytes;
}

/* n elements as floats: where they are if they are contiguous floats, else in buffer. */
static inline const float *load_elements(const kernels *k, const element_type *type,
                                         const void *row, ptrdiff_t stride, size_t n,
                                         float *buffer) {
    if (type->is_f32 && stride == (ptrdiff_t)sizeof(float))
        return (const float *)row;
    type->to_f32(k, row, stride, n, buffer);
    return buffer;
}

#endif
