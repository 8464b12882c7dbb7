/*
 * Memory for one problem in two builds. The second build gets the same blocks
 * as the first, as long as it asks for the same sizes in the same order:
 * neither is then faster because its pages happen to have better places in the
 * caches.
 */
#ifndef WHET_BENCH_COMPARE_TWIN_MEMORY_H
#define WHET_BENCH_COMPARE_TWIN_MEMORY_H

#include "cases.h"

enum { TWIN_BLOCKS_MAX = 128 };

typedef struct twin_block {
    void *memory;
    size_t bytes;
    unsigned users;
} twin_block;

typedef struct twin_memory {
    twin_block blocks[TWIN_BLOCKS_MAX];
    size_t count;
    size_t next, end; /* of the first build's blocks, for the second */
} twin_memory;

/* The first build's side, which starts anew, and the second's, to be opened within the first. */
cases_memory twin_memory_first(twin_memory *twins);
cases_memory twin_memory_second(twin_memory *twins);

#endif
