/* The kernels for AVX-512 (F, BW, DQ, VL). */
#include <stddef.h>
#include <stdint.h>

#include "isa/vec_avx512.h"

#define ISA avx512
#include "isa/template.inc"
