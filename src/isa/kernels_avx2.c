/* The kernels for AVX2 with FMA and F16C. */
#include <stddef.h>
#include <stdint.h>

#include "isa/vec_avx2.h"

#define ISA avx2
#include "isa/template.inc"
