/* The loops in vectors of four, for every processor. */
#define LANES 4
#define SMALLER(a, b) smaller_of(a, b)
#define LARGER(a, b) (-smaller_of(-(a), -(b)))
#define SWAPPED(a) swapped(a)
#define NAME nn_kernels_plain

typedef float lanes __attribute__((vector_size(16)));

static inline lanes smaller_of(lanes a, lanes b) {
    for (int i = 0; i < 4; i++)
        a[i] = a[i] < b[i] ? a[i] : b[i];
    return a;
}

static inline lanes swapped(lanes a) { return (lanes){a[1], a[0], a[3], a[2]}; }

#include "nn/kernels.inc"
