/* Outputs rounded to half precision; see precision.h. */
#include "theory/precision.h"
#include "base/random.h"
#include <math.h>

const number_format theory_formats[PRECISION_FORMATS] = {
    {"f32", 24, -126}, {"f16", 11, -14}, {"bf16", 8, -126}};

double theory_round(double x, const number_format *format) {
    if (x == 0 || !isfinite(x))
        return x;
    int exponent = ilogb(x);
    if (exponent < format->smallest_exponent)
        exponent = format->smallest_exponent;
    int shift = format->bits - 1 - exponent;
    return ldexp(rint(ldexp(x, shift)), -shift);
}

enum { OUTPUTS = 256 };

/* The sum of all other items' outputs, extended as n grows. */
typedef struct others {
    lab_random random;
    uint64_t count;
    double sum[OUTPUTS];
} others;

static void grow(others *o, uint64_t count) {
    for (; o->count < count; o->count++)
        for (size_t i = 0; i < OUTPUTS; i++)
            o->sum[i] += lab_random_double(&o->random);
}

static void measure(const others *o, double spread, precision_point *point) {
    double others_weight = (double)o->count, own = exp(spread);
    double z = own + others_weight;
    point->n = o->count + 1;
    point->coefficient = own / z;
    for (size_t f = 0; f < PRECISION_FORMATS; f++) {
        size_t differ = 0;
        for (size_t i = 0; i < OUTPUTS; i++) {
            double zero = theory_round(o->sum[i] / z, &theory_formats[f]);
            double one = theory_round((o->sum[i] + own) / z, &theory_formats[f]);
            differ += zero != one;
        }
        point->telling[f] = (double)differ / OUTPUTS;
    }
}

void theory_precision(double spread, uint64_t seed, size_t points, precision_point *result) {
    others o = {.random = lab_random_start(lab_seed_for(seed, "precision", 0))};
    for (size_t i = 0; i < points; i++) {
        grow(&o, ((uint64_t)2 << i) - 1);
        measure(&o, spread, &result[i]);
    }
}

uint64_t theory_precision_end(const precision_point *points, size_t count, size_t format) {
    uint64_t end = 0;
    for (size_t i = count; i > 0 && points[i - 1].telling[format] == 0; i--)
        end = points[i - 1].n;
    return end;
}

double theory_precision_expected(double spread, const number_format *format) {
    /* the others' mean is 1/2, where numbers are 2^-bits apart */
    return exp(spread) * ldexp(2, format->bits);
}
