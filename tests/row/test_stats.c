/*
 * Merging the statistics of pieces: the same as those of the whole, however it
 * is cut, with empty, distant and bad pieces among them.
 */
#include "row/stats.h"
#include "support/check.h"
#include "support/random.h"
#include "whet.h"

#include <math.h>

#define N 1000

/* The statistics of logits, straight from the definition. */
static whet_stats stats_of(const double *logits, size_t n) {
    whet_stats stats = whet_stats_empty();
    for (size_t i = 0; i < n; i++) {
        stats.max = fmax(stats.max, logits[i]);
        stats.n += logits[i] > -INFINITY;
    }
    for (size_t i = 0; i < n && stats.n > 0; i++) {
        if (logits[i] > -INFINITY) {
            double d = logits[i] - stats.max;
            stats.z += exp(d);
            stats.s += d * exp(d);
        }
    }
    stats.flags = 0;
    whet_stats_complete(&stats);
    return stats;
}

static whet_stats merged(whet_stats a, whet_stats b) {
    whet_stats result;
    whet_stats_merge(&a, &b, &result);
    return result;
}

static void check_same(const whet_stats *a, const whet_stats *b, double tolerance) {
    CHECK_INT(a->n, b->n);
    CHECK_INT(a->flags, b->flags);
    CHECK_NEAR(a->max, b->max, 0);
    CHECK_NEAR(a->z, b->z, tolerance * fabs(b->z));
    CHECK_NEAR(a->s, b->s, tolerance * (fabs(b->s) + b->z));
    CHECK_NEAR(a->logsumexp, b->logsumexp, tolerance * (1 + fabs(b->logsumexp)));
    CHECK_NEAR(a->entropy, b->entropy, tolerance * (1 + b->entropy));
}

static void fill(struct rng *rng, double *logits, double deviation) {
    for (size_t i = 0; i < N; i++) {
        logits[i] = rng_normal(rng, 0, deviation);
        if (rng_bits(rng) % 8 == 0) {
            logits[i] = -INFINITY;
        }
    }
}

TEST(the_empty_piece_is_as_documented) {
    whet_stats empty = whet_stats_empty();
    CHECK_INT(empty.n, 0);
    CHECK_NEAR(empty.max, -INFINITY, 0);
    CHECK_NEAR(empty.logsumexp, -INFINITY, 0);
    CHECK_NEAR(empty.z, 0, 0);
    CHECK_NEAR(empty.s, 0, 0);
    CHECK_NEAR(empty.entropy, 0, 0);
    CHECK_NEAR(empty.beta, 1, 0);
    CHECK_NEAR(empty.entropy_after, 0, 0);
    CHECK_NEAR(empty.max_prob, 0, 0);
    CHECK_INT(empty.flags, WHET_ROW_EMPTY);
}

TEST(merging_with_the_empty_piece_changes_nothing) {
    const double logits[] = {1, -2, 0.5};
    whet_stats piece = stats_of(logits, 3);
    whet_stats left = merged(whet_stats_empty(), piece);
    whet_stats right = merged(piece, whet_stats_empty());
    check_same(&left, &piece, 0);
    check_same(&right, &piece, 0);
    whet_stats nothing = merged(whet_stats_empty(), whet_stats_empty());
    whet_stats empty = whet_stats_empty();
    check_same(&nothing, &empty, 0);
    CHECK_INT(nothing.flags, WHET_ROW_EMPTY);
}

TEST(two_pieces_make_the_whole_wherever_it_is_cut) {
    struct rng rng = rng_seeded(1);
    double logits[N];
    const double deviations[] = {0.1, 1, 10, 300, 1e4};
    for (size_t k = 0; k < sizeof deviations / sizeof deviations[0]; k++) {
        fill(&rng, logits, deviations[k]);
        whet_stats whole = stats_of(logits, N);
        for (size_t cut = 0; cut <= N; cut += 7) {
            whet_stats both = merged(stats_of(logits, cut), stats_of(logits + cut, N - cut));
            check_same(&both, &whole, 1e-13);
        }
    }
}

TEST(merging_is_associative_and_commutative_within_rounding) {
    struct rng rng = rng_seeded(2);
    double logits[N];
    for (int trial = 0; trial < 100; trial++) {
        fill(&rng, logits, exp(rng_uniform(&rng, -3, 6)));
        size_t first = (size_t)rng_integer(&rng, 0, N);
        size_t second = (size_t)rng_integer(&rng, (int64_t)first, N);
        whet_stats a = stats_of(logits, first);
        whet_stats b = stats_of(logits + first, second - first);
        whet_stats c = stats_of(logits + second, N - second);
        whet_stats left = merged(merged(a, b), c);
        whet_stats right = merged(a, merged(b, c));
        whet_stats other = merged(merged(c, a), b);
        check_same(&left, &right, 1e-13);
        check_same(&left, &other, 1e-13);
    }
}

TEST(single_entries_merge_into_the_row) {
    struct rng rng = rng_seeded(3);
    double logits[N];
    fill(&rng, logits, 3);
    whet_stats sum = whet_stats_empty();
    for (size_t i = 0; i < N; i++) {
        sum = merged(sum, stats_of(logits + i, 1));
    }
    whet_stats whole = stats_of(logits, N);
    check_same(&sum, &whole, 1e-12);
}

TEST(distant_pieces_leave_no_nan) {
    const double far = -3e38;
    const double near = 3e38;
    whet_stats both = merged(stats_of(&far, 1), stats_of(&near, 1));
    CHECK_INT(both.n, 2);
    CHECK_NEAR(both.max, 3e38, 0);
    CHECK_NEAR(both.z, 1, 0);
    CHECK_NEAR(both.s, 0, 0);
    CHECK_NEAR(both.entropy, 0, 0);
    const double farther = -1.5e308;
    const double nearer = 1.5e308;
    both = merged(stats_of(&nearer, 1), stats_of(&farther, 1));
    CHECK_NEAR(both.z, 1, 0);
    CHECK_NEAR(both.entropy, 0, 0);
}

TEST(a_sink_alone_counts_though_its_piece_has_no_entries) {
    const double logit = 1;
    whet_stats sink = stats_of(&logit, 1);
    sink.n = 0;
    whet_stats_complete(&sink);
    CHECK_INT(sink.flags, WHET_ROW_EMPTY);
    CHECK_NEAR(sink.logsumexp, 1, 0);
    whet_stats both = merged(sink, stats_of(&logit, 1));
    CHECK_INT(both.n, 1);
    CHECK_INT(both.flags, 0);
    CHECK_NEAR(both.entropy, log(2), 1e-15);
}

/* Merged last, or beside a single piece, a sink leaves the entry that is the largest. */
TEST(a_sink_has_no_argmax) {
    const float row[] = {1, 4, 4, 2};
    const float sinks[] = {9, 4, -3};
    for (size_t i = 0; i < 3; i++) {
        whet_stats entries = {0}, sink, whole;
        whet_rows rows = {.size = sizeof rows, .rows = 1, .n = 4, .in = row, .stats = &entries};
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_OK);
        rows.sink = &sinks[i];
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_OK);
        whole = entries;
        rows.sink = NULL;
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_OK);
        rows.n = 0;
        rows.sink = &sinks[i];
        rows.stats = &sink;
        CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_OK);
        CHECK_INT(whole.argmax, 1);
        CHECK_INT(merged(entries, sink).argmax, 1);
        CHECK_INT(merged(sink, entries).argmax, 1);
        CHECK_NEAR(merged(entries, sink).max, whole.max, 0);
    }
}

static void check_bad(const whet_stats *stats) {
    CHECK_INT(stats->flags, WHET_ROW_NOT_FINITE);
    const double fields[] = {stats->max,           stats->z,       stats->s,
                             stats->logsumexp,     stats->entropy, stats->beta,
                             stats->entropy_after, stats->max_prob};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        CHECK(isnan(fields[i]));
    }
}

TEST(a_bad_piece_makes_the_whole_bad) {
    const double logit = 1;
    whet_stats good = stats_of(&logit, 1);
    whet_stats flagged = good;
    flagged.flags = WHET_ROW_NOT_FINITE;
    whet_stats infinite = good;
    infinite.max = INFINITY;
    whet_stats nan = good;
    nan.z = NAN;
    const whet_stats bad[] = {flagged, infinite, nan};
    for (size_t i = 0; i < 3; i++) {
        whet_stats left = merged(bad[i], good);
        whet_stats right = merged(good, bad[i]);
        whet_stats lonely = merged(whet_stats_empty(), bad[i]);
        check_bad(&left);
        check_bad(&right);
        check_bad(&lonely);
        CHECK_INT(left.n, 2);
        left = merged(left, good);
        check_bad(&left);
    }
}

TEST(the_result_may_be_one_of_the_pieces) {
    const double logits[] = {1, 2, 3, 4};
    whet_stats whole = stats_of(logits, 4);
    whet_stats a = stats_of(logits, 2);
    whet_stats b = stats_of(logits + 2, 2);
    whet_stats_merge(&a, &b, &a);
    check_same(&a, &whole, 1e-15);
    a = stats_of(logits, 2);
    whet_stats_merge(&a, &b, &b);
    check_same(&b, &whole, 1e-15);
    a = stats_of(logits, 2);
    whet_stats_merge(&a, &a, &a);
    CHECK_INT(a.n, 4);
}

TEST(what_a_policy_made_of_a_piece_is_forgotten) {
    const double logits[] = {1, 2};
    whet_stats a = stats_of(logits, 1);
    a.beta = 7;
    a.entropy_after = 7;
    a.max_prob = 7;
    a.flags = WHET_ROW_CAPPED;
    whet_stats both = merged(a, stats_of(logits + 1, 1));
    CHECK_NEAR(both.beta, 1, 0);
    CHECK_NEAR(both.entropy_after, both.entropy, 0);
    CHECK_NEAR(both.max_prob, 1 / (1 + exp(-1)), 1e-15);
    CHECK_INT(both.flags, 0);
}

TEST(entropy_is_never_negative) {
    whet_stats stats = {.n = 1, .max = 5, .z = 1, .s = 1e-20};
    whet_stats_complete(&stats);
    CHECK(stats.entropy >= 0);
    CHECK_NEAR(stats.logsumexp, 5, 0);
}
