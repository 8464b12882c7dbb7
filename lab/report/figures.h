/*
 * The figures that need no training: each writes one picture. Those of trained
 * heads are in figures of their own kind (see results.h).
 */
#ifndef WHET_LAB_REPORT_FIGURES_H
#define WHET_LAB_REPORT_FIGURES_H

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

/* The largest coefficient of every head of a random Transformer among n tokens, n doubling. */
enum { FIGURE_LAYERS = 3, FIGURE_HEADS = 4, FIGURE_SIZES = 13 };
typedef struct figure_dispersion_data {
    uint64_t n[FIGURE_SIZES];
    double largest[FIGURE_SIZES][FIGURE_LAYERS * FIGURE_HEADS];
} figure_dispersion_data;

/* False when memory runs out. */
bool figure_dispersion_measure(uint64_t seed, figure_dispersion_data *data);

/* Entropies of Figure 5: [panel][temperature][lambda], to be freed; NULL when memory runs out. */
enum { FIGURE_GRID = 81 };
double *figure_temperature_measure(void);

/* Figure 1: the largest coefficient of every head of a random Transformer as tokens are added. */
bool figure_dispersion(const char *path, uint64_t seed, lab_error *error);

/* Figure 5: entropy of a power series over its ratio and the temperature, four panels. */
bool figure_temperature(const char *path, lab_error *error);

/* Beta against entropy for the policies that look at it, and against n for those that count. */
bool figure_policies(const char *path, lab_error *error);

/* The same as CSV: what a policy looks at, how much of it there is, and beta. */
void figure_policies_csv(FILE *file);

#endif
