/*
 * One element of a list of whole numbers: a number, or a range of them. The options of
 * the program (16..64,100) and of the plug-in (0-3,7) are read by it, so it needs libc
 * alone.
 */
#ifndef WHET_NUMBER_RANGE_H
#define WHET_NUMBER_RANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct number_range {
    uint64_t first, last;
} number_range;

/* Digits at *text, which moves behind them. False for none, or for a number beyond `most`. */
static inline bool take_whole_number(const char **text, uint64_t most, uint64_t *number) {
    const char *at = *text;
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (digit > most || value > (most - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    bool is_number = at != *text;
    *text = at;
    *number = value;
    return is_number;
}

/*
 * A number, or two with the separator between them and the first not the larger,
 * at *text, which moves behind it. The end of the text or a comma must follow;
 * the comma, after which another element must begin, is passed over. So a whole
 * list is read by
 *
 *     do is_list = take_number_range(&at, "-", most, &range); while (is_list && *at);
 */
static inline bool take_number_range(const char **text, const char *separator, uint64_t most,
                                     number_range *range) {
    if (!take_whole_number(text, most, &range->first))
        return false;
    range->last = range->first;
    size_t length = strlen(separator);
    if (strncmp(*text, separator, length) == 0) {
        *text += length;
        if (!take_whole_number(text, most, &range->last))
            return false;
    }
    if (range->first > range->last)
        return false;
    if (**text == ',')
        return *++*text != '\0';
    return **text == '\0';
}

#endif
