/*
 * Rows of numbers from JSON. The innermost arrays are the rows: [1, 2] is one,
 * [[1, 2], [3, 4]] are two, and several such values may follow one another, as in
 * JSON lines. Besides JSON's numbers the ones of parse_rows.h are accepted (NaN,
 * -Infinity ...), since Python writes them; objects, texts, null, true and false
 * are refused.
 */
#ifndef WHET_CLI_JSON_ROWS_H
#define WHET_CLI_JSON_ROWS_H

#include "block_input.h"
#include "row_result.h"

/* Set limit, leave the rest zero. */
typedef struct json_rows {
    size_t limit;          /* bytes from a row's bracket to its end */
    size_t depth;          /* arrays that are open */
    uint64_t holds_arrays; /* bit d: the array at depth d has arrays in it, not numbers */
    enum json_rows_expected {
        EXPECT_VALUE_OR_END = 0, /* after '[', and where the next value of the file may begin */
        EXPECT_VALUE,            /* after ',' */
        EXPECT_COMMA_OR_END      /* after a value */
    } expected;
    size_t line;         /* newlines before the next byte */
    uint64_t line_start; /* where its line begins in the file */
    uint64_t row_start;  /* where the row under way begins in the file */
} json_rows;

/* The next row. row->number is the line where it begins. */
row_result next_json_row(json_rows *json, input *in, row_values *row, row_error *error);

/* Whether the next row is likely to be in memory already. */
bool has_json_row(const input *in);

#endif
