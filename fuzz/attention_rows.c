/*
 * What must hold of a row of attention's result: nothing to see gives zeros,
 * what is not finite gives NaN, and rows of numbers of a usual size are compared
 * with plain arithmetic.
 */
#include "attention_problem.h"

static bool is_visible(const whet_attention *a, const row_name *row, size_t key) {
    int64_t distance = (int64_t)row->query + a->offset - (int64_t)key;
    if ((a->flags & WHET_CAUSAL) && distance < 0) {
        return false;
    }
    uint64_t size = (uint64_t)(distance < 0 ? -distance : distance);
    return a->window == 0 || size < a->window;
}

/* Of mask and bias together; -inf where one of them hides the key, or it is out of sight. */
static float mask_of(const problem *made, const row_name *row, size_t key) {
    const whet_attention *a = &made->attention;
    if (!is_visible(a, row, key)) {
        return -INFINITY;
    }
    float mask = a->mask.data ? fuzz_get(&made->mask, row->batch, row->head, row->query, key) : 0;
    float bias = a->bias.data ? fuzz_get(&made->bias, row->batch, row->head, 0, key) : 0;
    return mask == -INFINITY || bias == -INFINITY ? -INFINITY : mask + bias;
}

static size_t index_of(const whet_attention *a, const row_name *row) {
    return (row->batch * a->heads + row->head) * a->queries + row->query;
}

/* The beta that is given for a row, NULL for none. */
static const float *given_beta(const whet_attention *a, const row_name *row) {
    return a->betas ? a->betas + index_of(a, row) : NULL;
}

/* What goes into a row's logits: how many there are, the largest number, and any that is bad. */
typedef struct row_facts {
    size_t n;
    double largest;
    bool is_bad;
} row_facts;

static void note_number(row_facts *facts, float number) {
    facts->is_bad |= isnan(number);
    facts->largest = fmax(facts->largest, fabs((double)number));
}

static row_facts facts_of(const problem *made, const row_name *row) {
    const whet_attention *a = &made->attention;
    row_facts facts = {0};
    size_t kv_head = kv_head_of(a, row);
    for (size_t key = 0; key < a->keys; key++) {
        float mask = mask_of(made, row, key);
        if (mask == -INFINITY) {
            continue; /* whatever the key holds */
        }
        facts.n++;
        facts.is_bad |= mask == INFINITY;
        note_number(&facts, mask);
        for (size_t i = 0; i < a->head_dim; i++) {
            note_number(&facts, value_at(made, &made->k, row->batch, kv_head, key, i));
        }
    }
    for (size_t i = 0; facts.n > 0 && i < a->head_dim; i++) {
        note_number(&facts, value_at(made, &made->q, row->batch, row->head, row->query, i));
    }
    return facts;
}

/* The logit in plain arithmetic; -inf where it is masked. */
static double logit_of(const problem *made, const row_name *row, size_t key) {
    const whet_attention *a = &made->attention;
    float mask = mask_of(made, row, key);
    if (mask == -INFINITY) {
        return -INFINITY;
    }
    size_t kv_head = kv_head_of(a, row);
    double dot = 0;
    for (size_t i = 0; i < a->head_dim; i++) {
        dot += (double)value_at(made, &made->q, row->batch, row->head, row->query, i) *
               (double)value_at(made, &made->k, row->batch, kv_head, key, i);
    }
    dot *= a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    if (a->softcap > 0) {
        dot = (double)a->softcap * tanh(dot / (double)a->softcap);
    }
    if (a->alibi_slopes) {
        dot -= (double)a->alibi_slopes[row->head] *
               fabs((double)((int64_t)row->query + a->offset - (int64_t)key));
    }
    return dot + (double)mask;
}

/* The values of the keys a row sees: all finite, and within what bounds. */
typedef struct value_facts {
    bool are_finite;
    double largest;
} value_facts;

static value_facts facts_of_values(const problem *made, const row_name *row, const double *logits) {
    const whet_attention *a = &made->attention;
    value_facts facts = {.are_finite = true};
    size_t kv_head = kv_head_of(a, row);
    for (size_t key = 0; key < a->keys; key++) {
        for (size_t i = 0; logits[key] > -INFINITY && i < value_dim(a); i++) {
            double value = (double)value_at(made, &made->v, row->batch, kv_head, key, i);
            facts.are_finite &= fabs(value) < 1e30;
            facts.largest = fmax(facts.largest, fabs(value));
        }
    }
    return facts;
}

static double rounding(whet_type type, double value) {
    return type == WHET_F32   ? 0
           : type == WHET_F16 ? fmax(0x1p-10 * value, 0x1p-24)
                              : fmax(0x1p-7 * value, 0x1p-130);
}

/* How far an f32 logit may be off, given that tame values are no larger than 4. */
static double logit_error(const whet_attention *a, const row_name *row) {
    double distance = fabs((double)a->offset) + (double)a->queries + (double)a->keys;
    double slope = a->alibi_slopes ? fabs((double)a->alibi_slopes[row->head]) : 0;
    double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    return 1e-6 * (100 + 16 * (double)a->head_dim * scale + slope * distance);
}

/* Logits to weights at this beta, the sink's included in their sum, which is returned. */
static double weigh(const whet_attention *a, const row_name *row, double beta, double *logits) {
    double sink = a->sinks ? (double)a->sinks[row->head] : -INFINITY;
    double max = sink;
    for (size_t key = 0; key < a->keys; key++) {
        max = fmax(max, logits[key]);
    }
    double z = a->sinks ? exp(beta * (sink - max)) : 0;
    for (size_t key = 0; key < a->keys; key++) {
        logits[key] = logits[key] > -INFINITY ? exp(beta * (logits[key] - max)) : 0;
        z += logits[key];
    }
    return z;
}

/* Logits to the coefficients of a map that is not a temperature; returns 1, what they are to be
 * divided by, and in mass what they sum to. */
static double map_weights(const whet_attention *a, const row_name *row, whet_policy policy,
                          double *logits, double *mass) {
    size_t n = a->keys;
    float *values = fuzz_allocate(n * sizeof *values);
    double visible = 0;
    for (size_t key = 0; key < a->keys; key++) {
        values[key] = (float)logits[key];
        visible += logits[key] > -INFINITY;
    }
    if (policy.map == WHET_POLICY_SIGMOID && isnan(policy.map_value[0])) {
        policy.map_value[0] = log(visible);
    }
    whet_rows rows = {.size = sizeof rows,
                      .rows = 1,
                      .n = n,
                      .in = values,
                      .out = values,
                      .sink = a->sinks ? a->sinks + row->head : NULL,
                      .beta = given_beta(a, row),
                      .position = (int64_t)row->query + a->offset};
    FUZZ_CHECK(whet_softmax(&rows, &policy, NULL) == WHET_OK);
    *mass = 0;
    for (size_t key = 0; key < a->keys; key++) {
        logits[key] = (double)values[key];
        *mass += logits[key];
    }
    free(values);
    return 1;
}

static const whet_policy *policy_of(const problem *made, const row_name *row) {
    const whet_attention *a = &made->attention;
    return made->policies ? &made->policies[a->policy_count > 1 ? row->head : 0] : NULL;
}

/* The row's output at this beta (NaN: of its map), compared within what f32 logits allow for. */
static void check_output(const problem *made, const row_name *row, double *logits, double beta,
                         const value_facts *facts) {
    const whet_attention *a = &made->attention;
    size_t kv_head = kv_head_of(a, row);
    double mass = 1;
    double z = isnan(beta) ? map_weights(a, row, *policy_of(made, row), logits, &mass)
                           : weigh(a, row, beta, logits);
    double error = 2 * (isnan(beta) ? 4 : beta) * logit_error(a, row);
    double allowed = 1e-5 + (1e-4 + error) * facts->largest * fmax(1, mass);
    if (error > 0.1 || (a->out.type == WHET_F16 && facts->largest > 65000)) {
        return; /* nothing can be said; more than an f16 holds */
    }
    for (size_t i = 0; i < value_dim(a); i++) {
        double sum = 0;
        for (size_t key = 0; key < a->keys; key++) {
            if (logits[key] > 0) {
                sum += logits[key] * (double)value_at(made, &made->v, row->batch, kv_head, key, i);
            }
        }
        double actual = (double)fuzz_get(&made->out, row->batch, row->head, row->query, i);
        FUZZ_CHECK(fabs(actual - sum / z) <= allowed + rounding(a->out.type, fabs(sum / z)));
    }
}

const whet_stats *stats_of(const problem *made, const row_name *row) {
    const whet_attention *a = &made->attention;
    size_t stride = a->stats_stride ? a->stats_stride : sizeof(whet_stats);
    size_t at = index_of(a, row) * stride;
    return a->stats ? (const whet_stats *)(const void *)(made->stats + at) : NULL;
}

static void check_filled(const problem *made, const row_name *row, float value) {
    for (size_t i = 0; i < value_dim(&made->attention); i++) {
        float actual = fuzz_get(&made->out, row->batch, row->head, row->query, i);
        FUZZ_CHECK(isnan(value) ? isnan(actual) : actual == value);
    }
}

/* The beta of plain softmax, or the one given in its place. */
static double plain_beta(const whet_attention *a, const row_name *row) {
    const float *given = given_beta(a, row);
    return given ? fmax(0, (double)*given) : 1;
}

/* A row of numbers of a usual size, compared if its beta is known. */
static void compare_row(const problem *made, const row_name *row, const whet_stats *stats,
                        double *logits) {
    const whet_policy *policy = policy_of(made, row);
    bool is_plain = !policy;
    bool is_map = policy && !whet_policy_is_temperature(policy);
    if (is_map && (policy->map == WHET_POLICY_TOPK || policy->map == WHET_POLICY_HARDMAX)) {
        return; /* they jump where two logits are close */
    }
    if (plain_beta(&made->attention, row) > 4) {
        return; /* too sharp to be compared */
    }
    for (size_t key = 0; key < made->attention.keys; key++) {
        logits[key] = logit_of(made, row, key);
    }
    value_facts facts = facts_of_values(made, row, logits);
    if (facts.are_finite && (is_plain || is_map || (stats && stats->beta <= 20))) {
        double plain = plain_beta(&made->attention, row);
        check_output(made, row, logits, is_plain ? plain : is_map ? NAN : stats->beta, &facts);
    }
}

typedef enum verdict { ROW_GOOD, ROW_BAD, ROW_UNCLEAR } verdict;

static verdict check_row(const problem *made, const row_name *row, double *logits) {
    const whet_attention *a = &made->attention;
    const whet_stats *stats = stats_of(made, row);
    row_facts facts = facts_of(made, row);
    FUZZ_CHECK(!stats || stats->position == (int64_t)row->query + a->offset);
    if (facts.n == 0) { /* nothing to see: zeros, whatever the sink */
        check_filled(made, row, 0);
        FUZZ_CHECK(!stats || (stats->flags == WHET_ROW_EMPTY && stats->n == 0));
        FUZZ_CHECK(!stats || (stats->argmax == UINT64_MAX && stats->min == INFINITY));
        return ROW_GOOD;
    }
    const float *beta = given_beta(a, row);
    if (facts.is_bad || (beta && isnan(*beta))) {
        check_filled(made, row, NAN);
        FUZZ_CHECK(!stats || stats->flags == WHET_ROW_NOT_FINITE);
        return ROW_BAD;
    }
    if (facts.largest > 1e6) {
        return ROW_UNCLEAR; /* f32 may overflow, to either side */
    }
    FUZZ_CHECK(!stats || (stats->n == facts.n && !(stats->flags & WHET_ROW_NOT_FINITE)));
    FUZZ_CHECK(!stats || (stats->argmax < a->keys && stats->min <= stats->max));
    FUZZ_CHECK(!stats || (stats->sink_share >= 0 && stats->sink_share <= stats->max_prob * 1.0001));
    if (facts.largest <= 8) {
        compare_row(made, row, stats, logits);
    }
    return ROW_GOOD;
}

/* The largest logit of a head whose rows are all of a usual size; NaN for others. */
static double largest_logit(const problem *made, size_t head) {
    const whet_attention *a = &made->attention;
    double largest = -INFINITY;
    for (size_t i = 0; i < batches(a) * a->queries; i++) {
        row_name row = {i / a->queries, head, i % a->queries};
        row_facts facts = facts_of(made, &row);
        if (facts.is_bad || facts.largest > 8) {
            return NAN;
        }
        for (size_t key = 0; key < a->keys; key++) {
            largest = fmax(largest, logit_of(made, &row, key));
        }
    }
    return largest;
}

static void check_max_logits(const problem *made) {
    const whet_attention *a = &made->attention;
    for (size_t head = 0; a->max_logits && head < a->heads; head++) {
        double actual = (double)a->max_logits[head], right = largest_logit(made, head);
        row_name row = {.head = head};
        FUZZ_CHECK(isnan(right) || actual == right || fabs(actual - right) <= logit_error(a, &row));
    }
}

void check_rows(const problem *made, whet_status status, uint64_t first_bad) {
    const whet_attention *a = &made->attention;
    double *logits = fuzz_allocate(a->keys * sizeof *logits);
    uint64_t expected_bad = UINT64_MAX;
    uint64_t index = 0;
    bool is_clear = true;
    row_name row;
    for (row.batch = 0; row.batch < batches(a); row.batch++) {
        for (row.head = 0; row.head < a->heads; row.head++) {
            for (row.query = 0; row.query < a->queries; row.query++, index++) {
                verdict found = check_row(made, &row, logits);
                is_clear &= found != ROW_UNCLEAR;
                if (found == ROW_BAD && expected_bad == UINT64_MAX) {
                    expected_bad = index;
                }
            }
        }
    }
    free(logits);
    check_max_logits(made);
    FUZZ_CHECK(expected_bad == UINT64_MAX || status == WHET_NOT_FINITE);
    FUZZ_CHECK(is_clear ? first_bad == expected_bad : first_bad <= expected_bad);
}
