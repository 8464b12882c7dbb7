/* What somebody meant who wrote a word that does not exist. */
#ifndef WHET_SUGGEST_H
#define WHET_SUGGEST_H

#include <stddef.h>

/* The search so far. Starts with all zero but the word. */
typedef struct nearest_word {
    const char *word; /* need not be ended */
    size_t length;
    const char *found; /* NULL: nothing comes close */
    size_t distance;
} nearest_word;

/* Keeps the candidate if it is nearer than those before and near enough to be what was meant. */
void whet_nearest_consider(nearest_word *nearest, const char *candidate);

#endif
