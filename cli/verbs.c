/* Finds a verb in its table, as main() finds a command. */
#include "verbs.h"

#include "help.h"
#include "messages.h"

#include <stdio.h>
#include <string.h>

enum { VERBS_MAX = 16 };

static void print_verbs(const verb_table *table) {
    printf("usage: whet %s SUBCOMMAND [OPTION]... [ARGUMENT]...\n\n%s\nsubcommands:\n",
           table->command, table->about);
    for (size_t i = 0; i < table->count; i++)
        printf("  %-8s %s\n", table->verbs[i].name, table->verbs[i].summary);
    printf("\noptions of every command:\n");
    print_common_options();
    printf("\n'whet %s SUBCOMMAND --help' explains one of them.\n\nexamples:\n  %s\n",
           table->command, table->example);
}

/* "train, eval or fit" */
static const char *verb_names(const verb_table *table, char text[WORDS_SIZE_MAX]) {
    const char *names[VERBS_MAX + 1] = {NULL};
    for (size_t i = 0; i < table->count && i < VERBS_MAX; i++)
        names[i] = table->verbs[i].name;
    return join_words(names, text);
}

static int unknown_verb(const verb_table *table, const char *name) {
    char names[WORDS_SIZE_MAX];
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; i < table->count; i++)
        nearest_offer(&search, table->verbs[i].name);
    if (search.found)
        complain("unknown subcommand '%s'; did you mean '%s'?", name, search.found);
    else
        complain("unknown subcommand '%s' (%s)", name, verb_names(table, names));
    return STATUS_MISUSE;
}

static int visit_verbs(const verb_table *table) {
    for (size_t i = 0; i < table->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s", table->verbs[i].name);
        char *argv[] = {name, NULL};
        table->verbs[i].run(1, argv);
    }
    return STATUS_OK;
}

int run_verb(const verb_table *table, int argc, char **argv) {
    char names[WORDS_SIZE_MAX];
    int at = 1;
    options_result result = OPTIONS_GIVEN;
    if (is_visiting_syntaxes())
        return visit_verbs(table);
    while (at < argc && take_preference(argc, argv, &at, &result)) {
        if (result != OPTIONS_GIVEN)
            return options_status(result);
        at++;
    }
    if (at >= argc) {
        complain("missing subcommand (%s)", verb_names(table, names));
        return STATUS_MISUSE;
    }
    if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
        print_verbs(table);
        return STATUS_OK;
    }
    if (strcmp(argv[at], "--version") == 0 || strcmp(argv[at], "-V") == 0) {
        print_version();
        return STATUS_OK;
    }
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(argv[at], table->verbs[i].name) == 0)
            return table->verbs[i].run(argc - at, argv + at);
    return unknown_verb(table, argv[at]);
}
