/*
 * `whet retrieval`: finds the verb, and what all verbs share: the BLAS and
 * threads, lists of numbers, and errors of the laboratory as exit statuses.
 */
#include "retrieval.h"

#include "messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const subcommand verbs[] = {
    {"train", "train heads", retrieval_train_command},
    {"eval", "how right heads are among more items, policy by policy", retrieval_eval_command},
    {"fit", "the best beta against the entropy, as a policy (Figure 6)", retrieval_fit_command},
    {"heads", "coefficients of the largest items (Figures 2 and 7)", retrieval_heads_command},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static void print_verbs(void) {
    fputs("usage: whet retrieval VERB [OPTION]... [ARGUMENT]...\n"
          "\n"
          "Max retrieval: a head learns to find the item with the highest priority among\n"
          "5 to 16 and is then shown up to 1,048,576.\n"
          "\n"
          "verbs:\n",
          stdout);
    for (size_t i = 0; i < VERB_COUNT; i++)
        printf("  %-8s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\n"
          "options:\n"
          "  -h, --help         print this help; 'whet retrieval VERB --help' tells more\n"
          "  --version          print the version and the instruction set in use\n"
          "\n"
          "example:\n"
          "  whet retrieval train --steps 20000 --out run && whet retrieval eval run\n",
          stdout);
}

static int unknown_verb(const char *name) {
    nearest search = nearest_to(name, strlen(name));
    for (size_t i = 0; i < VERB_COUNT; i++)
        nearest_offer(&search, verbs[i].name, strlen(verbs[i].name));
    if (search.best)
        complain("retrieval: unknown verb '%s'; did you mean '%s'?", name, search.best);
    else
        complain("retrieval: '%s' is none of train, eval, fit and heads", name);
    fputs("Try 'whet retrieval --help'.\n", stderr);
    return STATUS_MISUSE;
}

int command_retrieval(int argc, char **argv) {
    if (argc < 2) {
        complain("retrieval: which of train, eval, fit and heads?");
        fputs("Try 'whet retrieval --help'.\n", stderr);
        return STATUS_MISUSE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_verbs();
        return STATUS_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        return STATUS_OK;
    }
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    return unknown_verb(argv[1]);
}

int report_lab_error(const char *command, const lab_error *error) {
    complain("%s: %s", command, error->text);
    switch (error->kind) {
    case LAB_INPUT:
        return STATUS_MISUSE;
    case LAB_STOPPED:
        return STATUS_STOPPED;
    case LAB_SYSTEM:
    case LAB_NO_ERROR:
        break;
    }
    return STATUS_FAILED;
}

bool open_laboratory(laboratory *lab, uint64_t threads, const char *heads_path) {
    *lab = (laboratory){.pool = NULL};
    /* Heads first: a path that leads nowhere needs no BLAS to be told. */
    if (heads_path && !retrieval_heads_load(heads_path, &lab->heads, &lab->error))
        return false;
    if (!nn_engine_open(&lab->engine, &lab->error)) {
        close_laboratory(lab);
        return false;
    }
    whet_status status = whet_pool_create((size_t)threads, &lab->pool);
    if (status != WHET_OK) {
        close_laboratory(lab);
        return lab_fail(&lab->error, LAB_SYSTEM, "threads: %s", whet_status_text(status));
    }
    lab->executor = whet_pool_executor(lab->pool);
    return true;
}

void close_laboratory(laboratory *lab) {
    whet_pool_destroy(lab->pool);
    nn_engine_close(&lab->engine);
    retrieval_heads_free(&lab->heads);
    lab->pool = NULL;
}

int need_heads_path(const char *command, int operands) {
    if (operands == 1)
        return STATUS_OK;
    complain("%s: which heads? Name a checkpoint, or a folder of 'whet retrieval train'", command);
    fprintf(stderr, "Try 'whet %s --help'.\n", command);
    return STATUS_MISUSE;
}

/* A number at *text, which moves behind it. */
static bool take_number(const char **text, uint64_t *number) {
    if (**text < '0' || **text > '9')
        return false;
    char *end;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0;
}

/* One part of a list: a number, or a range. False if it makes no sense. */
static bool take_part(const char **text, bool doubling, uint64_t least, uint64_t most,
                      number_list *list) {
    uint64_t first, last;
    if (!take_number(text, &first))
        return false;
    last = first;
    if (strncmp(*text, "..", 2) == 0) {
        *text += 2;
        if (!take_number(text, &last))
            return false;
    }
    if (first < least || last > most || first > last || (doubling && first == 0))
        return false;
    for (uint64_t value = first;; value = doubling ? 2 * value : value + 1) {
        if (list->count == LIST_MAX)
            return false;
        list->items[list->count++] = value;
        if (doubling ? value > last / 2 : value == last)
            return true;
    }
}

bool parse_number_list(const char *command, const char *option, const char *text, bool doubling,
                       uint64_t least, uint64_t most, number_list *list) {
    const char *rest = text;
    list->count = 0;
    bool is_good = take_part(&rest, doubling, least, most, list);
    while (is_good && *rest == ',') {
        rest++;
        is_good = take_part(&rest, doubling, least, most, list);
    }
    if (is_good && !*rest)
        return true;
    complain("%s: --%s: '%s' is no list of whole numbers from %llu to %llu, such as 16,32 or "
             "16..64",
             command, option, text, (unsigned long long)least, (unsigned long long)most);
    fprintf(stderr, "Try 'whet %s --help'.\n", command);
    return false;
}
