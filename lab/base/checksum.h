/* FNV-1a, the checksum of whet's own files: against damage, not against forgery. */
#ifndef WHET_LAB_CHECKSUM_H
#define WHET_LAB_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

static const uint64_t lab_checksum_start = 0xCBF29CE484222325u;

/* Of more bytes after those that gave `sum`. */
static inline uint64_t lab_checksum(uint64_t sum, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ at[i]) * 0x100000001B3u;
    return sum;
}

#endif
