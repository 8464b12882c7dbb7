/*
 * Messages on standard error and the search for the nearest name. Nearness is
 * the number of letters to change, add, drop or swap with a neighbour (optimal
 * string alignment); a candidate that starts with the word counts as near too,
 * so that `whet pol` suggests `policies`, and so does one that contains a word of
 * some length, so that `kruskal` suggests `mst_kruskal`.
 */
#include "messages.h"

#include "commands.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 32 };

void complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("whet: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

int complain_of_memory(void) {
    complain("out of memory");
    return STATUS_FAILED;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Both names are at most NAME_MAX_LENGTH long. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][NAME_MAX_LENGTH + 1];
    size_t *two_back = rows[0], *back = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) {
        back[j] = j;
        two_back[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = back[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = smaller(change, smaller(back[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], two_back[j - 2] + 1);
        }
        size_t *spare = two_back;
        two_back = back;
        back = row;
        row = spare;
    }
    return back[b_length];
}

nearest nearest_to(const char *wanted, size_t wanted_length) {
    /* A third of the letters may be wrong, and one in any case. */
    size_t tolerance = wanted_length < 6 ? 1 : wanted_length / 3;
    return (nearest){.wanted = wanted, .wanted_length = wanted_length, .distance = tolerance + 1};
}

/* Whether a name begins with a word, or contains one that is long enough not to be there by chance.
 */
static bool holds_word(const char *name, size_t length, const char *word, size_t word_length) {
    enum { BEGINNING = 2, ANYWHERE = 4 };
    size_t places = word_length > length       ? 0
                    : word_length >= ANYWHERE  ? length - word_length + 1
                    : word_length >= BEGINNING ? 1
                                               : 0;
    for (size_t i = 0; i < places; i++)
        if (memcmp(name + i, word, word_length) == 0)
            return true;
    return false;
}

void nearest_offer(nearest *search, const char *candidate, size_t length) {
    if (length > NAME_MAX_LENGTH || search->wanted_length > NAME_MAX_LENGTH ||
        search->wanted_length == 0)
        return;
    size_t distance = edit_distance(search->wanted, search->wanted_length, candidate, length);
    if (holds_word(candidate, length, search->wanted, search->wanted_length))
        distance = smaller(distance, 1);
    if (distance >= search->distance)
        return;
    search->distance = distance;
    search->best = candidate;
    search->best_length = length;
}
