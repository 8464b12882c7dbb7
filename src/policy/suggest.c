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

/* How many letters to insert, delete, change or swap with the next one to make one of the other,
 * ignoring case (optimal string alignment). */
static size_t edit_distance(const char *a, size_t a_length, const char *b) {
    size_t b_length = strlen(b);
    size_t rows[3][WORD_LENGTH_MAX + 1];
    size_t *two_back = rows[0], *back = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) {
        back[j] = j;
        two_back[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = back[j - 1] + (lower(a[i - 1]) != b[j - 1]);
            row[j] = least(change, 1 + least(back[j], row[j - 1]));
            if (i > 1 && j > 1 && lower(a[i - 1]) == b[j - 2] && lower(a[i - 2]) == b[j - 1]) {
                row[j] = least(row[j], two_back[j - 2] + 1);
            }
        }
        size_t *oldest = two_back;
        two_back = back;
        back = row;
        row = oldest;
    }
    return back[b_length];
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
