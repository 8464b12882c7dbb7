/* What the commands of the laboratory share: lists of numbers, and errors as exit statuses. */
#ifndef WHET_CLI_LAB_OPTIONS_H
#define WHET_CLI_LAB_OPTIONS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints an error of the laboratory and returns the exit status for it. */
int report_lab_error(const char *command, const lab_error *error);

/* Says that an option's value is not what is wanted ("one of f32 and bf16"); returns the status. */
int refuse_value(const char *command, const char *option, const char *value, const char *wanted);

/* What does not fit becomes what no check lets pass. */
static inline uint32_t clamp_small(uint64_t value) {
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

enum { LIST_MAX = 1024 };

typedef struct number_list {
    uint64_t items[LIST_MAX];
    size_t count;
} number_list;

/* "16", "1,2,5", "1..10" (all between) or, where `doubling`, "16..256" (16, 32 ... 256). False
 * after a message. */
bool parse_number_list(const char *command, const char *option, const char *text, bool doubling,
                       uint64_t least, uint64_t most, number_list *list);

/* Numbers of a list as sizes. */
static inline void copy_sizes(const number_list *list, size_t sizes[LIST_MAX]) {
    for (size_t i = 0; i < list->count; i++)
        sizes[i] = (size_t)list->items[i];
}

#endif
