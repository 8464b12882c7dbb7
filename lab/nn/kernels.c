/* Which loops to use: those of the instruction set that libwhet has chosen, so that WHET_ISA holds
 * for both. */
#include "nn/kernels.h"

#include "whet.h"

#include <string.h>

const nn_kernels *nn_kernels_for_this_machine(void) {
#if defined(__x86_64__)
    if (strcmp(whet_isa(), "avx512") == 0)
        return &nn_kernels_of_avx512;
    if (strcmp(whet_isa(), "avx2") == 0)
        return &nn_kernels_of_avx2;
#endif
    return &nn_kernels_plain;
}
