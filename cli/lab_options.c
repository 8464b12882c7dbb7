/* Errors of the laboratory as exit statuses, and lists of numbers such as 4,5 or 16..64. */
#include "lab_options.h"

#include "commands.h"
#include "messages.h"

#include "base/number_range.h"

#include <stdio.h>

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
    return point_to_help(command);
}

/* Adds the numbers of a range. False if it makes no sense, or there is no room. */
static bool add_range(number_range range, bool doubling, uint64_t least, number_list *list) {
    if (range.first < least || (doubling && range.first == 0))
        return false;
    for (uint64_t value = range.first;; value = doubling ? 2 * value : value + 1) {
        if (list->count == LIST_MAX)
            return false;
        list->items[list->count++] = value;
        if (doubling ? value > range.last / 2 : value == range.last)
            return true;
    }
}

bool parse_number_list(const char *command, const char *option, const char *text, bool doubling,
                       uint64_t least, uint64_t most, number_list *list) {
    const char *rest = text;
    number_range range;
    bool is_good;
    list->count = 0;
    do
        is_good =
            take_number_range(&rest, "..", most, &range) && add_range(range, doubling, least, list);
    while (is_good && *rest);
    if (is_good)
        return true;
    complain("%s: --%s: '%s' is no list of whole numbers from %llu to %llu, such as 16,32 or "
             "16..64",
             command, option, text, (unsigned long long)least, (unsigned long long)most);
    point_to_help(command);
    return false;
}
