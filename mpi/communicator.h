/*
 * A plan's own communicator, and what has been sent through it. Every message of the library goes
 * through here, so that messages and bytes are counted where they are sent.
 */
#ifndef WHET_MPI_COMMUNICATOR_H
#define WHET_MPI_COMMUNICATOR_H

#include "whet_mpi.h"
#include <stdbool.h>

typedef struct communicator {
    MPI_Comm comm;
    int rank, size;
    whet_mpi_counts counts;
} communicator;

/* Duplicates the caller's, so that messages of the two never meet. Collective. A failure of MPI
 * ends the job, here and later: see whet_mpi.h. */
void whet_mpi_open(MPI_Comm comm, communicator *c);
void whet_mpi_close(communicator *c);

/* Sends to one rank while receiving from another; either may be MPI_PROC_NULL. */
void whet_mpi_swap(communicator *c, const void *out, size_t out_bytes, int to, void *in,
                   size_t in_bytes, int from);

/* The same without waiting, for messages of any size, which are cut into several. */
#define TRANSFER_PARTS 8
typedef struct transfer {
    MPI_Request request[2 * TRANSFER_PARTS];
    int count;
} transfer;

#define MESSAGE_MAX ((size_t)1 << 30)

/* Whether a message of this size can be sent at all. */
static inline bool message_fits(size_t bytes) { return bytes <= TRANSFER_PARTS * MESSAGE_MAX; }

void whet_mpi_begin(communicator *c, transfer *t);
void whet_mpi_send(communicator *c, transfer *t, const void *out, size_t bytes, int to);
void whet_mpi_receive(communicator *c, transfer *t, void *in, size_t bytes, int from);
void whet_mpi_wait(transfer *t);

#endif
