/* Layouts of scratch and workspace: see arena.h. */
#include "attention/arena.h"
#include "base/checked.h"
#include "whet.h"

size_t whet_arena_place(arena *of, size_t count, size_t size) {
    size_t bytes, offset = of->bytes;
    if (!size_multiply(count, size, &bytes) || !size_align(bytes, WHET_ALIGNMENT, &bytes) ||
        !size_add(of->bytes, bytes, &of->bytes))
        of->overflow = true;
    return offset;
}

size_t whet_arena_product(arena *of, size_t a, size_t b) {
    size_t product;
    if (size_multiply(a, b, &product))
        return product;
    of->overflow = true;
    return 0;
}
