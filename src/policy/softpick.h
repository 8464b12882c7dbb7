/* The parts of softpick that panels need, too: see softpick.c. */
#ifndef WHET_SOFTPICK_H
#define WHET_SOFTPICK_H

#include <math.h>

static inline double softpick_shift(double beta, double max) { return fmax(0, beta * max); }

/* r of x = beta e, by whichever product loses nothing. */
static inline double softpick_excess(double x, double shift) {
    return x > 0 ? exp(x - shift) * -expm1(-x) : exp(-shift) * expm1(x);
}

#endif
