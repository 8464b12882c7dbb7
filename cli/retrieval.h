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

/* Options of eval, fit and heads, and their one operand, the path of heads. */
options_result parse_heads_options(const command_syntax *syntax, int argc, char **argv,
                                   const char **path);

#endif
