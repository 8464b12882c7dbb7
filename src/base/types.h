/* Sizes of element types by value: see element_types.h, which has the rest. */
#ifndef WHET_TYPES_H
#define WHET_TYPES_H

#include "base/element_types.h"

/* Bytes of one element; 0 for what has no fixed size or is not known. */
static inline size_t type_bytes(whet_type type) { return element_type_of(type)->bytes; }

/* Bytes of a block of QUANT_BLOCK elements, the scale among them; 0 for types that have none. Not
 * from the table: the kernels, compiled for one type each, are to see a constant. */
static inline size_t type_block_bytes(whet_type type) {
    return type == WHET_Q8_0     ? Q8_0_BYTES
           : type == WHET_Q4_0   ? Q4_0_BYTES
           : type == WHET_Q4_1   ? Q4_1_BYTES
           : type == WHET_Q5_0   ? Q5_0_BYTES
           : type == WHET_Q5_1   ? Q5_1_BYTES
           : type == WHET_IQ4_NL ? IQ4_NL_BYTES
                                 : 0;
}

#endif
