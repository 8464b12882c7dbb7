/*
 * Sixteen floats: AVX-512 F, BW, DQ and VL. See vec_scalar.h for what each
 * name means. Twenty-four accumulators of the panel product and three vectors
 * of queries leave five registers; keys are broadcast from memory.
 */
#include <immintrin.h>

#define WIDTH 16
#define PANEL_VECTORS 3
#define STRIP 8
#define CACHE_KEYS 4
#define QUANT_KEYS 4
#define CACHE_SUMS 16
#define HAS_NONTEMPORAL 1

typedef __m512 vec;
typedef __mmask16 vec_mask;

static inline __mmask16 vec_tail_mask(size_t n) { return (__mmask16)((1u << n) - 1u); }

static inline vec vec_set(float x) { return _mm512_set1_ps(x); }
static inline vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vec_store(float *p, vec x) { _mm512_storeu_ps(p, x); }
static inline void vec_store_nontemporal(float *p, vec x) { _mm512_stream_ps(p, x); }
static inline void vec_nontemporal_end(void) { _mm_sfence(); }
static inline vec vec_load_tail(const float *p, size_t n, float fill) {
    return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), vec_tail_mask(n), p);
}
static inline void vec_store_tail(float *p, size_t n, vec x) {
    _mm512_mask_storeu_ps(p, vec_tail_mask(n), x);
}
static inline vec vec_broadcast(const float *p, int i) { return _mm512_set1_ps(p[i]); }
static inline vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline vec vec_fnma(vec a, vec b, vec c) { return _mm512_fnmadd_ps(a, b, c); }
static inline void vec_add_product(vec *sum, vec a, vec b) { *sum = vec_fma(a, b, *sum); }
static inline vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }
static inline float vec_sum(vec x) { return _mm512_reduce_add_ps(x); }
/* Thirteen operations, eight of them shuffles; reducing each vector separately with vhaddps takes
 * nineteen. */
static inline void vec_sum4(const vec x[4], float *sums) {
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));
    __m512 abcd = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(abcd), _mm512_extractf32x8_ps(abcd, 1));
    _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
static inline void vec_load_transposed(const float *p, vec x[4]) {
    /* lanes 0 and 1, then 2 and 3, of eight entries of four */
    const __m512i first =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
    vec a = vec_load(p), b = vec_load(p + 16), c = vec_load(p + 32), d = vec_load(p + 48);
    vec ab01 = _mm512_permutex2var_ps(a, first, b), ab23 = _mm512_permutex2var_ps(a, second, b);
    vec cd01 = _mm512_permutex2var_ps(c, first, d), cd23 = _mm512_permutex2var_ps(c, second, d);
    x[0] = _mm512_shuffle_f32x4(ab01, cd01, 0x44);
    x[1] = _mm512_shuffle_f32x4(ab01, cd01, 0xee);
    x[2] = _mm512_shuffle_f32x4(ab23, cd23, 0x44);
    x[3] = _mm512_shuffle_f32x4(ab23, cd23, 0xee);
}
static inline float vec_largest(vec x) { return _mm512_reduce_max_ps(x); }
static inline vec_mask vec_less(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vec_mask vec_equal(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vec vec_select(vec_mask m, vec yes, vec no) {
    return _mm512_mask_blend_ps(m, no, yes);
}
static inline int vec_any(vec_mask m) { return m != 0; }

#define EXP_STEPS 1
#define EXP_MAGIC (0x1.8p23f + 127.0f)
static inline vec vec_exp2_factor(vec t) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23));
}

#define SQRT_HALF_BITS 0x3f3504f3
static inline vec vec_split(vec x, vec *exponent) {
    __m512i bits = _mm512_castps_si512(x);
    __m512i n = _mm512_srai_epi32(_mm512_sub_epi32(bits, _mm512_set1_epi32(SQRT_HALF_BITS)), 23);
    *exponent = _mm512_cvtepi32_ps(n);
    return _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(n, 23)));
}

static inline vec vec_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline vec vec_load_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline void vec_store_f16(uint16_t *p, vec x) {
    _mm256_storeu_si256((__m256i *)(void *)p,
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vec_store_bf16(uint16_t *p, vec x) {
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512i high = _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, rounded, quiet), 16);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(high));
}
static inline vec vec_load_i8(const int8_t *p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
/* A permutation looks at the lower four bits of its indices alone. */
typedef float vec_code;
static inline vec vec_load_low4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(bytes), vec_load(codes));
}
static inline vec vec_load_high4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
    return _mm512_permutexvar_ps(_mm512_srli_epi32(_mm512_cvtepu8_epi32(bytes), 4),
                                 vec_load(codes));
}
static inline vec vec_add_16(vec x, uint32_t bits, size_t first) {
    return _mm512_mask_add_ps(x, (__mmask16)(bits >> first), x, vec_set(16.0f));
}
static inline vec vec_set_f16(uint16_t x) { return _mm512_cvtph_ps(_mm256_set1_epi16((short)x)); }
