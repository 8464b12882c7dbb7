/* Suggestions for misspelt words. */
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

/* Keeps the candidate if it is closer than those before and close enough to be a suggestion. */
void whet_nearest_consider(nearest_word *nearest, const char *candidate);

#endif
