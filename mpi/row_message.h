/* What ranks tell each other about the logits of a row: its statistics (whet.h) as far as those of
 * pieces merge. */
#ifndef WHET_MPI_ROW_MESSAGE_H
#define WHET_MPI_ROW_MESSAGE_H

#include "row/stats.h"
#include <math.h>

typedef struct row_message {
    uint64_t n, argmax, flags, visible;
    double max, z, s, min;
    double largest; /* of the keys, NaN if there is one; with max_logits */
} row_message;

static inline whet_stats row_message_stats(const row_message *m) {
    return (whet_stats){.n = m->n,
                        .max = m->max,
                        .z = m->z,
                        .s = m->s,
                        .min = m->min,
                        .argmax = m->argmax,
                        .flags = (uint32_t)m->flags};
}

static inline void row_message_set(row_message *m, const whet_stats *stats) {
    m->n = stats->n;
    m->argmax = stats->argmax;
    m->flags = stats->flags;
    m->max = stats->max;
    m->z = stats->z;
    m->s = stats->s;
    m->min = stats->min;
}

/* Adds the keys of b, which follow those of a. */
static inline void row_message_add(row_message *a, const row_message *b) {
    whet_stats left = row_message_stats(a), right = row_message_stats(b);
    whet_stats both = whet_stats_add(&left, &right);
    if (both.n == 0 && !(both.flags & WHET_ROW_NOT_FINITE))
        both.flags |= WHET_ROW_EMPTY;
    row_message_set(a, &both);
    a->visible += b->visible;
    a->largest = isnan(a->largest) || a->largest > b->largest ? a->largest : b->largest;
}

#endif
