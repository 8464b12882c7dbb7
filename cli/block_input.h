/*
 * Bytes from a file descriptor, in blocks. What has been read is answered before
 * the program waits for more: the output is flushed before each read.
 */
#ifndef WHET_CLI_BLOCK_INPUT_H
#define WHET_CLI_BLOCK_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Set descriptor and output, leave the rest zero, free buffer at the end. */
typedef struct input {
    int descriptor;
    FILE *output; /* flushed before each read, which may wait */
    char *buffer;
    size_t capacity;
    size_t start, end; /* of the bytes in the buffer that have not been used yet */
    uint64_t offset;   /* of buffer[0] in the file */
    bool at_end;       /* of the file: no further block follows */
} input;

typedef enum input_result {
    INPUT_READ,
    INPUT_END,           /* of the file */
    INPUT_READ_FAILED,   /* errno says why */
    INPUT_WRITE_FAILED,  /* flushing the output failed; errno says why */
    INPUT_OUT_OF_MEMORY, /* for the bytes that have not been used */
} input_result;

/*
 * Reads one more block. Unused bytes move to the front of the buffer; there is
 * always one byte of memory after `end`, for a terminating zero.
 */
input_result input_more(input *in);

/* Reads until `count` bytes can be used; INPUT_END if the file has fewer. */
input_result input_at_least(input *in, size_t count);

static inline size_t input_left(const input *in) { return in->end - in->start; }

/* Where the next byte lies in the file. */
static inline uint64_t input_position(const input *in) { return in->offset + in->start; }

/* Skips a UTF-8 byte order mark if the unused bytes start with one. */
void input_skip_mark(input *in);

#endif
