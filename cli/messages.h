/*
 * What the program says on standard error, and the suggestions it makes for
 * words that it does not know.
 */
#ifndef WHET_CLI_MESSAGES_H
#define WHET_CLI_MESSAGES_H

#include <stddef.h>

/* "whet: ..." and a newline on standard error. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* The one way of saying that memory ran out; returns the exit status for it. */
int complain_of_memory(void);

/*
 * The candidate nearest to a word that was probably misspelt. Start with the
 * word, offer every candidate; best is NULL if none is near enough. Candidates
 * need not be terminated and must outlive the search.
 */
typedef struct nearest {
    const char *wanted;
    size_t wanted_length;
    const char *best;
    size_t best_length;
    size_t distance;
} nearest;

nearest nearest_to(const char *wanted, size_t wanted_length);
void nearest_offer(nearest *search, const char *candidate, size_t length);

#endif
