// Runs a check over samples of an algorithm, far more than there are golden ones: many lengths and
// seeds, all kinds of decimals, both ways to break ties, with and without hints.
#ifndef WHET_TESTS_LAB_CLRS_SAMPLES_H
#define WHET_TESTS_LAB_CLRS_SAMPLES_H

#include "clrs/clrs.h"

typedef bool sample_check(const char *question, const char *answer);

// Lengths up to `longest`; reports the first sample of each kind for which the check is false.
void check_samples(const char *algorithm, int longest, sample_check *is_right);

#endif
