/* The policies that a command line asks for by name. */
#ifndef WHET_CLI_POLICY_LIST_H
#define WHET_CLI_POLICY_LIST_H

#include "whet.h"

#include <stddef.h>

typedef struct policy_list {
    size_t count;
    const char *const *names; /* as they were given; the caller's */
    whet_policy *policies;
} policy_list;

/*
 * Parses names in order. Returns a status of commands.h, after a message if it
 * is not STATUS_OK; the list then holds nothing to be freed.
 */
int make_policy_list(const char *const *names, size_t count, policy_list *list);

void free_policy_list(policy_list *list);

/* Says that a name is longer than what is stored with a model; returns the exit status. */
int refuse_long_policy(size_t longest);

#endif
