/* Limits and names. */
#include "base/choices.h"

#include "base/grouped.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A limit in full: "1,000,000,000" and not 1e+09. */
static const char *limit_text(double value, char text[NUMBER_SIZE]) {
    if (value >= 0 && value < 1e18 && value == floor(value))
        return grouped((uint64_t)value, text);
    if (value < 0 && value > -1e18 && value == floor(value)) {
        char digits[NUMBER_SIZE];
        snprintf(text, NUMBER_SIZE, "-%.30s", grouped((uint64_t)-value, digits));
    } else {
        snprintf(text, NUMBER_SIZE, "%.15g", value);
        if (strchr(text, 'e') && fabs(value) >= 1e-9 && fabs(value) < 1) /* 1e-07: in full */
            snprintf(text, NUMBER_SIZE, "%.*f", 9, value);
        if (strchr(text, '.') && !strchr(text, 'e'))
            for (size_t end = strlen(text); text[end - 1] == '0';)
                text[--end] = '\0';
    }
    return text;
}

bool lab_in_range(const char *option, double value, double least, double most, lab_error *error) {
    if (value >= least && value <= most)
        return true;
    char texts[3][NUMBER_SIZE];
    return lab_fail(error, LAB_INPUT, "--%s: %s is out of range (%s to %s)", option,
                    limit_text(value, texts[0]), limit_text(least, texts[1]),
                    limit_text(most, texts[2]));
}

bool lab_find_name(const char *const *names, const char *name, size_t *found) {
    for (*found = 0; names[*found]; ++*found)
        if (strcmp(names[*found], name) == 0)
            return true;
    return false;
}
