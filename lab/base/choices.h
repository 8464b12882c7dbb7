/* Checks that configurations share: numbers within limits, choices by name. */
#ifndef WHET_LAB_CHOICES_H
#define WHET_LAB_CHOICES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Of any training. */
enum { LAB_STEPS_MAX = 1000000000 };

/* Whether an option's value lies within limits; NaN does not. The error names the option. */
bool lab_in_range(const char *option, double value, double least, double most, lab_error *error);

/* The place of a name in a list that NULL ends. */
bool lab_find_name(const char *const *names, const char *name, size_t *found);

/* Numbers from files that fit no field become a value that every check refuses. */
static inline uint32_t lab_small(int64_t value) {
    return value < 0 || value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

#endif
