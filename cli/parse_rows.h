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
 *
 * In CSV only commas separate, and a number may stand in double quotes.
 */
#ifndef WHET_CLI_PARSE_ROWS_H
#define WHET_CLI_PARSE_ROWS_H

#include "row_result.h"

/*
 * Parses `length` bytes at line, which are followed by a terminating zero that
 * is not counted; there is no newline among them. Each number is rounded once,
 * to the nearest float; one too large for a float is an error, one too small
 * becomes zero or a subnormal. Without ROW_PARSED the values mean nothing.
 */
row_result parse_row(const char *line, size_t length, row_values *row, row_error *error);

/* The same for a line of CSV. */
row_result parse_csv_row(const char *line, size_t length, row_values *row, row_error *error);

/*
 * One number, which is all of the word: the byte after it is readable and cannot
 * continue a number. On ROW_MALFORMED error->message says why.
 */
row_result parse_value(const char *start, size_t length, float *value, row_error *error);

/* Adds a number to the row; false when memory runs out. */
bool append_value(row_values *row, float value);

enum { QUOTED_SIZE = 64 };
/* The word in single quotes for a message: unprintable bytes as \xHH, a long word cut. */
void quote_word(const char *word, size_t length, char text[QUOTED_SIZE]);

#endif
