/*
 * Four floats: NEON as every 64-bit ARM has it (the base of Armv8-A). See
 * vec_scalar.h for what each name means. Twenty-four accumulators of the panel
 * product, three vectors of queries and two of keys, whose elements the
 * multiply-add picks by itself, make twenty-nine of the thirty-two registers.
 */
#include <arm_neon.h>
#include <string.h>

#define WIDTH 4
#define PANEL_VECTORS 3
#define STRIP 8
#define CACHE_KEYS 4
#define QUANT_KEYS 4
#define CACHE_SUMS 16
#define HAS_NONTEMPORAL 1

typedef float32x4_t vec;
typedef uint32x4_t vec_mask;

static inline vec vec_set(float x) { return vdupq_n_f32(x); }
static inline vec vec_load(const float *p) { return vld1q_f32(p); }
static inline void vec_store(float *p, vec x) { vst1q_f32(p, x); }
/* These processors detect that whole lines are written and bypass the caches. */
static inline void vec_store_nontemporal(float *p, vec x) { vst1q_f32(p, x); }
static inline void vec_nontemporal_end(void) {}
static inline vec vec_load_tail(const float *p, size_t n, float fill) {
    if (n == WIDTH)
        return vld1q_f32(p);
    vec x = vdupq_n_f32(fill);
    if (n > 0)
        x = vld1q_lane_f32(p, x, 0);
    if (n > 1)
        x = vld1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        x = vld1q_lane_f32(p + 2, x, 2);
    return x;
}
static inline void vec_store_tail(float *p, size_t n, vec x) {
    if (n > 0)
        vst1q_lane_f32(p, x, 0);
    if (n > 1)
        vst1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        vst1q_lane_f32(p + 2, x, 2);
    if (n > 3)
        vst1q_lane_f32(p + 3, x, 3);
}
/* A load of four and one of its elements: the compiler keeps the one and folds the other into the
 * multiply-add, where a load of one element to all lanes would take a slot of the vector unit. */
static inline vec vec_broadcast(const float *p, int i) {
    return vdupq_n_f32(vld1q_f32(p + i / WIDTH * WIDTH)[i % WIDTH]);
}
static inline vec vec_add(vec a, vec b) { return vaddq_f32(a, b); }
static inline vec vec_sub(vec a, vec b) { return vsubq_f32(a, b); }
static inline vec vec_mul(vec a, vec b) { return vmulq_f32(a, b); }
static inline vec vec_div(vec a, vec b) { return vdivq_f32(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
static inline vec vec_fnma(vec a, vec b, vec c) { return vfmsq_f32(c, a, b); }
static inline void vec_add_product(vec *sum, vec a, vec b) { *sum = vec_fma(a, b, *sum); }
/* None of the instructions for a maximum or minimum treats NaN as vec_scalar.h requires. */
static inline vec vec_max(vec a, vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vec vec_min(vec a, vec b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline float vec_sum(vec x) { return vaddvq_f32(x); }
static inline void vec_sum4(const vec x[4], float *sums) {
    vst1q_f32(sums, vpaddq_f32(vpaddq_f32(x[0], x[1]), vpaddq_f32(x[2], x[3])));
}
static inline void vec_load_transposed(const float *p, vec x[4]) {
    float32x4x4_t transposed = vld4q_f32(p);
    for (int r = 0; r < 4; r++)
        x[r] = transposed.val[r];
}
static inline float vec_largest(vec x) { return vmaxnmvq_f32(x); }
static inline vec_mask vec_less(vec a, vec b) { return vcltq_f32(a, b); }
static inline vec_mask vec_equal(vec a, vec b) { return vceqq_f32(a, b); }
static inline vec vec_select(vec_mask m, vec yes, vec no) { return vbslq_f32(m, yes, no); }
static inline int vec_any(vec_mask m) { return vmaxvq_u32(m) != 0; }

/* A table would be looked up byte by byte here: the longer polynomial is cheaper. */
#define EXP_STEPS 1
#define EXP_MAGIC (0x1.8p23f + 127.0f)
static inline vec vec_exp2_factor(vec t) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23));
}

#define SQRT_HALF_BITS 0x3f3504f3
static inline vec vec_split(vec x, vec *exponent) {
    int32x4_t bits = vreinterpretq_s32_f32(x);
    int32x4_t n = vshrq_n_s32(vsubq_s32(bits, vdupq_n_s32(SQRT_HALF_BITS)), 23);
    *exponent = vcvtq_f32_s32(n);
    return vreinterpretq_f32_s32(vsubq_s32(bits, vshlq_n_s32(n, 23)));
}

static inline vec vec_load_f16(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline vec vec_load_bf16(const uint16_t *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
static inline void vec_store_f16(uint16_t *p, vec x) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}
static inline void vec_store_bf16(uint16_t *p, vec x) {
    uint32x4_t bits = vreinterpretq_u32_f32(x);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    vst1_u16(p, vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16));
}

/* Four bytes, which need not be aligned, as the lowest of eight. */
static inline uint8x8_t vec_load_bytes(const void *p) {
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return vreinterpret_u8_u32(vdup_n_u32(bytes));
}
static inline vec vec_from_bytes(int8x8_t x) {
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(x))));
}
static inline vec vec_load_i8(const int8_t *p) {
    return vec_from_bytes(vreinterpret_s8_u8(vec_load_bytes(p)));
}
/* All sixteen are looked up at once; vectors of them share that when this is inlined. */
typedef int8_t vec_code;
static inline vec vec_look_up(uint8x16_t halves, size_t i, const vec_code codes[16]) {
    int8x16_t x = vqtbl1q_s8(vld1q_s8(codes), halves);
    int16x8_t wide = vmovl_s8(i < 8 ? vget_low_s8(x) : vget_high_s8(x));
    return vcvtq_f32_s32(vmovl_s16(i % 8 ? vget_high_s16(wide) : vget_low_s16(wide)));
}
static inline vec vec_load_low4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    return vec_look_up(vandq_u8(vld1q_u8(p), vdupq_n_u8(15)), i, codes);
}
static inline vec vec_load_high4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    return vec_look_up(vshrq_n_u8(vld1q_u8(p), 4), i, codes);
}
static inline vec vec_add_16(vec x, uint32_t bits, size_t first) {
    static const int32_t lanes[WIDTH] = {0, 1, 2, 3};
    uint32x4_t lane =
        vshlq_u32(vdupq_n_u32(1), vaddq_s32(vld1q_s32(lanes), vdupq_n_s32((int32_t)first)));
    uint32x4_t is_set = vtstq_u32(vdupq_n_u32(bits), lane);
    uint32x4_t more = vandq_u32(is_set, vreinterpretq_u32_f32(vec_set(16.0f)));
    return vec_add(x, vreinterpretq_f32_u32(more));
}
static inline vec vec_set_f16(uint16_t x) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(x)));
}
