/*
 * Doubles as text: the fewest digits that read back as the same number, laid
 * out as Python and numpy do ("0.5", "-0.0", "1e-05").
 */
#ifndef WHET_LAB_CLRS_FLOATS_H
#define WHET_LAB_CLRS_FLOATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CLRS_FLOAT_SIZE = 32, /* bytes that printing one may touch */
    CLRS_POWER_LEAST = -292,
    CLRS_POWER_MOST = 324
};

/* 10^k / 2^e, rounded up to 128 bits, the first of them set. */
typedef struct clrs_power {
    uint64_t high, low; /* both 0: not yet known */
} clrs_power;

/* One for each thread. Zero it and set decimals; nothing needs to be freed. */
typedef struct clrs_floats {
    int decimals; /* that most numbers have (1 ... 15), or 0: only a hint for speed */
    clrs_power powers[CLRS_POWER_MOST - CLRS_POWER_LEAST + 1]; /* filled in as they are needed */
} clrs_floats;

/*
 * Writes a finite number without a terminating zero and returns its length,
 * which is below CLRS_FLOAT_SIZE; the bytes after it, up to that size, are used
 * as scratch.
 */
size_t clrs_float_print(clrs_floats *floats, double value, char *to);

/* trunc(x * 10^decimals) / 10^decimals; unchanged for 0 decimals. */
double clrs_truncate(double value, int decimals);

/* 10^exponent for exponents from 0 to 22, all of which are exact. */
double clrs_power_of_ten(int exponent);

#endif
