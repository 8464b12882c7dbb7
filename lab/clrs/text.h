/*
 * Text that grows. Memory is kept when a text is emptied. A text that could not
 * grow has failed permanently: whatever is appended is dropped, and the caller
 * checks once, at the end.
 */
#ifndef WHET_LAB_CLRS_TEXT_H
#define WHET_LAB_CLRS_TEXT_H

#include "clrs/floats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct clrs_text {
    char *data;
    size_t length, capacity;
    bool failed;
} clrs_text;

/* Reserves `bytes` more bytes at data + length, which is returned; NULL on failure. */
char *clrs_text_reserve(clrs_text *text, size_t bytes);

void clrs_text_append(clrs_text *text, const char *string);
void clrs_text_append_bytes(clrs_text *text, const char *bytes, size_t count);
void clrs_text_append_int(clrs_text *text, int value);
void clrs_text_append_float(clrs_text *text, clrs_floats *floats, double value);

/* "[1 2 3]"; of matrices, "[[1 2], [3 4]]". Values are from -1 to `most`. */
void clrs_text_append_ints(clrs_text *text, const int *values, int count, int most);
void clrs_text_append_int_matrix(clrs_text *text, const int *values, int size, int most);
void clrs_text_append_floats(clrs_text *text, clrs_floats *floats, const double *values, int count);
void clrs_text_append_float_matrix(clrs_text *text, clrs_floats *floats, const double *values,
                                   int size);

/* Of zeros and ones: "0" and "1", or "0.0" and "1.0". */
void clrs_text_append_flag_matrix(clrs_text *text, const uint8_t *flags, int size, bool as_floats);

/* Appends a zero that is not part of the text; false if the text has failed. */
bool clrs_text_terminate(clrs_text *text);

void clrs_text_free(clrs_text *text);

/* Writes a number of at least -9 and returns its end. */
static inline char *clrs_write_int(char *to, int value) {
    if (value < 0) {
        *to++ = '-';
        value = -value;
    }
    if (value < 10) {
        *to++ = (char)('0' + value);
        return to;
    }
    if (value < 100) {
        to[0] = (char)('0' + value / 10);
        to[1] = (char)('0' + value % 10);
        return to + 2;
    }
    int digits = 3;
    for (int rest = value / 1000; rest > 0; rest /= 10)
        digits++;
    for (int i = digits - 1; i >= 0; i--) {
        to[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return to + digits;
}

#endif
