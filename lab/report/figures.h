/*
 * The figures that need no training: each writes one picture. Those of trained
 * heads are in figures of their own kind (see results.h).
 */
#ifndef WHET_LAB_REPORT_FIGURES_H
#define WHET_LAB_REPORT_FIGURES_H

#include "base/error.h"

#include <stdint.h>

/* Figure 1: the largest coefficient of every head of a random Transformer as tokens are added. */
bool figure_dispersion(const char *path, uint64_t seed, lab_error *error);

/* Figure 5: entropy of a power series over its ratio and the temperature, four panels. */
bool figure_temperature(const char *path, lab_error *error);

/* Beta against entropy for the policies that look at it, and against n for those that count. */
bool figure_policies(const char *path, lab_error *error);

#endif
