/*
 * Rows of numbers from NumPy's .npy files, versions 1 to 3. The last axis holds the
 * entries of a row, the axes before it count rows; an array without axes is one
 * number. Floats of 16, 32 and 64 bits and integers of 8 to 64 are converted to
 * the nearest 32-bit float, in either byte order and in C or Fortran order;
 * a finite number beyond 32-bit floats is an error.
 */
#ifndef WHET_CLI_NPY_H
#define WHET_CLI_NPY_H

#include "block_input.h"
#include "row_result.h"

enum { NPY_AXES_MAX = 32 };

typedef struct npy_header {
    char kind;        /* 'f', 'i' or 'u' */
    size_t item_size; /* bytes */
    bool is_big_endian;
    bool is_fortran; /* the first axis is contiguous */
    size_t shape[NPY_AXES_MAX], axes;
    size_t rows, n; /* rows of n entries */
    size_t bytes;   /* of all of them */
} npy_header;

/*
 * The header's text, a Python dictionary such as
 * {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
 * False leaves a sentence in error->message.
 */
bool parse_npy_header(const char *text, size_t length, npy_header *header, row_error *error);

/* Set limit, leave the rest zero. */
typedef struct npy_rows {
    size_t limit; /* bytes of a row; of the whole array in Fortran order */
    bool has_header;
    npy_header header;
    size_t done; /* rows */
} npy_rows;

row_result next_npy_row(npy_rows *npy, input *in, row_values *row, row_error *error);

/* Whether the next row is in memory already. */
bool has_npy_row(const npy_rows *npy, const input *in);

/* Whether bytes that start so can be an .npy file. */
static inline bool is_npy_start(char first) { return (unsigned char)first == 0x93; }

#endif
