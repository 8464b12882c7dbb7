// Whether the tests run under an emulator (the build sets WHET_TEST_EMULATED where it
// cross-compiles). There a test takes some thirty times as long, so that the longest look at fewer
// or smaller examples, of every kind still; and a few things cannot be had at all.
#ifndef WHET_TESTS_SUPPORT_EMULATED_H
#define WHET_TESTS_SUPPORT_EMULATED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static inline bool emulated(void) {
    static int known; // 1: no, 2: yes
    if (!known) {
        known = getenv("WHET_TEST_EMULATED") ? 2 : 1;
    }
    return known == 2;
}

// One size for the processor itself, a smaller one under an emulator.
static inline size_t size_or_emulated(size_t size, size_t smaller) {
    return emulated() ? smaller : size;
}

#endif
