/* The loops for AVX-512. */
#include <immintrin.h>

#define LANES 16
#define SMALLER(a, b) _mm512_min_ps((__m512)(a), (__m512)(b))
#define LARGER(a, b) _mm512_max_ps((__m512)(a), (__m512)(b))
#define SWAPPED(a) _mm512_permute_ps((__m512)(a), 0xB1)
#define NAME nn_kernels_of_avx512
#include "nn/kernels.inc"
