/*
 * What the machine can do at most, to compare with: multiply-adds in registers,
 * copies and reads of the very buffers that are worked on, exponentials from
 * and to the first-level cache. Each is taken with the best instruction set of
 * this processor, whatever the library has been told to use.
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
    size_t values; /* taken 2048 at a time from one buffer into another */
} exp_work;

typedef struct peak_work {
    size_t iterations;
} peak_work;

enum { COPY_VARIANTS_MAX = 4, READ_VARIANTS = 6 };

/* "avx512", "avx2", "neon" or "generic": what the limits are measured with. */
const char *bench_limit_isa(void);

/* FMA peak; a run takes a few milliseconds. */
contender bench_limit_peak(peak_work *work);

/* Fills a list with the ways to do it and returns how many. */
size_t bench_limit_copy(contender *list, copy_work *work);
size_t bench_limit_read(contender *list, read_work *work);

contender bench_limit_exp(exp_work *work);

#endif
