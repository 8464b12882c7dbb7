// Whether the tests run under an emulator (a cross build sets WHET_TEST_EMULATED). Tests take about
// thirty times as long there, so the longest ones use fewer or smaller examples, still of every
// kind; and a few things are not supported at all.
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
