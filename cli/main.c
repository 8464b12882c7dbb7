/*
 * The program `whet`: finds the subcommand in a table, runs it, and makes sure
 * that what it printed has really been written. Everything else is in the
 * subcommand's own file.
 */
#define _POSIX_C_SOURCE 200809L

#include "commands.h"
#include "messages.h"
#include "options.h"
#include "whet.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int command_help(int argc, char **argv);

static const subcommand commands[] = {
    {"softmax", "probabilities or statistics of rows of numbers", command_softmax},
    {"policies", "list the policies", command_policies},
    {"demo", "watch a head disperse, and what each policy makes of it", command_demo},
    {"reproduce", "the paper's table and figures, as a report", command_reproduce},
    {"figure", "one figure of the report", command_figure},
    {"retrieval", "train heads on max retrieval and see how they scale", command_retrieval},
    {"theory", "the paper's statements, both sides computed", command_theory},
    {"probe", "what a language model's heads do as its input grows", command_probe},
    {"audit", "what a language model's weights allow its heads to do", command_audit},
    {"clrs", "textbook algorithms as questions and answers", command_clrs},
    {"lm", "train, evaluate and use small language models", command_lm},
    {"bench", "measure speed against the limits of the machine", command_bench},
    {"help", "explain a command", command_help},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_overview(void) {
    fputs("whet - softmax and attention that stay sharp as their input grows\n"
          "\n"
          "usage: whet COMMAND [OPTION]... [ARGUMENT]...\n"
          "       whet --help | --version\n"
          "\n"
          "commands:\n",
          stdout);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "'whet help COMMAND' or 'whet COMMAND --help' tells more. Try:\n"
          "  echo 1 2 3 4 | whet softmax --policy adaptive --stats\n",
          stdout);
}

static const subcommand *find_command(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *name) {
    const char *kind = name[0] == '-' ? "option" : "command";
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        nearest_offer(&search, commands[i].name);
    nearest_offer(&search, "--help");
    nearest_offer(&search, "--version");
    if (search.found)
        complain("unknown %s '%s'; did you mean '%s'?", kind, name, search.found);
    else
        complain("unknown %s '%s'", kind, name);
    fputs("Try 'whet --help'.\n", stderr);
    return STATUS_MISUSE;
}

/* Whether a command's first argument is a verb. */
static bool has_verbs(const subcommand *command) {
    return command->run == command_retrieval || command->run == command_clrs ||
           command->run == command_lm;
}

/* Also answers `whet --help` and `whet -h`. */
static int command_help(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_overview();
        return STATUS_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        return STATUS_OK;
    }
    const subcommand *found = find_command(argv[1]);
    if (!found)
        return unknown_command(argv[1]);
    int words = has_verbs(found) && argc > 2 ? 2 : 1; /* of the command */
    if (argc > 1 + words) {
        complain("help: unexpected argument '%s'", argv[1 + words]);
        return STATUS_MISUSE;
    }
    char help_option[] = "--help";
    char *arguments[] = {argv[1], words > 1 ? argv[2] : help_option, help_option, NULL};
    return found->run(words + 1, arguments);
}

static int run_command(int argc, char **argv) {
    if (argc < 1)
        return STATUS_MISUSE;
    if (argc == 1)
        return command_help(1, argv);
    if (whet_isa_check() != WHET_OK) {
        complain("%s", whet_last_error());
        return STATUS_MISUSE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0) {
        print_version();
        return STATUS_OK;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return command_help(argc - 1, argv + 1);
    const subcommand *found = find_command(name);
    if (!found)
        return unknown_command(name);
    name_command(found->name);
    return found->run(argc - 1, argv + 1);
}

/*
 * A program started with standard output closed would get that number for the
 * next file it opens and print into it. Holding the place with a descriptor of
 * the wrong direction turns this into an honest error.
 */
static bool hold_standard_descriptors(void) {
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF)
            continue;
        if (open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor)
            return false;
    }
    return true;
}

/* Writes what is still buffered; errno is that of the write which failed. */
static int finish_output(int status) {
    bool had_failed = ferror(stdout) != 0;
    int reason = errno;
    if (fclose(stdout) == 0 && !had_failed)
        return status;
    complain("cannot write to standard output: %s", strerror(had_failed ? reason : errno));
    return status == STATUS_OK ? STATUS_FAILED : status;
}

int main(int argc, char **argv) {
    if (!hold_standard_descriptors())
        return STATUS_FAILED;
    /* Characters follow the user's locale; numbers keep the decimal point of C. */
    setlocale(LC_CTYPE, "");
    return finish_output(run_command(argc, argv));
}
