// SHA-256 (FIPS 180-4), by which the compact fixture knows a text.
#ifndef WHET_TESTS_LAB_CLRS_SHA256_H
#define WHET_TESTS_LAB_CLRS_SHA256_H

#include <stddef.h>

enum { SHA256_TEXT_SIZE = 65 };

// As 64 hexadecimal digits and a zero.
void sha256_text(const void *bytes, size_t count, char text[SHA256_TEXT_SIZE]);

#endif
