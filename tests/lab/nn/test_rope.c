// Tables of rotary positions beside a plain reference: angles by the formulas of linear scaling and
// of YaRN, pair by pair.
#include "nn/rope.h"

#include "support/check.h"

#include <math.h>

enum { POSITIONS = 300 };

typedef struct example {
    nn_rope_kind kind;
    double factor, original, attention;
    size_t dims;
    double base;
} example;

// The wavelength of a pair in tokens decides: pairs that rotate often within the original context
// keep their angles, those that hardly rotate are interpolated, and the share is linear in the
// pair's number between the two, whose numbers are rounded outwards.
static double yarn_share(const example *e, size_t pair) {
    double per_pair = 2 * log(e->base) / (double)e->dims; // of the logarithm of the wavelength
    double often = log(e->original / 32 / (2 * acos(-1))) / per_pair;
    double hardly = log(e->original / 1 / (2 * acos(-1))) / per_pair;
    double first = floor(often) > 0 ? floor(often) : 0;
    double last = ceil(hardly) < (double)e->dims - 1 ? ceil(hardly) : (double)e->dims - 1;
    if ((double)pair <= first) {
        return 1;
    }
    return (double)pair >= last ? 0 : (last - (double)pair) / (last - first);
}

static void check_pair(const example *e, const nn_rope *rope, size_t position, size_t pair) {
    double angle = (double)position * pow(e->base, -2.0 * (double)pair / (double)e->dims);
    double length = 1;
    if (e->kind == NN_ROPE_LINEAR) {
        angle /= e->factor;
        length = e->attention;
    } else if (e->kind == NN_ROPE_YARN) {
        double share = yarn_share(e, pair);
        angle = share * angle + (1 - share) * angle / e->factor;
        length = e->attention * (1 + 0.1 * log(e->factor));
    }
    size_t at = position * e->dims + 2 * pair;
    CHECK_NEAR(rope->cosine[at], length * cos(angle), 2e-7 * length);
    CHECK_NEAR(rope->sine[at], -length * sin(angle), 2e-7 * length);
    CHECK(rope->cosine[at + 1] == rope->cosine[at] && rope->sine[at + 1] == -rope->sine[at]);
    CHECK(rope->back[at] == -rope->sine[at] && rope->back[at + 1] == -rope->sine[at + 1]);
}

TEST(tables_follow_the_formulas_of_each_scaling) {
    static const example examples[] = {
        {NN_ROPE_PLAIN, 0, 0, 0, 16, 10000},         {NN_ROPE_LINEAR, 2, 256, 1, 16, 10000},
        {NN_ROPE_LINEAR, 3.5, 256, 0.9, 6, 500},     {NN_ROPE_YARN, 4, 256, 1, 48, 10000},
        {NN_ROPE_YARN, 2, 2048, 1, 64, 10000},       {NN_ROPE_YARN, 1, 512, 1, 8, 10000},
        {NN_ROPE_YARN, 8, 32768, 1.1, 128, 1000000}, {NN_ROPE_YARN, 4, 16, 1, 8, 10000},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *e = &examples[i];
        nn_rope_scaling scaling = nn_rope_scaling_of(e->kind, e->factor, e->original);
        scaling.attention = e->attention;
        nn_rope rope;
        REQUIRE(nn_rope_create(POSITIONS, e->dims, e->base, &scaling, &rope));
        for (size_t position = 0; position < POSITIONS; position += 7) {
            for (size_t pair = 0; pair < e->dims / 2; pair++) {
                check_pair(e, &rope, position, pair);
            }
        }
        nn_rope_destroy(&rope);
    }
}

TEST(yarn_keeps_some_angles_and_scales_others) {
    nn_rope plain, yarn;
    nn_rope_scaling scaling = nn_rope_scaling_of(NN_ROPE_YARN, 4, 2048);
    REQUIRE(nn_rope_create(2, 64, 10000, NULL, &plain));
    REQUIRE(nn_rope_create(2, 64, 10000, &scaling, &yarn));
    double length = 1 + 0.1 * log(4);
    // The first pair rotates fastest, the last slowest.
    CHECK_NEAR(yarn.sine[64 + 1], length * plain.sine[64 + 1], 1e-6);
    CHECK_NEAR(yarn.sine[64 + 63] / (length * plain.sine[64 + 63] / 4), 1, 1e-5);
    nn_rope_destroy(&plain);
    nn_rope_destroy(&yarn);
}
