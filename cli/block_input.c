/*
 * Block-wise input. The buffer grows with what its user leaves unused in it: the
 * longest line or row. Standard input and output are often a pipe or a terminal
 * with somebody waiting at the other end: flushing the output before each read
 * shows every answer as soon as no more input is at hand, and costs one flush a
 * block instead of one a line when input is plentiful.
 */
#define _POSIX_C_SOURCE 200809L

#include "block_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 16 };

static bool reserve_block(input *in) {
    if (in->start > 0) {
        memmove(in->buffer, in->buffer + in->start, in->end - in->start);
        in->offset += in->start;
        in->end -= in->start;
        in->start = 0;
    }
    if (in->capacity >= in->end + BLOCK_BYTES + 1)
        return true;
    if (in->end > SIZE_MAX / 4)
        return false;
    size_t capacity = 2 * in->end + BLOCK_BYTES + 1;
    char *buffer = realloc(in->buffer, capacity);
    if (!buffer)
        return false;
    in->buffer = buffer;
    in->capacity = capacity;
    return true;
}

input_result input_more(input *in) {
    if (in->at_end)
        return INPUT_END;
    if (fflush(in->output) != 0)
        return INPUT_WRITE_FAILED;
    if (!reserve_block(in))
        return INPUT_OUT_OF_MEMORY;
    ssize_t got;
    do {
        got = read(in->descriptor, in->buffer + in->end, BLOCK_BYTES);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return INPUT_READ_FAILED;
    in->at_end = got == 0;
    in->end += (size_t)got;
    return in->at_end ? INPUT_END : INPUT_READ;
}

input_result input_at_least(input *in, size_t count) {
    while (input_left(in) < count) {
        input_result result = input_more(in);
        if (result != INPUT_READ)
            return result;
    }
    return INPUT_READ;
}

void input_skip_mark(input *in) {
    if (input_left(in) >= 3 && memcmp(in->buffer + in->start, "\xef\xbb\xbf", 3) == 0)
        in->start += 3;
}
