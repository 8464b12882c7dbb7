/* Completions for shells, made from the tables of options of all commands. */
#ifndef WHET_CLI_COMPLETIONS_H
#define WHET_CLI_COMPLETIONS_H

#include <stdbool.h>
#include <stdio.h>

/* Names of the shells, ended by NULL. */
extern const char *const completion_shells[];

/* For one of them; false after a message if it is none. */
bool print_completions(FILE *file, const char *shell);

#endif
