/* What `whet demo` measures, and the ways of showing it. */
#ifndef WHET_CLI_DEMO_H
#define WHET_CLI_DEMO_H

#include "policy_list.h"
#include "terminal.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    DEMO_SLOPE = 200, /* logit of priority 1 */
    DEMO_SIZES = 14,  /* n = 16, 32, ..., 131,072 */
    DEMO_SMALLEST = 16,
    DEMO_LARGEST = DEMO_SMALLEST << (DEMO_SIZES - 1)
};

typedef struct demo_result {
    size_t sizes[DEMO_SIZES];
    size_t sets[DEMO_SIZES];    /* how many random sets the figures are means over */
    double entropy[DEMO_SIZES]; /* of softmax */
    double plain[DEMO_SIZES];   /* weight on the largest item under softmax */
    const policy_list *policies;
    double (*weight)[DEMO_SIZES]; /* the same for each policy */
    int decades;                  /* powers of ten from 100 % down to below the smallest weight */
} demo_result;

/* Fills in a result whose policies are given and whose weights are zero. */
whet_status measure_demo(demo_result *result, uint64_t seed);

void print_demo_table(const demo_result *result, terminal_style style);

/* The chart as a picture; context is a const demo_result *. */
void write_demo_svg(FILE *file, const void *context);

#endif
