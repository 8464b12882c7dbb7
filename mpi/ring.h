/*
 * Keys and values that travel around the ranks: at each step a rank works on one share while the
 * next one arrives. All shares have passed after as many steps as there are ranks, in the order of
 * ranks from one's own on. Shares are packed: [batch][head][position][row] of each tensor, whatever
 * their strides.
 */
#ifndef WHET_MPI_RING_H
#define WHET_MPI_RING_H

#include "communicator.h"
#include "tree.h"

/* A tensor that takes part: rows of `bytes`, or single elements of a bias. */
typedef struct ring_tensor {
    const void *data;
    ptrdiff_t stride[3]; /* batch, head, position, in bytes */
    size_t batch, heads, bytes;
} ring_tensor;

#define RING_TENSORS 4

typedef struct ring {
    communicator *c;
    size_t positions; /* of all ranks */
    whet_mpi_layout layout;
    ring_tensor tensor[RING_TENSORS];
    size_t tensors;
    size_t travelling; /* how many of them take part in this round, from the first on */
    char *buffer[2];   /* a share each: what is here, and what arrives */
    void *memory;
    transfer t;
    int source; /* whose share is here */
    int step;
} ring;

/* Memory for the largest share; false if there is none. */
bool whet_mpi_ring_init(ring *r);
void whet_mpi_ring_free(ring *r);

/* Starts a round with this rank's own share of the first `travelling` tensors. Then
 *
 *     do { ... ring->source's share ... } while (whet_mpi_ring_next(ring));
 */
void whet_mpi_ring_start(ring *r, size_t travelling);
bool whet_mpi_ring_next(ring *r);

/* The share of the rank whose tensors are here. */
whet_mpi_share whet_mpi_ring_share(const ring *r);

/* Where a position of a tensor is, of batch 0 and head 0, and its strides. */
const char *whet_mpi_ring_at(const ring *r, size_t tensor, size_t position, ptrdiff_t stride[3]);

/* Where a position is within a share: as it is stored. */
size_t whet_mpi_position_in(const whet_mpi_share *share, size_t position);

#endif
