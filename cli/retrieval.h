/* What the verbs of `whet retrieval` share. */
#ifndef WHET_CLI_RETRIEVAL_H
#define WHET_CLI_RETRIEVAL_H

#include "commands.h"
#include "lab_options.h"
#include "laboratory.h"
#include "policy_list.h"

/* argv[0] is the verb. */
int retrieval_train_command(int argc, char **argv);
int retrieval_eval_command(int argc, char **argv);
int retrieval_fit_command(int argc, char **argv);
int retrieval_heads_command(int argc, char **argv);

/* The one operand of eval, fit and heads: a status, after a message if it is missing. */
int need_heads_path(const char *command, int operands);

#endif
