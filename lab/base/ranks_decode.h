/*
 * Attention over a context that ranks share (whet_mpi.h), as the module of an MPI offers it to the
 * program: for `whet bench --only mpi`.
 */
#ifndef WHET_LAB_RANKS_DECODE_H
#define WHET_LAB_RANKS_DECODE_H

#include "base/ranks.h"
#include "whet.h"

typedef struct lab_ranks_counts {
    uint64_t reductions, messages, bytes;
} lab_ranks_counts;

typedef struct lab_ranks_decode {
    /* The positions of this rank. */
    void (*local_size)(size_t keys, size_t *start, size_t *count);
    /* As whet_mpi_decode_plan, whet_mpi_execute, whet_mpi_counts_of and whet_mpi_destroy do. */
    whet_status (*plan)(const whet_attention *attention, const whet_executor *executor,
                        void **plan);
    whet_status (*execute)(void *plan);
    lab_ranks_counts (*counts)(const void *plan);
    void (*destroy)(void *plan);
    /* The first rank tells all others a number; each waits for it without keeping a processor
     * busy, so that the first can measure something else meanwhile. */
    void (*tell)(int number);
    int (*wait)(void);
} lab_ranks_decode;

#endif
