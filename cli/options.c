/*
 * The option parser of all subcommands. It walks over argv once, stores values
 * where the table says, and moves operands to the front; the help text is made
 * from the same table, so that an option cannot be without its explanation.
 */
#include "options.h"

#include "commands.h"
#include "messages.h"
#include "text.h"
#include "whet.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUMMARY_COLUMN = 21, OPTION_SIZE = 64 };

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

static void print_option(const char *left, const char *summary) {
    int used = printf("  %s", left);
    if (used > SUMMARY_COLUMN - 1) {
        putchar('\n');
        used = 0;
    }
    printf("%*s", SUMMARY_COLUMN - used, "");
    print_wrapped(stdout, summary, SUMMARY_COLUMN);
}

/* What stands before an option's name: one dash where that is a single letter. */
static const char *dashes(const option_spec *option) { return option->name[1] ? "--" : "-"; }

/* "--policy NAME" */
static const char *option_text(const option_spec *option, char text[OPTION_SIZE]) {
    snprintf(text, OPTION_SIZE, "%s%s%s%s", dashes(option), option->name,
             option->value_name ? " " : "", option->value_name ? option->value_name : "");
    return text;
}

/* Lines are broken between options, never within one. */
static void print_usage(const command_syntax *syntax) {
    int indent = printf("usage: whet %s", syntax->name), used = indent;
    for (size_t i = 0; i <= syntax->option_count; i++) {
        bool is_option = i < syntax->option_count;
        char option[OPTION_SIZE], item[OPTION_SIZE + 8];
        if (is_option)
            snprintf(item, sizeof item, " [%s]%s", option_text(&syntax->options[i], option),
                     syntax->options[i].kind == OPTION_LIST ? "..." : "");
        else
            snprintf(item, sizeof item, "%s%s", *syntax->operands ? " " : "", syntax->operands);
        if (used + (int)strlen(item) > LINE_WIDTH)
            used = printf("\n%*s", indent, "") - 1;
        used += printf("%s", item);
    }
    putchar('\n');
}

static void print_help(const command_syntax *syntax) {
    print_usage(syntax);
    printf("\n%s\noptions:\n", syntax->about);
    for (size_t i = 0; i < syntax->option_count; i++) {
        char left[OPTION_SIZE];
        print_option(option_text(&syntax->options[i], left), syntax->options[i].summary);
    }
    print_option("-h, --help", "print this help");
    print_option("--version", "print the version and the instruction set in use");
    if (syntax->more)
        printf("\n%s", syntax->more);
}

static options_result misuse(const command_syntax *syntax) {
    point_to_help(syntax->name);
    return OPTIONS_MISUSED;
}

static options_result unknown_option(const command_syntax *syntax, const char *argument) {
    int length = (int)strcspn(argument, "=");
    if (strncmp(argument, "--", 2) != 0) {
        complain("%s: unknown option '%s'", syntax->name, argument);
        return misuse(syntax);
    }
    nearest_word search = nearest_to(argument + 2, (size_t)(length - 2));
    for (size_t i = 0; i < syntax->option_count; i++)
        nearest_offer(&search, syntax->options[i].name);
    nearest_offer(&search, "help");
    nearest_offer(&search, "version");
    if (search.found)
        complain("%s: unknown option '%.*s'; did you mean '--%s'?", syntax->name, length, argument,
                 search.found);
    else
        complain("%s: unknown option '%.*s'", syntax->name, length, argument);
    return misuse(syntax);
}

static const option_spec *find_option(const command_syntax *syntax, const char *argument) {
    size_t length = strcspn(argument, "=");
    for (size_t i = 0; i < syntax->option_count; i++) {
        const option_spec *option = &syntax->options[i];
        size_t before = strlen(dashes(option));
        if (length == before + strlen(option->name) &&
            memcmp(argument, dashes(option), before) == 0 &&
            memcmp(argument + before, option->name, length - before) == 0)
            return option;
    }
    return NULL;
}

static bool append_text(text_list *list, const char *text) {
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return false;
    list->items = items;
    list->items[list->count++] = text;
    return true;
}

static bool parse_unsigned(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
    if (text[0] < '0' || text[0] > '9')
        return false; /* strtoull would take a sign or blanks */
    bool is_hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    char *end;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, is_hexadecimal ? 16 : 10);
    if (*end || errno || parsed < least || parsed > most)
        return false;
    *value = parsed;
    return true;
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

static options_result store_whole(const command_syntax *syntax, const option_spec *option,
                                  const char *text, option_range limits, uint64_t *value) {
    if (parse_unsigned(text, limits.least, limits.most, value))
        return OPTIONS_GIVEN;
    complain("%s: %s%s: '%s' is not a whole number from %llu to %llu", syntax->name, dashes(option),
             option->name, text, (unsigned long long)limits.least, (unsigned long long)limits.most);
    return misuse(syntax);
}

static options_result store_value(const command_syntax *syntax, const option_spec *option,
                                  const char *value) {
    option_range *own = option->target; /* where it is one */
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->target = true;
        break;
    case OPTION_TEXT:
        *(const char **)option->target = value;
        break;
    case OPTION_LIST:
        if (append_text(option->target, value))
            break;
        complain_of_memory();
        return OPTIONS_NO_MEMORY;
    case OPTION_UNSIGNED:
        return store_whole(syntax, option, value, (option_range){0, 0, UINT64_MAX}, option->target);
    case OPTION_AMOUNT:
        return store_whole(syntax, option, value, (option_range){0, 1, OPTION_AMOUNT_MAX},
                           option->target);
    case OPTION_RANGE:
        return store_whole(syntax, option, value, *own, &own->value);
    case OPTION_NUMBER:
        if (parse_number(value, option->target))
            break;
        complain("%s: %s%s: '%s' is not a number", syntax->name, dashes(option), option->name,
                 value);
        return misuse(syntax);
    }
    return OPTIONS_GIVEN;
}

/* Takes the option at argv[*index], and its value if it has one. */
static options_result take_option(const command_syntax *syntax, int argc, char **argv, int *index) {
    const char *argument = argv[*index];
    if (strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0) {
        print_help(syntax);
        return OPTIONS_ANSWERED;
    }
    if (strcmp(argument, "--version") == 0) {
        print_version();
        return OPTIONS_ANSWERED;
    }
    const option_spec *option = find_option(syntax, argument);
    if (!option)
        return unknown_option(syntax, argument);
    const char *equals = strchr(argument, '=');
    if (option->kind == OPTION_FLAG) {
        if (!equals)
            return store_value(syntax, option, NULL);
        complain("%s: option '%s%s' takes no value", syntax->name, dashes(option), option->name);
        return misuse(syntax);
    }
    if (equals)
        return store_value(syntax, option, equals + 1);
    if (*index + 1 < argc)
        return store_value(syntax, option, argv[++*index]);
    char text[OPTION_SIZE];
    complain("%s: option '%s%s' needs a value: %s", syntax->name, dashes(option), option->name,
             option_text(option, text));
    return misuse(syntax);
}

options_result parse_options(const command_syntax *syntax, int argc, char **argv,
                             int *operand_count) {
    bool options_ended = false;
    int operands = 0;
    name_command(syntax->name);
    for (int i = 1; i < argc; i++) {
        bool is_operand = options_ended || argv[i][0] != '-' || argv[i][1] == '\0';
        if (is_operand) {
            argv[++operands] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            options_ended = true;
        } else {
            options_result result = take_option(syntax, argc, argv, &i);
            if (result != OPTIONS_GIVEN)
                return result;
        }
    }
    if (operands > syntax->operands_limit) {
        complain("%s: unexpected argument '%s'", syntax->name, argv[syntax->operands_limit + 1]);
        return misuse(syntax);
    }
    *operand_count = operands;
    return OPTIONS_GIVEN;
}
