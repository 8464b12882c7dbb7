/*
 * What WHET_STATS=file.csv writes: one line for each recorded row of attention weights, in the
 * format of llama/record.h. Lines of an evaluation come by layer, then by
 * batch item, head and query. WHET_STATS_ROWS chooses the rows: all of them (all, the default), the
 * last query of each batch item (last), every N-th (a number), counted back from the last, or every
 * so many that about N of an evaluation's are recorded (~N). A row without keys is not written.
 *
 * Whole evaluations are appended: where the disk is full, or a limit on files is reached, the file
 * is cut back to the last that fits, a message says so, and recording ends; so it does when nobody
 * reads the other end of a pipe. The host goes on.
 */
#ifndef WHET_PLUGIN_RECORDING_H
#define WHET_PLUGIN_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <whet.h>

/* What an operation left to be written. */
typedef struct recorded_operation {
    int layer;
    size_t batch, heads, queries;
    size_t interval; /* rows recorded: those of the last query, the one `interval` before it ... */
    const whet_stats *stats;  /* of all queries: [batch][heads][queries]; max is that of the keys
                                 alone, NaN where it is not known */
    const int32_t *positions; /* [batch][queries], or NULL */
} recorded_operation;

/* How many of a head's `queries` rows are recorded, and which query recorded row i is. */
static inline size_t recorded_count(size_t queries, size_t interval) {
    return queries == 0 ? 0 : (queries - 1) / interval + 1;
}

static inline size_t recorded_query(size_t queries, size_t interval, size_t i) {
    return queries - 1 - (recorded_count(queries, interval) - 1 - i) * interval;
}

typedef struct recording recording;

/* Replaces the file by one with the header alone. NULL: it could not be written, errno says why. */
recording *recording_open(const char *path);

/* Appends one evaluation; any thread. */
void recording_write(recording *r, const recorded_operation *operations, size_t count);

/* Lines written so far. */
uint64_t recording_lines(recording *r);

/* Every evaluation is in the file once it is written: closing is for those who open several. */
void recording_close(recording *r);

#endif
