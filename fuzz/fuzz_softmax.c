/*
 * whet_softmax and whet_entropy on requests of every shape: types, strides
 * (negative ones, overlapping rows), masks, in place, statistics, sinks, betas,
 * policies with any numbers, values of any bits. A request that is wrong must be refused with
 * nothing written; one that is right must keep what the header promises of every
 * row. Some inputs ask for sizes that no memory has: they are refused, too.
 */
#include "elements.h"
#include "input.h"
#include "policy.h"
#include "rows.h"
#include "whet.h"

/* A request and the memory behind it. */
typedef struct request {
    whet_rows rows;
    fuzz_array in, out, mask;
    fuzz_array stats; /* in bytes: one "element" is never looked at */
    fuzz_array sinks, betas;
    whet_policy policy;
    double custom_beta;
    bool in_place;
    bool is_wrong; /* must be refused */
} request;

static void choose_out(request *made, fuzz_input *input) {
    whet_rows *rows = &made->rows;
    made->in_place = fuzz_below(input, 4) == 1;
    if (made->in_place) {
        rows->out = made->in.base;
        rows->out_type = rows->in_type;
        rows->out_stride = rows->in_stride;
    } else {
        rows->out_type = (whet_type)fuzz_below(input, 3);
        rows->out_stride = fuzz_row_stride(input, rows->n);
        fuzz_lay_out(&made->out, rows->rows, rows->n, rows->out_type, rows->out_stride,
                     (ptrdiff_t)rows->n, fuzz_slack(input));
        rows->out = made->out.base;
        made->is_wrong |= fuzz_is_misaligned(rows->out, rows->out_type);
    }
    size_t stride = (size_t)(rows->out_stride < 0 ? -rows->out_stride : rows->out_stride);
    made->is_wrong |= stride != 0 && stride < rows->n && rows->rows > 1;
}

static void choose_mask(request *made, fuzz_input *input, uint64_t seed) {
    whet_rows *rows = &made->rows;
    if (!fuzz_flag(input)) {
        return;
    }
    rows->mask_type = (whet_type)fuzz_below(input, 2);
    rows->mask_stride = fuzz_row_stride(input, rows->n);
    fuzz_lay_out(&made->mask, rows->rows, rows->n, rows->mask_type, rows->mask_stride, 0,
                 fuzz_slack(input));
    rows->mask = made->mask.base;
    made->is_wrong |= fuzz_is_misaligned(rows->mask, rows->mask_type);
    fuzz_fill(&made->mask, seed + 1, fuzz_flag(input) ? FUZZ_MASKED : FUZZ_BITS);
}

static void choose_stats(request *made, fuzz_input *input) {
    whet_rows *rows = &made->rows;
    if (!fuzz_flag(input)) {
        return;
    }
    size_t stride = sizeof(whet_stats);
    if (fuzz_flag(input)) {
        stride += fuzz_below(input, 40);
        rows->stats_stride = stride;
    }
    made->is_wrong |= stride % _Alignof(whet_stats) != 0 && rows->rows > 0;
    made->stats.bytes = rows->rows ? (rows->rows - 1) * stride + sizeof(whet_stats) : 0;
    made->stats.memory = fuzz_allocate(made->stats.bytes);
    memset(made->stats.memory, FUZZ_CANARY, made->stats.bytes);
    rows->stats = (whet_stats *)(void *)made->stats.memory;
}

static void choose_extras(request *made, fuzz_input *input) {
    whet_rows *rows = &made->rows;
    if (fuzz_below(input, 3) == 1) {
        rows->sink_stride = fuzz_below(input, 4);
        rows->sink = fuzz_numbers(input, rows->rows, rows->sink_stride, &made->sinks);
        made->is_wrong |= fuzz_is_misaligned(rows->sink, WHET_F32);
    }
    if (fuzz_below(input, 4) == 1) {
        rows->beta = fuzz_numbers(input, rows->rows, 1, &made->betas);
        made->is_wrong |= fuzz_is_misaligned(rows->beta, WHET_F32);
        made->is_wrong |= !fuzz_leaves_beta(&made->policy);
    }
    if (fuzz_flag(input)) {
        rows->position = (int64_t)fuzz_hostile_size(input);
        rows->position_stride = (int64_t)fuzz_hostile_size(input);
    }
}

static void make_request(request *made, fuzz_input *input) {
    *made = (request){.custom_beta = 1};
    whet_rows *rows = &made->rows;
    rows->size = sizeof *rows;
    made->policy = fuzz_any_policy(input, &made->custom_beta);
    rows->n = fuzz_row_length(input);
    rows->rows = fuzz_row_count(input, rows->n);
    rows->in_type = (whet_type)fuzz_below(input, 3);
    rows->in_stride = fuzz_row_stride(input, rows->n);
    fuzz_temper temper = (fuzz_temper)fuzz_below(input, FUZZ_TEMPERS);
    uint64_t seed = fuzz_bytes(input, 4);
    fuzz_lay_out(&made->in, rows->rows, rows->n, rows->in_type, rows->in_stride, (ptrdiff_t)rows->n,
                 fuzz_slack(input));
    rows->in = made->in.base;
    made->is_wrong |= fuzz_is_misaligned(rows->in, rows->in_type);
    fuzz_fill(&made->in, seed, temper);
    choose_out(made, input);
    choose_mask(made, input, seed);
    choose_stats(made, input);
    choose_extras(made, input);
    if (fuzz_rarely(input, 32)) {
        rows->in_type = (whet_type)(3 + fuzz_bytes(input, 1));
        made->is_wrong = true;
    }
}

static void free_request(request *made) {
    free(made->in.memory);
    free(made->out.memory);
    free(made->mask.memory);
    free(made->stats.memory);
    free(made->sinks.memory);
    free(made->betas.memory);
}

/* ---- what must hold of a row ---- */

typedef struct row_facts {
    size_t n;   /* unmasked */
    double max; /* the sink included, as in all of these but n */
    float sink;
    bool is_bad;
    bool is_moderate; /* of a size for which the accuracy is promised */
} row_facts;

static float logit_at(const request *made, const fuzz_array *in, size_t row, size_t i) {
    return fuzz_logit(in, made->rows.mask ? &made->mask : NULL, row, i);
}

static row_facts facts_of(const request *made, const fuzz_array *in, size_t row) {
    row_facts facts = {.max = -INFINITY, .is_moderate = true};
    facts.sink = fuzz_number(&made->sinks, row, -INFINITY);
    for (size_t i = 0; i < made->rows.n; i++) {
        float logit = logit_at(made, in, row, i);
        facts.n += logit != -INFINITY;
        facts.is_bad |= isnan(logit) || logit == INFINITY;
        facts.is_moderate &= logit == -INFINITY || fabsf(logit) <= 1e4f;
        facts.max = fmax(facts.max, (double)logit);
    }
    facts.is_bad |= isnan(facts.sink) || facts.sink == INFINITY;
    facts.is_bad |= facts.n > 0 && isnan(fuzz_number(&made->betas, row, 1));
    facts.is_moderate &= facts.sink == -INFINITY || fabsf(facts.sink) <= 1e4f;
    facts.max = fmax(facts.max, (double)facts.sink);
    return facts;
}

/* exp(beta (e - max)) in exact arithmetic; nothing of what is masked, also where beta is 0. */
static double weight_at(const request *made, const fuzz_array *in, size_t row, size_t i,
                        double beta, double max) {
    float logit = logit_at(made, in, row, i);
    return logit == -INFINITY ? 0 : exp(beta * ((double)logit - max));
}

/* Probabilities against exact arithmetic at the beta reported. */
static void check_accuracy(const request *made, const fuzz_array *in, size_t row, double beta) {
    const fuzz_array *out = made->in_place ? &made->in : &made->out;
    row_facts facts = facts_of(made, in, row);
    double max = facts.max;
    double z = facts.sink == -INFINITY ? 0 : exp(beta * ((double)facts.sink - max));
    for (size_t i = 0; i < made->rows.n; i++) {
        z += weight_at(made, in, row, i, beta, max);
    }
    for (size_t i = 0; i < made->rows.n; i++) {
        double exact = weight_at(made, in, row, i, beta, max) / z;
        double actual = (double)fuzz_get(out, 0, 0, row, i);
        double allowed = fmax(4e-6 * exact, 1e-9) + fuzz_rounding(made->rows.out_type, exact);
        FUZZ_CHECK(fabs(actual - exact) <= allowed);
    }
}

static void check_finished_row(const request *made, const fuzz_array *in, size_t row,
                               const row_facts *facts, const whet_stats *stats) {
    const fuzz_array *out = made->in_place ? &made->in : &made->out;
    double sum = 0;
    double largest = 0;
    double allowed = 2e-5;
    for (size_t i = 0; i < made->rows.n; i++) {
        double p = (double)fuzz_get(out, 0, 0, row, i);
        FUZZ_CHECK(p >= 0 && p <= 1.00001);
        FUZZ_CHECK(p == 0 || logit_at(made, in, row, i) != -INFINITY);
        sum += p;
        largest = fmax(largest, p);
        allowed += fuzz_rounding(made->rows.out_type, p);
    }
    bool has_sink = facts->sink != -INFINITY;
    FUZZ_CHECK(!fuzz_sums_to_one(&made->policy) || sum <= 1 + allowed);
    FUZZ_CHECK(!fuzz_sums_to_one(&made->policy) || has_sink || sum >= 1 - allowed);
    if (!stats) {
        return;
    }
    FUZZ_CHECK(stats->n == facts->n && stats->max == facts->max);
    FUZZ_CHECK((stats->flags & ~(uint32_t)WHET_ROW_CAPPED) == 0);
    FUZZ_CHECK(stats->entropy >= 0 && stats->entropy <= log((double)facts->n + has_sink) + 1e-4);
    FUZZ_CHECK(isfinite(stats->logsumexp));
    double rounding = 1e-5 + fuzz_rounding(made->rows.out_type, largest);
    FUZZ_CHECK(stats->max_prob >= largest - rounding);
    FUZZ_CHECK(stats->max_prob <= (has_sink ? 1.00001 : largest + rounding));
    double first = (double)fuzz_get(out, 0, 0, row, 0);
    FUZZ_CHECK(fabs(stats->sink_share - first) <= rounding);
    FUZZ_CHECK(isnan(stats->entropy_after) == !fuzz_sums_to_one(&made->policy));
    FUZZ_CHECK(stats->beta >= 0 && stats->beta <= 1e30);
    FUZZ_CHECK(!made->rows.beta ||
               stats->beta == fmin(1e30, fmax(0, (double)fuzz_number(&made->betas, row, 1))));
    FUZZ_CHECK(stats->argmax < made->rows.n && stats->min <= stats->max);
    FUZZ_CHECK(logit_at(made, in, row, stats->argmax) <= stats->max);
    if (facts->is_moderate && whet_policy_is_temperature(&made->policy)) {
        check_accuracy(made, in, row, stats->beta);
    }
}

static void check_filled(const request *made, size_t row, float value) {
    const fuzz_array *out = made->in_place ? &made->in : &made->out;
    for (size_t i = 0; i < made->rows.n; i++) {
        float actual = fuzz_get(out, 0, 0, row, i);
        FUZZ_CHECK(isnan(value) ? isnan(actual) : actual == value);
    }
}

static const whet_stats *stats_at(const request *made, size_t row) {
    if (!made->rows.stats) {
        return NULL;
    }
    size_t stride = made->rows.stats_stride ? made->rows.stats_stride : sizeof(whet_stats);
    return (const whet_stats *)(const void *)(made->stats.memory + row * stride);
}

/* A beta that is no number spoils a row, too, and only a function of the caller's gives one. */
static bool spoils_rows(const request *made) {
    return made->policy.temperature == WHET_POLICY_CUSTOM && isnan(made->custom_beta);
}

static void check_rows(request *made, const fuzz_array *in, whet_status status, size_t first_bad) {
    size_t expected_bad = SIZE_MAX;
    for (size_t row = 0; row < made->rows.rows; row++) {
        const whet_stats *stats = stats_at(made, row);
        row_facts facts = facts_of(made, in, row);
        facts.is_bad &= made->rows.n > 0 || stats; /* rows of nothing are only described */
        uint64_t position = (uint64_t)made->rows.position;
        position += (uint64_t)row * (uint64_t)made->rows.position_stride;
        FUZZ_CHECK(!stats || (uint64_t)stats->position == position);
        if (facts.is_bad || (facts.n > 0 && spoils_rows(made))) {
            expected_bad = expected_bad == SIZE_MAX ? row : expected_bad;
            check_filled(made, row, NAN);
            FUZZ_CHECK(!stats || stats->flags == WHET_ROW_NOT_FINITE);
        } else if (facts.n == 0) {
            check_filled(made, row, 0);
            FUZZ_CHECK(!stats || (stats->flags == WHET_ROW_EMPTY && stats->n == 0));
        } else {
            check_finished_row(made, in, row, &facts, stats);
        }
    }
    FUZZ_CHECK(status == (expected_bad == SIZE_MAX ? WHET_OK : WHET_NOT_FINITE));
    FUZZ_CHECK(first_bad == expected_bad);
}

/* ---- the calls ---- */

static bool is_untouched(const request *made, const unsigned char *in_before) {
    return memcmp(made->in.memory, in_before, made->in.bytes) == 0 &&
           fuzz_is_canary(made->out.memory, made->out.bytes) &&
           fuzz_is_canary(made->stats.memory, made->stats.bytes);
}

/* The statistics alone must be those that come with the probabilities. */
static void check_entropy(request *made, const unsigned char *in_before) {
    if (!made->rows.stats) {
        return;
    }
    unsigned char *stats = fuzz_copy(made->stats.memory, made->stats.bytes);
    memset(made->stats.memory, FUZZ_CANARY, made->stats.bytes);
    memcpy(made->in.memory, in_before, made->in.bytes);
    whet_rows rows = made->rows;
    rows.out = NULL;
    whet_status status = whet_entropy(&rows, &made->policy, NULL);
    FUZZ_CHECK(status == WHET_OK || status == WHET_NOT_FINITE);
    FUZZ_CHECK(memcmp(made->in.memory, in_before, made->in.bytes) == 0);
    FUZZ_CHECK(memcmp(made->stats.memory, stats, made->stats.bytes) == 0);
    free(stats);
}

static void run_request(fuzz_input *input) {
    request made;
    make_request(&made, input);
    unsigned char *in_before = fuzz_copy(made.in.memory, made.in.bytes);
    fuzz_array in = made.in; /* the logits as they were, also in place */
    in.memory = in_before;
    in.base = in_before + (made.in.base - made.in.memory);

    bool has_policy = whet_policy_check(&made.policy, NULL, 0) == WHET_OK;
    size_t first_bad = SIZE_MAX;
    whet_status status = whet_softmax(&made.rows, &made.policy, &first_bad);
    if (status >= WHET_ERROR_ARGUMENT) {
        FUZZ_CHECK(!has_policy || made.is_wrong);
        FUZZ_CHECK(has_policy || status == WHET_ERROR_POLICY);
        FUZZ_CHECK(is_untouched(&made, in_before));
    } else {
        FUZZ_CHECK(has_policy && (!made.is_wrong || made.rows.rows == 0 || made.rows.n == 0));
        check_rows(&made, &in, status, first_bad);
        check_entropy(&made, in_before);
        if (!made.in_place) {
            FUZZ_CHECK(memcmp(made.in.memory, in_before, made.in.bytes) == 0);
            FUZZ_CHECK(fuzz_gaps_are_untouched(&made.out));
        }
    }
    free(in_before);
    free_request(&made);
}

/* In place but for a shift by some elements: refused unless nothing overlaps. */
static void run_overlap(fuzz_input *input) {
    enum { COUNT = 256 };
    float *memory = fuzz_allocate(COUNT * sizeof *memory);
    memset(memory, 0, COUNT * sizeof *memory);
    size_t n = fuzz_below(input, 12);
    size_t count = 1 + fuzz_below(input, 8);
    size_t in_at = fuzz_below(input, COUNT - 8 * 12);
    size_t out_at = fuzz_below(input, COUNT - 8 * 12);
    whet_rows rows = {
        .size = sizeof rows, .rows = count, .n = n, .in = memory + in_at, .out = memory + out_at};
    size_t distance = in_at < out_at ? out_at - in_at : in_at - out_at;
    whet_status status = whet_softmax(&rows, NULL, NULL);
    bool overlaps = n > 0 && distance > 0 && distance < n * count;
    FUZZ_CHECK(status == (overlaps ? WHET_ERROR_OVERLAP : WHET_OK));
    free(memory);
}

/* Only called where a refusal is due: there is no memory behind these sizes. */
static void run_hostile(fuzz_input *input) {
    static float in[64], out[64];
    static whet_stats stats;
    whet_rows rows = {.size = sizeof rows, .in = in, .out = out};
    rows.rows = fuzz_hostile_size(input);
    rows.n = fuzz_hostile_size(input);
    rows.in_stride = (ptrdiff_t)fuzz_hostile_size(input);
    rows.out_stride = (ptrdiff_t)fuzz_hostile_size(input);
    bool overflows = fuzz_is_beyond_memory(in, rows.rows, rows.n,
                                           rows.in_stride ? rows.in_stride : (ptrdiff_t)rows.n) ||
                     fuzz_is_beyond_memory(out, rows.rows, rows.n,
                                           rows.out_stride ? rows.out_stride : (ptrdiff_t)rows.n);
    if (fuzz_flag(input)) {
        rows.stats = &stats;
        rows.stats_stride = fuzz_hostile_size(input);
        overflows |= (double)rows.rows * (double)rows.stats_stride > 0x1.0001p64;
    }
    if (rows.n > 0 && rows.rows > 0 && overflows) {
        FUZZ_CHECK(whet_softmax(&rows, NULL, NULL) >= WHET_ERROR_ARGUMENT);
    } else if (rows.n == 0 && !rows.stats) {
        whet_status status = whet_softmax(&rows, NULL, NULL);
        FUZZ_CHECK(status == WHET_OK || status == WHET_ERROR_OVERFLOW);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_rows_input(data, size, run_request, run_overlap, run_hostile);
}
