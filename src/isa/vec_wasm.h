/*
 * Four floats: the 128-bit vectors of WebAssembly, without its relaxed instructions,
 * which not every engine has. See vec_scalar.h for what each name means. Nothing
 * fuses a multiplication and an addition here: vec_fma rounds twice, and EXP_NEAR is
 * small enough that exponentials do not notice. Twelve accumulators of the panel
 * product, three vectors of queries and one key fill the sixteen registers that an
 * engine has on x86-64.
 */
#include <string.h>
#include <wasm_simd128.h>

#define WIDTH 4
#define PANEL_VECTORS 3
#define STRIP 4
#define CACHE_KEYS 2
#define QUANT_KEYS 2
#define CACHE_SUMS 8
#define HAS_NONTEMPORAL 0

typedef v128_t vec;
typedef v128_t vec_mask;

static inline vec vec_set(float x) { return wasm_f32x4_splat(x); }
static inline vec vec_load(const float *p) { return wasm_v128_load(p); }
static inline void vec_store(float *p, vec x) { wasm_v128_store(p, x); }
static inline void vec_store_nontemporal(float *p, vec x) { wasm_v128_store(p, x); }
static inline void vec_nontemporal_end(void) {}
static inline vec vec_load_tail(const float *p, size_t n, float fill) {
    if (n == WIDTH)
        return wasm_v128_load(p);
    vec x = wasm_f32x4_splat(fill);
    if (n > 0)
        x = wasm_v128_load32_lane(p, x, 0);
    if (n > 1)
        x = wasm_v128_load32_lane(p + 1, x, 1);
    if (n > 2)
        x = wasm_v128_load32_lane(p + 2, x, 2);
    return x;
}
static inline void vec_store_tail(float *p, size_t n, vec x) {
    if (n > 0)
        wasm_v128_store32_lane(p, x, 0);
    if (n > 1)
        wasm_v128_store32_lane(p + 1, x, 1);
    if (n > 2)
        wasm_v128_store32_lane(p + 2, x, 2);
    if (n > 3)
        wasm_v128_store32_lane(p + 3, x, 3);
}
static inline vec vec_broadcast(const float *p, int i) { return wasm_v128_load32_splat(p + i); }
static inline vec vec_add(vec a, vec b) { return wasm_f32x4_add(a, b); }
static inline vec vec_sub(vec a, vec b) { return wasm_f32x4_sub(a, b); }
static inline vec vec_mul(vec a, vec b) { return wasm_f32x4_mul(a, b); }
static inline vec vec_div(vec a, vec b) { return wasm_f32x4_div(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return wasm_f32x4_add(wasm_f32x4_mul(a, b), c); }
static inline vec vec_fnma(vec a, vec b, vec c) { return wasm_f32x4_sub(c, wasm_f32x4_mul(a, b)); }
static inline void vec_add_product(vec *sum, vec a, vec b) { *sum = vec_fma(a, b, *sum); }
/* The pseudo-maximum is b < a ? a : b, for which most processors have one instruction. */
static inline vec vec_max(vec a, vec b) { return wasm_f32x4_pmax(b, a); }
static inline vec vec_min(vec a, vec b) { return wasm_f32x4_pmin(b, a); }
static inline float vec_sum(vec x) {
    x = wasm_f32x4_add(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));
    return wasm_f32x4_extract_lane(x, 0) + wasm_f32x4_extract_lane(x, 1);
}
static inline void vec_transpose(vec x[4]) {
    vec low01 = wasm_i32x4_shuffle(x[0], x[1], 0, 4, 1, 5);
    vec low23 = wasm_i32x4_shuffle(x[2], x[3], 0, 4, 1, 5);
    vec high01 = wasm_i32x4_shuffle(x[0], x[1], 2, 6, 3, 7);
    vec high23 = wasm_i32x4_shuffle(x[2], x[3], 2, 6, 3, 7);
    x[0] = wasm_i64x2_shuffle(low01, low23, 0, 2);
    x[1] = wasm_i64x2_shuffle(low01, low23, 1, 3);
    x[2] = wasm_i64x2_shuffle(high01, high23, 0, 2);
    x[3] = wasm_i64x2_shuffle(high01, high23, 1, 3);
}
static inline void vec_sum4(const vec x[4], float *sums) {
    vec t[4] = {x[0], x[1], x[2], x[3]};
    vec_transpose(t);
    wasm_v128_store(sums, wasm_f32x4_add(wasm_f32x4_add(t[0], t[2]), wasm_f32x4_add(t[1], t[3])));
}
static inline void vec_load_transposed(const float *p, vec x[4]) {
    for (int i = 0; i < 4; i++)
        x[i] = wasm_v128_load(p + 4 * i);
    vec_transpose(x);
}
static inline float vec_largest(vec x) {
    x = vec_max(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));
    x = vec_max(x, wasm_i32x4_shuffle(x, x, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(x, 0);
}
static inline vec_mask vec_less(vec a, vec b) { return wasm_f32x4_lt(a, b); }
static inline vec_mask vec_equal(vec a, vec b) { return wasm_f32x4_eq(a, b); }
static inline vec vec_select(vec_mask m, vec yes, vec no) {
    return wasm_v128_bitselect(yes, no, m);
}
static inline int vec_any(vec_mask m) { return wasm_v128_any_true(m); }

#define EXP_STEPS 1
#define EXP_MAGIC (0x1.8p23f + 127.0f)
/* The rounded product of a logit and its scale is off by 2^-24 of itself, which becomes the
 * relative error of the exponential: larger maxima are subtracted first. */
#define EXP_NEAR 0x1p2f
static inline vec vec_exp2_factor(vec t) { return wasm_i32x4_shl(t, 23); }

#define SQRT_HALF_BITS 0x3f3504f3
static inline vec vec_split(vec x, vec *exponent) {
    v128_t n = wasm_i32x4_shr(wasm_i32x4_sub(x, wasm_i32x4_splat(SQRT_HALF_BITS)), 23);
    *exponent = wasm_f32x4_convert_i32x4(n);
    return wasm_i32x4_sub(x, wasm_i32x4_shl(n, 23));
}

/* Half precision by arithmetic on bits, as in half.h: no instruction converts it. Not inlined,
 * since that would be a tenth of the module. */
static __attribute__((noinline)) vec vec_from_f16(v128_t half) {
    v128_t sign = wasm_i32x4_shl(wasm_v128_and(half, wasm_i32x4_splat(0x8000)), 16);
    v128_t magnitude = wasm_v128_and(half, wasm_i32x4_splat(0x7fff));
    v128_t x = wasm_f32x4_mul(wasm_i32x4_shl(magnitude, 13), wasm_f32x4_splat(0x1p112f));
    v128_t unbounded = wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x7bff));
    v128_t nan = wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x7c00));
    x = wasm_v128_or(x, wasm_v128_and(unbounded, wasm_i32x4_splat(0x7f800000)));
    x = wasm_v128_or(x, wasm_v128_and(nan, wasm_i32x4_splat(0x400000)));
    return wasm_v128_or(x, sign);
}
static inline vec vec_load_f16(const uint16_t *p) { return vec_from_f16(wasm_u32x4_load16x4(p)); }
static inline vec vec_load_bf16(const uint16_t *p) {
    return wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16);
}
/* The lower halves of four 32-bit numbers. */
static inline void vec_store_u16(uint16_t *p, v128_t x) {
    wasm_v128_store64_lane(p, wasm_i16x8_shuffle(x, x, 0, 2, 4, 6, 0, 2, 4, 6), 0);
}
static inline void vec_store_f16(uint16_t *p, vec x) {
    v128_t sign = wasm_v128_and(wasm_u32x4_shr(x, 16), wasm_i32x4_splat(0x8000));
    v128_t magnitude = wasm_v128_and(x, wasm_i32x4_splat(0x7fffffff));
    v128_t odd = wasm_v128_and(wasm_u32x4_shr(magnitude, 13), wasm_i32x4_splat(1));
    v128_t rounded = wasm_i32x4_add(magnitude, wasm_i32x4_add(odd, wasm_i32x4_splat(0xfff)));
    v128_t half = wasm_u32x4_shr(wasm_i32x4_sub(rounded, wasm_i32x4_splat(0x38000000)), 13);
    /* Adding 1/2 moves the bits of a subnormal to the bottom, rounded by the adder. */
    v128_t small =
        wasm_i32x4_sub(wasm_f32x4_add(magnitude, vec_set(0.5f)), wasm_i32x4_splat(0x3f000000));
    v128_t payload = wasm_v128_and(wasm_u32x4_shr(magnitude, 13), wasm_i32x4_splat(0x3ff));
    v128_t nan = wasm_v128_or(payload, wasm_i32x4_splat(0x7e00));
    half = wasm_v128_bitselect(small, half, wasm_i32x4_lt(magnitude, wasm_i32x4_splat(0x38800000)));
    half = wasm_v128_bitselect(wasm_i32x4_splat(0x7c00), half,
                               wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x477fefff)));
    half = wasm_v128_bitselect(nan, half, wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x7f800000)));
    vec_store_u16(p, wasm_v128_or(half, sign));
}
static inline void vec_store_bf16(uint16_t *p, vec x) {
    v128_t odd = wasm_v128_and(wasm_u32x4_shr(x, 16), wasm_i32x4_splat(1));
    v128_t rounded = wasm_i32x4_add(x, wasm_i32x4_add(odd, wasm_i32x4_splat(0x7fff)));
    v128_t quiet = wasm_v128_or(x, wasm_i32x4_splat(0x400000));
    vec_store_u16(p, wasm_u32x4_shr(wasm_v128_bitselect(rounded, quiet, wasm_f32x4_eq(x, x)), 16));
}

static inline vec vec_load_i8(const int8_t *p) {
    v128_t bytes = wasm_v128_load32_zero(p);
    return wasm_f32x4_convert_i32x4(
        wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(bytes)));
}
/* All sixteen are looked up at once; vectors of them share that when this is inlined. */
typedef int8_t vec_code;
static inline vec vec_look_up(v128_t halves, size_t i, const vec_code codes[16]) {
    v128_t x = wasm_i8x16_swizzle(wasm_v128_load(codes), halves);
    v128_t wide = i < 8 ? wasm_i16x8_extend_low_i8x16(x) : wasm_i16x8_extend_high_i8x16(x);
    return wasm_f32x4_convert_i32x4(i % 8 ? wasm_i32x4_extend_high_i16x8(wide)
                                          : wasm_i32x4_extend_low_i16x8(wide));
}
static inline vec vec_load_low4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    return vec_look_up(wasm_v128_and(wasm_v128_load(p), wasm_i8x16_splat(15)), i, codes);
}
static inline vec vec_load_high4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    return vec_look_up(wasm_u8x16_shr(wasm_v128_load(p), 4), i, codes);
}
static inline vec vec_add_16(vec x, uint32_t bits, size_t first) {
    v128_t lanes = wasm_i32x4_shl(wasm_i32x4_const(1, 2, 4, 8), (uint32_t)first);
    v128_t is_set = wasm_i32x4_eq(wasm_v128_and(wasm_i32x4_splat((int32_t)bits), lanes), lanes);
    return vec_add(x, wasm_v128_and(is_set, vec_set(16.0f)));
}
static inline vec vec_set_f16(uint16_t x) { return vec_from_f16(wasm_i32x4_splat(x)); }
