/* Facts about an element type, for reader and writer. */
#ifndef WHET_LAB_GGUF_TYPES_H
#define WHET_LAB_GGUF_TYPES_H

#include "gguf/gguf.h"

typedef struct gguf_type_facts {
    const char *name;
    uint32_t elements; /* of a block */
    uint32_t bytes;    /* of a block */
    void (*read)(const uint8_t *block, float *out);
} gguf_type_facts;

/* NULL for unknown numbers. */
const gguf_type_facts *gguf_type_of(gguf_type type);

#endif
