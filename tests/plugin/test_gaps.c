/*
 * Histograms of logits near the largest: merging pieces in any order gives that of the whole row,
 * and what follows from one agrees with the row itself.
 */
#include "llama/gaps.h"
#include "support/check.h"
#include "support/random.h"
#include <math.h>
#include <string.h>

enum { N = 5000 };

static void fill(float *row, uint64_t seed, double deviation) {
    struct rng rng = rng_seeded(seed);
    rng_fill_normal(&rng, row, N, 0, deviation);
    row[17] = -INFINITY;
}

static bool are_equal(const gap_histogram *a, const gap_histogram *b) {
    return a->top == b->top && a->largest == b->largest &&
           memcmp(a->counts, b->counts, sizeof a->counts) == 0;
}

TEST(pieces_merge_into_the_whole_in_any_order) {
    static float row[N];
    static const size_t ends[] = {0, 1, 18, 18, 700, 4999, N};
    enum { PIECES = 6 };
    for (int example = 0; example < 4; example++) {
        static gap_histogram pieces[PIECES], whole, forward, backward;
        fill(row, (uint64_t)example, example == 3 ? 100 : 3);
        memset(&whole, 0, sizeof whole);
        forward = backward = whole;
        gaps_add_row(&whole, row, N);
        for (int i = 0; i < PIECES; i++) {
            memset(&pieces[i], 0, sizeof pieces[i]);
            gaps_add_row(&pieces[i], row + ends[i], ends[i + 1] - ends[i]);
        }
        for (int i = 0; i < PIECES; i++) {
            gaps_merge(&forward, &pieces[i]);
            gaps_merge(&backward, &pieces[PIECES - 1 - i]);
        }
        CHECK(are_equal(&forward, &whole) && are_equal(&backward, &whole));
    }
}

TEST(counts_and_sums_are_those_of_the_row) {
    static float row[N];
    static gap_histogram all;
    static const double deltas[] = {0, 0.5, 1, 2, 8}, betas[] = {0.25, 1, 2, 5};
    fill(row, 9, 2);
    memset(&all, 0, sizeof all);
    gaps_add_row(&all, row, N);
    float largest = -INFINITY;
    for (size_t i = 0; i < N; i++)
        largest = fmaxf(largest, row[i]);
    CHECK(all.largest == largest);
    for (size_t d = 0; d < 5; d++) {
        double least = 0, most = 0, half_bin = 0.5 / GAP_BINS_PER_NAT + 1e-6;
        for (size_t i = 0; i < N; i++) {
            least += (double)(largest - row[i]) <= deltas[d] - half_bin;
            most += (double)(largest - row[i]) <= deltas[d] + half_bin;
        }
        double counted = gaps_within(&all, deltas[d]);
        CHECK_MSG(counted >= fmax(1, least) && counted <= most, "%g of %g to %g", counted, least,
                  most);
    }
    for (size_t b = 0; b < 4; b++) {
        double sum = 0;
        for (size_t i = 0; i < N; i++)
            sum += exp(betas[b] * (double)(row[i] - largest));
        CHECK_NEAR(gaps_ln_sum(&all, betas[b]), log(sum), betas[b] / 32);
    }
}

TEST(nothing_follows_from_an_empty_histogram) {
    gap_histogram all = {.top = 0}, none = {.top = 0};
    static const float hidden[] = {-INFINITY, NAN};
    gaps_add_row(&all, hidden, 2);
    CHECK(gaps_within(&all, 1) == 0 && isnan(gaps_ln_sum(&all, 1)));
    gaps_add(&all, 3, 1, 0.2f);
    gaps_merge(&all, &none);
    CHECK(all.counts[0] == 1 && all.top == 3 && gaps_ln_sum(&all, 1) == 0);
    gaps_add(&all, 3 - GAP_BINS, 7, -40); /* too deep */
    CHECK(gaps_within(&all, 100) == 1);
    gaps_add(&all, 1000, 2, 63); /* and so high that the others are */
    CHECK(gaps_within(&all, 100) == 2 && all.top == 1000);
}
