/* Characters of UTF-8 and what kind they are, independent of any locale. */
#ifndef WHET_LAB_LM_UNICODE_H
#define WHET_LAB_LM_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The replacement for a byte that is not part of a character. */
#define UNICODE_NONE UINT32_MAX

/* The character at the beginning of a text of at least one byte, and how many bytes it takes; an
 * invalid byte counts as one. */
size_t unicode_read(const char *text, size_t length, uint32_t *code);

/* The inverse; returns the number of bytes. */
size_t unicode_write(uint32_t code, char text[4]);

bool unicode_is_letter(uint32_t code);
bool unicode_is_number(uint32_t code);
bool unicode_is_space(uint32_t code);

#endif
