/* Lines of text from an input (see block_input.h), up to a length that the caller sets. */
#ifndef WHET_CLI_READ_LINES_H
#define WHET_CLI_READ_LINES_H

#include "block_input.h"

/* What a line may have without a word from the user: more than any row of logits needs. */
#define LINE_LIMIT_DEFAULT ((size_t)64 << 20)

/* Set in.descriptor, in.output and perhaps limit, leave the rest zero, free in.buffer at the end.
 */
typedef struct line_reader {
    input in;
    size_t limit;       /* bytes of a line, without its newline; 0: LINE_LIMIT_DEFAULT */
    size_t line_number; /* of the line returned last, from 1 */
    size_t scanned;     /* unused bytes that are known to have neither a newline nor a NUL */
    uint64_t nul;       /* with LINE_NUL: where it lies in the file */
} line_reader;

typedef enum line_result {
    LINE_READ,
    LINE_NONE,          /* the end of the file */
    LINE_READ_FAILED,   /* errno says why */
    LINE_WRITE_FAILED,  /* flushing the output failed; errno says why */
    LINE_OUT_OF_MEMORY, /* the line is too long for this machine */
    LINE_NUL,           /* not a text file: the next line has a NUL byte */
    LINE_TOO_LONG,      /* the next line is longer than the limit */
} line_result;

/*
 * The next line, without its newline and followed by a zero, valid until the
 * next call. The last line may lack its newline; a byte order mark at the start
 * of the file is skipped.
 */
line_result read_line(line_reader *reader, const char **line, size_t *length);

/* Whether the next line is at hand: read_line will neither wait for it nor flush the output. */
bool has_line(const line_reader *reader);

/* Why a file was refused, for LINE_NUL and LINE_TOO_LONG: "not a text file (NUL byte at offset
 * 0)". Returns the line, from 1, where it is one of them that is wrong, and 0 otherwise. */
size_t describe_bad_line(const line_reader *reader, line_result result, char *text, size_t size);

#endif
