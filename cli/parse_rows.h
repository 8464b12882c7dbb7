/*
 * One line of text to one row of numbers. The grammar, blanks being spaces and
 * tabs:
 *
 *     row       = [number {separator number}]
 *     separator = blanks | [blanks] "," [blanks]
 *     number    = ["+" | "-"] (digits ["." [digits]] | "." digits) [exponent]
 *               | ["+" | "-"] ("inf" | "infinity" | "nan")        in any case
 *     exponent  = ("e" | "E") ["+" | "-"] digits
 *
 * Blanks may stand before and after the row, and one carriage return at its
 * end. A line with nothing else is the row of no numbers.
 */
#ifndef WHET_CLI_PARSE_ROWS_H
#define WHET_CLI_PARSE_ROWS_H

#include <stddef.h>

/* The numbers of a row. Start with all zeros, reuse for row after row, free values at the end. */
typedef struct row_values {
    float *values;
    size_t n;
    size_t capacity;
} row_values;

typedef struct row_error {
    size_t column; /* from 1, in bytes */
    char message[120];
} row_error;

typedef enum row_result {
    ROW_PARSED,
    ROW_MALFORMED, /* *error says what and where */
    ROW_NO_MEMORY
} row_result;

/*
 * Parses `length` bytes at line, which are followed by a terminating zero that
 * is not counted; there is no newline among them. Each number is rounded once,
 * to the nearest float; one too large for a float is an error, one too small
 * becomes zero or a subnormal. Without ROW_PARSED the values mean nothing.
 */
row_result parse_row(const char *line, size_t length, row_values *row, row_error *error);

#endif
