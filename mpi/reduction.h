/*
 * The library's own reduction: rows of a fixed number of bytes, one set of rows from each piece,
 * merged in the order of the tree (tree.h), with the result on every rank. MPI_Allreduce promises
 * no order, so it could not give the same bits for any number of ranks.
 *
 * Ranks exchange forests by recursive doubling. Where their number is no power of two, the first
 * ranks go in pairs, of which one takes part for both and passes the result on.
 */
#ifndef WHET_MPI_REDUCTION_H
#define WHET_MPI_REDUCTION_H

#include "communicator.h"
#include "tree.h"

typedef struct reduction {
    communicator *c;
    const piece_map *map;
    span mine; /* pieces */
    const whet_executor *executor;
    char *slots[3]; /* what this rank has, what it will have, what arrives */
    void *memory;
} reduction;

/* What is merged. `leaf` writes what a piece of this rank contributes to a row; `merge` adds the
 * right one of two siblings to the left one. Both are called on any thread. */
typedef struct reduced {
    void *context;
    size_t rows, row_bytes;
    void (*leaf)(void *context, size_t piece, size_t row, void *result);
    void (*merge)(void *context, tree_node left, size_t row, void *into, const void *from);
} reduced;

/* Memory for rows of up to `bytes` in all; false if there is none. */
bool whet_mpi_reduction_init(reduction *r, size_t bytes);
void whet_mpi_reduction_free(reduction *r);

/* Reduces. Returns the rows, valid until the next reduction. Collective. */
const void *whet_mpi_reduce(reduction *r, const reduced *what);

#endif
