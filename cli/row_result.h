/* What the readers of rows give: a row, or why there is none. */
#ifndef WHET_CLI_ROW_RESULT_H
#define WHET_CLI_ROW_RESULT_H

#include "block_input.h"

#include <stddef.h>

/* The numbers of a row. Start with all zeros, reuse for row after row, free values at the end. */
typedef struct row_values {
    float *values;
    size_t n;
    size_t capacity;
    size_t number; /* the line it begins at, or in .npy its index + 1; set by readers of files */
} row_values;

typedef struct row_error {
    size_t line;   /* from 1; 0: the message is about the whole file */
    size_t column; /* from 1, in bytes */
    char message[160];
} row_error;

typedef enum row_result {
    ROW_PARSED,
    ROW_NONE,      /* the end of the file */
    ROW_MALFORMED, /* *error says what and where */
    ROW_NO_MEMORY,
    ROW_READ_FAILED,  /* errno says why */
    ROW_WRITE_FAILED, /* flushing the output before a read failed; errno says why */
} row_result;

static inline row_result row_result_of(input_result result) {
    static const row_result results[] = {
        [INPUT_READ] = ROW_PARSED,
        [INPUT_END] = ROW_NONE,
        [INPUT_READ_FAILED] = ROW_READ_FAILED,
        [INPUT_WRITE_FAILED] = ROW_WRITE_FAILED,
        [INPUT_OUT_OF_MEMORY] = ROW_NO_MEMORY,
    };
    return results[result];
}

#endif
