/*
 * A vector of one float: the template in plain C. It is the reference for the other
 * instruction sets and what runs where none of them is available.
 *
 * Every vec_*.h defines the same names: the types, the shape of a panel (see panels.inc),
 * and the operations below; nothing else differs between sets.
 */
#include "isa/half.h"
#include <math.h>
#include <string.h>

#define WIDTH 1
#define PANEL_VECTORS 3   /* vectors of query rows in a panel */
#define STRIP 4           /* keys, or value columns, per step of the panel product */
#define CACHE_KEYS 2      /* keys per step of decoding */
#define QUANT_KEYS 2      /* quantised ones, which need registers for scales, too */
#define CACHE_SUMS 4      /* sums of values in registers when decoding */
#define HAS_NONTEMPORAL 0 /* whether stores that bypass the caches differ from others */

typedef float vec;
typedef float vec_mask; /* 0 or 1 */

static inline vec vec_set(float x) { return x; }
static inline vec vec_load(const float *p) { return *p; }
static inline void vec_store(float *p, vec x) { *p = x; }
static inline void vec_store_nontemporal(float *p, vec x) { *p = x; }
static inline void vec_nontemporal_end(void) {}
static inline vec vec_load_tail(const float *p, size_t n, float fill) { return n ? *p : fill; }
static inline void vec_store_tail(float *p, size_t n, vec x) {
    if (n)
        *p = x;
}
/* One of the STRIP floats at p, in every lane. */
static inline vec vec_broadcast(const float *p, int i) { return p[i]; }
static inline vec vec_add(vec a, vec b) { return a + b; }
static inline vec vec_sub(vec a, vec b) { return a - b; }
static inline vec vec_mul(vec a, vec b) { return a * b; }
static inline vec vec_div(vec a, vec b) { return a / b; }
static inline vec vec_fma(vec a, vec b, vec c) { return fmaf(a, b, c); }
static inline vec vec_fnma(vec a, vec b, vec c) { return fmaf(-a, b, c); }
/* sum = a b + sum, in the register that sum is in. */
static inline void vec_add_product(vec *sum, vec a, vec b) { *sum = fmaf(a, b, *sum); }
/* NaN in the first operand gives the second; NaN in the second is kept. */
static inline vec vec_max(vec a, vec b) { return a > b ? a : b; }
static inline vec vec_min(vec a, vec b) { return a < b ? a : b; }
static inline float vec_sum(vec x) { return x; }
/* The sums of four vectors at once. */
static inline void vec_sum4(const vec x[4], float *sums) {
    for (int i = 0; i < 4; i++)
        sums[i] = x[i];
}
/* WIDTH entries of four floats each: their first floats, second floats and so on. */
static inline void vec_load_transposed(const float *p, vec x[4]) {
    for (int i = 0; i < 4; i++)
        x[i] = p[i];
}
static inline float vec_largest(vec x) { return x; }
static inline vec_mask vec_less(vec a, vec b) { return a < b ? 1.0f : 0.0f; }
static inline vec_mask vec_equal(vec a, vec b) { return a == b ? 1.0f : 0.0f; }
static inline vec vec_select(vec_mask m, vec yes, vec no) { return m != 0.0f ? yes : no; }
static inline int vec_any(vec_mask m) { return m != 0.0f; }

/*
 * The factor 2^(n / EXP_STEPS) of an exponential, from t = n + EXP_MAGIC, whose
 * low bits hold n (and here the bias of an exponent already); exactly 0 for
 * n = -127 EXP_STEPS. More steps leave a shorter polynomial to evaluate, where a
 * table of them can be looked up in one instruction.
 */
#define EXP_STEPS 1
#define EXP_MAGIC (0x1.8p23f + 127.0f)
static inline vec vec_exp2_factor(vec t) {
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits <<= 23;
    memcpy(&t, &bits, sizeof t);
    return t;
}

/*
 * x = fraction 2^exponent with a fraction between sqrt(1/2), whose bits these are, and
 * sqrt(2): the first step of a logarithm. x is positive; 0 gives 2^-127.
 */
#define SQRT_HALF_BITS 0x3f3504f3
static inline vec vec_split(vec x, vec *exponent) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int32_t above = bits - SQRT_HALF_BITS;
    int32_t n = above >= 0 ? above / 0x800000 : -((0x7fffff - above) / 0x800000);
    *exponent = (float)n;
    bits -= n * 0x800000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline vec vec_load_f16(const uint16_t *p) { return half_to_float(*p); }
static inline vec vec_load_bf16(const uint16_t *p) { return brain_to_float(*p); }
static inline void vec_store_f16(uint16_t *p, vec x) { *p = float_to_half(x); }
static inline void vec_store_bf16(uint16_t *p, vec x) { *p = float_to_brain(x); }
/* Signed bytes. */
static inline vec vec_load_i8(const int8_t *p) { return (float)*p; }
/*
 * What the lower or the upper halves of bytes i and following stand for, of 16 bytes at p; codes
 * are integers. Then 16 more where a bit is set, from the `first` on.
 */
typedef float vec_code;
static inline vec vec_load_low4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    return codes[p[i] & 15];
}
static inline vec vec_load_high4(const uint8_t *p, size_t i, const vec_code codes[16]) {
    return codes[p[i] >> 4];
}
static inline vec vec_add_16(vec x, uint32_t bits, size_t first) {
    return x + (float)(bits >> first & 1) * 16;
}
/* One f16 in every place. */
static inline vec vec_set_f16(uint16_t x) { return half_to_float(x); }
