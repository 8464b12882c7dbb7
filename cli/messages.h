/*
 * What the program says on standard error, and the suggestions it makes for
 * words that it does not know.
 */
#ifndef WHET_CLI_MESSAGES_H
#define WHET_CLI_MESSAGES_H

#include "policy/suggest.h" /* nearest_word */

#include <stddef.h>

/* The command that messages are about, such as "lm train"; the text must stay. */
void name_command(const char *name);
const char *command_name(void);

/* "whet COMMAND: ..." and a newline on standard error. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* The one way of saying that memory ran out; returns the exit status for it. */
int complain_of_memory(void);

/* "--OPTION: VALUE is out of range (above 0, up to 1)", and "--A cannot be combined with --B".
 * Both return the exit status for wrong use. */
int refuse_range(const char *option, double value, const char *range);
int refuse_together(const char *option, const char *other);

/*
 * The candidate nearest to a word that was probably misspelt. Start with the
 * word, offer every candidate; found is NULL if none is near enough. Candidates
 * must outlive the search.
 */
nearest_word nearest_to(const char *word, size_t length);
void nearest_offer(nearest_word *search, const char *candidate);

#endif
