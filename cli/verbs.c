/* Finds a verb in its table, as main() finds a command. */
#include "verbs.h"

#include "messages.h"
#include "options.h"

#include <stdio.h>
#include <string.h>

static void print_verbs(const verb_table *table) {
    printf("usage: whet %s VERB [OPTION]... [ARGUMENT]...\n\n%s\nverbs:\n", table->command,
           table->about);
    for (size_t i = 0; i < table->count; i++)
        printf("  %-8s %s\n", table->verbs[i].name, table->verbs[i].summary);
    printf("\noptions:\n"
           "  -h, --help         print this help; 'whet %s VERB --help' tells more\n"
           "  --version          print the version and the instruction set in use\n"
           "\nexample:\n  %s\n",
           table->command, table->example);
}

static int unknown_verb(const verb_table *table, const char *name) {
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; i < table->count; i++)
        nearest_offer(&search, table->verbs[i].name);
    if (search.found)
        complain("%s: unknown verb '%s'; did you mean '%s'?", table->command, name, search.found);
    else
        complain("%s: '%s' is none of %s", table->command, name, table->list);
    return point_to_help(table->command);
}

int run_verb(const verb_table *table, int argc, char **argv) {
    name_command(table->command);
    if (argc < 2) {
        complain("%s: which of %s?", table->command, table->list);
        return point_to_help(table->command);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_verbs(table);
        return STATUS_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        return STATUS_OK;
    }
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(argv[1], table->verbs[i].name) == 0)
            return table->verbs[i].run(argc - 1, argv + 1);
    return unknown_verb(table, argv[1]);
}
