/*
 * whet_stats_merge. The input is a row of logits cut into pieces: merged from
 * the left, from the right and as a tree they must give the statistics of the
 * whole, without NaN, whatever lies between the pieces' maxima and however many
 * of them are empty; one piece that is not finite makes the whole so. The same
 * bytes are then taken for statistics as they are, which must be survived.
 */
#include "input.h"
#include "whet.h"

enum { LOGITS_MAX = 256, PIECES_MAX = 32 };

/* From the definition; the piece begins at entry `first` of the whole. */
static whet_stats stats_of(const double *logits, size_t first, size_t n) {
    whet_stats stats = whet_stats_empty();
    for (size_t i = 0; i < n; i++) {
        if (logits[i] > stats.max) {
            stats.argmax = first + i;
        }
        stats.max = fmax(stats.max, logits[i]);
        stats.n += logits[i] > -INFINITY;
        stats.min = logits[i] > -INFINITY ? fmin(stats.min, logits[i]) : stats.min;
    }
    for (size_t i = 0; i < n; i++) {
        double d = logits[i] - stats.max;
        if (logits[i] > -INFINITY && exp(d) > 0) {
            stats.z += exp(d);
            stats.s += d * exp(d);
        }
    }
    return stats;
}

static void check_sound(const whet_stats *stats) {
    FUZZ_CHECK(stats->flags == (stats->n == 0 ? WHET_ROW_EMPTY : 0u));
    FUZZ_CHECK(!isnan(stats->max) && !isnan(stats->z) && !isnan(stats->s));
    FUZZ_CHECK(stats->entropy >= 0 && stats->entropy <= log(LOGITS_MAX) + 1e-9);
    FUZZ_CHECK(stats->beta == 1 && stats->entropy_after == stats->entropy);
    FUZZ_CHECK(stats->n == 0 ? stats->logsumexp == -INFINITY : isfinite(stats->logsumexp));
}

static void check_near(double actual, double expected, double tolerance) {
    FUZZ_CHECK(fabs(actual - expected) <= tolerance);
}

static void check_same(const whet_stats *actual, const whet_stats *expected) {
    check_sound(actual);
    FUZZ_CHECK(actual->n == expected->n && actual->max == expected->max);
    FUZZ_CHECK(actual->min == expected->min && actual->argmax == expected->argmax);
    FUZZ_CHECK(isnan(actual->sink_share) || actual->n == 0);
    check_near(actual->z, expected->z, 1e-12 * LOGITS_MAX);
    check_near(actual->s, expected->s, 1e-12 * LOGITS_MAX);
}

static whet_stats merged(const whet_stats *a, const whet_stats *b) {
    whet_stats result;
    memset(&result, 0x5a, sizeof result);
    whet_stats_merge(a, b, &result);
    return result;
}

/* The result may be the same object as a or b. */
static whet_stats merge_tree(const whet_stats *pieces, size_t count) {
    if (count == 0) {
        return whet_stats_empty();
    }
    if (count == 1) {
        return pieces[0];
    }
    whet_stats left = merge_tree(pieces, count / 2);
    whet_stats right = merge_tree(pieces + count / 2, count - count / 2);
    if (count % 2) {
        whet_stats_merge(&left, &right, &left);
        return left;
    }
    whet_stats_merge(&left, &right, &right);
    return right;
}

static void merge_pieces(fuzz_input input) {
    double logits[LOGITS_MAX] = {0};
    whet_stats pieces[PIECES_MAX];
    size_t n = 0;
    size_t count = 0;
    while (input.left > 0 && count < PIECES_MAX) {
        size_t start = n;
        size_t length = fuzz_below(&input, 9);
        for (; n < start + length && n < LOGITS_MAX; n++) {
            logits[n] = fuzz_double(&input);
            if (!(logits[n] < INFINITY)) {
                logits[n] = -INFINITY;
            }
        }
        pieces[count++] = stats_of(logits + start, start, n - start);
    }
    whet_stats empty = whet_stats_empty();
    whet_stats whole = stats_of(logits, 0, n);
    whet_stats from_left = empty;
    whet_stats from_right = empty;
    for (size_t i = 0; i < count; i++) {
        from_left = merged(&from_left, &pieces[i]);
        from_right = merged(&pieces[count - 1 - i], &from_right);
    }
    whet_stats tree = merge_tree(pieces, count);
    tree = merged(&tree, &empty);
    check_same(&from_left, &whole);
    check_same(&from_right, &whole);
    check_same(&tree, &whole);

    whet_stats bad = whole;
    bad.flags |= WHET_ROW_NOT_FINITE;
    bad = merged(&whole, &bad);
    FUZZ_CHECK(bad.flags == WHET_ROW_NOT_FINITE && isnan(bad.z) && bad.n == 2 * whole.n);
}

static whet_stats any_stats(fuzz_input *input) {
    uint64_t words[sizeof(whet_stats) / sizeof(uint64_t)] = {0};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        words[i] = fuzz_bytes(input, 8);
    }
    whet_stats stats;
    memcpy(&stats, words, sizeof stats);
    return stats;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = {data, size};
    merge_pieces(input);
    whet_stats a = any_stats(&input);
    whet_stats b = any_stats(&input);
    whet_stats result = merged(&a, &b);
    FUZZ_CHECK(result.reserved == 0);
    if ((a.flags | b.flags) & WHET_ROW_NOT_FINITE) {
        FUZZ_CHECK(result.flags == WHET_ROW_NOT_FINITE);
    }
    return 0;
}
