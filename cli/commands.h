/*
 * The subcommands of `whet` and what they share: the form of a command, the
 * exit statuses, and how to complain. A new subcommand is a file of its own
 * with one function declared here, and one line in command_table.c.
 */
#ifndef WHET_CLI_COMMANDS_H
#define WHET_CLI_COMMANDS_H

#include <stdbool.h>

/*
 * argv[0] is the command's own name. Each command answers --help itself and
 * returns one of the statuses below; main() looks after standard output, so a
 * command need not check its last write.
 */
typedef struct subcommand {
    const char *name;
    const char *summary; /* one line for the list of commands */
    int (*run)(int argc, char **argv);
    const char *form; /* a first argument with which it is a command with options of its own */
    bool has_verbs;   /* its first argument is a verb */
} subcommand;

enum {
    STATUS_OK = 0,
    STATUS_FAILED = 1,   /* it could not be done, or only with a row that is not finite */
    STATUS_MISUSE = 2,   /* wrong use: a command line or an input that makes no sense */
    STATUS_NOTHING = 3,  /* `tune`: there is nothing to be gained */
    STATUS_STOPPED = 130 /* by Ctrl-C; what was done is kept, and the same command resumes it. Other
                            signals: 128 + their number */
};

int command_audit(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_clrs(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_figure(int argc, char **argv);
int command_gguf(int argc, char **argv);
int command_help(int argc, char **argv);
int command_league(int argc, char **argv);
int command_lm(int argc, char **argv);
int command_policies(int argc, char **argv);
int command_probe(int argc, char **argv);
int command_retrieval(int argc, char **argv);
int command_reproduce(int argc, char **argv);
int command_softmax(int argc, char **argv);
int command_theory(int argc, char **argv);
int command_tune(int argc, char **argv);

/* Says that there is no such command, and which one may be meant; returns the exit status. */
int unknown_command(const char *name);

#endif
