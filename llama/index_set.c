/*
 * Lists of ranges; see index_set.h.
 */
#include "llama/index_set.h"
#include "base/number_range.h"
#include <stdlib.h>

bool index_set_parse(const char *text, index_set *set, message *why) {
    size_t most = 1;
    for (const char *p = text; *p; p++)
        most += *p == ',';
    struct index_range *ranges = calloc(most, sizeof *ranges);
    if (!ranges)
        return message_set(why, "out of memory");
    size_t count = 0;
    const char *p = text;
    number_range range = {0, 0};
    bool good;
    do {
        good = take_number_range(&p, "-", INDEX_MAX, &range);
        ranges[count++] =
            (struct index_range){.first = (unsigned)range.first, .last = (unsigned)range.last};
    } while (good && *p);
    if (!good) {
        free(ranges);
        return message_set(why, "not a list such as 0-3,7 (numbers up to %d)", INDEX_MAX);
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

unsigned index_set_largest(const index_set *set) {
    unsigned largest = 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->ranges[i].last > largest)
            largest = set->ranges[i].last;
    return largest;
}
