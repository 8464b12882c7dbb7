/* Sizes of element types. */
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

#endif
