/*
 * Blocks that are counted by their users; see twin_memory.h.
 */
#include "twin_memory.h"

#include <stdlib.h>

enum { PAGE = 4096 };

static void *add_block(twin_memory *twins, size_t bytes) {
    if (twins->count == TWIN_BLOCKS_MAX)
        return NULL;
    void *memory = aligned_alloc(PAGE, bytes);
    if (memory)
        twins->blocks[twins->count++] = (twin_block){.memory = memory, .bytes = bytes, .users = 1};
    return memory;
}

static void *allocate_first(void *context, size_t bytes) { return add_block(context, bytes); }

static void *allocate_second(void *context, size_t bytes) {
    twin_memory *twins = context;
    if (twins->next < twins->end) {
        twin_block *twin = &twins->blocks[twins->next++];
        if (twin->bytes == bytes && twin->users == 1) {
            twin->users = 2;
            return twin->memory;
        }
    }
    return add_block(twins, bytes);
}

static void release(void *context, void *memory) {
    twin_memory *twins = context;
    for (size_t i = 0; i < twins->count; i++) {
        twin_block *block = &twins->blocks[i];
        if (block->memory != memory || block->users == 0)
            continue;
        if (--block->users == 0) {
            free(memory);
            block->memory = NULL;
        }
        return;
    }
}

cases_memory twin_memory_first(twin_memory *twins) {
    *twins = (twin_memory){.count = 0};
    return (cases_memory){.allocate = allocate_first, .release = release, .context = twins};
}

cases_memory twin_memory_second(twin_memory *twins) {
    twins->next = 0;
    twins->end = twins->count;
    return (cases_memory){.allocate = allocate_second, .release = release, .context = twins};
}
