/*
 * The option parser of all subcommands. It walks over argv once, stores values
 * where the table says, and moves operands to the front. help.c explains the
 * same table, so that an option cannot be without its explanation.
 */
#include "options.h"

#include "commands.h"
#include "help.h"
#include "messages.h"
#include "preferences.h"
#include "text.h"
#include "whet.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *color_given;
static bool help_wanted, version_wanted;

const option_spec common_options[COMMON_OPTIONS] = {
    {"quiet", OPTION_FLAG, &preferred.quiet, NULL, "no progress and no remarks", .letter = 'q'},
    {"color", OPTION_CHOICE, &color_given, "WHEN",
     "use of colours: {} (default auto: on a terminal, unless NO_COLOR is set)",
     .values = VALUE_WORD, .words = color_names},
    {"help", OPTION_FLAG, &help_wanted, NULL, "print this help", .letter = 'h'},
    {"version", OPTION_FLAG, &version_wanted, NULL,
     "print the version and the instruction set in use", .letter = 'V'},
};

static bool no_color_given;
static const option_spec no_color = {"no-color", OPTION_FLAG, &no_color_given, NULL, ""};

static syntax_visitor visitor;
static void *visitor_context;

void visit_syntaxes(syntax_visitor visit, void *context) {
    visitor = visit;
    visitor_context = context;
}

bool is_visiting_syntaxes(void) { return visitor != NULL; }

int options_status(options_result result) {
    switch (result) {
    case OPTIONS_MISUSED:
        return STATUS_MISUSE;
    case OPTIONS_NO_MEMORY:
        return STATUS_FAILED;
    case OPTIONS_GIVEN:
    case OPTIONS_ANSWERED:
        break;
    }
    return STATUS_OK;
}

void print_version(void) { printf("whet %s (%s)\n", whet_version(), whet_isa()); }

/* ---- which option an argument is ---- */

/* Whether a list of names, separated by blanks, has one of this length. */
static bool lists_name(const char *names, const char *name, size_t length) {
    for (const char *at = names; at && *at;) {
        size_t each = strcspn(at, " ");
        if (each == length && memcmp(at, name, length) == 0)
            return true;
        at += each + strspn(at + each, " ");
    }
    return false;
}

/* `argument` is "--name", "--name=VALUE", "-n" or "-n=VALUE". */
static bool is_option(const option_spec *option, const char *argument) {
    if (option->kind == OPTION_HEADING)
        return false;
    size_t length = strcspn(argument, "=");
    if (length == 2 && argument[1] != '-')
        return option->letter && argument[1] == option->letter;
    if (length < 3 || argument[1] != '-')
        return false;
    return lists_name(option->name, argument + 2, length - 2) ||
           lists_name(option->aliases, argument + 2, length - 2);
}

static const option_spec *find_in(const option_spec *options, size_t count, const char *argument) {
    for (size_t i = 0; i < count; i++)
        if (is_option(&options[i], argument))
            return &options[i];
    return NULL;
}

static const option_spec *find_option(const command_syntax *syntax, const char *argument) {
    const option_spec *own = find_in(syntax->options, syntax->option_count, argument);
    if (own)
        return own;
    const option_spec *common = find_in(common_options, COMMON_OPTIONS, argument);
    return common ? common : find_in(&no_color, 1, argument);
}

static options_result unknown_option(const command_syntax *syntax, const char *argument) {
    int length = (int)strcspn(argument, "=");
    nearest_word search = nearest_to(argument, 0); /* letters are not like each other */
    if (strncmp(argument, "--", 2) == 0)
        search = nearest_to(argument + 2, (size_t)(length - 2));
    for (size_t i = 0; i < syntax->option_count; i++)
        if (syntax->options[i].kind != OPTION_HEADING)
            nearest_offer(&search, syntax->options[i].name);
    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        nearest_offer(&search, common_options[i].name);
    if (search.found)
        complain("unknown option '%.*s'; did you mean '--%s'?", length, argument, search.found);
    else
        complain("unknown option '%.*s'; see 'whet %s --help'", length, argument, syntax->name);
    return OPTIONS_MISUSED;
}

/* ---- values ---- */

static bool append_text(text_list *list, const char *text) {
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return false;
    list->items = items;
    list->items[list->count++] = text;
    return true;
}

static bool is_hexadecimal(const char *text) {
    return text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

static bool parse_unsigned(const char *text, uint64_t *value) {
    if (text[0] < '0' || text[0] > '9')
        return false; /* strtoull would take a sign or blanks */
    char *end;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, is_hexadecimal(text) ? 16 : 10);
    if (*end || errno)
        return false;
    *value = parsed;
    return true;
}

/* Whether a text is a whole number of any size, perhaps negative. */
static bool is_whole(const char *text) {
    bool is_hex = is_hexadecimal(text);
    const char *digits = text + (is_hex ? 2 : *text == '-');
    return *digits && !digits[strspn(digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789")];
}

static bool parse_number(const char *text, double *value) {
    char *end;
    double parsed = strtod(text, &end);
    /* no blanks, hexadecimal, infinities or NaN, all of which strtod would take */
    if (end == text || *end || !isfinite(parsed) || text[strspn(text, "0123456789+-.eE")])
        return false;
    *value = parsed;
    return true;
}

static bool is_not_finite(const char *text) {
    char *end;
    return !isfinite(strtod(text, &end)) && end != text && !*end;
}

void complain_of_number(const char *option, const char *text, const char *range) {
    char full[NUMBER_SIZE];
    uint64_t value;
    if (is_whole(text))
        complain("--%s: %s is out of range (%s)", option,
                 parse_unsigned(text, &value) ? grouped(value, full) : text, range);
    else
        complain("--%s: '%s' is not a whole number", option, text);
}

static options_result store_whole(const option_spec *option, const char *text, option_range limits,
                                  uint64_t *value) {
    uint64_t parsed;
    if (parse_unsigned(text, &parsed) && parsed >= limits.least && parsed <= limits.most) {
        *value = parsed;
        return OPTIONS_GIVEN;
    }
    char least[NUMBER_SIZE], most[NUMBER_SIZE], range[2 * NUMBER_SIZE + 4];
    snprintf(range, sizeof range, "%s to %s", grouped(limits.least, least),
             grouped(limits.most, most));
    complain_of_number(option->name, text, range);
    return OPTIONS_MISUSED;
}

static options_result store_number(const option_spec *option, const char *text) {
    if (parse_number(text, option->target))
        return OPTIONS_GIVEN;
    complain("--%s: '%s' is not a %snumber", option->name, text,
             is_not_finite(text) ? "finite " : "");
    return OPTIONS_MISUSED;
}

static bool is_word(const char *const *words, const char *text) {
    for (; *words; words++)
        if (strcmp(*words, text) == 0)
            return true;
    return false;
}

static options_result store_choice(const option_spec *option, const char *value) {
    if (is_word(option->words, value)) {
        *(const char **)option->target = value;
        return OPTIONS_GIVEN;
    }
    char words[WORDS_SIZE_MAX];
    const char *quote = option->words[1] ? "" : "'";
    complain("--%s: '%s' is not %s%s%s%s", option->name, value, one_of(option->words), quote,
             join_words(option->words, words), quote);
    return OPTIONS_MISUSED;
}

static options_result store_value(const option_spec *option, const char *value) {
    option_range *own = option->target; /* where it is one */
    switch (option->kind) {
    case OPTION_HEADING:
        break;
    case OPTION_FLAG:
        *(bool *)option->target = true;
        break;
    case OPTION_TEXT:
    case OPTION_OPTIONAL:
        *(const char **)option->target = value;
        break;
    case OPTION_CHOICE:
        return store_choice(option, value);
    case OPTION_LIST:
    case OPTION_FILES:
        if (append_text(option->target, value))
            break;
        complain_of_memory();
        return OPTIONS_NO_MEMORY;
    case OPTION_UNSIGNED:
        return store_whole(
            option, value,
            (option_range){0, option->least, option->most ? option->most : UINT64_MAX},
            option->target);
    case OPTION_AMOUNT:
        return store_whole(option, value, (option_range){0, 1, OPTION_AMOUNT_MAX}, option->target);
    case OPTION_RANGE:
        return store_whole(option, value, *own, &own->value);
    case OPTION_NUMBER:
        return store_number(option, value);
    }
    return OPTIONS_GIVEN;
}

/* ---- one argument after the other ---- */

static bool takes_value(const option_spec *option) {
    return option->kind != OPTION_FLAG && option->kind != OPTION_OPTIONAL;
}

static bool is_operand(const char *argument) { return argument[0] != '-' || argument[1] == '\0'; }

/* The arguments from one on up to the next option. */
static int count_values(int argc, char **argv, int from) {
    int count = 0;
    while (from + count < argc && is_operand(argv[from + count]))
        count++;
    return count;
}

/* Operands among the arguments from one on, a value that may be left out counting as one. */
static int count_operands(const command_syntax *syntax, int argc, char **argv, int from) {
    int count = 0;
    for (int i = from; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return count + argc - i - 1;
        const option_spec *option = is_operand(argv[i]) ? NULL : find_option(syntax, argv[i]);
        if (is_operand(argv[i]))
            count++;
        else if (option && takes_value(option) && !strchr(argv[i], '='))
            i += option->kind == OPTION_FILES ? count_values(argc, argv, i + 1) : 1;
    }
    return count;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length > wanted && strcmp(text + length - wanted, end) == 0;
}

/* Whether the argument behind an option whose value may be left out is that value. */
static bool is_its_value(const command_syntax *syntax, int argc, char **argv, int at,
                         int operands) {
    if (at >= argc || !is_operand(argv[at]))
        return false;
    if (strcmp(argv[at], "-") == 0 ||
        operands + count_operands(syntax, argc, argv, at) > syntax->operands_limit)
        return true;
    if (syntax->operand_words)
        return !is_word(syntax->operand_words, argv[at]);
    return !syntax->reads_input && ends_with(argv[at], ".json");
}

static void note_color(void) {
    for (int i = COLOR_AUTO; color_given && color_names[i]; i++)
        if (strcmp(color_names[i], color_given) == 0)
            preferred.color = (color_choice)i;
    if (no_color_given)
        preferred.color = COLOR_NEVER;
    color_given = NULL;
    no_color_given = false;
}

/* Stores an option's value: behind the '=', or the next argument, to which *index then moves. */
static options_result store_option(const command_syntax *syntax, const option_spec *option,
                                   int argc, char **argv, int *index, int operands) {
    const char *equals = strchr(argv[*index], '=');
    options_result result = OPTIONS_GIVEN;
    if (option->kind == OPTION_FLAG && equals) {
        complain("option '--%s' takes no value", option->name);
        return OPTIONS_MISUSED;
    }
    if (equals) {
        result = store_value(option, equals + 1);
    } else if (option->kind == OPTION_FLAG) {
        result = store_value(option, NULL);
    } else if (option->kind == OPTION_OPTIONAL) {
        bool has_value = is_its_value(syntax, argc, argv, *index + 1, operands);
        result = store_value(option, has_value ? argv[++*index] : "-");
    } else if (option->kind == OPTION_FILES && count_values(argc, argv, *index + 1) > 0) {
        for (int left = count_values(argc, argv, *index + 1); left > 0; left--)
            if (result == OPTIONS_GIVEN)
                result = store_value(option, argv[++*index]);
    } else if (option->kind != OPTION_FILES && *index + 1 < argc) {
        result = store_value(option, argv[++*index]);
    } else {
        complain("option '--%s' needs a value: --%s %s", option->name, option->name,
                 option->value_name);
        return OPTIONS_MISUSED;
    }
    note_color();
    return result;
}

/* Takes the option at argv[*index], and its value if it has one. */
static options_result take_option(const command_syntax *syntax, int argc, char **argv, int *index,
                                  int operands) {
    const option_spec *option = find_option(syntax, argv[*index]);
    if (!option)
        return unknown_option(syntax, argv[*index]);
    options_result result = store_option(syntax, option, argc, argv, index, operands);
    if (result != OPTIONS_GIVEN || !(help_wanted || version_wanted))
        return result;
    if (help_wanted)
        print_help(syntax);
    else
        print_version();
    help_wanted = version_wanted = false;
    return OPTIONS_ANSWERED;
}

bool take_preference(int argc, char **argv, int *index, options_result *result) {
    static const command_syntax none = {.name = ""};
    const option_spec *option = find_in(common_options, 2, argv[*index]);
    if (option)
        *result = store_option(&none, option, argc, argv, index, 0);
    return option != NULL;
}

/* The operand at a place of "[FILE] MODEL", without brackets and dots. */
static void name_operand(const char *operands, int place, char *name, size_t size) {
    for (; place > 0 && *operands; place--) {
        operands += strcspn(operands, " ");
        operands += strspn(operands, " ");
    }
    operands += strspn(operands, "[");
    snprintf(name, size, "%.*s", (int)strcspn(operands, " ].,"), operands);
}

void complain_of_missing(const command_syntax *syntax, int place) {
    char name[64];
    name_operand(syntax->operands, place, name, sizeof name);
    complain("missing %s; usage: whet %s [OPTION]... %s", name, syntax->name, syntax->operands);
}

static options_result check_operands(const command_syntax *syntax, char **argv, int operands) {
    if (operands > syntax->operands_limit) {
        complain("unexpected argument '%s'; usage: whet %s [OPTION]...%s%s",
                 argv[syntax->operands_limit + 1], syntax->name, *syntax->operands ? " " : "",
                 syntax->operands);
        return OPTIONS_MISUSED;
    }
    if (operands < syntax->operands_least) {
        complain_of_missing(syntax, operands);
        return OPTIONS_MISUSED;
    }
    return OPTIONS_GIVEN;
}

options_result parse_options(const command_syntax *syntax, int argc, char **argv,
                             int *operand_count) {
    bool options_ended = false;
    int operands = 0;
    if (visitor) {
        visitor(syntax, visitor_context);
        return OPTIONS_ANSWERED;
    }
    name_command(syntax->name);
    for (int i = 1; i < argc; i++) {
        if (options_ended || is_operand(argv[i])) {
            argv[++operands] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            options_ended = true;
        } else {
            options_result result = take_option(syntax, argc, argv, &i, operands);
            if (result != OPTIONS_GIVEN)
                return result;
        }
    }
    *operand_count = operands;
    return check_operands(syntax, argv, operands);
}
