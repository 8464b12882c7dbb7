/*
 * Attention of queries that are spread over ranks like the keys (spread.h).
 *
 * A round for statistics, in which only keys travel, gives the betas; it is left out where these
 * are known beforehand. A round for values follows. Logits are computed in both.
 */
#ifndef WHET_MPI_PREFILL_H
#define WHET_MPI_PREFILL_H

#include "row_message.h"
#include "spread.h"

/* What blocks contribute to a row; the sums are those of exp(beta (e - ref)). */
typedef struct block_row {
    row_message stats;
    double ref, z, s;
    double first; /* the weight of the context's first key */
    double out[]; /* [value_dim], sums of weighted values */
} block_row;

typedef struct prefill_plan {
    spread s;
    size_t row_bytes;  /* of a block_row */
    bool needs_stats;  /* some beta depends on statistics */
    float *betas;      /* [batch][head][local query] */
    float *zeros;      /* values of blocks whose values do not matter */
    float *block_out;  /* results of one block */
    float *block_beta; /* its betas, */
    whet_stats *block_stats;
} prefill_plan;

/* What is done to all rows of a piece, as tasks of the executor. */
typedef void (*row_function)(prefill_plan *p, const query_piece *piece, size_t row,
                             const void *context);

typedef struct row_work {
    prefill_plan *p;
    const query_piece *piece;
    row_function function;
    const void *context;
} row_work;

static inline block_row *block_row_at(const prefill_plan *p, const query_piece *piece, size_t slot,
                                      size_t row) {
    return (block_row *)(void *)((char *)slot_at(piece, slot) + row * p->row_bytes);
}

#endif
