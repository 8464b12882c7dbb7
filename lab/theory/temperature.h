/*
 * Proposition 3.2 and Figure 5: the entropy of softmax(beta e) falls as beta
 * grows, with slope -beta Var(e).
 */
#ifndef WHET_LAB_THEORY_TEMPERATURE_H
#define WHET_LAB_THEORY_TEMPERATURE_H

#include <stddef.h>

/* Entropy of softmax(beta e) and its slope dH/dbeta = -beta Var(e), in double. */
typedef struct entropy_slope {
    double entropy, slope;
} entropy_slope;

entropy_slope theory_entropy(const double *logits, size_t n, double beta);

/* The figure's surface: entropy over lambda and temperature, [temperature][lambda], and the largest
 * deviation of the slope from a central difference, relative to 1 + |slope|. */
typedef struct temperature_panel {
    double lambda_low, lambda_high;
    double theta_low, theta_high;
} temperature_panel;

enum { THEORY_PANELS = 4, THEORY_SERIES = 10 };
extern const temperature_panel theory_panels[THEORY_PANELS];

typedef struct surface_check {
    double slope_error;   /* against central differences */
    double largest_slope; /* of the entropy: never above 0 */
    double lowest, highest;
} surface_check;

surface_check theory_surface(const temperature_panel *panel, size_t points, double *entropy);

#endif
