/*
 * Rows of numbers from a file in any format that `whet softmax` reads: lines of
 * text, CSV, NumPy's .npy and JSON.
 */
#ifndef WHET_CLI_ROW_SOURCE_H
#define WHET_CLI_ROW_SOURCE_H

#include "json_rows.h"
#include "npy.h"
#include "parse_rows.h"
#include "read_lines.h"

typedef enum row_format {
    FORMAT_ANY, /* found out: content first, then the file's name */
    FORMAT_TEXT,
    FORMAT_CSV,
    FORMAT_NPY,
    FORMAT_JSON
} row_format;

/* How files are to be read. */
typedef struct row_reading {
    row_format format;
    bool has_header;    /* the first line of text is skipped, and comments are */
    bool skip_comments; /* lines of text that start with '#' */
    size_t limit;       /* bytes of a line or row */
} row_reading;

typedef struct row_source {
    row_reading how; /* the format is the file's own after the first row */
    const char *path;
    line_reader lines; /* whose input is that of every format */
    json_rows json;
    npy_rows npy;
    bool is_header_skipped;
} row_source;

/* "text", "csv", "npy" or "json"; false if it is none of them. */
bool find_row_format(const char *name, row_format *format);

/* Reads from a descriptor, which stays the caller's; close_row_source frees memory. */
row_source open_row_source(const char *path, int descriptor, FILE *output, const row_reading *how);
void close_row_source(row_source *source);

row_result next_row(row_source *source, row_values *row, row_error *error);

/* Whether the next row is in memory already. */
bool has_row(const row_source *source);

#endif
