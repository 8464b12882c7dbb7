// A sample's text as numbers again, for tests that look at what an algorithm claims.
#ifndef WHET_TESTS_LAB_CLRS_PARSE_H
#define WHET_TESTS_LAB_CLRS_PARSE_H

#include <stdbool.h>
#include <stddef.h>

// The numbers of a value, brackets and commas being passed over; a matrix is rows of `columns`.
struct values {
    size_t count, rows, columns;
    double *at; // to be freed
};

// The value of an input such as "A" in a question; REQUIREs that it is there.
struct values input_values(const char *question, const char *name);

// The values of an answer, of which only what follows the last " | " counts.
struct values answer_values(const char *answer);

void free_values(struct values *values);

#endif
