/* The kernels for any processor. */
#include <stddef.h>
#include <stdint.h>

#include "isa/vec_scalar.h"

#define ISA scalar
#include "isa/template.inc"
