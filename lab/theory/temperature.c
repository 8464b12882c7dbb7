/* Entropy against temperature, in double; see temperature.h. */
#include "theory/temperature.h"
#include <math.h>

const temperature_panel theory_panels[THEORY_PANELS] = {
    {0.0, 1.0, 0.05, 1.0},
    {0.0, 1.0, 1.0, 10.0},
    {1.0, 2.0, 1.0, 100.0},
    {0.0, 2.0, 0.05, 10.0},
};

entropy_slope theory_entropy(const double *logits, size_t n, double beta) {
    double max = -(double)INFINITY;
    for (size_t i = 0; i < n; i++)
        max = fmax(max, logits[i]);
    double z = 0, s = 0, q = 0;
    for (size_t i = 0; i < n; i++) {
        double d = logits[i] - max, e = exp(beta * d);
        z += e;
        s += d * e;
        q += d * d * e;
    }
    double mean = s / z;
    /* rounding must not make a variance negative */
    double variance = fmax(0, q / z - mean * mean);
    /* z is at least 1, the largest's own share */
    return (entropy_slope){log(fmax(1, z)) - beta * mean, -beta * variance};
}

/* The logits of Figure 5: the powers lambda^0 ... lambda^(n - 1). */
static void make_powers(double lambda, size_t n, double *logits) {
    double power = 1;
    for (size_t i = 0; i < n; i++) {
        logits[i] = power;
        power *= lambda;
    }
}

static double difference(const double *logits, size_t n, double beta) {
    double h = 1e-4 * beta;
    return (theory_entropy(logits, n, beta + h).entropy -
            theory_entropy(logits, n, beta - h).entropy) /
           (2 * h);
}

static double between(double low, double high, size_t i, size_t points) {
    return points > 1 ? low + (high - low) * (double)i / (double)(points - 1) : low;
}

surface_check theory_surface(const temperature_panel *panel, size_t points, double *entropy) {
    surface_check check = {0, -(double)INFINITY, (double)INFINITY, -(double)INFINITY};
    for (size_t t = 0; t < points; t++) {
        double beta = 1 / between(panel->theta_low, panel->theta_high, t, points);
        for (size_t l = 0; l < points; l++) {
            double logits[THEORY_SERIES];
            make_powers(between(panel->lambda_low, panel->lambda_high, l, points), THEORY_SERIES,
                        logits);
            entropy_slope at = theory_entropy(logits, THEORY_SERIES, beta);
            double off = fabs(at.slope - difference(logits, THEORY_SERIES, beta));
            entropy[t * points + l] = at.entropy;
            check.slope_error = fmax(check.slope_error, off / (1 + fabs(at.slope)));
            check.largest_slope = fmax(check.largest_slope, at.slope);
            check.lowest = fmin(check.lowest, at.entropy);
            check.highest = fmax(check.highest, at.entropy);
        }
    }
    return check;
}
