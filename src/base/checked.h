/*
 * Sizes from outside are multiplied and added here, so that an overflow is an
 * error and never a short buffer; and ranges of memory are compared here.
 */
#ifndef WHET_CHECKED_H
#define WHET_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool size_multiply(size_t a, size_t b, size_t *result) {
    return !__builtin_mul_overflow(a, b, result);
}

static inline bool size_add(size_t a, size_t b, size_t *result) {
    return !__builtin_add_overflow(a, b, result);
}

/* Rounds up to a multiple of `unit`, a power of two. */
static inline bool size_align(size_t a, size_t unit, size_t *result) {
    if (!size_add(a, unit - 1, result))
        return false;
    *result &= ~(unit - 1);
    return true;
}

/* Whether the address is aligned for floats; NULL is. */
static inline bool floats_are_aligned(const void *data) {
    return (uintptr_t)data % _Alignof(float) == 0;
}

/* The bytes [low, high) that something occupies. */
typedef struct memory_range {
    uintptr_t low, high;
} memory_range;

static inline memory_range range_at(const void *base, size_t bytes) {
    return (memory_range){(uintptr_t)base, (uintptr_t)base + bytes};
}

/*
 * Widens a range by a further axis of `count` elements, `stride` bytes apart. False where an end
 * leaves the address range, or the two ends are further apart than PTRDIFF_MAX: no object is that
 * large, and differences of addresses would overflow.
 */
static inline bool range_extend(memory_range *range, size_t count, ptrdiff_t stride) {
    if (count <= 1)
        return true;
    ptrdiff_t reach;
    if (count - 1 > PTRDIFF_MAX || __builtin_mul_overflow((ptrdiff_t)(count - 1), stride, &reach))
        return false;
    if (reach < 0) {
        uintptr_t down = (uintptr_t)0 - (uintptr_t)reach;
        if (down > range->low)
            return false;
        range->low -= down;
    } else if (__builtin_add_overflow(range->high, (uintptr_t)reach, &range->high)) {
        return false;
    }
    return range->high >= range->low && range->high - range->low <= PTRDIFF_MAX;
}

static inline bool range_overlap(memory_range a, memory_range b) {
    return a.low < a.high && b.low < b.high && a.low < b.high && b.low < a.high;
}

#endif
