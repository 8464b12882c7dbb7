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

/* Says why whet_policy_parse refused a name; returns the status for wrong use. A reason quotes at
 * most a name of 512 characters and the syntax of a policy. */
enum { POLICY_REASON_SIZE = 1024 };
int refuse_policy(const char *name, const char *reason);

/* Copies the name of a policy that is stored with a model into `size` bytes. A status, after a
 * message if there is no such policy or its name is too long. */
int store_policy(const char *name, char *stored, size_t size);

#endif
