// Memory that ends where readable addresses end: an access beyond the last byte crashes in any
// build, also in vector instructions, whose masked loads and stores no sanitizer checks. The bytes
// before the first one hold a pattern that is checked when the memory is freed.
#ifndef WHET_TESTS_SUPPORT_GUARDED_H
#define WHET_TESTS_SUPPORT_GUARDED_H

#include <stddef.h>

// Filled with 0xff, which is NaN in every type. Ends the process if memory runs out. The address
// has the alignment of the size.
void *guarded_new(size_t bytes);

// Fails the test if something was written before the beginning. NULL is allowed.
void guarded_free(void *memory);

#endif
