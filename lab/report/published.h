/* The paper's Table 1, to be compared with. */
#ifndef WHET_LAB_REPORT_PUBLISHED_H
#define WHET_LAB_REPORT_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct published_size {
    double n;
    double softmax, adaptive; /* accuracy in per cent, mean of ten seeds */
    bool is_certain;          /* false: noted from memory */
} published_size;

/* The entry of a size, or NULL. */
const published_size *published_at(double n);

/*
 * How often a head would be right, in per cent, that picks any one of the items
 * whose priority, rounded to bfloat16, ties for the largest: what rounding alone
 * leaves possible with that number of classes.
 */
double published_tie_ceiling(double n, double classes);

#endif
