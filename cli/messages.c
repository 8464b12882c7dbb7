/*
 * Messages on standard error and the search for the nearest name. Nearness is
 * the library's edit distance; a candidate that starts with the word counts as near too,
 * so that `whet pol` suggests `policies`, and so does one that contains a word of
 * some length, so that `kruskal` suggests `mst_kruskal`.
 */
#include "messages.h"

#include "base/error.h"
#include "commands.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *current_command = "";

void name_command(const char *name) { current_command = name; }

const char *command_name(void) { return current_command; }

enum { MESSAGE_SIZE = 4096 };

/* Puts a message of `length` bytes together again, without its middle: values may be long, and what
 * is wrong with them comes last. */
static void shorten(char text[MESSAGE_SIZE], size_t length, const char *format, va_list arguments) {
    enum { KEPT = 300 };
    char *whole = malloc(length + 1);
    if (!whole)
        return;
    vsnprintf(whole, length + 1, format, arguments);
    snprintf(text, MESSAGE_SIZE, "%.*s ... %s", KEPT, whole, whole + length - KEPT);
    free(whole);
}

void complain(const char *format, ...) {
    char text[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= MESSAGE_SIZE) {
        va_start(arguments, format);
        shorten(text, (size_t)length, format, arguments);
        va_end(arguments);
    }
    lab_hide_controls(text);
    fprintf(stderr, "whet%s%s: %s\n", *current_command ? " " : "", current_command, text);
}

int complain_of_memory(void) {
    complain("out of memory");
    return STATUS_FAILED;
}

int refuse_range(const char *option, double value, const char *range) {
    complain("--%s: %.15g is out of range (%s)", option, value, range);
    return STATUS_MISUSE;
}

int refuse_together(const char *option, const char *other) {
    complain("--%s cannot be combined with --%s", option, other);
    return STATUS_MISUSE;
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
