/* Sums over all pieces of queries, such as the gradients of parameters: the same on every rank. */
#ifndef WHET_MPI_TOTALS_H
#define WHET_MPI_TOTALS_H

#include "spread.h"

typedef struct totals {
    spread *s;
    size_t count; /* doubles */
    bag waiting;
    double *contents; /* [slots][count] */
    double *sent, *received;
} totals;

/* Memory for sums of `count` doubles; false if there is none. */
bool whet_mpi_totals_init(totals *t, spread *s, size_t count);
void whet_mpi_totals_free(totals *t);

/* Adds up what each piece has, NULL for zeros, in the order of the tree. Collective. */
typedef const double *(*piece_numbers)(const void *context, size_t piece);
const double *whet_mpi_add_up(totals *t, piece_numbers numbers, const void *context);

#endif
