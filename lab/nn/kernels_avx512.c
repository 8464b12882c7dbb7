/* The loops for AVX-512. */
#define LANES 16
#define NAME nn_kernels_of_avx512
#include "nn/kernels.inc"
