/*
 * Completions for bash, zsh and fish. What a shell has to do is written in
 * completions/; the line @TABLES there is replaced by what the tables of options
 * say: which options a command has, what their values are, and its operands.
 */
#include "completions.h"

#include "command_table.h"
#include "messages.h"

#include "bash_completion.h" /* made from completions/whet.bash.in */
#include "fish_completion.h" /* made from completions/whet.fish.in */
#include "zsh_completion.h"  /* made from completions/_whet.in */

#include <ctype.h>
#include <string.h>

const char *const completion_shells[] = {"bash", "zsh", "fish", NULL};

/* ---- what all shells need ---- */

/* A summary in few words: up to a parenthesis, a colon or a semicolon. */
static size_t short_length(const char *summary) {
    size_t length = 0;
    while (summary[length] && !strchr(":;", summary[length]) &&
           strncmp(summary + length, " (", 2) != 0)
        length++;
    return length;
}

static void put_words(FILE *file, const char *const *words, const char *separator) {
    for (size_t i = 0; words && words[i]; i++)
        fprintf(file, "%s%s", i ? separator : "", words[i]);
}

/* Calls `put` for each option of a command and then for those of every command. */
typedef void (*option_writer)(FILE *file, const char *command, const option_spec *option);

static void put_each(FILE *file, const command_syntax *syntax, option_writer put) {
    for (size_t i = 0; i < syntax->option_count; i++)
        if (syntax->options[i].kind != OPTION_HEADING)
            put(file, syntax->name, &syntax->options[i]);
    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        put(file, syntax->name, &common_options[i]);
}

/* The commands that have a subcommand, or a form of their own: "lm train", "figure 3". */
static void put_pair(const command_syntax *syntax, void *context) {
    FILE *file = context;
    if (strchr(syntax->name, ' '))
        fprintf(file, " '%s'", syntax->name);
}

/* Subcommands of one command, or its form. */
typedef struct subcommand_list {
    FILE *file;
    const char *command;
} subcommand_list;

static void put_subcommand(const command_syntax *syntax, void *context) {
    const subcommand_list *list = context;
    size_t length = strlen(list->command);
    if (strncmp(syntax->name, list->command, length) == 0 && syntax->name[length] == ' ')
        fprintf(list->file, " %s", syntax->name + length + 1);
}

static void put_subcommands(FILE *file, const char *command) {
    subcommand_list list = {file, command};
    visit_all_commands(put_subcommand, &list);
}

/* ---- bash ---- */

static void put_bash_option(FILE *file, const char *command, const option_spec *option) {
    (void)command;
    fprintf(file, " --%s", option->name);
    if (option->letter)
        fprintf(file, " -%c", option->letter);
}

static void put_bash_options(const command_syntax *syntax, void *context) {
    FILE *file = context;
    fprintf(file, "    '%s') echo", syntax->name);
    put_each(file, syntax, put_bash_option);
    fputs(" ;;\n", file);
}

static const char *bash_kind(value_kind values) {
    switch (values) {
    case VALUE_FILE:
        return "files";
    case VALUE_FOLDER:
        return "folders";
    case VALUE_WORD:
        return "words";
    case VALUE_ANY:
        break;
    }
    return "any";
}

static void put_bash_value(FILE *file, const char *command, const option_spec *option) {
    if (option->kind == OPTION_FLAG)
        return;
    fprintf(file, "    '%s --%s'", command, option->name);
    if (option->letter)
        fprintf(file, " | '%s -%c'", command, option->letter);
    fprintf(file, ") echo '%s", bash_kind(option->values));
    if (option->values == VALUE_WORD) {
        fputc(' ', file);
        put_words(file, option->words, " ");
    }
    fputs("' ;;\n", file);
}

static void put_bash_values(const command_syntax *syntax, void *context) {
    put_each(context, syntax, put_bash_value);
}

static void put_bash_operands(const command_syntax *syntax, void *context) {
    FILE *file = context;
    if (syntax->operands_limit == 0 || syntax->operand_values == VALUE_ANY)
        return;
    fprintf(file, "    '%s ", syntax->name);
    fprintf(file, syntax->operands_limit > 1 && syntax->operand_values != VALUE_WORD ? "'*" : "1'");
    fprintf(file, ") echo '%s ", bash_kind(syntax->operand_values));
    put_words(file, syntax->operand_words, " ");
    const subcommand *command = find_command(syntax->name);
    if (command && command->form)
        fprintf(file, " %s", command->form);
    fputs("' ;;\n", file);
}

static void put_bash_tables(FILE *file) {
    const subcommand *command;
    fputs("_whet_is_pair() { # command and subcommand\n    local pair\n    for pair in", file);
    visit_all_commands(put_pair, file);
    fputs("; do\n        [ \"$1\" != \"$pair\" ] || return 0\n    done\n    return 1\n}\n\n"
          "_whet_options_of() { # command\n    case $1 in\n",
          file);
    visit_all_commands(put_bash_options, file);
    fputs("    *) echo", file);
    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        put_bash_option(file, "", &common_options[i]);
    fputs(" ;;\n    esac\n}\n\n"
          "# What the value of an option is: files, folders, any, or words and which; fails for "
          "what takes none.\n"
          "_whet_value_of() { # command option\n    case \"$1 $2\" in\n",
          file);
    visit_all_commands(put_bash_values, file);
    fputs("    *' --color') echo 'words auto always never' ;;\n", file);
    fputs("    *) return 1 ;;\n    esac\n}\n\n"
          "# The same of the argument in a place, counted from 1.\n"
          "_whet_operands_of() { # command place\n    case \"$1 $2\" in\n    ' 1') echo 'words",
          file);
    for (size_t i = 0; (command = command_at(i)) != NULL; i++)
        fprintf(file, " %s", command->name);
    fputs("' ;;\n", file);
    for (size_t i = 0; (command = command_at(i)) != NULL; i++)
        if (command->has_verbs) {
            fprintf(file, "    '%s 1') echo 'words", command->name);
            put_subcommands(file, command->name);
            fputs("' ;;\n", file);
        }
    visit_all_commands(put_bash_operands, file);
    fputs("    *) echo any ;;\n    esac\n}\n\n", file);
}

/* ---- zsh ---- */

/* A description within single quotes and brackets. */
static void put_zsh_text(FILE *file, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'')
            fputs("'\\''", file);
        else if (text[i] == '\n')
            fputc(' ', file);
        else if (strchr("[]:\\", text[i]))
            fprintf(file, "\\%c", text[i]);
        else
            fputc(text[i], file);
    }
}

/* What completes a value. */
static void put_zsh_values(FILE *file, value_kind values, const char *const *words) {
    switch (values) {
    case VALUE_FILE:
        fputs("_files", file);
        break;
    case VALUE_FOLDER:
        fputs("_files -/", file);
        break;
    case VALUE_WORD:
        fputc('(', file);
        for (; words && *words; words++) {
            for (const char *c = *words; *c; c++)
                fprintf(file, strchr(":\\", *c) ? "\\%c" : "%c", *c);
            fputs(words[1] ? " " : "", file);
        }
        fputc(')', file);
        break;
    case VALUE_ANY:
        fputc(' ', file);
        break;
    }
}

/* '(-o --out)'{-o+,--out=}'[picture]:FILE:_files' */
static void put_zsh_option(FILE *file, const char *command, const option_spec *option) {
    bool has_value = option->kind != OPTION_FLAG;
    (void)command;
    fputs("        ", file);
    if (option->kind == OPTION_LIST || option->kind == OPTION_FILES)
        fputs("'*'", file);
    else if (option->letter)
        fprintf(file, "'(-%c --%s)'", option->letter, option->name);
    if (option->letter)
        fprintf(file, "{-%c%s,--%s%s}'[", option->letter, has_value ? "+" : "", option->name,
                has_value ? "=" : "");
    else
        fprintf(file, "'--%s%s[", option->name, has_value ? "=" : "");
    put_zsh_text(file, option->summary, short_length(option->summary));
    fputc(']', file);
    if (has_value) {
        fputs(option->kind == OPTION_OPTIONAL ? "::" : ":", file);
        put_zsh_text(file, option->value_name, strlen(option->value_name));
        fputc(':', file);
        put_zsh_values(file, option->values, option->words);
    }
    fputs("' \\\n", file);
}

static void put_zsh_command(const command_syntax *syntax, void *context) {
    FILE *file = context;
    fputs("_whet_options_", file);
    for (const char *c = syntax->name; *c; c++)
        fputc(isalnum((unsigned char)*c) ? *c : '_', file);
    fputs("() {\n    _arguments \\\n", file);
    put_each(file, syntax, put_zsh_option);
    if (syntax->operands_limit > 0) {
        fprintf(file, "        '%s:argument:", syntax->operands_limit > 1 ? "*" : "1");
        put_zsh_values(file, syntax->operand_values, syntax->operand_words);
        fputs("'\n", file);
    } else {
        fputs("        ':'\n", file);
    }
    fputs("}\n\n", file);
}

static void put_zsh_tables(FILE *file) {
    const subcommand *command;
    fputs("_whet_common=(\n", file);
    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        put_zsh_option(file, "", &common_options[i]);
    fputs("        )\n\n_whet_commands() {\n    local -a commands\n    commands=(\n", file);
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        fprintf(file, "        '%s:", command->name);
        put_zsh_text(file, command->summary, strlen(command->summary));
        fputs("'\n", file);
    }
    fputs("    )\n    _describe -t commands 'command' commands\n}\n\n", file);
    visit_all_commands(put_zsh_command, file);
    for (size_t i = 0; (command = command_at(i)) != NULL; i++)
        if (command->has_verbs) {
            fprintf(file, "_whet_options_%s() {\n    _arguments $_whet_common '1:subcommand:(",
                    command->name);
            put_subcommands(file, command->name);
            fputs(")'\n}\n\n", file);
        }
}

/* ---- fish ---- */

/* A text within single quotes. */
static void put_fish_text(FILE *file, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (strchr("'\\", text[i]))
            fprintf(file, "\\%c", text[i]);
        else
            fputc(text[i] == '\n' ? ' ' : text[i], file);
}

/* What completes a value: words, folders, files or nothing. */
static void put_fish_values(FILE *file, value_kind values, const char *const *words) {
    switch (values) {
    case VALUE_FILE:
        fputs(" -F", file);
        break;
    case VALUE_FOLDER:
        fputs(" -a '(__fish_complete_directories)'", file);
        break;
    case VALUE_WORD:
        fputs(" -a '", file);
        put_words(file, words, " ");
        fputc('\'', file);
        break;
    case VALUE_ANY:
        break;
    }
}

static void put_fish_option(FILE *file, const char *command, const option_spec *option) {
    fprintf(file, "complete -c whet -n '__whet_is %s' -l %s", command, option->name);
    if (option->letter)
        fprintf(file, " -s %c", option->letter);
    if (option->kind == OPTION_OPTIONAL)
        put_fish_values(file, option->values, option->words);
    else if (option->kind != OPTION_FLAG) {
        fputs(option->values == VALUE_FILE ? " -r" : " -x", file);
        put_fish_values(file, option->values, option->words);
    }
    fputs(" -d '", file);
    put_fish_text(file, option->summary, short_length(option->summary));
    fputs("'\n", file);
}

static void put_fish_command(const command_syntax *syntax, void *context) {
    FILE *file = context;
    put_each(file, syntax, put_fish_option);
    if (syntax->operands_limit > 0 && syntax->operand_values != VALUE_ANY) {
        fprintf(file, "complete -c whet -n '__whet_is %s'", syntax->name);
        put_fish_values(file, syntax->operand_values, syntax->operand_words);
        fputc('\n', file);
    }
}

static void put_fish_subcommand(const command_syntax *syntax, void *context) {
    FILE *file = context;
    const char *blank = strchr(syntax->name, ' ');
    if (blank)
        fprintf(file, "complete -c whet -n '__whet_is %.*s' -a %s\n", (int)(blank - syntax->name),
                syntax->name, blank + 1);
}

static void put_fish_tables(FILE *file) {
    const subcommand *command;
    fputs("function __whet_is_pair\n    contains -- \"$argv\"", file);
    visit_all_commands(put_pair, file);
    fputs("\nend\n\n", file);
    for (size_t i = 0; (command = command_at(i)) != NULL; i++) {
        fprintf(file, "complete -c whet -n __whet_is -a %s -d '", command->name);
        put_fish_text(file, command->summary, strlen(command->summary));
        fputs("'\n", file);
    }
    for (size_t i = 0; i < COMMON_OPTIONS; i++)
        put_fish_option(file, "", &common_options[i]);
    visit_all_commands(put_fish_subcommand, file);
    visit_all_commands(put_fish_command, file);
}

/* ---- a whole file ---- */

static bool fill_in(FILE *file, const char *text, void (*put_tables)(FILE *file)) {
    const char *place = strstr(text, "@TABLES\n");
    if (!place)
        return false;
    fwrite(text, 1, (size_t)(place - text), file);
    put_tables(file);
    fputs(place + strlen("@TABLES\n"), file);
    return true;
}

bool print_completions(FILE *file, const char *shell) {
    if (strcmp(shell, "bash") == 0)
        return fill_in(file, bash_completion, put_bash_tables);
    if (strcmp(shell, "zsh") == 0)
        return fill_in(file, zsh_completion, put_zsh_tables);
    if (strcmp(shell, "fish") == 0)
        return fill_in(file, fish_completion, put_fish_tables);
    complain("no completions for '%s'", shell);
    return false;
}
