/*
 * whet_softmax_backward on requests of every shape: types, strides, masks, in
 * either place, sinks, betas, gradients of statistics, policies with any numbers,
 * values of any bits. A request that is
 * wrong must be refused with nothing written. In one that is right, bad rows are
 * NaN, masked entries zero, gaps untouched, and where beta follows from the
 * length alone gradients are those of exact arithmetic. Some inputs ask for sizes
 * that no memory has.
 */
#include "elements.h"
#include "input.h"
#include "policy.h"
#include "rows.h"
#include "whet.h"

/* A request and the memory behind it. */
typedef struct request {
    whet_rows_backward rows;
    fuzz_array in, mask, grad_out, grad_in;
    fuzz_array *result; /* where grad_in lies: one of its own, in or grad_out */
    fuzz_array sinks, betas, logsumexp_grad, entropy_grad, after_grad; /* one for each row */
    fuzz_array grad_sinks, grad_betas;
    whet_policy_gradient policy_grad;
    whet_policy policy;
    double custom_beta;
    bool is_wrong; /* must be refused */
} request;

static void choose_array(request *made, fuzz_input *input, fuzz_array *array, whet_type *type,
                         ptrdiff_t *stride) {
    *type = (whet_type)fuzz_below(input, 3);
    *stride = fuzz_row_stride(input, made->rows.n);
    fuzz_lay_out(array, made->rows.rows, made->rows.n, *type, *stride, (ptrdiff_t)made->rows.n,
                 fuzz_slack(input));
    made->is_wrong |= fuzz_is_misaligned(array->base, *type);
}

static void choose_result(request *made, fuzz_input *input) {
    whet_rows_backward *rows = &made->rows;
    switch (fuzz_below(input, 4)) {
    case 1:
        made->result = &made->in;
        rows->grad_in_type = rows->in_type;
        rows->grad_in_stride = rows->in_stride;
        break;
    case 2:
        made->result = &made->grad_out;
        rows->grad_in_type = rows->grad_out_type;
        rows->grad_in_stride = rows->grad_out_stride;
        break;
    default:
        made->result = &made->grad_in;
        choose_array(made, input, &made->grad_in, &rows->grad_in_type, &rows->grad_in_stride);
        break;
    }
    rows->grad_in = made->result->base;
    ptrdiff_t stride = rows->grad_in_stride;
    made->is_wrong |=
        stride != 0 && (size_t)(stride < 0 ? -stride : stride) < rows->n && rows->rows > 1;
}

/* Numbers for each row that are read, one time in four. */
static const float *choose_numbers(request *made, fuzz_input *input, size_t stride,
                                   fuzz_array *array) {
    if (fuzz_below(input, 4) != 1) {
        return NULL;
    }
    const float *numbers = fuzz_numbers(input, made->rows.rows, stride, array);
    made->is_wrong |= fuzz_is_misaligned(numbers, WHET_F32);
    return numbers;
}

/* And those that are written. */
static float *choose_gradients(request *made, fuzz_input *input, size_t stride, fuzz_array *array) {
    if (!fuzz_flag(input)) {
        return NULL;
    }
    size_t rows = made->rows.rows ? made->rows.rows : 1;
    fuzz_lay_out(array, rows, 1, WHET_F32, (ptrdiff_t)stride, 0, fuzz_slack(input));
    made->is_wrong |= fuzz_is_misaligned(array->base, WHET_F32);
    return (float *)(void *)array->base;
}

static void choose_extras(request *made, fuzz_input *input) {
    whet_rows_backward *rows = &made->rows;
    rows->sink_stride = fuzz_below(input, 4);
    rows->sink = choose_numbers(made, input, rows->sink_stride, &made->sinks);
    rows->beta = choose_numbers(made, input, 1, &made->betas);
    rows->grad_logsumexp = choose_numbers(made, input, 1, &made->logsumexp_grad);
    rows->grad_entropy = choose_numbers(made, input, 1, &made->entropy_grad);
    rows->grad_entropy_after = choose_numbers(made, input, 1, &made->after_grad);
    if (rows->sink || fuzz_rarely(input, 32)) {
        rows->grad_sink = choose_gradients(made, input, rows->sink_stride, &made->grad_sinks);
    }
    rows->grad_beta = choose_gradients(made, input, 1, &made->grad_betas);
    bool is_refused = fuzz_is_misaligned(rows->grad_out, rows->grad_out_type);
    if (made->result != &made->grad_out && !is_refused && fuzz_rarely(input, 8)) {
        rows->grad_out = NULL;
    }
    made->is_wrong |= rows->beta && !fuzz_leaves_beta(&made->policy);
    made->is_wrong |= rows->grad_entropy_after && !fuzz_sums_to_one(&made->policy);
    made->is_wrong |= rows->grad_sink && !rows->sink;
    made->is_wrong |= !rows->grad_out && !rows->grad_logsumexp && !rows->grad_entropy &&
                      !rows->grad_entropy_after;
    rows->position = (int64_t)fuzz_bytes(input, 8);
    rows->position_stride = (int64_t)fuzz_bytes(input, 8);
}

static void make_request(request *made, fuzz_input *input) {
    *made = (request){.custom_beta = 1};
    whet_rows_backward *rows = &made->rows;
    rows->size = sizeof *rows;
    made->policy = fuzz_any_policy(input, &made->custom_beta);
    rows->n = fuzz_row_length(input);
    rows->rows = fuzz_row_count(input, rows->n);
    fuzz_temper temper = (fuzz_temper)fuzz_below(input, FUZZ_TEMPERS);
    fuzz_temper grad_temper = (fuzz_temper)fuzz_below(input, FUZZ_TEMPERS);
    uint64_t seed = fuzz_bytes(input, 4);
    choose_array(made, input, &made->in, &rows->in_type, &rows->in_stride);
    choose_array(made, input, &made->grad_out, &rows->grad_out_type, &rows->grad_out_stride);
    fuzz_fill(&made->in, seed, temper);
    fuzz_fill(&made->grad_out, seed + 1, grad_temper);
    rows->in = made->in.base;
    rows->grad_out = made->grad_out.base;
    choose_result(made, input);
    if (fuzz_flag(input)) {
        rows->mask_type = (whet_type)fuzz_below(input, 2);
        rows->mask_stride = fuzz_row_stride(input, rows->n);
        fuzz_lay_out(&made->mask, rows->rows, rows->n, rows->mask_type, rows->mask_stride, 0,
                     fuzz_slack(input));
        fuzz_fill(&made->mask, seed + 2, fuzz_flag(input) ? FUZZ_MASKED : FUZZ_BITS);
        rows->mask = made->mask.base;
        made->is_wrong |= fuzz_is_misaligned(rows->mask, rows->mask_type);
    }
    memset(&made->policy_grad, FUZZ_CANARY, sizeof made->policy_grad);
    rows->policy_grad = fuzz_flag(input) ? &made->policy_grad : NULL;
    choose_extras(made, input);
    if (fuzz_rarely(input, 32)) {
        rows->grad_out_type = (whet_type)(3 + fuzz_bytes(input, 1));
        made->is_wrong = true;
    }
}

static void free_request(request *made) {
    free(made->in.memory);
    free(made->mask.memory);
    free(made->grad_out.memory);
    free(made->grad_in.memory);
    free(made->sinks.memory);
    free(made->betas.memory);
    free(made->logsumexp_grad.memory);
    free(made->entropy_grad.memory);
    free(made->after_grad.memory);
    free(made->grad_sinks.memory);
    free(made->grad_betas.memory);
}

/* ---- what must hold of a row ---- */

/* What the call was given, also where it wrote its result over it. */
typedef struct given {
    fuzz_array in, grad_out;
} given;

static fuzz_array copy_of(const fuzz_array *array) {
    fuzz_array copy = *array;
    copy.memory = fuzz_copy(array->memory, array->bytes);
    copy.base = copy.memory + (array->base - array->memory);
    return copy;
}

static float logit_at(const request *made, const given *was, size_t row, size_t i) {
    return fuzz_logit(&was->in, made->rows.mask ? &made->mask : NULL, row, i);
}

typedef struct row_facts {
    size_t n;   /* unmasked */
    double max; /* the sink included */
    float sink, beta;
    bool is_bad;
    bool has_more;    /* gradients of statistics */
    bool is_moderate; /* logits and gradients of a size that nothing overflows at */
} row_facts;

static void add_extras(const request *made, size_t row, row_facts *facts) {
    float logsumexp_grad = fuzz_number(&made->logsumexp_grad, row, 0);
    const float by[] = {logsumexp_grad, fuzz_number(&made->entropy_grad, row, 0),
                        fuzz_number(&made->after_grad, row, 0)};
    facts->sink = fuzz_number(&made->sinks, row, -INFINITY);
    facts->beta = fuzz_number(&made->betas, row, 1);
    facts->is_bad |= isnan(facts->sink) || facts->sink == INFINITY;
    facts->is_bad |= facts->n > 0 && isnan(facts->beta);
    facts->is_bad |= facts->n == 0 && facts->sink != -INFINITY && !isfinite(logsumexp_grad);
    for (int i = 0; i < 3; i++) {
        facts->is_bad |= facts->n > 0 && !isfinite(by[i]);
        facts->is_moderate &= fabsf(by[i]) <= 1e4f;
        facts->has_more |= by[i] != 0;
    }
    facts->is_moderate &= facts->sink == -INFINITY || fabsf(facts->sink) <= 1e4f;
    facts->max = fmax(facts->max, (double)facts->sink);
}

static row_facts facts_of(const request *made, const given *was, size_t row) {
    row_facts facts = {.max = -INFINITY, .is_moderate = true};
    for (size_t i = 0; i < made->rows.n; i++) {
        float logit = logit_at(made, was, row, i);
        float g = made->rows.grad_out ? fuzz_get(&was->grad_out, 0, 0, row, i) : 0;
        if (logit == -INFINITY) {
            continue;
        }
        facts.n++;
        facts.is_bad |= isnan(logit) || logit == INFINITY || !isfinite(g);
        facts.is_moderate &= fabsf(logit) <= 1e4f && fabsf(g) <= 1e4f;
        facts.max = fmax(facts.max, (double)logit);
    }
    add_extras(made, row, &facts);
    return facts;
}

/* Whether beta follows from the number of entries alone, so that it does not move. */
static bool is_by_length(const whet_policy *policy) {
    uint32_t kind = policy->temperature;
    return kind == WHET_POLICY_SOFTMAX || kind == WHET_POLICY_FIXED || kind == WHET_POLICY_SSMAX ||
           kind == WHET_POLICY_LENGTH || kind == WHET_POLICY_LINEAR;
}

/* Nothing but numbers out of range makes NaN out of a row that is finite. */
static bool must_be_finite(const request *made, const row_facts *facts) {
    return facts->is_moderate && is_by_length(&made->policy);
}

static void check_accuracy(const request *made, const given *was, size_t row,
                           const row_facts *facts) {
    whet_stats stats = {.n = facts->n};
    double beta = made->rows.beta ? fmin(1e30, fmax(0, (double)facts->beta))
                                  : whet_policy_beta(&made->policy, &stats);
    double z = 0, sum = 0, largest = 0, grad_size = 0;
    z += facts->sink == -INFINITY ? 0 : exp(beta * ((double)facts->sink - facts->max));
    for (size_t i = 0; i < made->rows.n; i++) {
        float logit = logit_at(made, was, row, i);
        double g = (double)fuzz_get(&was->grad_out, 0, 0, row, i);
        double e = logit == -INFINITY ? 0 : exp(beta * ((double)logit - facts->max));
        z += e;
        sum += logit == -INFINITY ? 0 : e * g;
        grad_size = logit == -INFINITY ? grad_size : fmax(grad_size, fabs(g));
    }
    for (int pass = 0; pass < 2; pass++) { /* the largest first, by which the others are judged */
        for (size_t i = 0; i < made->rows.n; i++) {
            float logit = logit_at(made, was, row, i);
            if (logit == -INFINITY) {
                continue;
            }
            double g = (double)fuzz_get(&was->grad_out, 0, 0, row, i);
            double exact = beta * exp(beta * ((double)logit - facts->max)) / z * (g - sum / z);
            largest = fmax(largest, fabs(exact));
            double actual = (double)fuzz_get(made->result, 0, 0, row, i);
            /* where all entries are alike, sum / z in double is itself off by its rounding; a beta
             * of zero is one that is next to nothing */
            double allowed = 1e-5 * largest + (1e-14 * beta + 2e-30) * (1 + grad_size) +
                             fuzz_rounding(made->rows.grad_in_type, exact);
            double limit = made->rows.grad_in_type == WHET_F16 ? 65504 : FLT_MAX;
            FUZZ_CHECK(pass == 0 || fabs(exact) > 0.99 * limit || fabs(actual - exact) <= allowed);
        }
    }
}

static void check_filled(const request *made, size_t row, float value) {
    for (size_t i = 0; i < made->rows.n; i++) {
        float actual = fuzz_get(made->result, 0, 0, row, i);
        FUZZ_CHECK(isnan(value) ? isnan(actual) : actual == value);
    }
}

/* Returns whether the row is one that the call says was not finite. */
static bool check_finite_row(const request *made, const given *was, size_t row,
                             const row_facts *facts) {
    size_t nans = 0;
    for (size_t i = 0; i < made->rows.n; i++) {
        float actual = fuzz_get(made->result, 0, 0, row, i);
        nans += isnan(actual) ? 1 : 0;
        FUZZ_CHECK(isnan(actual) || actual == 0 || logit_at(made, was, row, i) != -INFINITY);
    }
    /* of values out of all measure, two parts of one gradient may be infinite against each other */
    bool is_whole = nans == 0 || nans == made->rows.n;
    FUZZ_CHECK(nans == 0 || !must_be_finite(made, facts));
    FUZZ_CHECK(is_whole || !facts->is_moderate);
    if (nans == 0 && must_be_finite(made, facts) && whet_policy_is_temperature(&made->policy) &&
        made->rows.grad_out && !facts->has_more) {
        check_accuracy(made, was, row, facts);
    }
    return nans == made->rows.n;
}

static bool spoils_rows(const request *made) {
    return made->policy.temperature == WHET_POLICY_CUSTOM && isnan(made->custom_beta);
}

static void check_rows(const request *made, const given *was, whet_status status,
                       size_t first_bad) {
    size_t expected_bad = SIZE_MAX;
    for (size_t row = 0; row < made->rows.rows && made->rows.n > 0; row++) {
        row_facts facts = facts_of(made, was, row);
        bool is_bad = false;
        if (facts.is_bad || (facts.n > 0 && spoils_rows(made))) {
            check_filled(made, row, NAN);
            is_bad = true;
        } else if (facts.n == 0) {
            check_filled(made, row, 0);
        } else {
            is_bad = check_finite_row(made, was, row, &facts);
        }
        float by_sink = fuzz_number(&made->grad_sinks, row, 0);
        float beta_grad = fuzz_number(&made->grad_betas, row, 0);
        bool has_own = made->rows.grad_sink && made->rows.sink_stride > 0;
        FUZZ_CHECK(!is_bad || !has_own || isnan(by_sink));
        FUZZ_CHECK(!is_bad || !made->rows.grad_beta || isnan(beta_grad));
        FUZZ_CHECK(is_bad || !facts.is_moderate || !has_own || !isnan(by_sink));
        FUZZ_CHECK(is_bad || !facts.is_moderate || !isnan(beta_grad));
        if (is_bad && expected_bad == SIZE_MAX) {
            expected_bad = row;
        }
    }
    FUZZ_CHECK(status == (expected_bad == SIZE_MAX ? WHET_OK : WHET_NOT_FINITE));
    FUZZ_CHECK(first_bad == expected_bad);
}

/* ---- the calls ---- */

static bool is_as_before(const fuzz_array *array, const fuzz_array *before) {
    return fuzz_same(array->memory, before->memory, array->bytes);
}

static void run_request(fuzz_input *input) {
    request made;
    make_request(&made, input);
    given was = {copy_of(&made.in), copy_of(&made.grad_out)};
    bool has_policy = whet_policy_check(&made.policy, NULL, 0) == WHET_OK;
    size_t first_bad = SIZE_MAX;
    whet_status status = whet_softmax_backward(&made.rows, &made.policy, &first_bad);
    bool is_refused = status >= WHET_ERROR_ARGUMENT;
    FUZZ_CHECK((made.result == &made.in && !is_refused) || is_as_before(&made.in, &was.in));
    FUZZ_CHECK((made.result == &made.grad_out && !is_refused) ||
               is_as_before(&made.grad_out, &was.grad_out));
    if (is_refused) {
        FUZZ_CHECK(!has_policy || made.is_wrong);
        FUZZ_CHECK(has_policy || status == WHET_ERROR_POLICY);
        FUZZ_CHECK(fuzz_is_canary(made.grad_in.memory, made.grad_in.bytes));
        FUZZ_CHECK(fuzz_is_canary(&made.policy_grad, sizeof made.policy_grad));
        FUZZ_CHECK(fuzz_is_canary(made.grad_sinks.memory, made.grad_sinks.bytes));
        FUZZ_CHECK(fuzz_is_canary(made.grad_betas.memory, made.grad_betas.bytes));
    } else {
        FUZZ_CHECK(has_policy && (!made.is_wrong || made.rows.rows == 0 || made.rows.n == 0));
        check_rows(&made, &was, status, first_bad);
        FUZZ_CHECK(!made.rows.policy_grad || made.policy_grad.reserved[0] == 0);
        FUZZ_CHECK(made.result != &made.grad_in || fuzz_gaps_are_untouched(&made.grad_in));
        FUZZ_CHECK(!made.rows.grad_sink || fuzz_gaps_are_untouched(&made.grad_sinks));
        FUZZ_CHECK(!made.rows.grad_beta || fuzz_gaps_are_untouched(&made.grad_betas));
    }
    free(was.in.memory);
    free(was.grad_out.memory);
    free_request(&made);
}

/* Three arrays anywhere in one piece of memory: refused unless apart or the same. */
static void run_overlap(fuzz_input *input) {
    enum { COUNT = 400, FARTHEST = COUNT - 8 * 12 };
    float *memory = fuzz_allocate(COUNT * sizeof *memory);
    memset(memory, 0, COUNT * sizeof *memory);
    size_t n = fuzz_below(input, 12);
    size_t count = 1 + fuzz_below(input, 8);
    size_t at[3];
    for (int i = 0; i < 3; i++) {
        at[i] = fuzz_below(input, FARTHEST);
    }
    whet_rows_backward rows = {.size = sizeof rows,
                               .rows = count,
                               .n = n,
                               .in = memory + at[0],
                               .grad_out = memory + at[1],
                               .grad_in = memory + at[2]};
    bool overlaps = false;
    for (int i = 0; i < 2; i++) {
        size_t distance = at[i] < at[2] ? at[2] - at[i] : at[i] - at[2];
        overlaps |= n > 0 && distance > 0 && distance < n * count;
    }
    whet_status status = whet_softmax_backward(&rows, NULL, NULL);
    FUZZ_CHECK(status == (overlaps ? WHET_ERROR_OVERLAP : WHET_OK));
    free(memory);
}

/* Only called where a refusal is due: there is no memory behind these sizes. */
static void run_hostile(fuzz_input *input) {
    static float memory[3][64];
    ptrdiff_t strides[3];
    whet_rows_backward rows = {.size = sizeof rows};
    rows.rows = fuzz_hostile_size(input);
    rows.n = fuzz_hostile_size(input);
    bool overflows = false;
    for (int i = 0; i < 3; i++) {
        strides[i] = (ptrdiff_t)fuzz_hostile_size(input);
        overflows |= fuzz_is_beyond_memory(memory[i], rows.rows, rows.n,
                                           strides[i] ? strides[i] : (ptrdiff_t)rows.n);
    }
    rows.in = memory[0];
    rows.grad_out = memory[1];
    rows.grad_in = memory[2];
    rows.in_stride = strides[0];
    rows.grad_out_stride = strides[1];
    rows.grad_in_stride = strides[2];
    if (rows.n > 0 && rows.rows > 0 && overflows) {
        FUZZ_CHECK(whet_softmax_backward(&rows, NULL, NULL) >= WHET_ERROR_ARGUMENT);
    } else if (rows.n == 0 || rows.rows == 0) {
        whet_status status = whet_softmax_backward(&rows, NULL, NULL);
        FUZZ_CHECK(status == WHET_OK || status == WHET_ERROR_OVERFLOW);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_rows_input(data, size, run_request, run_overlap, run_hostile);
}
