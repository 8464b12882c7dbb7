/* Arrays that grow as items are added to them. */
#ifndef WHET_LAB_GROW_H
#define WHET_LAB_GROW_H

#include <stddef.h>

/*
 * Returns the items, of `element` bytes each, reallocated for at least `needed`
 * of them unless *capacity suffices already. NULL when memory runs out: the
 * items and *capacity are unchanged then.
 */
void *lab_grow(void *items, size_t element, size_t needed, size_t *capacity);

#endif
