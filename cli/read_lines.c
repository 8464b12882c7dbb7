/*
 * The line reader. Each byte is scanned once for the end of its line and for
 * NUL, so that a device or a binary file is refused at once instead of being
 * read until memory runs out.
 */
#include "read_lines.h"

#include <inttypes.h>
#include <string.h>

static const char *find_newline(const line_reader *reader) {
    size_t left = input_left(&reader->in);
    return reader->scanned < left ? memchr(reader->in.buffer + reader->in.start + reader->scanned,
                                           '\n', left - reader->scanned)
                                  : NULL;
}

bool has_line(const line_reader *reader) { return find_newline(reader) != NULL; }

static size_t limit_of(const line_reader *reader) {
    return reader->limit ? reader->limit : LINE_LIMIT_DEFAULT;
}

/* Looks at the bytes up to `end`, counted from the first unused one. */
static line_result scan_to(line_reader *reader, size_t end) {
    if (end > reader->scanned) {
        const char *unused = reader->in.buffer + reader->in.start;
        const char *nul = memchr(unused + reader->scanned, '\0', end - reader->scanned);
        if (nul) {
            reader->nul = input_position(&reader->in) + (uint64_t)(nul - unused);
            return LINE_NUL;
        }
    }
    reader->scanned = end;
    return end > limit_of(reader) ? LINE_TOO_LONG : LINE_READ;
}

/* The scanned bytes are a line; a newline follows them unless the file ends there. */
static line_result return_line(line_reader *reader, const char **line, size_t *length) {
    input *in = &reader->in;
    char *first = in->buffer + in->start;
    first[reader->scanned] = '\0';
    *line = first;
    *length = reader->scanned;
    reader->line_number++;
    in->start += reader->scanned;
    if (in->start < in->end)
        in->start++;
    reader->scanned = 0;
    return LINE_READ;
}

static line_result line_result_of(input_result result) {
    switch (result) {
    case INPUT_READ_FAILED:
        return LINE_READ_FAILED;
    case INPUT_WRITE_FAILED:
        return LINE_WRITE_FAILED;
    case INPUT_OUT_OF_MEMORY:
        return LINE_OUT_OF_MEMORY;
    case INPUT_READ:
    case INPUT_END:
        break;
    }
    return LINE_READ;
}

static void skip_mark(line_reader *reader) {
    if (input_position(&reader->in) == 0 && reader->line_number == 0) {
        input_skip_mark(&reader->in);
        if (input_position(&reader->in) > 0)
            reader->scanned = reader->scanned > 3 ? reader->scanned - 3 : 0;
    }
}

line_result read_line(line_reader *reader, const char **line, size_t *length) {
    input *in = &reader->in;
    for (;;) {
        skip_mark(reader);
        const char *newline = find_newline(reader);
        size_t end = newline ? (size_t)(newline - in->buffer) - in->start : input_left(in);
        line_result result = scan_to(reader, end);
        if (result != LINE_READ)
            return result;
        if (newline)
            return return_line(reader, line, length);
        if (in->at_end)
            return end == 0 ? LINE_NONE : return_line(reader, line, length);
        result = line_result_of(input_more(in));
        if (result != LINE_READ)
            return result;
    }
}

size_t describe_bad_line(const line_reader *reader, line_result result, char *text, size_t size) {
    if (result == LINE_NUL)
        snprintf(text, size, "not a text file (NUL byte at offset %" PRIu64 ")", reader->nul);
    else
        snprintf(text, size, "line longer than %zu bytes; --max-line sets the limit",
                 limit_of(reader));
    return result == LINE_NUL ? 0 : reader->line_number + 1;
}
