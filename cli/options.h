/*
 * The command line of a subcommand: a table of its options, from which they are
 * parsed, explained by --help, and written into the manual page and the shells'
 * completions. Every command also takes -q, --color, -h and -V.
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
    OPTION_CHOICE,   /* the same, one of `words` */
    OPTION_OPTIONAL, /* the same; the value may be left out and is then "-", standard output */
    OPTION_LIST,     /* target: text_list */
    OPTION_FILES,    /* the same; takes all arguments up to the next option, as a shell makes of
                      *.txt */
    OPTION_UNSIGNED, /* target: uint64_t, decimal or 0x..., from `least` to `most` */
    OPTION_AMOUNT,   /* the same, from 1 to OPTION_AMOUNT_MAX */
    OPTION_RANGE,    /* the same within limits that its target has, an option_range */
    OPTION_NUMBER,   /* target: double, finite */
    OPTION_HEADING,  /* no option: `name` is the heading of those that follow */
} option_kind;

enum { OPTION_AMOUNT_MAX = 1024 };

/* A whole number and what it may be; the value may start as anything, to mean "not given". */
typedef struct option_range {
    uint64_t value, least, most;
} option_range;

/* What a value is, for completion. */
typedef enum value_kind {
    VALUE_ANY,
    VALUE_FILE,
    VALUE_FOLDER,
    VALUE_WORD, /* one of a list of words, perhaps with more behind it */
} value_kind;

typedef struct option_spec {
    const char *name; /* without the dashes */
    option_kind kind;
    void *target;
    const char *value_name; /* for the help: "NAME"; NULL for flags */
    const char *summary;    /* begins with what the option sets */
    const char *aliases;    /* former names, separated by blanks: accepted, never shown */
    value_kind values;
    char letter;              /* a short form, -o; or none */
    const char *const *words; /* ended by NULL; all there are for OPTION_CHOICE */
    uint64_t least, most;     /* limits of OPTION_UNSIGNED; most 0: any number */
} option_spec;

/* An option says only what it needs. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

/* In a table: the heading of the options below it. */
#define OPTIONS_ABOUT(heading)                                                                     \
    { .name = (heading), .kind = OPTION_HEADING }

/* Options that many commands have. */
static inline option_spec threads_option(uint64_t *threads) {
    return (option_spec){"threads", OPTION_AMOUNT, threads, "N",
                         "number of threads (default: one per processor); results do not depend "
                         "on it"};
}

static inline option_spec seed_option(uint64_t *seed, const char *summary) {
    return (option_spec){"seed", OPTION_UNSIGNED, seed, "S", summary};
}

/* The same for seeds that end before 2^64; the range has the limits. */
static inline option_spec seed_range_option(option_range *seed, const char *summary) {
    return (option_spec){"seed", OPTION_RANGE, seed, "S", summary};
}

static inline option_spec json_option(const char **path, const char *summary) {
    return (option_spec){"json", OPTION_OPTIONAL, path, "FILE", summary, .values = VALUE_FILE};
}

static inline option_spec model_option(const char **path) {
    return (option_spec){
        "model",       OPTION_TEXT,         path, "MODEL", "GGUF file, instead of the argument",
        .letter = 'm', .values = VALUE_FILE};
}

static inline option_spec llama_option(const char **folder) {
    return (option_spec){"llama",
                         OPTION_TEXT,
                         folder,
                         "DIR",
                         "folder of libllama (default: WHET_LLAMA, then the usual places)",
                         .values = VALUE_FOLDER};
}

static inline option_spec plugin_option(const char **file) {
    return (option_spec){"plugin",
                         OPTION_TEXT,
                         file,
                         "FILE",
                         "plug-in libggml-whet.so (default: WHET_PLUGIN, then beside the program)",
                         .values = VALUE_FILE};
}

/* The seed of every command that is given none. */
enum { SEED_DEFAULT = 1 };

typedef struct command_syntax {
    const char *name;     /* "softmax" */
    const char *operands; /* for the usage line: "[FILE...]" or "" */
    const char *about;    /* what the command does */
    const option_spec *options;
    size_t option_count;
    const char *more;     /* what follows the list of options, or NULL */
    const char *examples; /* command lines, each ended by a newline */
    int operands_limit;   /* how many operands there may be at most */
    int operands_least;   /* and how many there must be */
    value_kind operand_values;
    const char *const *operand_words; /* ended by NULL */
    bool reads_input; /* operands are files to read; without any, standard input is read */
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
 *
 * After --json the next word is its FILE where it ends in .json or is '-', where
 * it cannot be an operand (there are enough, or it is none of the words that the
 * command knows), and always when written --json=FILE.
 */
options_result parse_options(const command_syntax *syntax, int argc, char **argv,
                             int *operand_count);

/* Says that a text is not a whole number, or is one out of a range ("1 to 8"). */
void complain_of_number(const char *option, const char *text, const char *range);

/* Says which operand is missing, by its place in the usage line. */
void complain_of_missing(const command_syntax *syntax, int place);

/* The exit status of a command whose options were not simply OPTIONS_GIVEN. */
int options_status(options_result result);

/* Options that every command takes, in the order of the help: quiet, color, help, version. */
enum { COMMON_OPTIONS = 4 };
extern const option_spec common_options[COMMON_OPTIONS];

/* Takes --quiet or --color at argv[*index], whose value is *index's next; whether there was one.
 * *result says what came of it. */
bool take_preference(int argc, char **argv, int *index, options_result *result);

/* Hands the syntax of every command that is run to `visit` instead of parsing a command line, until
 * it is called with NULL. Tables are the commands' own and last no longer than the call, in which
 * no other walk may begin. */
typedef void (*syntax_visitor)(const command_syntax *syntax, void *context);
void visit_syntaxes(syntax_visitor visit, void *context);
bool is_visiting_syntaxes(void);

/* "whet 0.3.0 (avx2)" on standard output. */
void print_version(void);

#endif
