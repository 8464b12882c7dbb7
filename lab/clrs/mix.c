/*
 * The mixed stream: one sampler for every request, all with one seed, and
 * Python's random with that seed to choose the next one.
 */
#include "clrs/clrs.h"
#include "clrs/mersenne.h"

#include <stdlib.h>

struct clrs_mix {
    clrs_random random;
    size_t count;
    clrs_sampler *samplers[];
};

clrs_status clrs_mix_create(const clrs_request *requests, size_t count, uint64_t seed,
                            clrs_mix **mix, size_t *failed) {
    *mix = NULL;
    if (failed)
        *failed = 0;
    if (count == 0 || count > UINT32_MAX / 2)
        return CLRS_ERROR_ALGORITHM;
    clrs_mix *made = calloc(1, sizeof *made + count * sizeof(clrs_sampler *));
    if (!made)
        return CLRS_ERROR_MEMORY;
    clrs_random_seed_python(&made->random, seed);
    for (; made->count < count; made->count++) {
        clrs_request request = requests[made->count];
        request.seed = seed;
        clrs_status status = clrs_sampler_create(&request, &made->samplers[made->count]);
        if (status != CLRS_OK) {
            if (failed)
                *failed = made->count;
            clrs_mix_destroy(made);
            return status;
        }
    }
    *mix = made;
    return CLRS_OK;
}

void clrs_mix_destroy(clrs_mix *mix) {
    for (size_t i = 0; mix && i < mix->count; i++)
        clrs_sampler_destroy(mix->samplers[i]);
    free(mix);
}

clrs_status clrs_mix_next(clrs_mix *mix, clrs_sample *sample) {
    uint32_t chosen = clrs_random_pick_python(&mix->random, (uint32_t)mix->count);
    return clrs_sampler_next(mix->samplers[chosen], sample);
}
