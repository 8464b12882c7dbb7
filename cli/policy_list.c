/*
 * Policies by name. The library parses a name and says what is wrong with it,
 * the nearest known name included.
 */
#include "policy_list.h"

#include "commands.h"
#include "messages.h"

#include <stdio.h>
#include <stdlib.h>

static int refuse(const char *command, const char *name, const char *reason) {
    complain("%s: --policy '%s': %s", command, name, reason);
    fputs("'whet policies' lists them all.\n", stderr);
    return STATUS_MISUSE;
}

int make_policy_list(const char *command, const char *const *names, size_t count,
                     policy_list *list) {
    *list = (policy_list){.count = count, .names = names};
    list->policies = calloc(count, sizeof *list->policies);
    if (!list->policies)
        return complain_of_memory();
    for (size_t i = 0; i < count; i++) {
        char reason[160] = "";
        whet_status status = whet_policy_parse(names[i], &list->policies[i], reason, sizeof reason);
        if (status == WHET_OK)
            continue;
        free_policy_list(list);
        return refuse(command, names[i], *reason ? reason : whet_status_text(status));
    }
    return STATUS_OK;
}

void free_policy_list(policy_list *list) {
    free(list->policies);
    list->policies = NULL;
}
