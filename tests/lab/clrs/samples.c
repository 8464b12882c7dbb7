// The same instances come with and without hints, and in both tie modes.
#include "samples.h"

#include "support/check.h"

enum { SAMPLES = 10 };

static void check_request(const clrs_request *request, sample_check *is_right) {
    clrs_sampler *sampler;
    REQUIRE(clrs_sampler_create(request, &sampler) == CLRS_OK);
    for (int i = 0; i < SAMPLES; i++) {
        clrs_sample sample;
        clrs_status status = clrs_sampler_next(sampler, &sample);
        // Few decimals leave few places for points without three on a line.
        if (status == CLRS_ERROR_HULL || status == CLRS_ERROR_ENDLESS)
            break;
        REQUIRE(status == CLRS_OK);
        if (!CHECK_MSG(is_right(sample.question, sample.answer),
                       "%s, length %d, seed %u, index %d, decimals %d, hints %d, ties %d",
                       request->algorithm, (int)request->length, (unsigned)request->seed, i,
                       (int)request->decimals, request->hints, (int)request->ties))
            break;
    }
    clrs_sampler_destroy(sampler);
}

void check_samples(const char *algorithm, int longest, sample_check *is_right) {
    static const int lengths[] = {0,  1,  2,  3,  4,  5,  7,  8,   13, 15,
                                  16, 17, 24, 31, 33, 48, 64, 100, 127};
    static const int decimals[] = {3, 0, 1, 2, 6};
    enum { LENGTHS = sizeof lengths / sizeof lengths[0], DECIMALS = 5 };
    int shortest = clrs_algorithm_find(algorithm)->shortest;
    for (size_t i = 0; i < LENGTHS; i++) {
        if (lengths[i] < shortest || lengths[i] > longest)
            continue;
        for (int variant = 0; variant < 4 * DECIMALS; variant++) {
            clrs_request request = clrs_request_default(algorithm, lengths[i]);
            request.seed = 1000u + (unsigned)i;
            request.decimals = decimals[variant / 4];
            request.hints = variant % 2 != 0;
            request.ties = variant / 2 % 2 ? CLRS_TIES_SIMD : CLRS_TIES_SCALAR;
            check_request(&request, is_right);
        }
    }
}
