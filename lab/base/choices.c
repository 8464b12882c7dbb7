/* Limits and names. */
#include "base/choices.h"

#include <string.h>

bool lab_in_range(const char *option, double value, double least, double most, lab_error *error) {
    if (value >= least && value <= most)
        return true;
    return lab_fail(error, LAB_INPUT, "--%s: %g is not from %g to %g", option, value, least, most);
}

bool lab_find_name(const char *const *names, size_t count, const char *name, size_t *found) {
    for (*found = 0; *found < count; ++*found)
        if (strcmp(names[*found], name) == 0)
            return true;
    return false;
}
