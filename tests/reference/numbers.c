/*
 * Numbers as they lie in memory: half precision and bfloat16 by arithmetic
 * instead of bits, elements and rows of every type.
 */
#include "reference/parts.h"

void *reference_allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fputs("the reference has no memory\n", stderr);
        abort();
    }
    return memory;
}

void reference_fill(double *p, size_t n, double value) {
    for (size_t i = 0; p && i < n; i++) {
        p[i] = value;
    }
}

double reference_dot(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* sign, exponent and fraction of a 16-bit format with `digits` bits of fraction. */
static double from_bits(uint16_t bits, int digits, int bias) {
    double sign = bits >> 15 ? -1 : 1;
    int exponent = (bits & 0x7fff) >> digits;
    int fraction = bits & ((1 << digits) - 1);
    int largest = (1 << (15 - digits)) - 1;
    if (exponent == largest) {
        return fraction ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        return sign * ldexp(fraction, 1 - bias - digits);
    }
    return sign * ldexp((1 << digits) + fraction, exponent - bias - digits);
}

/* The number of smallest steps nearest to |x|, which is also its bits. */
static uint16_t to_bits(float x, int digits, int bias) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)(0x7fff >> digits << digits);
    double size = fabs((double)x);
    if (isnan(size)) {
        return (uint16_t)(sign | 0x7fff);
    }
    int exponent = size > 0 && !isinf(size) ? ilogb(size) : 0;
    if (size == 0 || exponent < 1 - bias) {
        exponent = 1 - bias;
    }
    double steps = nearbyint(ldexp(size, digits - exponent)); /* ties to even */
    double bits = steps + ldexp(exponent - 1 + bias, digits);
    return (uint16_t)(sign | (bits < infinity ? (uint16_t)bits : infinity));
}

double reference_from_f16(uint16_t bits) { return from_bits(bits, 10, 15); }
double reference_from_bf16(uint16_t bits) { return from_bits(bits, 7, 127); }
uint16_t reference_to_f16(float x) { return to_bits(x, 10, 15); }
uint16_t reference_to_bf16(float x) { return to_bits(x, 7, 127); }

bool reference_is_rounded(const void *at, whet_type type, float x) {
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    uint16_t right = type == WHET_F16 ? reference_to_f16(x) : reference_to_bf16(x);
    if (bits == right || type != WHET_F16 || !getenv("WHET_TEST_F16_TIES_AWAY")) {
        return bits == right;
    }
    double found = reference_from_f16(bits);
    return bits == right + 1 && found - (double)x == (double)x - reference_from_f16(right);
}

size_t reference_size(whet_type type) { return type == WHET_F32 ? 4 : 2; }

double reference_load(const void *at, whet_type type) {
    if (type == WHET_F32) {
        float x;
        memcpy(&x, at, sizeof x);
        return (double)x;
    }
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return type == WHET_F16 ? reference_from_f16(bits) : reference_from_bf16(bits);
}

/* The bytes of a block of 32, or 0. */
static size_t block_bytes(whet_type type) {
    switch (type) {
    case WHET_Q8_0:
        return 34;
    case WHET_Q4_0:
    case WHET_IQ4_NL:
        return 18;
    case WHET_Q4_1:
        return 20;
    case WHET_Q5_0:
        return 22;
    case WHET_Q5_1:
        return 24;
    default:
        return 0;
    }
}

bool reference_is_quantised(whet_type type) { return block_bytes(type) > 0; }

size_t reference_row_size(whet_type type, size_t n) {
    return reference_is_quantised(type) ? n / 32 * block_bytes(type) : n * reference_size(type);
}

/* The nibble of element i of a block, of the 16 bytes at its end. */
static int nibble_of(const unsigned char *block, whet_type type, size_t i) {
    int byte = block[block_bytes(type) - 16 + i % 16];
    return i < 16 ? byte % 16 : byte / 16;
}

/* With the fifth bit, of the four bytes before them. */
static int five_bits_of(const unsigned char *block, whet_type type, size_t i) {
    int byte = block[block_bytes(type) - 20 + i / 8];
    return nibble_of(block, type, i) + 16 * (byte / (1 << i % 8) % 2);
}

static double load_from_block(const unsigned char *block, whet_type type, size_t i) {
    static const int codes[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
    double scale = reference_load(block, WHET_F16);
    double minimum = reference_load(block + 2, WHET_F16);
    switch (type) {
    case WHET_Q8_0:
        return scale * (signed char)block[2 + i];
    case WHET_Q4_0:
        return scale * (nibble_of(block, type, i) - 8);
    case WHET_Q4_1:
        return scale * nibble_of(block, type, i) + minimum;
    case WHET_Q5_0:
        return scale * (five_bits_of(block, type, i) - 16);
    case WHET_Q5_1:
        return scale * five_bits_of(block, type, i) + minimum;
    default:
        return scale * codes[nibble_of(block, type, i)];
    }
}

double reference_load_from_row(const void *row, whet_type type, size_t i) {
    const unsigned char *at = (const unsigned char *)row + reference_row_size(type, i / 32 * 32);
    return reference_is_quantised(type) ? load_from_block(at, type, i % 32)
                                        : reference_load(at + i % 32 * reference_size(type), type);
}
