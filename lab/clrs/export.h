/*
 * The data sets of the reference's script: FOLDER/<split>/<algorithm>.json, one
 * file for each algorithm, byte for byte the same.
 */
#ifndef WHET_LAB_CLRS_EXPORT_H
#define WHET_LAB_CLRS_EXPORT_H

#include "base/error.h"
#include "clrs/clrs.h"

#include <stdio.h>

typedef struct clrs_export {
    clrs_split split;
    const char *folder;
    const clrs_algorithm *algorithms[CLRS_ALGORITHM_COUNT];
    size_t algorithm_count;
    const int64_t *lengths; /* for all of them, or NULL: the split's own */
    size_t length_count;
    const int64_t *seeds; /* or NULL: the split's own */
    size_t seed_count;
    uint64_t count; /* samples for each length and seed; 0: the split's own */
    int64_t decimals;
    bool hints;
    clrs_ties ties;
    bool quiet; /* show no progress */
} clrs_export;

/* "train" or "val" */
const char *clrs_split_name(clrs_split split);

/*
 * Writes everything into a folder that is new or empty but for an export of the
 * other split, or that contains what an earlier call with the same options left
 * when it was stopped: complete files are kept. Files are written atomically.
 * If everything is there already, byte for byte, nothing is written and
 * *was_complete is set.
 */
bool clrs_export_write(const clrs_export *wanted, bool *was_complete, lab_error *error);

#endif
