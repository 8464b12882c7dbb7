/*
 * The AVX-512 intrinsics that src/isa/vec_avx512.h uses, each made of two of AVX2. With this folder
 * before the compiler's own, the AVX-512 kernels run on a processor that lacks AVX-512, at a good
 * part of its speed and under sanitizers. Each follows the processor's manual, lane by lane where
 * halves are not enough. This tests what the kernels compute, not the instructions that the
 * compiler chose; tools/test-avx512.sh tests those.
 */
#pragma GCC system_header /* #include_next is not standard C */
#include_next <immintrin.h>

#ifndef WHET_TESTS_IMMINTRIN_H
#define WHET_TESTS_IMMINTRIN_H

#include <stdint.h>
#include <stdlib.h>

typedef struct wide_ps {
    __m256 half[2];
} wide_ps;

typedef struct wide_int {
    __m256i half[2];
} wide_int;

#define WIDE(name) static inline __attribute__((always_inline, unused)) name

#define WIDE_BINARY(type, name, half_of)                                                           \
    WIDE(type) name(type a, type b) {                                                              \
        return (type){{half_of(a.half[0], b.half[0]), half_of(a.half[1], b.half[1])}};             \
    }
#define WIDE_TERNARY(name, half_of)                                                                \
    WIDE(wide_ps) name(wide_ps a, wide_ps b, wide_ps c) {                                          \
        return (wide_ps){                                                                          \
            {half_of(a.half[0], b.half[0], c.half[0]), half_of(a.half[1], b.half[1], c.half[1])}}; \
    }
#define WIDE_SHIFT(name, half_of)                                                                  \
    WIDE(wide_int) name(wide_int a, unsigned count) {                                              \
        return (wide_int){{half_of(a.half[0], (int)count), half_of(a.half[1], (int)count)}};       \
    }

WIDE_BINARY(wide_ps, wide_add, _mm256_add_ps)
WIDE_BINARY(wide_ps, wide_sub, _mm256_sub_ps)
WIDE_BINARY(wide_ps, wide_mul, _mm256_mul_ps)
WIDE_BINARY(wide_ps, wide_div, _mm256_div_ps)
WIDE_BINARY(wide_ps, wide_max, _mm256_max_ps)
WIDE_BINARY(wide_ps, wide_min, _mm256_min_ps)
WIDE_BINARY(wide_ps, wide_unpack_low, _mm256_unpacklo_ps)
WIDE_BINARY(wide_ps, wide_unpack_high, _mm256_unpackhi_ps)
WIDE_TERNARY(wide_fma, _mm256_fmadd_ps)
WIDE_TERNARY(wide_fnma, _mm256_fnmadd_ps)
WIDE_BINARY(wide_int, wide_int_add, _mm256_add_epi32)
WIDE_BINARY(wide_int, wide_int_sub, _mm256_sub_epi32)
WIDE_BINARY(wide_int, wide_int_and, _mm256_and_si256)
WIDE_BINARY(wide_int, wide_int_or, _mm256_or_si256)
WIDE_SHIFT(wide_int_shift_left, _mm256_slli_epi32)
WIDE_SHIFT(wide_int_shift_right, _mm256_srli_epi32)
WIDE_SHIFT(wide_int_shift_signed, _mm256_srai_epi32)

WIDE(wide_ps) wide_set(float x) { return (wide_ps){{_mm256_set1_ps(x), _mm256_set1_ps(x)}}; }
WIDE(wide_int) wide_int_set(int x) {
    return (wide_int){{_mm256_set1_epi32(x), _mm256_set1_epi32(x)}};
}
WIDE(wide_ps) wide_load(const float *p) {
    return (wide_ps){{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}};
}
WIDE(void) wide_store(float *p, wide_ps x) {
    _mm256_storeu_ps(p, x.half[0]);
    _mm256_storeu_ps(p + 8, x.half[1]);
}
/* The processor requires alignment. */
WIDE(void) wide_stream(float *p, wide_ps x) {
    if ((uintptr_t)p % 64 != 0)
        abort();
    _mm256_stream_ps(p, x.half[0]);
    _mm256_stream_ps(p + 8, x.half[1]);
}

WIDE(wide_ps) wide_mask_load(wide_ps other, __mmask16 mask, const float *p) {
    float lanes[16];
    wide_store(lanes, other);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            lanes[i] = p[i];
    return wide_load(lanes);
}
WIDE(void) wide_mask_store(float *p, __mmask16 mask, wide_ps x) {
    float lanes[16];
    wide_store(lanes, x);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            p[i] = lanes[i];
}
WIDE(wide_ps) wide_blend(__mmask16 mask, wide_ps no, wide_ps yes) {
    float lanes[16];
    wide_store(lanes, yes);
    return wide_mask_load(no, mask, lanes);
}

WIDE(wide_ps) wide_of_bits(wide_int x) {
    return (wide_ps){{_mm256_castsi256_ps(x.half[0]), _mm256_castsi256_ps(x.half[1])}};
}
WIDE(wide_int) wide_bits(wide_ps x) {
    return (wide_int){{_mm256_castps_si256(x.half[0]), _mm256_castps_si256(x.half[1])}};
}
WIDE(wide_int) wide_int_blend(__mmask16 mask, wide_int no, wide_int yes) {
    return wide_bits(wide_blend(mask, wide_of_bits(no), wide_of_bits(yes)));
}
WIDE(__m256) wide_low(wide_ps x) { return x.half[0]; }

/* Halves first, as in the compiler's sequence. */
WIDE(float) wide_reduce_add(wide_ps x) {
    __m256 a = _mm256_add_ps(x.half[1], x.half[0]);
    __m128 b = _mm_add_ps(_mm256_extractf128_ps(a, 1), _mm256_castps256_ps128(a));
    __m128 c = _mm_add_ps(_mm_movehl_ps(b, b), b);
    return _mm_cvtss_f32(c) + _mm_cvtss_f32(_mm_movehdup_ps(c));
}
WIDE(float) wide_reduce_max(wide_ps x) {
    __m256 a = _mm256_max_ps(x.half[1], x.half[0]);
    __m128 b = _mm_max_ps(_mm256_extractf128_ps(a, 1), _mm256_castps256_ps128(a));
    __m128 c = _mm_max_ps(_mm_movehl_ps(b, b), b);
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

/* Lane i is the one that index i selects from the 32 of a and b. */
WIDE(wide_ps) wide_choose(wide_ps a, wide_int index, wide_ps b) {
    float from[32], lanes[16];
    int32_t at[16];
    wide_store(from, a);
    wide_store(from + 16, b);
    _mm256_storeu_si256((__m256i *)(void *)at, index.half[0]);
    _mm256_storeu_si256((__m256i *)(void *)(at + 8), index.half[1]);
    for (int i = 0; i < 16; i++)
        lanes[i] = from[at[i] & 31];
    return wide_load(lanes);
}
/* Quarters: two of a, two of b. */
WIDE(wide_ps) wide_quarters(wide_ps a, wide_ps b, unsigned which) {
    float from[32], lanes[16];
    wide_store(from, a);
    wide_store(from + 16, b);
    for (unsigned i = 0; i < 16; i++)
        lanes[i] = from[i / 8 * 16 + (which >> (i / 4 * 2) & 3) * 4 + i % 4];
    return wide_load(lanes);
}

WIDE(wide_ps) wide_from_int(wide_int x) {
    return (wide_ps){{_mm256_cvtepi32_ps(x.half[0]), _mm256_cvtepi32_ps(x.half[1])}};
}
WIDE(wide_ps) wide_from_f16(__m256i x) {
    return (wide_ps){{_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
                      _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))}};
}
WIDE(wide_int) wide_int_from_u16(__m256i x) {
    return (wide_int){{_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)),
                       _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1))}};
}
WIDE(wide_int) wide_int_from_i8(__m128i x) {
    return (wide_int){{_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))}};
}
WIDE(wide_int) wide_int_from_u8(__m128i x) {
    return (wide_int){{_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))}};
}
/* The low halves of the lanes. */
WIDE(__m256i) wide_int_to_16(wide_int x) {
    const __m256i low = _mm256_set1_epi32(0xffff);
    __m256i packed =
        _mm256_packus_epi32(_mm256_and_si256(x.half[0], low), _mm256_and_si256(x.half[1], low));
    return _mm256_permute4x64_epi64(packed, 0xd8);
}

#define __m512 wide_ps
#define __m512i wide_int
#define _mm512_add_ps wide_add
#define _mm512_sub_ps wide_sub
#define _mm512_mul_ps wide_mul
#define _mm512_div_ps wide_div
#define _mm512_max_ps wide_max
#define _mm512_min_ps wide_min
#define _mm512_unpacklo_ps wide_unpack_low
#define _mm512_unpackhi_ps wide_unpack_high
#define _mm512_fmadd_ps wide_fma
#define _mm512_fnmadd_ps wide_fnma
#define _mm512_add_epi32 wide_int_add
#define _mm512_sub_epi32 wide_int_sub
#define _mm512_and_si512 wide_int_and
#define _mm512_or_si512 wide_int_or
#define _mm512_slli_epi32 wide_int_shift_left
#define _mm512_srli_epi32 wide_int_shift_right
#define _mm512_srai_epi32 wide_int_shift_signed
#define _mm512_set1_ps wide_set
#define _mm512_set1_epi32 wide_int_set
#undef _mm512_setr_epi32
#define _mm512_setr_epi32(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                          \
    ((wide_int){                                                                                   \
        {_mm256_setr_epi32(a, b, c, d, e, f, g, h), _mm256_setr_epi32(i, j, k, l, m, n, o, p)}})
#define _mm512_loadu_ps wide_load
#define _mm512_storeu_ps wide_store
#define _mm512_stream_ps wide_stream
#define _mm512_mask_loadu_ps wide_mask_load
#define _mm512_mask_storeu_ps wide_mask_store
#define _mm512_mask_blend_ps wide_blend
#define _mm512_mask_add_ps(src, mask, a, b) wide_blend(mask, src, wide_add(a, b))
#define _mm512_mask_blend_epi32 wide_int_blend
#define _mm512_castsi512_ps wide_of_bits
#define _mm512_castps_si512 wide_bits
#define _mm512_castps512_ps256 wide_low
#define _mm512_extractf32x8_ps(x, which) ((x).half[which])
#define _mm512_reduce_add_ps wide_reduce_add
#define _mm512_reduce_max_ps wide_reduce_max
#define _mm512_permutex2var_ps wide_choose
#define _mm512_permutexvar_ps(index, a) wide_choose(a, index, a)
#define _mm512_shuffle_f32x4 wide_quarters
#define _mm512_shuffle_ps(a, b, which)                                                             \
    ((wide_ps){{_mm256_shuffle_ps((a).half[0], (b).half[0], which),                                \
                _mm256_shuffle_ps((a).half[1], (b).half[1], which)}})
#define _mm512_cmp_ps_mask(a, b, how)                                                              \
    ((__mmask16)((unsigned)_mm256_movemask_ps(_mm256_cmp_ps((a).half[0], (b).half[0], how)) |      \
                 (unsigned)_mm256_movemask_ps(_mm256_cmp_ps((a).half[1], (b).half[1], how)) << 8))
#define _mm512_cvtepi32_ps wide_from_int
#define _mm512_cvtph_ps wide_from_f16
#define _mm512_cvtps_ph(x, how)                                                                    \
    _mm256_set_m128i(_mm256_cvtps_ph((x).half[1], how), _mm256_cvtps_ph((x).half[0], how))
#define _mm512_cvtepu16_epi32 wide_int_from_u16
#define _mm512_cvtepi8_epi32 wide_int_from_i8
#define _mm512_cvtepu8_epi32 wide_int_from_u8
#define _mm512_cvtepi32_epi16 wide_int_to_16

#endif
