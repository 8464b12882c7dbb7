/*
 * Lists of ranges; see index_set.h.
 */
#include "index_set.h"
#include <ctype.h>
#include <stdlib.h>

bool index_parse(const char **text, unsigned *index) {
    const char *p = *text;
    unsigned value = 0;
    if (!isdigit((unsigned char)*p))
        return false;
    for (; isdigit((unsigned char)*p); p++) {
        value = 10 * value + (unsigned)(*p - '0');
        if (value > INDEX_MAX)
            return false;
    }
    *text = p;
    *index = value;
    return true;
}

static bool parse_range(const char **text, struct index_range *range) {
    if (!index_parse(text, &range->first))
        return false;
    range->last = range->first;
    if (**text == '-') {
        ++*text;
        if (!index_parse(text, &range->last))
            return false;
    }
    return range->first <= range->last;
}

bool index_set_parse(const char *text, index_set *set, message *why) {
    size_t most = 1;
    for (const char *p = text; *p; p++)
        most += *p == ',';
    struct index_range *ranges = calloc(most, sizeof *ranges);
    if (!ranges)
        return message_set(why, "out of memory");
    size_t count = 0;
    const char *p = text;
    bool good = parse_range(&p, &ranges[count++]);
    while (good && *p == ',' && count < most) {
        p++;
        good = parse_range(&p, &ranges[count++]);
    }
    if (!good || *p) {
        free(ranges);
        return message_set(why, "not a list such as 0-3,7 of numbers up to %d", INDEX_MAX);
    }
    *set = (index_set){.count = count, .ranges = ranges};
    return true;
}

bool index_set_has(const index_set *set, unsigned index) {
    if (set->count == 0)
        return true;
    for (size_t i = 0; i < set->count; i++)
        if (index >= set->ranges[i].first && index <= set->ranges[i].last)
            return true;
    return false;
}
