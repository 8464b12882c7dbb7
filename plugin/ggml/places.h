/*
 * The layers and heads in which attention was seen. Only the model knows how many it has, so the
 * settings are compared with them at the end: WHET_LAYERS=99 cannot be refused earlier, and must
 * not go unnoticed.
 */
#ifndef WHET_PLUGIN_PLACES_H
#define WHET_PLUGIN_PLACES_H

#include "settings.h"
#include <stdatomic.h>

typedef struct places {
    _Atomic unsigned short heads[INDEX_MAX + 1]; /* by layer, the largest number seen */
} places;

/* May be called by any thread. */
void places_see(places *p, unsigned layer, size_t heads);

#define PLACES_REPORTED 8 /* lines, before one that counts the rest */

/* Calls `report` with a line for each of the first ranges of layers or heads that settings name and
 * the model does not have; not at all if nothing was seen. */
void places_report(const places *p, const settings *s, void (*report)(const char *line));

#endif
