/* Errors of the laboratory as exit statuses, and lists of numbers such as 4,5 or 16..64. */
#include "lab_options.h"

#include "commands.h"
#include "messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int refuse_value(const char *command, const char *option, const char *value, const char *wanted) {
    complain("%s: --%s: '%s' is not %s", command, option, value, wanted);
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
