/*
 * The layout of scratch and workspace: parts one after the other, each aligned to
 * WHET_ALIGNMENT. An arena only counts, so that the same function gives a plan its size
 * and a task the offsets of its parts. Overflows are remembered: it is enough to check
 * `overflow` at the end.
 */
#ifndef WHET_ARENA_H
#define WHET_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct arena {
    size_t bytes; /* of all parts so far */
    bool overflow;
} arena;

/* Reserves space for count elements; returns its offset. */
size_t whet_arena_place(arena *of, size_t count, size_t size);

/* a * b for a count; 0 if that overflows. */
size_t whet_arena_product(arena *of, size_t a, size_t b);

/* A part by its offset. */
static inline void *arena_part(void *base, size_t offset) { return (char *)base + offset; }

static inline size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

#endif
