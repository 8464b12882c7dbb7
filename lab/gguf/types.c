/*
 * Element types of tensors: the size of a block of each, and its conversion to
 * floats. Quantised types keep `elements` numbers in a block of `bytes`; each
 * function below decodes one block element by element. The iq types are in
 * iq_types.c.
 */
#include "gguf/gguf.h"
#include "gguf/types.h"

#include "gguf/block_bits.h"
#include "gguf/iq_types.h"

enum { SUPER = 256 }; /* elements of a block of the k types */

static void read_f32(const uint8_t *block, float *out) { memcpy(out, block, sizeof *out); }

static void read_f16(const uint8_t *block, float *out) { *out = block_half(block); }

static void read_bf16(const uint8_t *block, float *out) { *out = brain_to_float(block_u16(block)); }

static void read_q8_0(const uint8_t *block, float *out) {
    float scale = block_half(block);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)(int8_t)block[2 + i];
}

static void read_q4_0(const uint8_t *block, float *out) {
    float scale = block_half(block);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)(block_nibble(block + 2, i) - 8);
}

static void read_q4_1(const uint8_t *block, float *out) {
    float scale = block_half(block), least = block_half(block + 2);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)block_nibble(block + 4, i) + least;
}

/* Five bits: the fifth ones of all 32 elements come before the others. */
static int five_bits(const uint8_t *bytes, int i) {
    return block_nibble(bytes + 4, i) | ((bytes[i / 8] >> (i % 8)) & 1) << 4;
}

static void read_q5_0(const uint8_t *block, float *out) {
    float scale = block_half(block);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)(five_bits(block + 2, i) - 16);
}

static void read_q5_1(const uint8_t *block, float *out) {
    float scale = block_half(block), least = block_half(block + 2);
    for (int i = 0; i < 32; i++)
        out[i] = scale * (float)five_bits(block + 4, i) + least;
}

/* Element i of 256 in 64 bytes of four two-bit numbers: each half of the elements has 32 bytes, and
 * each quarter of a half its own pair of bits in them. */
static int two_bits(const uint8_t *bytes, int i) {
    return (bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

static void read_q2_k(const uint8_t *block, float *out) {
    const uint8_t *scales = block, *quants = block + 16;
    float scale = block_half(block + 80), least = block_half(block + 82);
    for (int i = 0; i < SUPER; i++) {
        uint8_t both = scales[i / 16];
        out[i] =
            scale * (float)(both & 15) * (float)two_bits(quants, i) - least * (float)(both >> 4);
    }
}

/* Six-bit scale j of 16, in 12 bytes: lower four bits in the first eight, upper two in the rest. */
static int scale_q3_k(const uint8_t *bytes, int j) {
    int low = j < 8 ? bytes[j] & 15 : bytes[j - 8] >> 4;
    int high = (bytes[8 + j % 4] >> (j / 4 * 2)) & 3;
    return (low | high << 4) - 32;
}

static void read_q3_k(const uint8_t *block, float *out) {
    const uint8_t *third_bits = block, *quants = block + 32, *scales = block + 96;
    float scale = block_half(block + 108);
    for (int i = 0; i < SUPER; i++) {
        int third = (third_bits[i % 32] >> (i / 32)) & 1;
        int quant = (two_bits(quants, i) | third << 2) - 4;
        out[i] = scale * (float)scale_q3_k(scales, i / 16) * (float)quant;
    }
}

/* Six-bit scale and minimum j of 8, in 12 bytes: the first four have a byte each, whose upper two
 * bits belong to the last four. */
static void scale_and_least(const uint8_t *bytes, int j, int *scale, int *least) {
    if (j < 4) {
        *scale = bytes[j] & 63;
        *least = bytes[j + 4] & 63;
    } else {
        *scale = (bytes[j + 4] & 15) | bytes[j - 4] >> 6 << 4;
        *least = bytes[j + 4] >> 4 | bytes[j] >> 6 << 4;
    }
}

/* q4_k and q5_k: `fifth_bits` is NULL for the former. */
static void read_q45_k(const uint8_t *block, const uint8_t *fifth_bits, const uint8_t *quants,
                       float *out) {
    float unit = block_half(block), least_unit = block_half(block + 2);
    for (int part = 0; part < 8; part++) {
        int scale, least;
        scale_and_least(block + 4, part, &scale, &least);
        float by = unit * (float)scale, from = least_unit * (float)least;
        for (int i = 0; i < 32; i++) {
            uint8_t pair = quants[part / 2 * 32 + i];
            int quant = part % 2 ? pair >> 4 : pair & 15;
            if (fifth_bits)
                quant |= ((fifth_bits[i] >> part) & 1) << 4;
            out[32 * part + i] = by * (float)quant - from;
        }
    }
}

static void read_q4_k(const uint8_t *block, float *out) {
    read_q45_k(block, NULL, block + 16, out);
}

static void read_q5_k(const uint8_t *block, float *out) {
    read_q45_k(block, block + 16, block + 48, out);
}

static void read_q6_k(const uint8_t *block, float *out) {
    const uint8_t *low = block, *high = block + 128, *scales = block + 192;
    float unit = block_half(block + 208);
    for (int i = 0; i < SUPER; i++) {
        uint8_t pair = low[i / 128 * 64 + i % 64];
        int four = i % 128 < 64 ? pair & 15 : pair >> 4;
        int quant = (four | two_bits(high, i) << 4) - 32;
        out[i] = unit * (float)(int8_t)scales[i / 16] * (float)quant;
    }
}

static const gguf_type_facts facts[] = {
    [GGUF_F32] = {"f32", 1, 4, read_f32},
    [GGUF_F16] = {"f16", 1, 2, read_f16},
    [GGUF_Q4_0] = {"q4_0", 32, 18, read_q4_0},
    [GGUF_Q4_1] = {"q4_1", 32, 20, read_q4_1},
    [GGUF_Q5_0] = {"q5_0", 32, 22, read_q5_0},
    [GGUF_Q5_1] = {"q5_1", 32, 24, read_q5_1},
    [GGUF_Q8_0] = {"q8_0", 32, 34, read_q8_0},
    [9] = {"q8_1", 32, 36, NULL},
    [GGUF_Q2_K] = {"q2_k", SUPER, 84, read_q2_k},
    [GGUF_Q3_K] = {"q3_k", SUPER, 110, read_q3_k},
    [GGUF_Q4_K] = {"q4_k", SUPER, 144, read_q4_k},
    [GGUF_Q5_K] = {"q5_k", SUPER, 176, read_q5_k},
    [GGUF_Q6_K] = {"q6_k", SUPER, 210, read_q6_k},
    [15] = {"q8_k", SUPER, 292, NULL},
    [GGUF_IQ2_XXS] = {"iq2_xxs", SUPER, 66, gguf_read_iq2_xxs},
    [GGUF_IQ2_XS] = {"iq2_xs", SUPER, 74, gguf_read_iq2_xs},
    [GGUF_IQ3_XXS] = {"iq3_xxs", SUPER, 98, gguf_read_iq3_xxs},
    [GGUF_IQ1_S] = {"iq1_s", SUPER, 50, gguf_read_iq1_s},
    [GGUF_IQ4_NL] = {"iq4_nl", 32, 18, gguf_read_iq4_nl},
    [GGUF_IQ3_S] = {"iq3_s", SUPER, 110, gguf_read_iq3_s},
    [GGUF_IQ2_S] = {"iq2_s", SUPER, 82, gguf_read_iq2_s},
    [GGUF_IQ4_XS] = {"iq4_xs", SUPER, 136, gguf_read_iq4_xs},
    [24] = {"i8", 1, 1, NULL},
    [25] = {"i16", 1, 2, NULL},
    [26] = {"i32", 1, 4, NULL},
    [27] = {"i64", 1, 8, NULL},
    [28] = {"f64", 1, 8, NULL},
    [GGUF_IQ1_M] = {"iq1_m", SUPER, 56, gguf_read_iq1_m},
    [GGUF_BF16] = {"bf16", 1, 2, read_bf16},
    [34] = {"tq1_0", SUPER, 54, NULL},
    [35] = {"tq2_0", SUPER, 66, NULL},
    [39] = {"mxfp4", 32, 17, NULL},
    [40] = {"nvfp4", 64, 36, NULL},
    [41] = {"q1_0", 128, 18, NULL},
    [42] = {"q2_0", 64, 18, NULL},
};

const gguf_type_facts *gguf_type_of(gguf_type type) {
    size_t number = (size_t)type;
    return number < sizeof facts / sizeof facts[0] && facts[number].name ? &facts[number] : NULL;
}

const char *gguf_type_name(gguf_type type) {
    const gguf_type_facts *known = gguf_type_of(type);
    return known ? known->name : NULL;
}

bool gguf_can_dequantise(gguf_type type) {
    const gguf_type_facts *known = gguf_type_of(type);
    return known && known->read;
}

bool gguf_row_bytes(gguf_type type, uint64_t elements, size_t *bytes) {
    const gguf_type_facts *known = gguf_type_of(type);
    if (!known || elements % known->elements != 0)
        return false;
    return !__builtin_mul_overflow(elements / known->elements, known->bytes, bytes);
}

bool gguf_dequantise(const gguf_tensor *tensor, uint64_t row, float *out) {
    const gguf_type_facts *known = gguf_type_of(tensor->type);
    if (!known || !known->read || row >= tensor->rows)
        return false;
    const uint8_t *block = tensor->bytes + (size_t)row * tensor->row_bytes;
    const uint8_t *end = block + tensor->row_bytes;
    for (; block < end; block += known->bytes, out += known->elements)
        known->read(block, out);
    return true;
}
