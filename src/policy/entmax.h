/* The search for an entmax threshold, for one row or for all rows of a panel at once. */
#ifndef WHET_ENTMAX_H
#define WHET_ENTMAX_H

#include <stdbool.h>

/*
 * A state machine that is driven by the code that holds the logits, like beta_solver. For
 * a = 2 and 1.5, the exact ones, threshold is tau and the sums are those over y = (a - 1)
 * beta (e - max) - tau where it is positive. For other a it is v = ln p of the largest
 * entry, sum that of all p and squares that of p / (1 + x / w): see entmax.c. tolerance
 * is the change not worth another pass, of tau relative to itself or of v; reach is how
 * far, relative to itself, tau may be from the threshold of the sums it is computed from:
 * over a long distance a closed form is a small difference of large sums.
 */
typedef struct entmax_sums {
    double count;
    double sum;
    double squares;
    double lowest; /* the smallest y */
} entmax_sums;

typedef struct entmax_solver {
    double a;
    double tolerance, reach;
    double threshold;
    unsigned steps;
    int done;
} entmax_solver;

static inline bool whet_entmax_is_exact(double a) { return a == 2 || a == 1.5; }
void whet_entmax_start(entmax_solver *solver, double a, double tolerance, double reach);
void whet_entmax_step(entmax_solver *solver, const entmax_sums *sums);

#endif
