/* Commands whose first argument is a verb: `whet clrs generate`, `whet retrieval train`. */
#ifndef WHET_CLI_VERBS_H
#define WHET_CLI_VERBS_H

#include "commands.h"
#include "options.h"

#include <stddef.h>

typedef struct verb_table {
    const char *command; /* "clrs" */
    const char *about;   /* what it is for, in whole lines */
    const char *example; /* a command line */
    const subcommand *verbs;
    size_t count;
} verb_table;

/* Finds the verb and runs it; answers --help and --version itself. */
int run_verb(const verb_table *table, int argc, char **argv);

#endif
