/* The loops for AVX2 with FMA. */
#define LANES 8
#define NAME nn_kernels_of_avx2
#include "nn/kernels.inc"
