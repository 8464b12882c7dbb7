/* The loops in vectors of four, which every processor has or can do without. */
#define LANES 4
#define NAME nn_kernels_plain
#include "nn/kernels.inc"
