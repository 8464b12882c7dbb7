/*
 * Any bytes as a file for `whet softmax` in one of its formats, .npy and JSON
 * above all: the first byte chooses format, header and comments. A refusal must
 * say why in printable characters and point into the file; rows that are taken
 * must come from its bytes, and must read back as themselves when they are
 * written as JSON and as .npy.
 */
#define _POSIX_C_SOURCE 200809L

#include "input.h"
#include "row_source.h"

#include <unistd.h>

enum { LIMIT = 1 << 16, ROWS_KEPT = 1 << 16 };

/* All rows of a file, one after the other. */
typedef struct rows_read {
    float *values; /* of all rows */
    size_t values_count;
    size_t *lengths; /* of each row */
    size_t count;
    row_result end;
} rows_read;

/* A file with these bytes, at its start. */
static int file_with(const void *data, size_t size) {
    static FILE *file;
    if (!file)
        file = tmpfile();
    if (!file || ftruncate(fileno(file), 0) != 0 ||
        pwrite(fileno(file), data, size, 0) != (ssize_t)size ||
        lseek(fileno(file), 0, SEEK_SET) != 0)
        exit(0); /* no place for temporary files */
    return fileno(file);
}

static void check_error(const row_error *error, size_t size) {
    FUZZ_CHECK(error->message[0] != '\0');
    for (const char *c = error->message; *c; c++)
        FUZZ_CHECK(*c >= ' ' && *c <= '~');
    FUZZ_CHECK(error->line <= size + 1);
    FUZZ_CHECK(error->column <= (error->line > 0 ? size + 1 : 0)); /* 0: all of the line */
}

static void keep_row(rows_read *rows, const row_values *row) {
    rows->lengths = realloc(rows->lengths, (rows->count + 1) * sizeof *rows->lengths);
    rows->values = realloc(rows->values, (rows->values_count + row->n + 1) * sizeof(float));
    if (!rows->lengths || !rows->values)
        exit(0); /* the machine is short of memory */
    rows->lengths[rows->count++] = row->n;
    if (row->n > 0)
        memcpy(rows->values + rows->values_count, row->values, row->n * sizeof(float));
    rows->values_count += row->n;
}

static rows_read read_rows(const void *data, size_t size, const row_reading *how) {
    rows_read rows = {.end = ROW_PARSED};
    row_source source = open_row_source("input", file_with(data, size), stdout, how);
    row_values row = {0};
    row_error error;
    while ((rows.end = next_row(&source, &row, &error)) == ROW_PARSED && rows.count < ROWS_KEPT) {
        FUZZ_CHECK(row.n <= row.capacity && row.number >= 1);
        keep_row(&rows, &row);
    }
    if (rows.end == ROW_MALFORMED)
        check_error(&error, size);
    else
        FUZZ_CHECK(rows.end == ROW_NONE || rows.count == ROWS_KEPT);
    /* A number takes at least a byte, and so does a row apart from those of shape (rows, 0). */
    FUZZ_CHECK(rows.values_count <= size);
    free(row.values);
    close_row_source(&source);
    return rows;
}

static void free_rows(rows_read *rows) {
    free(rows->values);
    free(rows->lengths);
}

static void check_same(const rows_read *rows, const rows_read *back) {
    FUZZ_CHECK(back->end == ROW_NONE && back->count == rows->count);
    FUZZ_CHECK(back->values_count == rows->values_count);
    FUZZ_CHECK(fuzz_same(rows->lengths, back->lengths, rows->count * sizeof *rows->lengths));
    for (size_t i = 0; i < rows->values_count; i++) {
        bool both_nan = isnan(rows->values[i]) && isnan(back->values[i]);
        FUZZ_CHECK(both_nan || fuzz_same(&rows->values[i], &back->values[i], sizeof(float)));
    }
}

static void check_as_json(const rows_read *rows) {
    enum { NUMBER_SIZE = 20 };
    char *text = fuzz_allocate(rows->values_count * NUMBER_SIZE + rows->count * 4 + 8);
    size_t length = 0, value = 0;
    text[length++] = '[';
    for (size_t r = 0; r < rows->count; r++) {
        length += (size_t)sprintf(text + length, r ? ",\n[" : "[");
        for (size_t i = 0; i < rows->lengths[r]; i++)
            length +=
                (size_t)sprintf(text + length, i ? ",%.9g" : "%.9g", (double)rows->values[value++]);
        text[length++] = ']';
    }
    text[length++] = ']';
    const row_reading json = {.format = FORMAT_JSON, .limit = SIZE_MAX};
    rows_read back = read_rows(text, length, &json);
    if (rows->count > 0)
        check_same(rows, &back);
    free_rows(&back);
    free(text);
}

/* Every row by itself, since they may differ in length. */
static void check_as_npy(const float *values, size_t n) {
    char header[128];
    int length = snprintf(header + 10, sizeof header - 10,
                          "{'descr': '=f4', 'fortran_order': True, 'shape': (%zu,), }\n", n);
    memcpy(header, "\x93NUMPY\x01\0", 8);
    header[8] = (char)length;
    header[9] = 0;
    size_t start = 10 + (size_t)length;
    char *bytes = fuzz_allocate(start + n * sizeof(float));
    memcpy(bytes, header, start);
    if (n > 0)
        memcpy(bytes + start, values, n * sizeof(float));
    const row_reading npy = {.format = FORMAT_ANY, .limit = SIZE_MAX};
    rows_read back = read_rows(bytes, start + n * sizeof(float), &npy);
    const rows_read one = {.values = (float *)values, .values_count = n, .lengths = &n, .count = 1};
    check_same(&one, &back);
    free_rows(&back);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const row_format formats[] = {FORMAT_ANY, FORMAT_NPY, FORMAT_JSON, FORMAT_CSV,
                                         FORMAT_TEXT};
    if (size == 0)
        return 0;
    const row_reading how = {.format = formats[data[0] % 5],
                             .has_header = data[0] & 32,
                             .skip_comments = data[0] & 64,
                             .limit = data[0] & 128 ? 16 : LIMIT};
    rows_read rows = read_rows(data + 1, size - 1, &how);
    check_as_json(&rows);
    const float *at = rows.values;
    for (size_t r = 0; r < rows.count && r < 64; at += rows.lengths[r++])
        check_as_npy(at, rows.lengths[r]);
    free_rows(&rows);
    return 0;
}
