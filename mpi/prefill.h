/*
 * Attention of queries that are spread over ranks like the keys. A rank keeps its queries; keys,
 * values and biases travel around (ring.h). The unit of work is a block, a piece of queries and a
 * piece of keys, which libwhet computes as attention of its own; blocks of a row are merged in the
 * order of the tree (bag.h). So a block, and with it a row, has the same bits on any rank.
 *
 * A round for statistics, in which only keys travel, gives the betas; it is left out where these
 * are known beforehand. A round for values follows. Logits are computed in both.
 */
#ifndef WHET_MPI_PREFILL_H
#define WHET_MPI_PREFILL_H

#include "attention/geometry.h"
#include "bag.h"
#include "plan.h"
#include "ring.h"
#include "row_message.h"

/* What blocks contribute to a row; the sums are those of exp(beta (e - ref)). */
typedef struct block_row {
    row_message stats;
    double ref, z, s;
    double first; /* the weight of the context's first key */
    double out[]; /* [value_dim], sums of weighted values */
} block_row;

/* A piece of queries of this rank. */
typedef struct query_piece {
    span positions;
    size_t local; /* its first among this rank's queries */
    span keys;    /* pieces of keys that any of them sees */
    bag waiting;
    size_t slots;
    char *rows; /* block_row [slots][batch][head][query] */
} query_piece;

typedef struct prefill_plan {
    whet_mpi_plan base;
    whet_attention a; /* as described, defaults filled in, strides explicit */
    piece_map queries, keys;
    whet_mpi_share share; /* of queries */
    query_piece *pieces;
    size_t piece_count;
    size_t row_bytes; /* of a block_row */
    ring r;
    bool needs_stats;  /* some beta depends on statistics */
    float *betas;      /* [batch][head][local query] */
    float *zeros;      /* values of blocks whose values do not matter */
    float *block_out;  /* results of one block */
    float *block_beta; /* its betas, */
    whet_stats *block_stats;
    whet_status failure; /* the worst that a block has returned */
    void *memory;        /* for the plan of a block */
    size_t memory_bytes;
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

/* Rows of a piece, as [batch][head][query]. */
static inline size_t piece_rows(const prefill_plan *p, const query_piece *piece) {
    return p->a.batch * p->a.heads * span_size(piece->positions);
}

static inline block_row *block_row_at(const prefill_plan *p, const query_piece *piece, size_t slot,
                                      size_t row) {
    return (block_row *)(void *)(piece->rows + (slot * piece_rows(p, piece) + row) * p->row_bytes);
}

#endif
