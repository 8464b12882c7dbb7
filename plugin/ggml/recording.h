/*
 * Writes the file of WHET_STATS=file.csv: one line for each recorded row of attention weights, in
 * the format of llama/record.h, ordered by evaluation, layer, batch item, head and query.
 * WHET_STATS_ROWS chooses the rows: all (the default), the last query of each batch item (last),
 * every N-th counted back from the last (N), or an interval that gives about N rows of an
 * evaluation (~N). A row without keys is not written.
 *
 * Evaluations are appended as a whole. If the disk is full or a limit on file size is reached, the
 * file is truncated to the last evaluation that fits, a message is printed and recording stops;
 * likewise when the other end of a pipe is closed. The host continues.
 */
#ifndef WHET_PLUGIN_RECORDING_H
#define WHET_PLUGIN_RECORDING_H

#include "llama/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <whet.h>

/* What an operation recorded. */
typedef struct recorded_operation {
    int layer;
    size_t batch, heads, queries;
    size_t interval; /* recorded rows: that of the last query, the one `interval` before it ... */
    const whet_stats *stats;  /* of all queries: [batch][heads][queries]; max is that of the keys
                                 only, NaN where unknown */
    const int32_t *positions; /* [batch][queries], or NULL */
    const record_detail *details; /* of the last queries: [batch][heads], or NULL */
} recorded_operation;

/* How many of a head's `queries` rows are recorded, and the query of recorded row i. */
static inline size_t recorded_count(size_t queries, size_t interval) {
    return queries == 0 ? 0 : (queries - 1) / interval + 1;
}

static inline size_t recorded_query(size_t queries, size_t interval, size_t i) {
    return queries - 1 - (recorded_count(queries, interval) - 1 - i) * interval;
}

typedef struct recording recording;

/* Replaces the file by one with only the header, with or without the columns of details. NULL:
 * writing failed, see errno. */
recording *recording_open(const char *path, bool has_details);

/* Appends one evaluation; may be called by any thread. */
void recording_write(recording *r, const recorded_operation *operations, size_t count);

/* Lines written so far. */
uint64_t recording_lines(recording *r);

/* Evaluations are in the file as soon as they are written; closing matters only to callers that
 * open several files. */
void recording_close(recording *r);

#endif
