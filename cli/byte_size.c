/* Sizes with a suffix. */
#include "byte_size.h"

#include "messages.h"

#include <stdint.h>
#include <string.h>

bool parse_byte_size(const char *text, size_t *bytes) {
    const char *at = text;
    size_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        size_t digit = (size_t)(*at - '0');
        if (value > (SIZE_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    static const char suffixes[] = "KMG";
    const char *suffix = *at ? strchr(suffixes, *at) : NULL;
    unsigned shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    if (suffix)
        at++;
    if (value == 0 || *at || value > SIZE_MAX >> shift)
        return false;
    *bytes = value << shift;
    return true;
}

bool choose_line_limit(const char *text, size_t *limit) {
    if (!text || parse_byte_size(text, limit))
        return true;
    complain("--max-line: '%s' is not a size such as 4096, 64K, 64M or 2G", text);
    return false;
}
