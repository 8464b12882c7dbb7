/* Sizes on the command line: 4096, 64K, 64M, 2G. */
#ifndef WHET_CLI_BYTE_SIZE_H
#define WHET_CLI_BYTE_SIZE_H

#include <stdbool.h>
#include <stddef.h>

/* A number of bytes from 1 on; K, M and G stand for 1024, 1024^2 and 1024^3 of them. */
bool parse_byte_size(const char *text, size_t *bytes);

/* The value of --max-line: true if text is NULL (not given) or a size, false after a message. */
bool choose_line_limit(const char *text, size_t *limit);

#endif
