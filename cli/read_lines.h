/*
 * Lines of any length from a file descriptor, such that what has been read is
 * answered before the program waits for more.
 */
#ifndef WHET_CLI_READ_LINES_H
#define WHET_CLI_READ_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Set descriptor and output, leave the rest zero, free buffer at the end. */
typedef struct line_reader {
    int descriptor;
    FILE *output;       /* flushed before each read, which may wait */
    size_t line_number; /* of the line returned last, from 1 */
    char *buffer;
    size_t capacity;
    size_t start;   /* of what has not been returned yet */
    size_t scanned; /* up to here there is no newline */
    size_t end;
    bool at_end_of_file;
} line_reader;

typedef enum line_result {
    LINE_READ,
    LINE_NONE,          /* the end of the file */
    LINE_READ_FAILED,   /* errno says why */
    LINE_WRITE_FAILED,  /* flushing the output failed; errno says why */
    LINE_OUT_OF_MEMORY, /* the line is too long for this machine */
} line_result;

/*
 * The next line, without its newline and followed by a zero, valid until the
 * next call. The last line may lack its newline; a byte order mark at the start
 * of the file is passed over.
 */
line_result read_line(line_reader *reader, const char **line, size_t *length);

/* Whether the next line is at hand: read_line will neither wait for it nor flush the output. */
bool has_line(const line_reader *reader);

#endif
