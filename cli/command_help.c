/*
 * `whet help`: the overview, a command's own help, and what is made from the
 * tables of options of all commands: the manual page and the completions.
 */
#include "command_table.h"
#include "completions.h"
#include "help.h"
#include "man_page.h"
#include "messages.h"

#include <stdio.h>
#include <string.h>

static void print_overview(void) {
    const subcommand *command;
    fputs("whet - softmax and attention that stay sharp as their input grows\n"
          "\n"
          "usage: whet COMMAND [OPTION]... [ARGUMENT]...\n"
          "\n"
          "commands:\n",
          stdout);
    for (size_t i = 0; (command = command_at(i)) != NULL; i++)
        printf("  %-10s %s\n", command->name, command->summary);
    fputs("\noptions of every command:\n", stdout);
    print_common_options();
    fputs("\n"
          "'whet help COMMAND' or 'whet COMMAND --help' explains a command. Try:\n"
          "  echo 1 2 3 4 | whet softmax --policy adaptive --stats\n",
          stdout);
}

int unknown_command(const char *name) {
    const subcommand *command;
    const char *kind = name[0] == '-' ? "option" : "command";
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; (command = command_at(i)) != NULL; i++)
        nearest_offer(&search, command->name);
    nearest_offer(&search, "--help");
    nearest_offer(&search, "--version");
    if (search.found)
        complain("unknown %s '%s'; did you mean '%s'?", kind, name, search.found);
    else
        complain("unknown %s '%s'; see 'whet --help'", kind, name);
    return STATUS_MISUSE;
}

/* The help of a command, or of one of its verbs or forms. */
static int explain(int count, char **words) {
    const subcommand *found = find_command(words[0]);
    if (!found)
        return unknown_command(words[0]);
    bool has_second =
        found->has_verbs || (found->form && count > 1 && strcmp(words[1], found->form) == 0);
    int used = has_second && count > 1 ? 2 : 1;
    if (count > used) {
        complain("unexpected argument '%s'; usage: whet help [OPTION]... [COMMAND [SUBCOMMAND]]",
                 words[used]);
        return STATUS_MISUSE;
    }
    char help_option[] = "--help";
    char *arguments[] = {words[0], used > 1 ? words[1] : help_option, help_option, NULL};
    return found->run(used + 1, arguments);
}

/* Also answers `whet --help` and `whet -h`. */
int command_help(int argc, char **argv) {
    bool wants_page = false;
    const char *shell = NULL;
    const option_spec options[] = {
        {"man", OPTION_FLAG, &wants_page, NULL, "print the manual page of all commands, in mdoc"},
        {"completions", OPTION_CHOICE, &shell, "SHELL", "print the completions for a shell: {}",
         .values = VALUE_WORD, .words = completion_shells},
    };
    const subcommand *command;
    const char *names[32] = {NULL};
    for (size_t i = 0; (command = command_at(i)) != NULL && i < 31; i++)
        names[i] = command->name;
    const command_syntax syntax = {
        .name = "help",
        .operands = "[COMMAND [SUBCOMMAND]]",
        .about =
            "Lists the commands, or explains one of them. Also prints the manual page and the\n"
            "shells' completions, which are made from the same tables as this help.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples = "whet help lm train\n"
                    "whet help --man | man -l -\n"
                    "whet help --completions fish > ~/.config/fish/completions/whet.fish\n",
        .operands_limit = 2,
        .operand_values = VALUE_WORD,
        .operand_words = names,
    };
    int operands = 0;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    if ((wants_page && shell) || ((wants_page || shell) && operands > 0)) {
        complain("--man, --completions and a command cannot be combined");
        return STATUS_MISUSE;
    }
    if (wants_page)
        return print_man_page(stdout) ? STATUS_OK : STATUS_FAILED;
    if (shell)
        return print_completions(stdout, shell) ? STATUS_OK : STATUS_FAILED;
    if (operands > 0)
        return explain(operands, argv + 1);
    print_overview();
    return STATUS_OK;
}
