/* The loops for AVX2 with FMA. */
#include <immintrin.h>

#define LANES 8
#define SMALLER(a, b) _mm256_min_ps((__m256)(a), (__m256)(b))
#define LARGER(a, b) _mm256_max_ps((__m256)(a), (__m256)(b))
#define SWAPPED(a) _mm256_permute_ps((__m256)(a), 0xB1)
#define NAME nn_kernels_of_avx2
#include "nn/kernels.inc"
