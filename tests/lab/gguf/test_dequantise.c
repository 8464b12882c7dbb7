// Quantised blocks as floats. Each test packs random integers and scales into blocks the way a
// quantiser does, going from numbers to bits, and computes what they stand for from the integers,
// in double; the library goes the other way, from bits to numbers.
#include "gguf/gguf.h"

#include "isa/half.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/random.h"

enum { BLOCKS = 37, SUPER = 256, BLOCK_MAX = 256 };

// A block in the making: its bytes, and what it stands for.
typedef struct packed_block {
    uint8_t bytes[BLOCK_MAX];
    double values[SUPER];
} packed_block;

static int random_below(struct rng *rng, int count) { return (int)rng_integer(rng, 0, count - 1); }

// Any finite half but for the largest, at `at`; returns its value.
static double put_half(struct rng *rng, uint8_t *at) {
    uint16_t bits = (uint16_t)rng_bits(rng);
    if ((bits & 0x7c00) == 0x7c00) {
        bits ^= 0x4000;
    }
    memcpy(at, &bits, sizeof bits);
    return (double)half_to_float(bits);
}

static void pack_q8_0(struct rng *rng, packed_block *block) {
    double scale = put_half(rng, block->bytes);
    for (int i = 0; i < 32; i++) {
        int quant = (int)rng_integer(rng, -128, 127);
        block->bytes[2 + i] = (uint8_t)quant;
        block->values[i] = scale * quant;
    }
}

// 32 numbers of four or five bits after `head` bytes of scales; five-bit ones have a word of fifth
// bits in front.
static void pack_simple(struct rng *rng, packed_block *block, int bits, bool has_least) {
    double scale = put_half(rng, block->bytes);
    double least = has_least ? put_half(rng, block->bytes + 2) : 0;
    uint8_t *at = block->bytes + (has_least ? 4 : 2);
    uint32_t fifths = 0;
    uint8_t *nibbles = at + (bits == 5 ? 4 : 0);
    memset(nibbles, 0, 16);
    for (int i = 0; i < 32; i++) {
        int quant = random_below(rng, 1 << bits);
        fifths |= (uint32_t)(quant >> 4) << i;
        nibbles[i % 16] = (uint8_t)(nibbles[i % 16] | (quant & 15) << (i / 16 * 4));
        block->values[i] = has_least ? scale * quant + least : scale * (quant - (1 << (bits - 1)));
    }
    if (bits == 5) {
        memcpy(at, &fifths, sizeof fifths);
    }
}

static void pack_q4_0(struct rng *rng, packed_block *block) { pack_simple(rng, block, 4, false); }
static void pack_q4_1(struct rng *rng, packed_block *block) { pack_simple(rng, block, 4, true); }
static void pack_q5_0(struct rng *rng, packed_block *block) { pack_simple(rng, block, 5, false); }
static void pack_q5_1(struct rng *rng, packed_block *block) { pack_simple(rng, block, 5, true); }

// 256 numbers of two bits: 128 at a time go to 32 bytes, 32 of them to each pair of bits.
static void pack_pairs(uint8_t *bytes, const int *quants) {
    memset(bytes, 0, 64);
    for (int half = 0; half < 2; half++) {
        for (int j = 0; j < 4; j++) {
            for (int l = 0; l < 32; l++) {
                int quant = quants[half * 128 + j * 32 + l] & 3;
                bytes[half * 32 + l] = (uint8_t)(bytes[half * 32 + l] | quant << (2 * j));
            }
        }
    }
}

static void pack_q2_k(struct rng *rng, packed_block *block) {
    int quants[SUPER];
    double scale = put_half(rng, block->bytes + 80), least = put_half(rng, block->bytes + 82);
    for (int j = 0; j < 16; j++) {
        int by = random_below(rng, 16), from = random_below(rng, 16);
        block->bytes[j] = (uint8_t)(by | from << 4);
        for (int i = 16 * j; i < 16 * j + 16; i++) {
            quants[i] = random_below(rng, 4);
            block->values[i] = scale * by * quants[i] - least * from;
        }
    }
    pack_pairs(block->bytes + 16, quants);
}

static void pack_q3_k(struct rng *rng, packed_block *block) {
    int quants[SUPER];
    uint8_t *thirds = block->bytes, *scales = block->bytes + 96;
    double scale = put_half(rng, block->bytes + 108);
    memset(thirds, 0, 32);
    memset(scales, 0, 12);
    for (int j = 0; j < 16; j++) {
        int by = random_below(rng, 64);
        // Four bits go to the first eight bytes, low halves first; two to the last four, in order.
        scales[j % 8] = (uint8_t)(scales[j % 8] | (by & 15) << (j / 8 * 4));
        scales[8 + j % 4] = (uint8_t)(scales[8 + j % 4] | (by >> 4) << (j / 4 * 2));
        for (int i = 16 * j; i < 16 * j + 16; i++) {
            quants[i] = random_below(rng, 8);
            thirds[i % 32] = (uint8_t)(thirds[i % 32] | (quants[i] >> 2) << (i / 32));
            block->values[i] = scale * (by - 32) * (quants[i] - 4);
        }
    }
    pack_pairs(block->bytes + 32, quants);
}

// Eight scales and minima of six bits in twelve bytes.
static void pack_scales(uint8_t *bytes, const int *scales, const int *leasts) {
    for (int j = 0; j < 4; j++) {
        bytes[j] = (uint8_t)(scales[j] | (scales[j + 4] >> 4) << 6);
        bytes[j + 4] = (uint8_t)(leasts[j] | (leasts[j + 4] >> 4) << 6);
        bytes[j + 8] = (uint8_t)((scales[j + 4] & 15) | (leasts[j + 4] & 15) << 4);
    }
}

static void pack_q45_k(struct rng *rng, packed_block *block, int bits) {
    double unit = put_half(rng, block->bytes), least_unit = put_half(rng, block->bytes + 2);
    int scales[8], leasts[8];
    uint8_t *fifths = block->bytes + 16, *nibbles = block->bytes + (bits == 5 ? 48 : 16);
    memset(block->bytes + 16, 0, bits == 5 ? 160 : 128);
    for (int part = 0; part < 8; part++) {
        scales[part] = random_below(rng, 64);
        leasts[part] = random_below(rng, 64);
        for (int i = 0; i < 32; i++) {
            int quant = random_below(rng, 1 << bits);
            uint8_t *pair = &nibbles[part / 2 * 32 + i];
            *pair = (uint8_t)(*pair | (quant & 15) << (part % 2 * 4));
            if (bits == 5) {
                fifths[i] = (uint8_t)(fifths[i] | (quant >> 4) << part);
            }
            block->values[part * 32 + i] = unit * scales[part] * quant - least_unit * leasts[part];
        }
    }
    pack_scales(block->bytes + 4, scales, leasts);
}

static void pack_q4_k(struct rng *rng, packed_block *block) { pack_q45_k(rng, block, 4); }
static void pack_q5_k(struct rng *rng, packed_block *block) { pack_q45_k(rng, block, 5); }

static void pack_q6_k(struct rng *rng, packed_block *block) {
    int quants[SUPER], tops[SUPER];
    uint8_t *low = block->bytes;
    double unit = put_half(rng, block->bytes + 208);
    for (int j = 0; j < 16; j++) {
        int by = (int)rng_integer(rng, -128, 127);
        block->bytes[192 + j] = (uint8_t)by;
        for (int i = 16 * j; i < 16 * j + 16; i++) {
            quants[i] = random_below(rng, 64);
            tops[i] = quants[i] >> 4;
            block->values[i] = unit * by * (quants[i] - 32);
        }
    }
    // In each half of 128: elements 0 to 63 have the low halves of 64 bytes, the rest the high
    // ones.
    for (int half = 0; half < 2; half++) {
        for (int l = 0; l < 64; l++) {
            const int *of_half = quants + half * 128;
            low[half * 64 + l] = (uint8_t)((of_half[l] & 15) | (of_half[l + 64] & 15) << 4);
        }
    }
    pack_pairs(block->bytes + 128, tops);
}

static const struct {
    gguf_type type;
    size_t elements, bytes;
    void (*pack)(struct rng *rng, packed_block *block);
} formats[] = {
    {GGUF_Q8_0, 32, 34, pack_q8_0},   {GGUF_Q4_0, 32, 18, pack_q4_0},
    {GGUF_Q4_1, 32, 20, pack_q4_1},   {GGUF_Q5_0, 32, 22, pack_q5_0},
    {GGUF_Q5_1, 32, 24, pack_q5_1},   {GGUF_Q2_K, 256, 84, pack_q2_k},
    {GGUF_Q3_K, 256, 110, pack_q3_k}, {GGUF_Q4_K, 256, 144, pack_q4_k},
    {GGUF_Q5_K, 256, 176, pack_q5_k}, {GGUF_Q6_K, 256, 210, pack_q6_k},
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

// What rounding each step to f32 may do: relative to the largest term, which may be larger than the
// value where scale and minimum cancel.
static double tolerance_of(const packed_block *block, size_t elements) {
    double largest = 0;
    for (size_t i = 0; i < elements; i++) {
        largest = fmax(largest, fabs(block->values[i]));
    }
    return 64 * 0x1p-24 * largest + 1e-30;
}

static void check_format(size_t format, struct rng *rng) {
    static packed_block blocks[BLOCKS];
    size_t elements = formats[format].elements, size = formats[format].bytes;
    uint8_t *bytes = guarded_new(2 * BLOCKS * size);
    float *row = guarded_new(BLOCKS * elements * sizeof(float));
    for (int b = 0; b < BLOCKS; b++) {
        formats[format].pack(rng, &blocks[b]);
        memcpy(bytes + (size_t)(BLOCKS + b) * size, blocks[b].bytes, size);
    }
    gguf_tensor tensor = {.dims = {BLOCKS * elements, 2, 1, 1}, .type = formats[format].type};
    tensor.rows = 2;
    tensor.bytes = bytes;
    REQUIRE(gguf_row_bytes(tensor.type, tensor.dims[0], &tensor.row_bytes));
    CHECK_INT(tensor.row_bytes, BLOCKS * size);
    REQUIRE(gguf_dequantise(&tensor, 1, row));
    for (size_t b = 0; b < BLOCKS; b++) {
        double tolerance = tolerance_of(&blocks[b], elements);
        for (size_t i = 0; i < elements; i++) {
            CHECK_NEAR(row[b * elements + i], blocks[b].values[i], tolerance);
        }
    }
    guarded_free(bytes);
    guarded_free(row);
}

TEST(quantised_blocks_are_what_was_packed_into_them) {
    struct rng rng = rng_seeded(31);
    for (size_t format = 0; format < FORMATS; format++) {
        for (int i = 0; i < 20; i++) {
            check_format(format, &rng);
        }
    }
}

TEST(every_half_is_read_as_itself) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        gguf_tensor tensor = {.dims = {1, 1, 1, 1}, .type = GGUF_F16, .rows = 1, .row_bytes = 2};
        tensor.bytes = (const uint8_t *)&half;
        int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
        double magnitude = exponent == 0    ? ldexp(fraction, -24)
                           : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                            : ldexp(1024 + fraction, exponent - 25);
        float value;
        REQUIRE(gguf_dequantise(&tensor, 0, &value));
        CHECK_NEAR(value, bits & 0x8000 ? -magnitude : magnitude, 0);
        tensor.type = GGUF_BF16;
        REQUIRE(gguf_dequantise(&tensor, 0, &value));
        CHECK(float_to_bits(value) == bits << 16);
    }
}

TEST(rows_are_made_of_whole_blocks) {
    size_t bytes;
    CHECK(gguf_row_bytes(GGUF_F32, 7, &bytes) && bytes == 28);
    CHECK(gguf_row_bytes(GGUF_Q6_K, 512, &bytes) && bytes == 420);
    CHECK(!gguf_row_bytes(GGUF_Q6_K, 500, &bytes));
    CHECK(!gguf_row_bytes(GGUF_F32, UINT64_MAX / 2, &bytes));
    CHECK(!gguf_row_bytes((gguf_type)4, 32, &bytes));
    CHECK(!gguf_type_name((gguf_type)4) && !gguf_type_name((gguf_type)-1));
    CHECK_STR(gguf_type_name(GGUF_Q4_K), "q4_k");
}
