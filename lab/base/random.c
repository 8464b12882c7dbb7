/* Seeds for every purpose, and normal numbers. */
#include "base/random.h"

#include <math.h>

uint64_t lab_seed_for(uint64_t seed, const char *purpose, uint64_t index) {
    lab_random random = lab_random_start(seed);
    for (; *purpose; purpose++)
        random.state = lab_random_bits(&random) ^ (uint64_t)(unsigned char)*purpose;
    random.state = lab_random_bits(&random) ^ index;
    return lab_random_bits(&random);
}

/* Box-Muller, one of the two values: simple, and no state is kept between calls. */
double lab_random_normal(lab_random *random) {
    double radius = sqrt(-2 * log(1 - lab_random_double(random)));
    return radius * cos(6.283185307179586 * lab_random_double(random));
}
