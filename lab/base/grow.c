/* Arrays grow by half, so that appending takes amortised constant time. */
#include "base/grow.h"

#include <stdint.h>
#include <stdlib.h>

void *lab_grow(void *items, size_t element, size_t needed, size_t *capacity) {
    enum { LEAST = 16 };
    if (items && needed <= *capacity)
        return items;
    if (needed > SIZE_MAX / 2 / element - LEAST)
        return NULL;
    size_t wanted = needed + needed / 2 + LEAST;
    void *grown = realloc(items, wanted * element);
    if (grown)
        *capacity = wanted;
    return grown;
}
