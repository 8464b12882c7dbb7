/* What the verbs of `whet retrieval` share. */
#ifndef WHET_CLI_RETRIEVAL_H
#define WHET_CLI_RETRIEVAL_H

#include "commands.h"
#include "lab_options.h"
#include "options.h"
#include "policy_list.h"

#include "retrieval/head.h"

/* argv[0] is the verb. */
int retrieval_train_command(int argc, char **argv);
int retrieval_eval_command(int argc, char **argv);
int retrieval_fit_command(int argc, char **argv);
int retrieval_heads_command(int argc, char **argv);

/* The BLAS, threads, and heads if a path is given. */
typedef struct laboratory {
    nn_engine engine;
    whet_pool *pool;
    whet_executor executor;
    retrieval_heads heads;
    lab_error error;
} laboratory;

/* threads 0: one for each processor. False after a message. */
bool open_laboratory(laboratory *lab, uint64_t threads, const char *heads_path);
void close_laboratory(laboratory *lab);

/* The one operand of eval, fit and heads: a status, after a message if it is missing. */
int need_heads_path(const char *command, int operands);

#endif
