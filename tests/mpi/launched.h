/*
 * What test programs of libwhet_mpi share. MPI is started before the first test; every rank runs
 * all tests, makes the same examples, and takes its share of them. Only the first rank prints.
 */
#ifndef WHET_TESTS_MPI_LAUNCHED_H
#define WHET_TESTS_MPI_LAUNCHED_H

#include "whet_mpi.h"

int launched_rank(void);
int launched_ranks(void);

/* The part of a description of the whole context that a rank would pass: its keys, values, mask
 * and bias. */
whet_attention launched_part(const whet_attention *whole, size_t start, size_t count);

/* whet_attention_forward by all ranks together. Checks that a single rank, and two threads, give
 * the same bits; only with f32 outputs and statistics that are contiguous. */
whet_status launched_forward(const whet_attention *whole, const whet_executor *executor,
                             uint64_t *first_bad_row);

/* The counts of the last launched_forward. */
whet_mpi_counts launched_counts(void);

#endif
