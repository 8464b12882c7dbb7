/* Numbers with groups of three digits. */
#include "base/grouped.h"

#include <stdio.h>

const char *grouped(uint64_t number, char text[NUMBER_SIZE]) {
    char digits[NUMBER_SIZE];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    char *to = text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}
