/*
 * The iq types. A block of 256 elements has eight parts of 32, each with four runs of eight. iq1,
 * iq2 and iq3 keep an index into a grid for each run (two in iq3, of four numbers each), the signs
 * of its numbers, and a scale for each part or half of one; iq4 keeps an index into sixteen levels
 * for each element.
 *
 * Each product is rounded to f32 in the order in which ggml multiplies, so that the floats are the
 * same bit for bit.
 */
#include "gguf/iq_types.h"

#include "gguf/block_bits.h"
#include "gguf/grids.h"

#include <stdbool.h>

enum { PARTS = 8, PART = 32, RUNS = 4, RUN = 8 };

/* ---- iq2 and iq3: a grid, and signs ---- */

static const float iq2_levels[4] = {8, 25, 43, 0};
static const float iq3_xxs_levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const float iq3_s_levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};

/* Seven bits stand for eight signs, of which an even number is negative. */
static unsigned even_signs(unsigned seven) {
    unsigned fold = seven ^ seven >> 4;
    fold ^= fold >> 2;
    fold ^= fold >> 1;
    return seven | (fold & 1) << 7;
}

static float signed_number(float magnitude, unsigned signs, int i) {
    return signs >> i & 1 ? -magnitude : magnitude;
}

static void write_iq2_run(float scale, uint16_t entry, unsigned signs, float *out) {
    for (int i = 0; i < RUN; i++)
        out[i] = signed_number(scale * iq2_levels[entry >> 2 * i & 3], signs, i);
}

static void write_iq3_run(float scale, const float *levels, uint16_t first, uint16_t second,
                          unsigned signs, float *out) {
    uint32_t both = first | (uint32_t)second << 12;
    for (int i = 0; i < RUN; i++)
        out[i] = signed_number(scale * levels[both >> 3 * i & 7], signs, i);
}

static float iq2_scale(float unit, unsigned four_bits) {
    return unit * (0.5F + (float)four_bits) * 0.25F;
}

/* The scale of a run where each half of a part has one of four bits. */
static float iq2_half_scale(float unit, uint8_t both, int run) {
    return iq2_scale(unit, run < 2 ? both & 15 : both >> 4);
}

void gguf_read_iq2_xxs(const uint8_t *block, float *out) {
    float unit = block_half(block);
    for (int part = 0; part < PARTS; part++) {
        const uint8_t *at = block + 2 + 8 * part;
        uint32_t signs_and_scale = block_u32(at + 4);
        float scale = iq2_scale(unit, signs_and_scale >> 28);
        for (int run = 0; run < RUNS; run++, out += RUN)
            write_iq2_run(scale, gguf_grid_iq2_xxs[at[run]],
                          even_signs(signs_and_scale >> 7 * run & 127), out);
    }
}

void gguf_read_iq2_xs(const uint8_t *block, float *out) {
    float unit = block_half(block);
    for (int part = 0; part < PARTS; part++)
        for (int run = 0; run < RUNS; run++, out += RUN) {
            unsigned both = block_u16(block + 2 + 8 * part + 2 * run);
            write_iq2_run(iq2_half_scale(unit, block[66 + part], run), gguf_grid_iq2_xs[both & 511],
                          even_signs(both >> 9), out);
        }
}

void gguf_read_iq2_s(const uint8_t *block, float *out) {
    const uint8_t *low = block + 2, *signs = block + 34, *high = block + 66, *scales = block + 74;
    float unit = block_half(block);
    for (int part = 0; part < PARTS; part++)
        for (int run = 0; run < RUNS; run++, out += RUN) {
            int at = RUNS * part + run;
            unsigned index = low[at] | (high[part] >> 2 * run & 3U) << 8;
            write_iq2_run(iq2_half_scale(unit, scales[part], run), gguf_grid_iq2_s[index],
                          signs[at], out);
        }
}

void gguf_read_iq3_xxs(const uint8_t *block, float *out) {
    const uint8_t *index = block + 2;
    float unit = block_half(block);
    for (int part = 0; part < PARTS; part++) {
        uint32_t signs_and_scale = block_u32(block + 66 + 4 * part);
        float scale = unit * (0.5F + (float)(signs_and_scale >> 28)) * 0.5F;
        for (int run = 0; run < RUNS; run++, out += RUN, index += 2)
            write_iq3_run(scale, iq3_xxs_levels, gguf_grid_iq3_xxs[index[0]],
                          gguf_grid_iq3_xxs[index[1]], even_signs(signs_and_scale >> 7 * run & 127),
                          out);
    }
}

void gguf_read_iq3_s(const uint8_t *block, float *out) {
    const uint8_t *low = block + 2, *high = block + 66, *signs = block + 74, *scales = block + 106;
    float unit = block_half(block);
    for (int part = 0; part < PARTS; part++) {
        float scale = unit * (float)(1 + 2 * (scales[part / 2] >> part % 2 * 4 & 15));
        for (int run = 0; run < RUNS; run++, out += RUN, low += 2) {
            unsigned ninth = high[part] >> 2 * run;
            write_iq3_run(scale, iq3_s_levels, gguf_grid_iq3_s[low[0] | (ninth & 1) << 8],
                          gguf_grid_iq3_s[low[1] | (ninth >> 1 & 1) << 8], signs[RUNS * part + run],
                          out);
        }
    }
}

/* ---- iq1: a grid of -1, 0 and 1, moved by an eighth ---- */

static void write_iq1_run(float scale, unsigned index, bool is_below, float *out) {
    float shift = is_below ? -0.125F : 0.125F;
    for (int i = 0; i < RUN; i++)
        out[i] = scale * ((float)((int)(gguf_grid_iq1[index] >> 2 * i & 3) - 1) + shift);
}

static float iq1_scale(float unit, unsigned bits) { return unit * (float)(2 * (bits & 7) + 1); }

void gguf_read_iq1_s(const uint8_t *block, float *out) {
    const uint8_t *low = block + 2;
    float unit = block_half(block);
    for (int part = 0; part < PARTS; part++) {
        unsigned high = block_u16(block + 34 + 2 * part);
        float scale = iq1_scale(unit, high >> 12);
        for (int run = 0; run < RUNS; run++, out += RUN)
            write_iq1_run(scale, *low++ | (high >> 3 * run & 7) << 8, high >> 15, out);
    }
}

/* The bits of iq1_m's half are the upper four of each word of scales. */
static float iq1_m_unit(const uint8_t *scales) {
    unsigned bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (unsigned)block_u16(scales + 2 * i) >> 12 << 4 * i;
    return half_to_float((uint16_t)bits);
}

void gguf_read_iq1_m(const uint8_t *block, float *out) {
    const uint8_t *low = block, *high = block + 32, *scales = block + 48;
    float unit = iq1_m_unit(scales);
    for (int half_part = 0; half_part < 2 * PARTS; half_part++) {
        unsigned word = block_u16(scales + half_part / 4 * 2);
        float scale = iq1_scale(unit, word >> half_part % 4 * 3);
        for (int run = 0; run < 2; run++, out += RUN) {
            unsigned four = high[half_part] >> 4 * run & 15U;
            write_iq1_run(scale, *low++ | (four & 7) << 8, four >> 3, out);
        }
    }
}

/* ---- iq4: sixteen levels ---- */

static const float iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

static void write_iq4_part(float scale, const uint8_t *bytes, float *out) {
    for (int i = 0; i < PART; i++)
        out[i] = scale * iq4_levels[block_nibble(bytes, i)];
}

void gguf_read_iq4_nl(const uint8_t *block, float *out) {
    write_iq4_part(block_half(block), block + 2, out);
}

void gguf_read_iq4_xs(const uint8_t *block, float *out) {
    float unit = block_half(block);
    unsigned high = block_u16(block + 2);
    for (int part = 0; part < PARTS; part++) {
        unsigned low = (unsigned)block[4 + part / 2] >> part % 2 * 4 & 15U;
        int scale = (int)(low | (high >> 2 * part & 3) << 4) - 32;
        write_iq4_part(unit * (float)scale, block + 8 + 16 * part, out + PART * part);
    }
}
