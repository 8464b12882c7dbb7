/*
 * Policies by name. The library parses a name and says what is wrong with it,
 * the nearest known name included.
 */
#include "policy_list.h"

#include "commands.h"
#include "messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int refuse_policy(const char *name, const char *reason) {
    static const char unknown[] = "unknown policy", too_long[] = "policy name too long";
    if (strchr(name, ','))
        complain("--policy '%s': policy names have no commas; repeat --policy to compare several",
                 name);
    else if (strncmp(reason, too_long, sizeof too_long - 1) == 0)
        complain("--policy: %s", reason);
    else if (strncmp(reason, unknown, sizeof unknown - 1) == 0) /* it quotes the name */
        complain("--policy: %s%s", reason,
                 strchr(reason, '?') ? "" : "; 'whet policies' lists them");
    else
        complain("--policy '%s': %s", name, reason);
    return STATUS_MISUSE;
}

int store_policy(const char *name, char *stored, size_t size) {
    policy_list list;
    int status = make_policy_list(&name, 1, &list);
    if (status != STATUS_OK)
        return status;
    free_policy_list(&list);
    if (strlen(name) >= size) {
        complain("--policy: policy name too long (%zu characters; at most %zu)", strlen(name),
                 size - 1);
        return STATUS_MISUSE;
    }
    snprintf(stored, size, "%s", name);
    return STATUS_OK;
}

int make_policy_list(const char *const *names, size_t count, policy_list *list) {
    *list = (policy_list){.count = count, .names = names};
    list->policies = calloc(count, sizeof *list->policies);
    if (!list->policies)
        return complain_of_memory();
    for (size_t i = 0; i < count; i++) {
        char reason[POLICY_REASON_SIZE] = "";
        whet_status status = whet_policy_parse(names[i], &list->policies[i], reason, sizeof reason);
        if (status == WHET_OK)
            continue;
        free_policy_list(list);
        return refuse_policy(names[i], *reason ? reason : whet_status_text(status));
    }
    return STATUS_OK;
}

void free_policy_list(policy_list *list) {
    free(list->policies);
    list->policies = NULL;
}
