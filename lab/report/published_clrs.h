/* Published accuracies on CLRS-Text, for orientation: see published_clrs.csv, which says where they
 * come from. */
#ifndef WHET_LAB_REPORT_PUBLISHED_CLRS_H
#define WHET_LAB_REPORT_PUBLISHED_CLRS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct published_clrs_point {
    int length;
    bool is_trained; /* the length is one of training */
    double tuned;    /* Gemma 2B, a share */
} published_clrs_point;

enum { PUBLISHED_CLRS_MAX = 64 };

/* The points of an algorithm by rising length; returns how many there are. */
size_t published_clrs(const char *algorithm, published_clrs_point points[PUBLISHED_CLRS_MAX]);

#endif
