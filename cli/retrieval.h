/* What the verbs of `whet retrieval` share. */
#ifndef WHET_CLI_RETRIEVAL_H
#define WHET_CLI_RETRIEVAL_H

#include "commands.h"
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

/* Prints an error of the laboratory and returns the exit status for it. */
int report_lab_error(const char *command, const lab_error *error);

/* The one operand of eval, fit and heads: a status, after a message if it is missing. */
int need_heads_path(const char *command, int operands);

enum { LIST_MAX = 1024 };

typedef struct number_list {
    uint64_t items[LIST_MAX];
    size_t count;
} number_list;

/* "16", "1,2,5", "1..10" (all between) or, where `doubling`, "16..256" (16, 32 ... 256). False
 * after a message. */
bool parse_number_list(const char *command, const char *option, const char *text, bool doubling,
                       uint64_t least, uint64_t most, number_list *list);

#endif
