/* SHA-256 (FIPS 180-4), which names the texts and models of a result so that others can check that
 * they have the same. */
#ifndef WHET_LAB_SHA256_H
#define WHET_LAB_SHA256_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lab_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} lab_sha256;

enum { LAB_SHA256_SIZE = 65 }; /* as text, with its zero byte */

lab_sha256 lab_sha256_start(void);
void lab_sha256_add(lab_sha256 *sum, const void *bytes, size_t count);
void lab_sha256_text(lab_sha256 sum, char text[LAB_SHA256_SIZE]);

/* Of a whole file, read in pieces. */
bool lab_sha256_file(const char *path, char text[LAB_SHA256_SIZE], lab_error *error);

#endif
