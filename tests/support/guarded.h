// Memory that ends where the readable addresses end: a step beyond the last byte is a crash in any
// build, also for vector instructions, whose masked loads and stores no sanitizer watches. Bytes
// before the first one hold a pattern that is looked at when the memory is freed.
#ifndef WHET_TESTS_SUPPORT_GUARDED_H
#define WHET_TESTS_SUPPORT_GUARDED_H

#include <stddef.h>

// Filled with 0xff, which is NaN in every type. Ends the process where there is no memory. The
// address is aligned as well as the size is.
void *guarded_new(size_t bytes);

// A failed check if something was written before the beginning. NULL is fine.
void guarded_free(void *memory);

#endif
