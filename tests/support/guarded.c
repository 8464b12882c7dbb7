// Guarded memory: a mapping of whole pages, the last one without access. The first page stores the
// size. WebAssembly has no pages without access: there, bytes around the memory show what was
// written.

#include "support/guarded.h"

#include "support/check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(__wasm__)
#include <sys/mman.h>
#include <unistd.h>
#endif

enum { PATTERN = 0xa5 };

struct header {
    size_t total; // of the mapping
    size_t bytes;
};

static size_t changed_bytes(const char *from, const char *to) {
    size_t changed = 0;
    for (const char *at = from; at < to; at++) {
        changed += (unsigned char)*at != PATTERN;
    }
    return changed;
}

#if defined(__wasm__)
enum { MARGIN = 1024 };

void *guarded_new(size_t bytes) {
    struct header header = {.total = MARGIN + bytes + MARGIN, .bytes = bytes};
    char *base = aligned_alloc(MARGIN, (header.total + MARGIN - 1) / MARGIN * MARGIN);
    if (!base) {
        fprintf(stderr, "no memory for %zu guarded bytes\n", bytes);
        abort();
    }
    memset(base, PATTERN, header.total);
    memcpy(base, &header, sizeof header);
    return memset(base + MARGIN, 0xff, bytes);
}

void guarded_free(void *memory) {
    if (!memory) {
        return;
    }
    char *start = (char *)memory - MARGIN, *end;
    struct header header;
    memcpy(&header, start, sizeof header);
    end = (char *)memory + header.bytes;
    size_t changed = changed_bytes(start + sizeof header, memory);
    CHECK_MSG(changed == 0, "%zu bytes written before the beginning of %zu", changed, header.bytes);
    changed = changed_bytes(end, end + MARGIN);
    CHECK_MSG(changed == 0, "%zu bytes written beyond the end of %zu", changed, header.bytes);
    free(start);
}
#else
static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void *guarded_new(size_t bytes) {
    size_t page = page_size();
    size_t body = (bytes + page - 1) / page * page;
    struct header header = {.total = page + body + page, .bytes = bytes};
    char *base =
        mmap(NULL, header.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + page + body, page, PROT_NONE) != 0) {
        fprintf(stderr, "no memory for %zu guarded bytes\n", bytes);
        abort();
    }
    memcpy(base, &header, sizeof header);
    memset(base + sizeof header, PATTERN, page - sizeof header + body - bytes);
    char *memory = base + page + body - bytes;
    memset(memory, 0xff, bytes);
    return memory;
}

void guarded_free(void *memory) {
    if (!memory) {
        return;
    }
    size_t page = page_size();
    // The header is on the page before that of the first byte (before the guard for no bytes).
    char *start = (char *)memory - (uintptr_t)memory % page - page;
    struct header header;
    memcpy(&header, start, sizeof header);
    size_t changed = changed_bytes(start + sizeof header, memory);
    CHECK_MSG(changed == 0, "%zu bytes written before the beginning of %zu", changed, header.bytes);
    munmap(start, header.total);
}
#endif
