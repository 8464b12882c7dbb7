/*
 * Gradients of keys and values on their way back. While keys travel (ring.h), each rank adds up,
 * for every piece of keys that is with it, what its own queries contribute, and sends the sums to
 * the rank whose keys they are, while it works on the next share. Pieces of queries are merged in
 * the order of their tree: a rank sends the largest nodes inside its own pieces (bag.h), of which
 * there is one where both numbers of ranks and pieces are powers of two, and the owner merges the
 * rest. Both sides know which nodes those are.
 */
#ifndef WHET_MPI_RETURNS_H
#define WHET_MPI_RETURNS_H

#include "spread.h"

/* A piece of this rank's keys. */
typedef struct key_sums {
    size_t index;
    bag waiting;
    size_t slots;
    float *contents; /* [slots][floats of the piece] */
} key_sums;

typedef struct returns {
    spread *s;
    size_t floats; /* to a position */
    span *queries; /* [key piece]: the pieces of queries that see it */
    key_sums *own; /* [own_count] */
    size_t own_count;
    bag local; /* of the piece of keys that is being worked on */
    size_t key_piece, local_slots;
    float *local_contents;
    float *sent[2], *received;
    size_t filled; /* floats of sent[0] */
    transfer t;
    int step, arriving; /* the step whose sums are arriving, 0 for none */
} returns;

/* Memory for it all, with `floats` to a position; false if there is none. */
bool whet_mpi_returns_init(returns *r, spread *s, size_t floats);
void whet_mpi_returns_free(returns *r);

/* Beside a round of the ring:
 *
 *     whet_mpi_returns_start(r);
 *     for each share that comes by
 *         for each piece of its keys
 *             whet_mpi_returns_open(r, key_piece);
 *             for each piece of queries that sees it: ... whet_mpi_returns_add(r, piece, sums) ...
 *             whet_mpi_returns_close(r);
 *         whet_mpi_returns_pass(r);
 *     whet_mpi_returns_finish(r);
 */
void whet_mpi_returns_start(returns *r);
void whet_mpi_returns_open(returns *r, size_t key_piece);
float *whet_mpi_returns_slot(returns *r, size_t *slot);
void whet_mpi_returns_add(returns *r, size_t piece, size_t slot);
void whet_mpi_returns_close(returns *r);
void whet_mpi_returns_pass(returns *r);
void whet_mpi_returns_finish(returns *r);

/* What has come together for a piece of this rank's keys, NULL if no query sees it. */
const float *whet_mpi_returns_of(const returns *r, size_t i);

#endif
