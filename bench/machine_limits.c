/*
 * The limits of machine_limits.h. machine_limits.inc is written with the compiler's vectors and a
 * few intrinsics and compiled here for each instruction set through function attributes; the best
 * one that this processor has is chosen at run time. Nothing of src/isa is used on purpose: a
 * yardstick must not be built from what it measures.
 */
#include "machine_limits.h"

#include "isa/kernels.h"
#include "isa/sets.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { EXP_BLOCK = 2048, PEAK_ITERATIONS = 1 << 20 };

/* Multiply-adds in flight at once: as many as the registers of every set here can hold. */
#if defined(__aarch64__)
#define PEAK_CHAINS 24
#else
#define PEAK_CHAINS 12
#endif

typedef struct limit_functions {
    const char *isa;
    int lanes;
    void (*peak)(void *argument);
    void (*exp)(void *argument);
    void (*copy_plain)(void *argument);
    void (*copy_nontemporal)(void *argument);
    struct {
        const char *name;
        void (*run)(void *argument);
    } read[READ_VARIANTS];
} limit_functions;

/* Makes the optimiser assume that a result is used and that memory was read. */
static inline void keep(float value) { __asm__ volatile("" : : "m"(value) : "memory"); }

/* ---- 16 bytes: whatever the compiler's target has ---- */

typedef float vec_generic __attribute__((vector_size(16), may_alias));
typedef uint32_t veci_generic __attribute__((vector_size(16), may_alias));

#define vec vec_generic
#define veci veci_generic
#define TARGET
#define ISA(name) name##_generic
#define VEC_SET(x)                                                                                 \
    (vec) { x, x, x, x }
#define VEC_FENCE() ((void)0)
#define VEC_NONTEMPORAL(place, x) (*(place) = (x))
#if defined(__aarch64__)
#define ISA_NAME "neon"
#define VEC_FMA(a, b, c) ((vec)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define VEC_MAX(a, b) ((vec)vmaxq_f32((float32x4_t)(a), (float32x4_t)(b)))
#elif defined(__x86_64__)
#define ISA_NAME "generic"
#define VEC_FMA(a, b, c) ((a) * (b) + (c))
#define VEC_MAX(a, b) ((vec)_mm_max_ps((__m128)(a), (__m128)(b)))
#else
#define ISA_NAME "generic"
#define VEC_FMA(a, b, c) ((a) * (b) + (c))
#define VEC_MAX(a, b) ((vec)((((a) > (b)) & (veci)(a)) | (((a) <= (b)) & (veci)(b))))
#endif
#include "machine_limits.inc"

#if defined(__x86_64__)
#undef TARGET
#undef ISA
#undef ISA_NAME
#undef vec
#undef veci
#undef VEC_SET
#undef VEC_FMA
#undef VEC_MAX
#undef VEC_NONTEMPORAL
#undef VEC_FENCE
#define VEC_FENCE() _mm_sfence()

/* ---- 32 bytes ---- */

typedef float vec_avx2 __attribute__((vector_size(32), may_alias));
typedef uint32_t veci_avx2 __attribute__((vector_size(32), may_alias));

#define vec vec_avx2
#define veci veci_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define ISA(name) name##_avx2
#define ISA_NAME "avx2"
#define VEC_SET(x) ((vec)_mm256_set1_ps(x))
#define VEC_FMA(a, b, c) ((vec)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define VEC_MAX(a, b) ((vec)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define VEC_NONTEMPORAL(place, x) _mm256_stream_ps((float *)(place), (__m256)(x))
#include "machine_limits.inc"

#undef TARGET
#undef ISA
#undef ISA_NAME
#undef vec
#undef veci
#undef VEC_SET
#undef VEC_FMA
#undef VEC_MAX
#undef VEC_NONTEMPORAL

/* ---- 64 bytes ---- */

typedef float vec_avx512 __attribute__((vector_size(64), may_alias));
typedef uint32_t veci_avx512 __attribute__((vector_size(64), may_alias));

#define vec vec_avx512
#define veci veci_avx512
#define TARGET __attribute__((target("avx512f")))
#define ISA(name) name##_avx512
#define ISA_NAME "avx512"
#define VEC_SET(x) ((vec)_mm512_set1_ps(x))
#define VEC_FMA(a, b, c) ((vec)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define VEC_MAX(a, b) ((vec)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define VEC_NONTEMPORAL(place, x) _mm512_stream_ps((float *)(place), (__m512)(x))
#include "machine_limits.inc"

/* The processor's own byte string copy. */
static void copy_string(void *argument) {
    const copy_work *work = argument;
    const void *from = work->from;
    void *to = work->to;
    size_t bytes = work->bytes;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(bytes) : : "memory");
}
#endif

static void copy_library(void *argument) {
    const copy_work *work = argument;
    memcpy(work->to, work->from, work->bytes);
}

/* Sets with their own limits above; all others use the generic ones. */
#define HAS_avx512 1
#define HAS_avx2 1

static const limit_functions *limits(void) {
#define WHET_SET(name, target, flags, condition)                                                   \
    WHET_IF(target, WHET_IF(HAS_##name, if (whet_kernels_named(#name)) return &functions_##name;))
#include "isa/sets.def"
    return &functions_generic;
}

const char *bench_limit_isa(void) { return limits()->isa; }

contender bench_limit_peak(peak_work *work) {
    work->iterations = PEAK_ITERATIONS;
    return (contender){
        .name = "FMA peak",
        .run = limits()->peak,
        .argument = work,
        .work = 2.0 * PEAK_CHAINS * (double)PEAK_ITERATIONS * limits()->lanes,
    };
}

size_t bench_limit_copy(contender *list, copy_work *work) {
    contender all[COPY_VARIANTS_MAX] = {
        {.variant = "memcpy", .run = copy_library},
        {.variant = "plain SIMD", .run = limits()->copy_plain},
        {.variant = "non-temporal", .run = limits()->copy_nontemporal},
#if defined(__x86_64__)
        {.variant = "rep movsb", .run = copy_string},
#endif
    };
    size_t count = 0;
    for (size_t i = 0; i < COPY_VARIANTS_MAX && all[i].run; i++) {
        list[count] = all[i];
        list[count].name = "copy";
        list[count].argument = work;
        list[count++].work = (double)work->bytes;
    }
    return count;
}

size_t bench_limit_read(contender *list, read_work *work) {
    for (size_t i = 0; i < READ_VARIANTS; i++)
        list[i] = (contender){
            .name = "read",
            .variant = limits()->read[i].name,
            .run = limits()->read[i].run,
            .argument = work,
            .work = (double)(work->range[0].bytes + work->range[1].bytes),
        };
    return READ_VARIANTS;
}

contender bench_limit_exp(exp_work *work) {
    return (contender){
        .name = "exp alone",
        .run = limits()->exp,
        .argument = work,
        .work = (double)work->values,
    };
}
