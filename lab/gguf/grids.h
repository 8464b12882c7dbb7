/*
 * Grids of ggml's iq types. An entry has the places of its numbers in a list of levels:
 *
 *     iq2    eight numbers of two bits each, places in {8, 25, 43}
 *     iq3    four of three bits: {4, 12, 20, 28, 36, 44, 52, 62} in iq3_xxs, 1 + 2 place in iq3_s
 *     iq1    eight of two bits: place - 1
 */
#ifndef WHET_LAB_GGUF_GRIDS_H
#define WHET_LAB_GGUF_GRIDS_H

#include <stdint.h>

extern const uint16_t gguf_grid_iq2_xxs[256], gguf_grid_iq2_xs[512], gguf_grid_iq2_s[1024],
    gguf_grid_iq3_xxs[256], gguf_grid_iq3_s[512], gguf_grid_iq1[2048];

#endif
