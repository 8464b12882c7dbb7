/* Which loops to use: those of the instruction set that libwhet has chosen, so that WHET_ISA holds
 * for both. */
#include "nn/kernels.h"

#include "isa/sets.h"
#include "whet.h"

#include <string.h>

/* Instruction sets with loops of their own in kernels_<set>.c; any other uses the plain ones. */
#define HAS_avx512 1
#define HAS_avx2 1

#define WHET_SET(name, target, flags, condition) extern const nn_kernels nn_kernels_of_##name;
#include "isa/sets.def"

const nn_kernels *nn_kernels_for_this_machine(void) {
    static const struct {
        const char *isa;
        const nn_kernels *table;
    } own[] = {
#define WHET_SET(name, target, flags, condition)                                                   \
    WHET_IF(target, WHET_IF(HAS_##name, {#name, &nn_kernels_of_##name}, ))
#include "isa/sets.def"
        {"", &nn_kernels_plain},
    };
    size_t i = 0;
    while (own[i].isa[0] && strcmp(own[i].isa, whet_isa()) != 0)
        i++;
    return own[i].table;
}
