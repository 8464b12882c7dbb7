/* Lists that are made when they are first asked for. */
#include "registry_words.h"

#include "policies.h"

#include "clrs/clrs.h"
#include "report/parts.h"
#include "tasks/tasks.h"

#include <stddef.h>
#include <string.h>

enum { POLICIES_MAX = 64, PARTS_MAX = 64, TASKS_MAX = 64 };

const char *const isa_words[] = {
#define WHET_SET(name, target, flags, condition) #name,
#include "isa/sets.def"
    NULL};

const char *const *policy_words(void) {
    static const char *words[POLICIES_MAX + 1];
    const whet_policy_info *info;
    for (size_t i = 0; i < POLICIES_MAX && (info = policy_entry(i)) != NULL; i++)
        words[i] = info->example;
    return words;
}

const char *const *algorithm_words(void) {
    static const char *words[CLRS_ALGORITHM_COUNT + 1];
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        words[i] = clrs_algorithm_at(i)->name;
    return words;
}

const char *const *task_words(void) {
    static const char *words[TASKS_MAX + 1];
    for (size_t i = 0; i < TASKS_MAX && task_at(i); i++)
        words[i] = task_at(i)->name;
    return words;
}

const char *const *part_words(void) {
    static const char *words[PARTS_MAX + 1];
    const report_part *part;
    for (size_t i = 0; i < PARTS_MAX && (part = report_part_at(i)) != NULL; i++)
        words[i] = part->name;
    return words;
}

const char *const *figure_words(void) {
    static const char prefix[] = "figure";
    static const char *words[PARTS_MAX + 1];
    const report_part *part;
    size_t count = 0;
    for (size_t i = 0; i < PARTS_MAX && (part = report_part_at(i)) != NULL; i++)
        if (part->draw)
            words[count++] = strncmp(part->name, prefix, sizeof prefix - 1) == 0
                                 ? part->name + sizeof prefix - 1
                                 : part->name;
    return words;
}
