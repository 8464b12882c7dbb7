/* The kernels for NEON, the vector unit of every 64-bit ARM processor. */
#include <stddef.h>
#include <stdint.h>

#include "isa/vec_neon.h"

#define ISA neon
#include "isa/template.inc"
