/*
 * Buffers and what is in them: bell-shaped random numbers, the same in every
 * run, spread so that the entropy of a row lies where the paper's rule sharpens
 * (beta > 1 for entropies from 0.849 to 5.945).
 */
#ifndef WHET_BENCH_INPUTS_H
#define WHET_BENCH_INPUTS_H

#include "whet.h"

#include <stddef.h>
#include <stdint.h>

/* Where memory comes from. */
typedef struct inputs_source {
    void *(*allocate)(void *context, size_t bytes); /* aligned to a page, or NULL */
    void (*release)(void *context, void *memory);   /* not NULL */
    void *context;
} inputs_source;

/* From here on memory comes from there, NULL for the system's; none may be in use. Two builds that
 * are compared take turns in the same memory: what is allocated so must be filled alike by both, or
 * be of no use after a run. */
void bench_inputs_use(const inputs_source *source);

/* Memory aligned to a page, all of it touched and zero, or NULL. */
void *bench_inputs_allocate(size_t bytes);
void bench_inputs_release(void *memory);

/* Normal to within what matters here, standard deviation `deviation`. */
void bench_inputs_fill(float *values, size_t count, double deviation, uint64_t seed);

/* Queries of length sqrt(dim), so that a row's logits q.k/sqrt(dim) have standard deviation 1
 * whichever query it is; [count][dim]. */
void bench_inputs_fill_queries(float *values, size_t count, size_t dim, uint64_t seed);

/* What inputs_fill gives, rounded to half precision. */
void bench_inputs_fill_f16(uint16_t *values, size_t count, double deviation, uint64_t seed);

/* The same in one of the quantised types; count is a multiple of their blocks' 32. */
void bench_inputs_fill_quantised(void *blocks, size_t count, whet_type type, double deviation,
                                 uint64_t seed);

/* The standard deviation at which n normal logits have an entropy of some 3 to 5 nats (fewer where
 * n is small): ln n - deviation^2 / 2, as long as that is not too small. */
double bench_inputs_deviation(size_t n);

#endif
