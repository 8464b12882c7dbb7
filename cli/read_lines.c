/*
 * The line reader. It reads blocks into one buffer that grows with the longest
 * line. Standard input and output are often a pipe or a terminal with somebody
 * waiting at the other end: flushing the output just before each read shows
 * every answer as soon as no more input is at hand, and costs one flush a block
 * instead of one a line when input is plentiful.
 */
#define _POSIX_C_SOURCE 200809L

#include "read_lines.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 16 };

static bool reserve_block(line_reader *reader) {
    if (reader->start > 0) {
        memmove(reader->buffer, reader->buffer + reader->start, reader->end - reader->start);
        reader->scanned -= reader->start;
        reader->end -= reader->start;
        reader->start = 0;
    }
    /* One byte more, for the zero after a last line without newline. */
    if (reader->capacity >= reader->end + BLOCK_BYTES + 1)
        return true;
    if (reader->end > SIZE_MAX / 4)
        return false;
    size_t capacity = 2 * reader->end + BLOCK_BYTES + 1;
    char *buffer = realloc(reader->buffer, capacity);
    if (!buffer)
        return false;
    reader->buffer = buffer;
    reader->capacity = capacity;
    return true;
}

static line_result read_block(line_reader *reader) {
    if (fflush(reader->output) != 0)
        return LINE_WRITE_FAILED;
    if (!reserve_block(reader))
        return LINE_OUT_OF_MEMORY;
    ssize_t got;
    do {
        got = read(reader->descriptor, reader->buffer + reader->end, BLOCK_BYTES);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return LINE_READ_FAILED;
    reader->at_end_of_file = got == 0;
    reader->end += (size_t)got;
    return LINE_READ;
}

static void skip_byte_order_mark(line_reader *reader) {
    if (reader->line_number == 0 && reader->start == 0 && reader->end >= 3 &&
        memcmp(reader->buffer, "\xef\xbb\xbf", 3) == 0)
        reader->start = 3;
}

static void return_line(line_reader *reader, size_t line_end, const char **line, size_t *length) {
    skip_byte_order_mark(reader);
    reader->buffer[line_end] = '\0';
    *line = reader->buffer + reader->start;
    *length = line_end - reader->start;
    reader->line_number++;
    reader->start = line_end < reader->end ? line_end + 1 : line_end;
    reader->scanned = reader->start;
}

static const char *find_newline(const line_reader *reader) {
    return reader->scanned < reader->end
               ? memchr(reader->buffer + reader->scanned, '\n', reader->end - reader->scanned)
               : NULL;
}

bool has_line(const line_reader *reader) { return find_newline(reader) != NULL; }

line_result read_line(line_reader *reader, const char **line, size_t *length) {
    for (;;) {
        const char *newline = find_newline(reader);
        if (newline) {
            return_line(reader, (size_t)(newline - reader->buffer), line, length);
            return LINE_READ;
        }
        reader->scanned = reader->end;
        if (reader->at_end_of_file) {
            skip_byte_order_mark(reader);
            if (reader->start == reader->end)
                return LINE_NONE;
            return_line(reader, reader->end, line, length);
            return LINE_READ;
        }
        line_result result = read_block(reader);
        if (result != LINE_READ)
            return result;
    }
}
