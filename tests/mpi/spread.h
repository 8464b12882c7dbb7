/* Examples whose queries and keys are dealt to the ranks: copies of a rank's rows, and comparisons
 * of its results with rows of the whole. */
#ifndef WHET_TESTS_MPI_SPREAD_H
#define WHET_TESTS_MPI_SPREAD_H

#include "mpi/launched.h"

/* Copies positions of a share from a tensor [batch][head][position][row], contiguously. The copy
 * is freed with the example. */
void *spread_copy(example *e, const void *data, const ptrdiff_t stride[3], size_t batch,
                  size_t heads, size_t row_bytes, const whet_mpi_share *share);

/* The description of one rank: q, k, v, bias, betas and mask of its shares, copied; contiguous. */
whet_attention spread_part(example *e, const whet_mpi_share *queries, const whet_mpi_share *keys);

/* The position of a share's row. */
size_t spread_position(const whet_mpi_share *share, size_t local);

#endif
