/*
 * Eight floats: AVX2 with FMA and F16C. See vec_scalar.h for what each name
 * means. Twelve accumulators of the panel product, three vectors of queries
 * and one broadcast key fill the sixteen registers.
 */
#include <immintrin.h>

#define WIDTH 8
#define PANEL_VECTORS 3
#define STRIP 4
#define CACHE_KEYS 3
#define QUANT_KEYS 2
#define CACHE_SUMS 12
#define HAS_NONTEMPORAL 1

typedef __m256 vec;
typedef __m256 vec_mask;

static inline __m256i vec_tail_mask(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vec vec_set(float x) { return _mm256_set1_ps(x); }
static inline vec vec_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vec_store(float *p, vec x) { _mm256_storeu_ps(p, x); }
static inline void vec_store_nontemporal(float *p, vec x) { _mm256_stream_ps(p, x); }
static inline void vec_nontemporal_end(void) { _mm_sfence(); }
static inline vec vec_load_tail(const float *p, size_t n, float fill) {
    __m256i mask = vec_tail_mask(n);
    return _mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask),
                            _mm256_castsi256_ps(mask));
}
static inline void vec_store_tail(float *p, size_t n, vec x) {
    _mm256_maskstore_ps(p, vec_tail_mask(n), x);
}
static inline vec vec_broadcast(const float *p, int i) { return _mm256_set1_ps(p[i]); }
static inline vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm256_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline vec vec_fnma(vec a, vec b, vec c) { return _mm256_fnmadd_ps(a, b, c); }
/* GCC, left to itself, moves sums about in a long loop, and one of them into memory for lack of a
 * register. */
static inline void vec_add_product(vec *sum, vec a, vec b) {
    *sum = _mm256_fmadd_ps(a, b, *sum);
    __asm__("" : "+x"(*sum));
}
static inline vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm256_min_ps(a, b); }
static inline float vec_sum(vec x) {
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
/* Per half: a0 + a2, a1 + a3, b0 + b2, b1 + b3. */
static inline __m256 vec_pair(__m256 a, __m256 b) {
    __m256d x = _mm256_castps_pd(a), y = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_blend_pd(x, y, 0xa)),
                         _mm256_castpd_ps(_mm256_shuffle_pd(x, y, 0x5)));
}
/* The sums of four vectors at once. (Horizontal additions would occupy the multipliers' ports.) */
static inline void vec_sum4(const vec x[4], float *sums) {
    __m256 ab = vec_pair(x[0], x[1]), cd = vec_pair(x[2], x[3]);
    __m256 abcd = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x88), _mm256_shuffle_ps(ab, cd, 0xdd));
    _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
}
static inline void vec_load_transposed(const float *p, vec x[4]) {
    __m256 t[4];
    for (int i = 0; i < 4; i++)
        t[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4 * i)),
                                    _mm_loadu_ps(p + 4 * (i + 4)), 1);
    __m256 low01 = _mm256_unpacklo_ps(t[0], t[1]), high01 = _mm256_unpackhi_ps(t[0], t[1]);
    __m256 low23 = _mm256_unpacklo_ps(t[2], t[3]), high23 = _mm256_unpackhi_ps(t[2], t[3]);
    x[0] = _mm256_shuffle_ps(low01, low23, 0x44);
    x[1] = _mm256_shuffle_ps(low01, low23, 0xee);
    x[2] = _mm256_shuffle_ps(high01, high23, 0x44);
    x[3] = _mm256_shuffle_ps(high01, high23, 0xee);
}
static inline float vec_largest(vec x) {
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}
static inline vec_mask vec_less(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline vec_mask vec_equal(vec a, vec b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline vec vec_select(vec_mask m, vec yes, vec no) { return _mm256_blendv_ps(no, yes, m); }
static inline int vec_any(vec_mask m) { return _mm256_movemask_ps(m) != 0; }

/* The table holds the bits of 2^(j / 4) less j << 21, so that adding n << 21 to entry n % 4 puts
 * n / 4 into the exponent and leaves the fraction right. Looking up four entries is one operation,
 * eight would be two. */
#define EXP_STEPS 4
#define EXP_MAGIC 0x1.8p23f
static inline vec vec_exp2_factor(vec t) {
    const __m256i table = _mm256_setr_epi32(0x3f800000, 0x3f7837f0, 0x3f7504f3, 0x3f7744fd,
                                            0x3f800000, 0x3f7837f0, 0x3f7504f3, 0x3f7744fd);
    __m256i n = _mm256_castps_si256(t);
    __m256i entry = _mm256_castps_si256(_mm256_permutevar_ps(_mm256_castsi256_ps(table), n));
    return _mm256_castsi256_ps(_mm256_add_epi32(entry, _mm256_slli_epi32(n, 21)));
}

#define SQRT_HALF_BITS 0x3f3504f3
static inline vec vec_split(vec x, vec *exponent) {
    __m256i bits = _mm256_castps_si256(x);
    __m256i n = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(SQRT_HALF_BITS)), 23);
    *exponent = _mm256_cvtepi32_ps(n);
    return _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(n, 23)));
}

static inline vec vec_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vec vec_load_bf16(const uint16_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline void vec_store_f16(uint16_t *p, vec x) {
    _mm_storeu_si128((__m128i *)(void *)p,
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vec_store_bf16(uint16_t *p, vec x) {
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(packed));
}
static inline vec vec_load_i8(const int8_t *p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
/* All sixteen are looked up at once; two vectors of them share that when this is inlined. */
typedef int8_t vec_code;
static inline vec vec_look_up(__m128i halves, size_t i, const vec_code codes[16]) {
    __m128i table = _mm_loadu_si128((const __m128i *)(const void *)codes);
    __m128i x = _mm_shuffle_epi8(table, _mm_and_si128(halves, _mm_set1_epi8(15)));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(i ? _mm_unpackhi_epi64(x, x) : x));
}
static inline vec vec_load_low4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    return vec_look_up(_mm_loadu_si128((const __m128i *)(const void *)p), i, codes);
}
static inline vec vec_load_high4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return vec_look_up(_mm_srli_epi16(bytes, 4), i, codes);
}
static inline vec vec_add_16(vec x, uint32_t bits, size_t first) {
    __m256i lanes =
        _mm256_sllv_epi32(_mm256_set1_epi32(1 << first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i is_set =
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), lanes), lanes);
    return vec_add(x, _mm256_and_ps(_mm256_castsi256_ps(is_set), vec_set(16.0f)));
}
static inline vec vec_set_f16(uint16_t x) { return _mm256_cvtph_ps(_mm_set1_epi16((short)x)); }
