/* A plan's own communicator: see communicator.h. */
#include "communicator.h"
#include <stdio.h>
#include <stdlib.h>

/* Called by MPI where it notices that something has failed, such as another rank. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is MPI's */
static void end_job(MPI_Comm *comm, int *code, ...) {
    char text[MPI_MAX_ERROR_STRING + 1] = "unknown error";
    int length = 0, rank = -1;
    MPI_Error_string(*code, text, &length);
    MPI_Comm_rank(*comm, &rank);
    fprintf(stderr, "whet-mpi: rank %d: MPI failed, ending the job: %s\n", rank, text);
    MPI_Abort(*comm, EXIT_FAILURE);
}

void whet_mpi_open(MPI_Comm comm, communicator *c) {
    MPI_Errhandler handler;
    *c = (communicator){.comm = MPI_COMM_NULL};
    MPI_Comm_dup(comm, &c->comm);
    MPI_Comm_create_errhandler(end_job, &handler);
    MPI_Comm_set_errhandler(c->comm, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_rank(c->comm, &c->rank);
    MPI_Comm_size(c->comm, &c->size);
}

void whet_mpi_close(communicator *c) {
    if (c->comm != MPI_COMM_NULL)
        MPI_Comm_free(&c->comm);
}

void whet_mpi_begin(communicator *c, transfer *t) {
    t->count = 0;
    c->counts.rounds++;
}

void whet_mpi_send(communicator *c, transfer *t, const void *out, size_t bytes, int to) {
    if (to == MPI_PROC_NULL)
        return;
    for (size_t sent = 0; sent == 0 || sent < bytes; sent += MESSAGE_MAX) {
        size_t part = bytes - sent < MESSAGE_MAX ? bytes - sent : MESSAGE_MAX;
        MPI_Isend((const char *)out + sent, (int)part, MPI_BYTE, to, 0, c->comm,
                  &t->request[t->count++]);
        c->counts.messages++;
        c->counts.bytes += part;
    }
}

void whet_mpi_receive(communicator *c, transfer *t, void *in, size_t bytes, int from) {
    if (from == MPI_PROC_NULL)
        return;
    for (size_t received = 0; received == 0 || received < bytes; received += MESSAGE_MAX) {
        size_t part = bytes - received < MESSAGE_MAX ? bytes - received : MESSAGE_MAX;
        MPI_Irecv((char *)in + received, (int)part, MPI_BYTE, from, 0, c->comm,
                  &t->request[t->count++]);
    }
}

void whet_mpi_wait(transfer *t) {
    MPI_Status statuses[2 * TRANSFER_PARTS];
    MPI_Waitall(t->count, t->request, statuses);
    t->count = 0;
}

void whet_mpi_swap(communicator *c, const void *out, size_t out_bytes, int to, void *in,
                   size_t in_bytes, int from) {
    transfer t;
    whet_mpi_begin(c, &t);
    whet_mpi_receive(c, &t, in, in_bytes, from);
    whet_mpi_send(c, &t, out, out_bytes, to);
    whet_mpi_wait(&t);
}
