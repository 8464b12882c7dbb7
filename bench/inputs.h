/*
 * Buffers and their contents: bell-shaped random numbers, the same in every
 * run, with a spread at which the entropy of a row lies where the paper's rule
 * sharpens (beta > 1 for entropies from 0.849 to 5.945).
 */
#ifndef WHET_BENCH_INPUTS_H
#define WHET_BENCH_INPUTS_H

#include "whet.h"

#include <stddef.h>
#include <stdint.h>

/* An allocator. */
typedef struct inputs_source {
    void *(*allocate)(void *context, size_t bytes); /* aligned to a page, or NULL */
    void (*release)(void *context, void *memory);   /* not NULL */
    void *context;
} inputs_source;

/* Sets the allocator from now on, NULL for the system's; no memory may be in use. Two builds that
 * are compared take turns in the same memory: both must fill it with the same contents, or not need
 * them after a run. */
void bench_inputs_use(const inputs_source *source);

/* Page-aligned memory, all of it touched and zero, or NULL. */
void *bench_inputs_allocate(size_t bytes);
void bench_inputs_release(void *memory);

/* Fills with numbers that are close enough to normal, with standard deviation `deviation`. */
void bench_inputs_fill(float *values, size_t count, double deviation, uint64_t seed);

/* Fills with queries of norm sqrt(dim), so that a row's logits q.k/sqrt(dim) have standard
 * deviation 1 for every query; [count][dim]. */
void bench_inputs_fill_queries(float *values, size_t count, size_t dim, uint64_t seed);

/* The same numbers as bench_inputs_fill, rounded to half precision. */
void bench_inputs_fill_f16(uint16_t *values, size_t count, double deviation, uint64_t seed);

/* The same in one of the quantised types; count is a multiple of their block of 32. */
void bench_inputs_fill_quantised(void *blocks, size_t count, whet_type type, double deviation,
                                 uint64_t seed);

/* The standard deviation at which n normal logits have an entropy of about 3 to 5 nats (less where
 * n is small): ln n - deviation^2 / 2, unless that is too small. */
double bench_inputs_deviation(size_t n);

#endif
