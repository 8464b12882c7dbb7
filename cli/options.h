/*
 * The command line of a subcommand: a table of its options, from which they are
 * both parsed and explained. Every command also takes -h, --help and --version.
 */
#ifndef WHET_CLI_OPTIONS_H
#define WHET_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values of an option that may be repeated; free the items, not the texts. */
typedef struct text_list {
    const char **items;
    size_t count;
} text_list;

typedef enum option_kind {
    OPTION_FLAG,     /* target: bool */
    OPTION_TEXT,     /* target: const char * */
    OPTION_LIST,     /* target: text_list */
    OPTION_UNSIGNED, /* target: uint64_t, decimal or 0x... */
    OPTION_AMOUNT,   /* the same, from 1 to OPTION_AMOUNT_MAX */
    OPTION_RANGE,    /* the same within limits of its own; target: option_range */
    OPTION_NUMBER,   /* target: double, finite */
} option_kind;

enum { OPTION_AMOUNT_MAX = 1024 };

/* A whole number and what it may be; the value may start as anything, to mean "not given". */
typedef struct option_range {
    uint64_t value, least, most;
} option_range;

typedef struct option_spec {
    const char *name; /* without the dashes; a single letter has but one */
    option_kind kind;
    void *target;
    const char *value_name; /* for the help: "NAME"; NULL for flags */
    const char *summary;    /* broken into lines where needed */
} option_spec;

/* Options that many commands have. */
static inline option_spec threads_option(uint64_t *threads) {
    return (option_spec){"threads", OPTION_AMOUNT, threads, "N",
                         "threads (default: one for each processor); results do not depend on it"};
}

static inline option_spec quiet_option(bool *quiet) {
    return (option_spec){"quiet", OPTION_FLAG, quiet, NULL, "no progress"};
}

typedef struct command_syntax {
    const char *name;     /* "softmax" */
    const char *operands; /* for the usage line: "[FILE...]" or "" */
    const char *about;    /* what the command does */
    const option_spec *options;
    size_t option_count;
    const char *more;   /* what follows the list of options, or NULL */
    int operands_limit; /* how many operands there may be at most */
} command_syntax;

typedef enum options_result {
    OPTIONS_GIVEN,     /* go on */
    OPTIONS_ANSWERED,  /* help or version was printed: return STATUS_OK */
    OPTIONS_MISUSED,   /* a message was printed: return STATUS_MISUSE */
    OPTIONS_NO_MEMORY, /* a message was printed: return STATUS_FAILED */
} options_result;

/*
 * Takes --name VALUE, --name=VALUE, --name and -n VALUE in any order, before and after
 * operands; `--` ends the options and `-` is an operand. On OPTIONS_GIVEN the
 * operands are argv[1] to argv[*operand_count]. The targets keep their values
 * where an option is not given.
 */
options_result parse_options(const command_syntax *syntax, int argc, char **argv,
                             int *operand_count);

/* The exit status of a command whose options were not simply OPTIONS_GIVEN. */
int options_status(options_result result);

/* "whet 0.3.0 (avx2)" on standard output. */
void print_version(void);

#endif
