/* An operation to be recorded whose rows are all equal. */
#ifndef WHET_TESTS_PLUGIN_ALIKE_H
#define WHET_TESTS_PLUGIN_ALIKE_H

#include "recording.h"

enum { ALIKE_MAX = 1000 };

/* Rows of one head, up to ALIKE_MAX. The array is shared by all callers. */
static inline recorded_operation alike_rows(size_t queries) {
    static whet_stats stats[ALIKE_MAX];
    for (size_t i = 0; i < queries; i++)
        stats[i] = (whet_stats){.n = 5, .entropy = 1.2345678};
    return (recorded_operation){
        .batch = 1, .heads = 1, .queries = queries, .interval = 1, .stats = stats};
}

#endif
