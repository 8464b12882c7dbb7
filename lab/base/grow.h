/* Arrays that grow as items are added to them. */
#ifndef WHET_LAB_GROW_H
#define WHET_LAB_GROW_H

#include <stddef.h>

/*
 * The items, of `element` bytes each, moved to where there is room for `needed`
 * of them and some more, unless *room says that there is room already. NULL when
 * memory runs out: the items and *room are as they were then.
 */
void *lab_grow(void *items, size_t element, size_t needed, size_t *room);

#endif
