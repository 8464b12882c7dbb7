/*
 * Agreement on errors: a call that one rank refuses is refused by all, with the same sentence, so
 * that none waits for a rank that has given up.
 */
#ifndef WHET_MPI_AGREEMENT_H
#define WHET_MPI_AGREEMENT_H

#include "communicator.h"
#include <stddef.h>
#include <stdint.h>

/* Keeps a sentence for whet_mpi_last_error and returns the status. */
__attribute__((cold, format(printf, 2, 3))) whet_status whet_mpi_refuse(whet_status status,
                                                                        const char *format, ...);

/* Keeps libwhet's sentence about a call that it has refused. */
whet_status whet_mpi_pass_on(whet_status status);

/* Returns the status of the first rank that has an error, or WHET_OK; its sentence is kept on all
 * ranks. Collective. */
whet_status whet_mpi_agree(communicator *c, whet_status status);

/* A number that must be the same on all ranks, as members of a description are. */
typedef struct shared_number {
    const char *name;
    uint64_t value; /* of a double or of several numbers: its bits, or a hash */
    int is_hash;    /* of no meaning to a reader */
} shared_number;

/* Refuses, on all ranks, numbers that are not everywhere those of rank 0. Collective. */
whet_status whet_mpi_agree_on(communicator *c, const shared_number *numbers, size_t count);

/* A hash of bytes. */
uint64_t whet_mpi_hash(const void *bytes, size_t count, uint64_t seed);

#endif
