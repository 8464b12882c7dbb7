/* The list of commands, and a walk over the tables of options of all of them. */
#ifndef WHET_CLI_COMMAND_TABLE_H
#define WHET_CLI_COMMAND_TABLE_H

#include "commands.h"
#include "options.h"

#include <stddef.h>

/* NULL past the end. */
const subcommand *command_at(size_t index);
const subcommand *find_command(const char *name);

/* Hands the syntax of every command and verb to `visit`, in the order of the help. */
void visit_all_commands(syntax_visitor visit, void *context);

/* Those of one command: "lm train", or all verbs of "lm". */
void visit_command(const char *name, syntax_visitor visit, void *context);

#endif
