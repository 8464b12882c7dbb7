/*
 * Limits of the machine to compare with: multiply-adds in registers, copies
 * and reads of the buffers under test, exponentials from and to the
 * first-level cache. Each is measured with the best instruction set of this
 * processor, whatever the library uses.
 */
#ifndef WHET_BENCH_MACHINE_LIMITS_H
#define WHET_BENCH_MACHINE_LIMITS_H

#include "measure.h"

/* Arguments of the contenders below. Addresses are aligned to 64 bytes, sizes are multiples of
 * READ_GRAIN bytes. */
enum { READ_GRAIN = 4096 };

typedef struct copy_work {
    const void *from;
    void *to;
    size_t bytes;
} copy_work;

typedef struct read_work {
    struct {
        const void *data;
        size_t bytes;
    } range[2];
} read_work;

typedef struct exp_work {
    size_t values; /* taken 2048 at a time from one buffer to another */
} exp_work;

typedef struct peak_work {
    size_t iterations;
} peak_work;

enum { COPY_VARIANTS_MAX = 4, READ_VARIANTS = 6 };

/* The instruction set with which the limits are measured: "avx512", "avx2", "neon" or "generic". */
const char *bench_limit_isa(void);

/* FMA peak; a run takes a few milliseconds. */
contender bench_limit_peak(peak_work *work);

/* Fills a list with the variants and returns their number. */
size_t bench_limit_copy(contender *list, copy_work *work);
size_t bench_limit_read(contender *list, read_work *work);

contender bench_limit_exp(exp_work *work);

#endif
