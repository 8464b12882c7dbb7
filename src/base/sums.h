/*
 * Sums over a row count from its largest logit, the maximum: with d = e - maximum
 *
 *     z = sum exp2(scale d)    s = sum d exp2(scale d)    q = sum d d exp2(scale d)
 *
 * and can be rescaled to another maximum without reading the row again.
 */
#ifndef WHET_SUMS_H
#define WHET_SUMS_H

#include <stddef.h>

/* To a maximum that is `shift` below the old one (above: negative). factor is exp2(scale shift), as
 * the caller rounds it; q may be NULL. */
static inline void sums_shift(double shift, double factor, double *z, double *s, double *q) {
    if (q)
        *q = factor * (*q + shift * (2 * *s + shift * *z));
    *s = factor * (*s + shift * *z);
    *z *= factor;
}

/* What a row's gradients need of its sums: z and s, and the same with each exponential times the
 * gradient g of its weight. The mean of g under the weights, and the gradient of beta. */
typedef struct gradient_sums {
    double z, s, weighted_z, weighted_s;
} gradient_sums;

static inline double gradient_mean(gradient_sums sums) { return sums.weighted_z / sums.z; }

static inline double gradient_of_beta(gradient_sums sums) {
    return (sums.weighted_s - gradient_mean(sums) * sums.s) / sums.z;
}

#endif
