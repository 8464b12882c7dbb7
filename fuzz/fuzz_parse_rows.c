/*
 * What `whet softmax` reads: any bytes, first cut into lines by the program's
 * line reader, then parsed as rows of numbers. The lines must be those of the
 * file up to the first with a NUL byte, a refusal must point into its line and quote it in
 * printable characters, and a row that is taken must read back as itself from its own numbers.
 */
#define _POSIX_C_SOURCE 200809L

#include "input.h"
#include "parse_rows.h"
#include "read_lines.h"

#include <unistd.h>

static void check_error(const row_error *error, size_t length) {
    FUZZ_CHECK(error->column >= 1 && error->column <= length + 1);
    const char *end = memchr(error->message, '\0', sizeof error->message);
    FUZZ_CHECK(end && end > error->message);
    for (const char *c = error->message; c < end; c++) {
        FUZZ_CHECK(*c >= ' ' && *c <= '~');
    }
}

/* Prints the numbers and parses what was printed. */
static void check_reads_back(const row_values *row) {
    enum { NUMBER_SIZE_MAX = 24 };
    char *text = fuzz_allocate(row->n * NUMBER_SIZE_MAX + 1);
    size_t length = 0;
    for (size_t i = 0; i < row->n; i++) {
        length += (size_t)snprintf(text + length, NUMBER_SIZE_MAX, i % 2 ? ", %.9g" : " %.9g",
                                   (double)row->values[i]);
    }
    text[length] = '\0';
    row_values back = {0};
    row_error error;
    FUZZ_CHECK(parse_row(text, length, &back, &error) == ROW_PARSED);
    FUZZ_CHECK(back.n == row->n);
    for (size_t i = 0; i < row->n; i++) {
        bool both_nan = isnan(row->values[i]) && isnan(back.values[i]);
        FUZZ_CHECK(both_nan || fuzz_same(&row->values[i], &back.values[i], sizeof(float)));
    }
    free(back.values);
    free(text);
}

static void parse_line(const char *line, size_t length, row_values *row) {
    char *exact = fuzz_allocate(length + 1);
    memcpy(exact, line, length);
    exact[length] = '\0';
    row_error error = {0};
    row_result result = parse_row(exact, length, row, &error);
    FUZZ_CHECK(result == ROW_PARSED || result == ROW_MALFORMED);
    if (result == ROW_MALFORMED) {
        check_error(&error, length);
    } else {
        FUZZ_CHECK(row->n <= row->capacity && row->n <= (length + 1) / 2);
        check_reads_back(row);
    }
    free(exact);
}

/* The file that stands for standard input, and one that output would go to. */
static FILE *file_with(const uint8_t *data, size_t size) {
    static FILE *file;
    if (!file) {
        file = tmpfile();
    }
    if (!file || ftruncate(fileno(file), 0) != 0 ||
        pwrite(fileno(file), data, size, 0) != (ssize_t)size ||
        lseek(fileno(file), 0, SEEK_SET) != 0) {
        exit(0); /* no place for temporary files */
    }
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FILE *file = file_with(data, size);
    line_reader reader = {.in = {.descriptor = fileno(file), .output = stdout}};
    row_values row = {0};
    bool has_mark = size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
    size_t at = has_mark ? 3 : 0;
    const char *line;
    size_t length;
    size_t lines = 0;
    line_result result;
    while ((result = read_line(&reader, &line, &length)) == LINE_READ) {
        const uint8_t *newline = at < size ? memchr(data + at, '\n', size - at) : NULL;
        size_t end = newline ? (size_t)(newline - data) : size;
        FUZZ_CHECK(reader.line_number == ++lines);
        FUZZ_CHECK(length == end - at && line[length] == '\0');
        FUZZ_CHECK(memcmp(line, data + at, length) == 0);
        parse_line(line, length, &row);
        at = newline ? end + 1 : end;
    }
    const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
    if (result == LINE_NUL) {
        FUZZ_CHECK(nul && reader.nul == (uint64_t)(nul - data) && reader.nul >= at);
    } else {
        FUZZ_CHECK(result == LINE_NONE && at == size && !nul);
    }
    free(row.values);
    free(reader.in.buffer);
    return 0;
}
