/* Sizes of element types and of the blocks that quantised ones come in. */
#ifndef WHET_TYPES_H
#define WHET_TYPES_H

#include "whet.h"

/* Bytes of one element; 0 for what has no fixed size or is not known. */
static inline size_t type_bytes(whet_type type) {
    switch (type) {
    case WHET_F32:
        return 4;
    case WHET_F16:
    case WHET_BF16:
        return 2;
    case WHET_Q8_0:
    case WHET_Q4_0:
    case WHET_CUSTOM:
        break;
    }
    return 0;
}

/* Elements that share a scale in the quantised types. */
#define QUANT_BLOCK 32

/* Bytes of such a block, the scale among them; 0 for types that have none. */
static inline size_t type_block_bytes(whet_type type) {
    if (type == WHET_Q8_0)
        return sizeof(uint16_t) + QUANT_BLOCK;
    return type == WHET_Q4_0 ? sizeof(uint16_t) + QUANT_BLOCK / 2 : 0;
}

#endif
