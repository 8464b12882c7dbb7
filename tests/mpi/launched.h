/*
 * What test programs of libwhet_mpi share. MPI is started before the first test; every rank runs
 * all tests, makes the same examples, and takes its share of them. Only the first rank prints.
 */
#ifndef WHET_TESTS_MPI_LAUNCHED_H
#define WHET_TESTS_MPI_LAUNCHED_H

#include "attention/example.h"
#include "whet_mpi.h"

int launched_rank(void);
int launched_ranks(void);

/* The part of a description of the whole context that a rank would pass: its keys, values, mask
 * and bias. */
whet_attention launched_part(const whet_attention *whole, size_t start, size_t count);

/* whet_attention_forward by all ranks of a communicator together. */
whet_status launched_forward(MPI_Comm comm, const whet_attention *whole,
                             const whet_executor *executor, uint64_t *first_bad_row);

/* The counts of the last launched_forward. */
whet_mpi_counts launched_counts(void);

/* With one rank, compares an example with the reference (example_check). With more, runs it over
 * all of them and compares outputs, statistics and largest logits, bit for bit, with those of one
 * rank and two threads; with more than four ranks, which wait for each other for long where there
 * are fewer processors, every fourth example. */
void launched_check(example *e, const char *what);

/*
 * Odd examples: three query heads to a key head, dimensions that fill no vector, fewer positions
 * than ranks, a last piece of one position, a window narrower than a share, rows that see nothing,
 * and all kinds of policies at once, in two sets.
 */
enum { ODD_EXAMPLES = 8 };
typedef enum odd_use { ODD_DECODE, ODD_SPREAD } odd_use;
example launched_odd(size_t index, odd_use use);

#endif
