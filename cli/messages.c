/*
 * Messages on standard error and the search for the nearest name. Nearness is
 * the library's edit distance; a candidate that starts with the word counts as near too,
 * so that `whet pol` suggests `policies`, and so does one that contains a word of
 * some length, so that `kruskal` suggests `mst_kruskal`.
 */
#include "messages.h"

#include "commands.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *current_command = "";

void name_command(const char *name) { current_command = name; }

const char *command_name(void) { return current_command; }

enum { MESSAGE_SIZE = 4096 };

void complain(const char *format, ...) {
    char text[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    /* Names and texts may come from hostile files: no control characters reach the terminal. */
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            *c = '?';
    fprintf(stderr, "whet%s%s: %s\n", *current_command ? " " : "", current_command, text);
}

int complain_of_memory(void) {
    complain("out of memory");
    return STATUS_FAILED;
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

nearest_word nearest_to(const char *word, size_t length) {
    return (nearest_word){.word = word, .length = length};
}

void nearest_offer(nearest_word *search, const char *candidate) {
    if (search->length == 0)
        return;
    whet_nearest_consider(search, candidate);
    if (holds_word(candidate, strlen(candidate), search->word, search->length) &&
        (!search->found || search->distance > 1)) {
        search->found = candidate;
        search->distance = 1;
    }
}
