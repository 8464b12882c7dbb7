/*
 * "Did you mean 'adaptive'?": the nearest of some words by edit distance, as
 * long as no more than about a third of its letters are wrong. Words longer
 * than any that exists are not looked at, so that rows of the distance table
 * have a fixed size.
 */
#include "policy/suggest.h"

#include <string.h>

#define WORD_LENGTH_MAX 32

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* How many letters to add, drop or change to make one of the other, without regard to case. */
static size_t edit_distance(const char *a, size_t a_length, const char *b) {
    size_t b_length = strlen(b);
    size_t row[WORD_LENGTH_MAX + 1];
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = diagonal + (lower(a[i - 1]) != b[j - 1]);
            diagonal = row[j];
            row[j] = least(change, 1 + least(row[j], row[j - 1]));
        }
    }
    return row[b_length];
}

void whet_nearest_consider(nearest_word *nearest, const char *candidate) {
    size_t length = strlen(candidate);
    if (nearest->length > WORD_LENGTH_MAX || length > WORD_LENGTH_MAX) {
        return;
    }
    size_t allowed = length < 6 ? 1 : length / 3;
    size_t distance = edit_distance(nearest->word, nearest->length, candidate);
    if (distance <= allowed && (!nearest->found || distance < nearest->distance)) {
        nearest->found = candidate;
        nearest->distance = distance;
    }
}
