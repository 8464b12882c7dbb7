/*
 * The layers and heads that attention was seen in. Only a model tells how many it has, so what
 * settings name is held against them at the end: WHET_LAYERS=99 is no error that could be found
 * before, and must not go unnoticed.
 */
#ifndef WHET_PLUGIN_PLACES_H
#define WHET_PLUGIN_PLACES_H

#include "settings.h"
#include <stdatomic.h>

typedef struct places {
    _Atomic unsigned short heads[INDEX_MAX + 1]; /* by layer, the most that were seen */
} places;

/* Any thread may. */
void places_see(places *p, unsigned layer, size_t heads);

#define PLACES_TOLD 8 /* lines, and one that says how many more there are */

/* Calls `tell` with a line for each of the first ranges of layers or heads that settings name and
 * that were not seen; with none where nothing was. */
void places_tell(const places *p, const settings *s, void (*tell)(const char *line));

#endif
