/*
 * Half precision and bfloat16: every pattern there is one way, every pattern,
 * every tie and millions of random floats the other way, against arithmetic in
 * double, and bit for bit against the scalar kernels. Quantised blocks: every
 * scale with every integer.
 */
#include "isa/kernels.h"
#include "reference/reference.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/isa.h"
#include "support/random.h"

#include <math.h>
#include <string.h>

enum { PATTERNS = 65536, BATCH = 65536 };

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A 16-bit format, with the library's two conversions and the reference's. */
typedef struct format {
    const char *name;
    void (*widen)(const uint16_t *x, float *y, size_t n);
    void (*narrow)(const float *x, uint16_t *y, size_t n);
    void (*scalar_widen)(const uint16_t *x, float *y, size_t n);
    void (*scalar_narrow)(const float *x, uint16_t *y, size_t n);
    double (*exact)(uint16_t bits);
    uint16_t (*rounded)(float x);
    uint16_t infinity;
} format;

static format f16(void) {
    const kernels *k = whet_kernels_get();
    const kernels *scalar = whet_kernels_named("scalar");
    return (format){"f16",
                    k->f16_to_f32,
                    k->f32_to_f16,
                    scalar->f16_to_f32,
                    scalar->f32_to_f16,
                    reference_from_f16,
                    reference_to_f16,
                    0x7c00};
}

static format bf16(void) {
    const kernels *k = whet_kernels_get();
    const kernels *scalar = whet_kernels_named("scalar");
    return (format){"bf16",
                    k->bf16_to_f32,
                    k->f32_to_bf16,
                    scalar->bf16_to_f32,
                    scalar->f32_to_bf16,
                    reference_from_bf16,
                    reference_to_bf16,
                    0x7f80};
}

/* ---- from 16 bits ---- */

static void check_every_pattern(format f) {
    static uint16_t patterns[PATTERNS];
    static float wide[PATTERNS];
    static float scalar[PATTERNS];
    static uint16_t back[PATTERNS];
    for (size_t i = 0; i < PATTERNS; i++) {
        patterns[i] = (uint16_t)i;
    }
    f.widen(patterns, wide, PATTERNS);
    f.scalar_widen(patterns, scalar, PATTERNS);
    f.narrow(wide, back, PATTERNS);
    size_t wrong = 0;
    size_t unlike_scalar = 0;
    size_t not_back = 0;
    for (size_t i = 0; i < PATTERNS; i++) {
        double exact = f.exact(patterns[i]);
        bool same_sign = (bool)signbit(wide[i]) == (i >= 0x8000);
        bool right = isnan(exact) ? isnan(wide[i]) : wide[i] == (float)exact;
        wrong += !right || !same_sign;
        unlike_scalar += bits_of(wide[i]) != bits_of(scalar[i]);
        bool back_is_nan = (back[i] & 0x7fff) > f.infinity;
        not_back += isnan(exact) ? !back_is_nan : back[i] != patterns[i];
    }
    CHECK_MSG(wrong == 0, "%s: %zu patterns are wrong", f.name, wrong);
    CHECK_MSG(unlike_scalar == 0, "%s: %zu unlike the scalar kernel", f.name, unlike_scalar);
    CHECK_MSG(not_back == 0, "%s: %zu do not come back", f.name, not_back);
}

TEST(scaling_and_rounding_at_once_gives_the_bits_of_one_after_the_other) {
    enum { MOST = 67 };
    const kernels *k = whet_kernels_get();
    float x[MOST], scaled[MOST];
    for (size_t i = 0; i < MOST; i++)
        x[i] = ldexpf(1 + (float)i / 64, (int)(i % 40) - 30) * (i % 3 ? 1 : -1);
    x[5] = INFINITY;
    x[MOST - 1] = NAN;
    for (size_t n = 0; n <= MOST; n++) {
        uint16_t apart[MOST] = {0}, at_once[MOST] = {0};
        k->scale(x, n, 0.3f, scaled);
        k->f32_to_f16(scaled, apart, n);
        k->scale_to_f16(x, n, 0.3f, at_once);
        CHECK(memcmp(apart, at_once, sizeof apart) == 0);
        k->f32_to_bf16(scaled, apart, n);
        k->scale_to_bf16(x, n, 0.3f, at_once);
        CHECK(memcmp(apart, at_once, sizeof apart) == 0);
    }
}

TEST(every_f16_pattern_is_widened_exactly_and_comes_back) { check_every_pattern(f16()); }
TEST(every_bf16_pattern_is_widened_exactly_and_comes_back) { check_every_pattern(bf16()); }

/* ---- to 16 bits ---- */

static void check_narrow(format f, const float *x, size_t n) {
    static uint16_t result[BATCH];
    static uint16_t scalar[BATCH];
    f.narrow(x, result, n);
    f.scalar_narrow(x, scalar, n);
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i])) {
            CHECK_MSG((result[i] & 0x7fff) > f.infinity, "%s: NaN %08x gives %04x", f.name,
                      bits_of(x[i]), result[i]);
        } else if (result[i] != f.rounded(x[i])) {
            CHECK_MSG(false, "%s: %08x (%.9g) gives %04x, not %04x", f.name, bits_of(x[i]),
                      (double)x[i], result[i], f.rounded(x[i]));
        }
        CHECK_MSG(result[i] == scalar[i], "%s: %08x gives %04x, scalar %04x", f.name, bits_of(x[i]),
                  result[i], scalar[i]);
    }
}

static void check_random(format f, uint64_t seed) {
    static float x[BATCH];
    struct rng rng = rng_seeded(seed);
    for (int batch = 0; batch < 32; batch++) {
        for (size_t i = 0; i < BATCH; i++) {
            x[i] = float_of((uint32_t)rng_bits(&rng));
        }
        check_narrow(f, x, BATCH);
    }
}

/* Random patterns seldom fall into the few exponents of f16, so these do. */
static void check_random_in_range(format f, uint64_t seed) {
    static float x[BATCH];
    struct rng rng = rng_seeded(seed);
    for (int batch = 0; batch < 16; batch++) {
        for (size_t i = 0; i < BATCH; i++) {
            uint32_t random = (uint32_t)rng_bits(&rng);
            uint32_t exponent = 127 - 28 + (random >> 24) % 46;
            x[i] = float_of((random & 0x807fffffu) | exponent << 23);
        }
        check_narrow(f, x, BATCH);
    }
}

TEST(random_floats_round_to_f16) {
    check_random(f16(), 1);
    check_random_in_range(f16(), 2);
}

TEST(random_floats_round_to_bf16) {
    check_random(bf16(), 3);
    check_random_in_range(bf16(), 4);
}

/* Halfway between every two adjacent values, and a step of f32 to either side. */
static void check_ties(format f) {
    static float x[3 * 2 * 0x8000];
    size_t n = 0;
    for (uint32_t h = 0; h < f.infinity; h++) {
        double low = f.exact((uint16_t)h);
        /* beyond the largest finite number lies what would be the next */
        double step = low - f.exact((uint16_t)(h ? h - 1 : 1));
        double high = h + 1u < f.infinity ? f.exact((uint16_t)(h + 1)) : low + step;
        float tie = (float)(low + (high - low) / 2);
        for (int side = 0; side < 3; side++) {
            float value = side == 0 ? tie : nextafterf(tie, side == 1 ? 0 : INFINITY);
            x[n++] = value;
            x[n++] = -value;
        }
    }
    for (size_t start = 0; start < n; start += BATCH) {
        check_narrow(f, x + start, n - start < BATCH ? n - start : BATCH);
    }
}

TEST(ties_of_f16_go_to_even) { check_ties(f16()); }
TEST(ties_of_bf16_go_to_even) { check_ties(bf16()); }

TEST(the_edges_of_f16_are_where_they_should_be) {
    const float x[] = {65504,    65519.996f, 65520,           1e30f, INFINITY, 0x1p-24f,
                       0x1p-25f, 0x1.8p-25f, 0x1.000002p-25f, -0.0f, 1e-45f};
    const uint16_t expected[] = {0x7bff, 0x7bff, 0x7c00, 0x7c00, 0x7c00, 1, 0, 1, 1, 0x8000, 0};
    uint16_t result[11];
    whet_kernels_get()->f32_to_f16(x, result, 11);
    for (size_t i = 0; i < 11; i++) {
        CHECK_MSG(result[i] == expected[i], "%a gives %04x", (double)x[i], result[i]);
    }
}

/* ---- lengths and alignments ---- */

static void check_lengths(format f) {
    struct rng rng = rng_seeded(5);
    for (size_t n = 0; n <= 70; n++) {
        for (size_t slack = 0; slack < 3; slack++) {
            float *wide = guarded_new((n + slack) * sizeof *wide);
            uint16_t *narrow = guarded_new((n + slack) * sizeof *narrow);
            rng_fill_normal(&rng, wide, n, 0, 3);
            f.narrow(wide, narrow, n);
            size_t wrong = 0;
            for (size_t i = 0; i < n; i++) {
                wrong += narrow[i] != f.rounded(wide[i]);
                wide[i] = 0;
            }
            f.widen(narrow, wide, n);
            for (size_t i = 0; i < n; i++) {
                wrong += (double)wide[i] != f.exact(narrow[i]);
            }
            for (size_t i = n; i < n + slack; i++) {
                wrong += narrow[i] != 0xffff || bits_of(wide[i]) != 0xffffffffu;
            }
            CHECK_MSG(wrong == 0, "%s: n = %zu: %zu wrong", f.name, n, wrong);
            guarded_free(wide);
            guarded_free(narrow);
        }
    }
}

TEST(every_length_and_alignment_is_converted) {
    check_lengths(f16());
    check_lengths(bf16());
}

/* ---- quantised blocks ---- */

typedef void (*dequantise)(const void *x, float *y, size_t n);

/* Every scale, and in turn every integer at every place. The products are exact in f32;
 * with a minimum, of which every one occurs, the sum is rounded. */
static void check_blocks(whet_type type, dequantise convert, dequantise scalar) {
    static const size_t counts[] = {1, 2, 3, 18};
    float wide[18 * 32];
    float plain[18 * 32];
    size_t wrong = 0;
    size_t unlike_scalar = 0;
    size_t scale = 0;
    unsigned char next = 0;
    while (scale < PATTERNS) {
        size_t blocks = counts[scale % 4];
        size_t bytes = reference_row_size(type, blocks * 32);
        unsigned char *row = guarded_new(bytes);
        for (size_t b = 0; b < blocks; b++, scale++) {
            unsigned char *block = row + b * bytes / blocks;
            uint16_t bits = (uint16_t)scale;
            memcpy(block, &bits, sizeof bits);
            size_t first = sizeof bits;
            if (type == WHET_Q4_1 || type == WHET_Q5_1) {
                bits = (uint16_t)(scale * 40503); /* every 16 bits once */
                memcpy(block + first, &bits, sizeof bits);
                first += sizeof bits;
            }
            for (size_t i = first; i < bytes / blocks; i++) {
                block[i] = next++;
            }
            next++;
        }
        convert(row, wide, blocks * 32);
        scalar(row, plain, blocks * 32);
        for (size_t i = 0; i < blocks * 32; i++) {
            double exact = reference_load_from_row(row, type, i);
            bool right = isnan(exact) ? isnan(wide[i]) : wide[i] == (float)exact;
            wrong += !right;
            unlike_scalar += !isnan(exact) && bits_of(wide[i]) != bits_of(plain[i]);
        }
        guarded_free(row);
    }
    CHECK_MSG(wrong == 0, "type %d: %zu elements are wrong", (int)type, wrong);
    CHECK_MSG(unlike_scalar == 0, "type %d: %zu unlike the scalar kernel", (int)type,
              unlike_scalar);
}

TEST(q8_0_blocks_of_every_scale_are_converted_exactly) {
    check_blocks(WHET_Q8_0, whet_kernels_get()->q8_0_to_f32,
                 whet_kernels_named("scalar")->q8_0_to_f32);
}

TEST(q4_0_blocks_of_every_scale_are_converted_exactly) {
    check_blocks(WHET_Q4_0, whet_kernels_get()->q4_0_to_f32,
                 whet_kernels_named("scalar")->q4_0_to_f32);
}

TEST(q4_1_blocks_of_every_scale_are_converted_exactly) {
    check_blocks(WHET_Q4_1, whet_kernels_get()->q4_1_to_f32,
                 whet_kernels_named("scalar")->q4_1_to_f32);
}

TEST(q5_0_blocks_of_every_scale_are_converted_exactly) {
    check_blocks(WHET_Q5_0, whet_kernels_get()->q5_0_to_f32,
                 whet_kernels_named("scalar")->q5_0_to_f32);
}

TEST(q5_1_blocks_of_every_scale_are_converted_exactly) {
    check_blocks(WHET_Q5_1, whet_kernels_get()->q5_1_to_f32,
                 whet_kernels_named("scalar")->q5_1_to_f32);
}

TEST(iq4_nl_blocks_of_every_scale_are_converted_exactly) {
    check_blocks(WHET_IQ4_NL, whet_kernels_get()->iq4_nl_to_f32,
                 whet_kernels_named("scalar")->iq4_nl_to_f32);
}
