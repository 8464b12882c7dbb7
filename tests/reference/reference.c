/* The plain reference: see reference.h. */
#include "reference/reference.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fputs("the reference has no memory\n", stderr);
        abort();
    }
    return memory;
}

/* ---- numbers ---- */

/* sign, exponent and fraction of a 16-bit format with `digits` bits of fraction. */
static double from_bits(uint16_t bits, int digits, int bias) {
    double sign = bits >> 15 ? -1 : 1;
    int exponent = (bits & 0x7fff) >> digits;
    int fraction = bits & ((1 << digits) - 1);
    int largest = (1 << (15 - digits)) - 1;
    if (exponent == largest) {
        return fraction ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        return sign * ldexp(fraction, 1 - bias - digits);
    }
    return sign * ldexp((1 << digits) + fraction, exponent - bias - digits);
}

/* The number of smallest steps nearest to |x|, which is also its bits. */
static uint16_t to_bits(float x, int digits, int bias) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)(0x7fff >> digits << digits);
    double size = fabs((double)x);
    if (isnan(size)) {
        return (uint16_t)(sign | 0x7fff);
    }
    int exponent = size > 0 && !isinf(size) ? ilogb(size) : 0;
    if (size == 0 || exponent < 1 - bias) {
        exponent = 1 - bias;
    }
    double steps = nearbyint(ldexp(size, digits - exponent)); /* ties to even */
    double bits = steps + ldexp(exponent - 1 + bias, digits);
    return (uint16_t)(sign | (bits < infinity ? (uint16_t)bits : infinity));
}

double reference_from_f16(uint16_t bits) { return from_bits(bits, 10, 15); }
double reference_from_bf16(uint16_t bits) { return from_bits(bits, 7, 127); }
uint16_t reference_to_f16(float x) { return to_bits(x, 10, 15); }
uint16_t reference_to_bf16(float x) { return to_bits(x, 7, 127); }

bool reference_is_rounded(const void *at, whet_type type, float x) {
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    uint16_t right = type == WHET_F16 ? reference_to_f16(x) : reference_to_bf16(x);
    if (bits == right || type != WHET_F16 || !getenv("WHET_TEST_F16_TIES_AWAY")) {
        return bits == right;
    }
    double found = reference_from_f16(bits);
    return bits == right + 1 && found - (double)x == (double)x - reference_from_f16(right);
}

size_t reference_size(whet_type type) { return type == WHET_F32 ? 4 : 2; }

double reference_load(const void *at, whet_type type) {
    if (type == WHET_F32) {
        float x;
        memcpy(&x, at, sizeof x);
        return (double)x;
    }
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return type == WHET_F16 ? reference_from_f16(bits) : reference_from_bf16(bits);
}

size_t reference_row_size(whet_type type, size_t n) {
    return type == WHET_Q8_0   ? n / 32 * 34
           : type == WHET_Q4_0 ? n / 32 * 18
                               : n * reference_size(type);
}

double reference_load_from_row(const void *row, whet_type type, size_t i) {
    const unsigned char *at = (const unsigned char *)row + reference_row_size(type, i / 32 * 32);
    if (type != WHET_Q8_0 && type != WHET_Q4_0) {
        return reference_load(at + i % 32 * reference_size(type), type);
    }
    double scale = reference_load(at, WHET_F16);
    if (type == WHET_Q8_0) {
        double element = (signed char)at[2 + i % 32];
        return scale * element;
    }
    unsigned byte = at[2 + i % 16];
    return scale * ((double)(i % 32 < 16 ? byte % 16 : byte / 16) - 8);
}

/* ---- statistics of one row ---- */

static bool is_bad(double logit) { return isnan(logit) || logit == (double)INFINITY; }

static bool any_bad(const double *logits, size_t n, double sink) {
    for (size_t i = 0; i < n; i++) {
        if (is_bad(logits[i])) {
            return true;
        }
    }
    return is_bad(sink);
}

static double largest(const double *logits, size_t n, double sink) {
    double max = sink;
    for (size_t i = 0; i < n; i++) {
        max = fmax(max, logits[i]);
    }
    return max;
}

/* exp(beta (e - max)), 0 for a masked entry whatever beta is. */
static double weight(double logit, double max, double beta) {
    return logit == -(double)INFINITY ? 0 : exp(beta * (logit - max));
}

static double sum_of_weights(const double *logits, size_t n, double sink, double beta) {
    double max = largest(logits, n, sink);
    double z = weight(sink, max, beta);
    for (size_t i = 0; i < n; i++) {
        z += weight(logits[i], max, beta);
    }
    return z;
}

/* H = -sum p ln p, with ln p = beta (e - max) - ln Z. */
double reference_entropy(const double *logits, size_t n, double sink, double beta) {
    double max = largest(logits, n, sink);
    if (max == -(double)INFINITY) {
        return 0;
    }
    double w = weight(sink, max, beta);
    double z = w;
    double sum = w > 0 ? w * beta * (sink - max) : 0;
    for (size_t i = 0; i < n; i++) {
        w = weight(logits[i], max, beta);
        z += w;
        sum += w > 0 ? w * beta * (logits[i] - max) : 0;
    }
    return fmax(0, log(z) - sum / z);
}

void reference_probabilities(const double *logits, size_t n, double sink, double beta, double *p) {
    double max = largest(logits, n, sink);
    double z = max == -(double)INFINITY ? 1 : sum_of_weights(logits, n, sink, beta);
    for (size_t i = 0; i < n; i++) {
        p[i] = weight(logits[i], max, beta) / z;
    }
}

/* d exp(d) of one entry. */
static double slope_term(double logit, double max) {
    return logit == -(double)INFINITY ? 0 : (logit - max) * exp(logit - max);
}

static void describe(const double *logits, size_t n, double sink, whet_stats *stats) {
    double max = largest(logits, n, sink);
    *stats = (whet_stats){.max = max, .logsumexp = max, .beta = 1};
    for (size_t i = 0; i < n; i++) {
        stats->n += logits[i] != -(double)INFINITY;
    }
    stats->flags = stats->n == 0 ? WHET_ROW_EMPTY : 0;
    if (max == -(double)INFINITY) {
        return;
    }
    stats->z = sum_of_weights(logits, n, sink, 1);
    stats->s = slope_term(sink, max);
    for (size_t i = 0; i < n; i++) {
        stats->s += slope_term(logits[i], max);
    }
    stats->logsumexp = max + log(stats->z);
    stats->entropy = reference_entropy(logits, n, sink, 1);
}

/* ---- temperatures ---- */

static double poly_beta(const whet_policy *policy, double entropy) {
    double h = entropy > policy->hold ? policy->hold : entropy;
    double beta = 0;
    for (unsigned i = 0; i <= policy->degree; i++) {
        beta += policy->value[i] * pow(h, policy->degree - i);
    }
    return h <= policy->threshold ? 1 : fmax(beta, policy->floor);
}

/* By bisection, down to the last bit. */
static double target_beta(const double *logits, size_t n, double sink, double goal, double cap,
                          uint32_t *flags) {
    if (reference_entropy(logits, n, sink, 1) <= goal) {
        return 1;
    }
    if (reference_entropy(logits, n, sink, cap) >= goal) {
        *flags |= WHET_ROW_CAPPED;
        return cap;
    }
    double low = 1;
    double high = cap;
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) {
            return low;
        }
        if (reference_entropy(logits, n, sink, middle) > goal) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

static double beta_before_strength(const double *logits, size_t n, double sink,
                                   const whet_policy *policy, whet_stats *stats) {
    double first = policy->value[0];
    double count = (double)stats->n;
    double derivative = 0;
    switch (policy->kind) {
    case WHET_POLICY_SOFTMAX:
        return 1;
    case WHET_POLICY_FIXED:
        return first;
    case WHET_POLICY_POLY:
        return poly_beta(policy, stats->entropy);
    case WHET_POLICY_EXP:
        return fmax(1, exp(stats->entropy - first));
    case WHET_POLICY_TARGET:
        return target_beta(logits, n, sink, first, policy->value[1], &stats->flags);
    case WHET_POLICY_SSMAX:
        return first * log(count) + policy->value[1];
    case WHET_POLICY_LENGTH:
        return fmax(1, log(count) / log(first));
    case WHET_POLICY_LINEAR:
        return fmax(1, count / first);
    case WHET_POLICY_CUSTOM:
        return policy->function(stats, &derivative, policy->context);
    default:
        fprintf(stderr, "the reference does not know policy %lu\n", (unsigned long)policy->kind);
        abort();
    }
}

/* An inverse temperature below zero counts as none. */
static double beta_of(const double *logits, size_t n, double sink, const whet_policy *policy,
                      whet_stats *stats) {
    double beta = beta_before_strength(logits, n, sink, policy, stats);
    return fmax(0, 1 + policy->strength * (beta - 1));
}

/* ---- maps that are not a temperature ---- */

static int compare_larger_first(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x < y) - (x > y);
}

static double kth_largest(const double *logits, size_t n, double k) {
    double *sorted = allocate(n, sizeof *sorted);
    memcpy(sorted, logits, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_larger_first);
    double result = sorted[k < (double)n ? (size_t)k - 1 : n - 1];
    free(sorted);
    return result;
}

static void whet_map_topk(const double *logits, size_t n, double k, double *p) {
    double lowest = kth_largest(logits, n, k);
    double max = largest(logits, n, -(double)INFINITY);
    double z = 0;
    for (size_t i = 0; i < n; i++) {
        p[i] = logits[i] >= lowest ? weight(logits[i], max, 1) : 0;
        z += p[i];
    }
    for (size_t i = 0; i < n; i++) {
        p[i] /= z;
    }
}

static void whet_map_hardmax(const double *logits, size_t n, double *p) {
    double max = largest(logits, n, -(double)INFINITY);
    double ties = 0;
    for (size_t i = 0; i < n; i++) {
        ties += logits[i] == max;
    }
    for (size_t i = 0; i < n; i++) {
        p[i] = logits[i] == max ? 1 / ties : 0;
    }
}

/* max(0, (a - 1) e - tau)^(1 / (a - 1)) with e shifted by the maximum; tau by bisection. */
static void whet_map_entmax(const double *logits, size_t n, double a, double *p) {
    double max = largest(logits, n, -(double)INFINITY);
    double low = -1;
    double high = 0;
    for (int step = 0; step < 100; step++) {
        double tau = low + (high - low) / 2;
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            double y = (a - 1) * (logits[i] - max) - tau;
            p[i] = y > 0 ? pow(y, 1 / (a - 1)) : 0;
            sum += p[i];
        }
        if (sum > 1) {
            low = tau;
        } else {
            high = tau;
        }
    }
}

static void whet_map_softmax1(const double *logits, size_t n, double *p) {
    double max = largest(logits, n, 0);
    double z = exp(-max);
    for (size_t i = 0; i < n; i++) {
        z += weight(logits[i], max, 1);
    }
    for (size_t i = 0; i < n; i++) {
        p[i] = weight(logits[i], max, 1) / z;
    }
}

static double sigma(double x) { return 1 / (1 + exp(-x)); }

static void whet_map_sigmoid(const double *logits, size_t n, double b, double *p) {
    for (size_t i = 0; i < n; i++) {
        p[i] = sigma(logits[i] - b);
    }
}

static void whet_map_stick_breaking(const double *logits, size_t n, double *p) {
    double left = 1;
    for (size_t i = n; i-- > 0;) {
        p[i] = sigma(logits[i]) * left;
        left *= sigma(-logits[i]);
    }
}

static void map_of(const whet_policy *policy, const double *logits, size_t n, uint64_t unmasked,
                   double *p) {
    double first = policy->value[0];
    switch (policy->kind) {
    case WHET_POLICY_TOPK:
        whet_map_topk(logits, n, first, p);
        break;
    case WHET_POLICY_HARDMAX:
        whet_map_hardmax(logits, n, p);
        break;
    case WHET_POLICY_ENTMAX:
        whet_map_entmax(logits, n, first, p);
        break;
    case WHET_POLICY_SOFTMAX1:
        whet_map_softmax1(logits, n, p);
        break;
    case WHET_POLICY_SIGMOID:
        whet_map_sigmoid(logits, n, isnan(first) ? log((double)unmasked) : first, p);
        break;
    case WHET_POLICY_STICK_BREAKING:
        whet_map_stick_breaking(logits, n, p);
        break;
    default:
        fprintf(stderr, "the reference does not know policy %lu\n", (unsigned long)policy->kind);
        abort();
    }
}

static bool sums_to_one(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_TOPK || policy->kind == WHET_POLICY_HARDMAX ||
           policy->kind == WHET_POLICY_ENTMAX;
}

/* ---- one row ---- */

static void fill(double *p, size_t n, double value) {
    for (size_t i = 0; p && i < n; i++) {
        p[i] = value;
    }
}

static void spoil(const double *logits, size_t n, double *p, whet_stats *stats) {
    const double nan = (double)NAN;
    *stats = (whet_stats){.max = nan,
                          .z = nan,
                          .s = nan,
                          .logsumexp = nan,
                          .entropy = nan,
                          .beta = nan,
                          .entropy_after = nan,
                          .max_prob = nan,
                          .flags = WHET_ROW_NOT_FINITE};
    for (size_t i = 0; i < n; i++) {
        stats->n += logits[i] != -(double)INFINITY;
    }
    fill(p, n, nan);
}

static void sharpen(const double *logits, size_t n, double sink, const whet_policy *policy,
                    double *p, whet_stats *stats) {
    stats->beta = stats->n == 0 ? 1 : beta_of(logits, n, sink, policy, stats);
    stats->entropy_after = reference_entropy(logits, n, sink, stats->beta);
    stats->max_prob = 1 / sum_of_weights(logits, n, sink, stats->beta);
    if (p) {
        reference_probabilities(logits, n, sink, stats->beta, p);
    }
}

/* -p ln p. */
static double surprise(double p) { return p > 0 ? -p * log(p) : 0; }

/* A sink is one more entry of maps that look at all of them, and nothing to the others. */
static bool takes_sink(const whet_policy *policy) {
    return sums_to_one(policy) || policy->kind == WHET_POLICY_SOFTMAX1;
}

static void whet_map_row(const double *logits, size_t n, double sink, const whet_policy *policy,
                         double *p, whet_stats *stats) {
    size_t entries = n + (takes_sink(policy) && sink > -(double)INFINITY);
    double *all = allocate(n + 1, sizeof *all);
    double *own = allocate(n + 1, sizeof *own);
    memcpy(all, logits, n * sizeof *all);
    all[n] = sink;
    map_of(policy, all, entries, stats->n, own);
    stats->beta = (double)NAN;
    for (size_t i = 0; i < entries; i++) {
        stats->max_prob = fmax(stats->max_prob, own[i]);
        stats->entropy_after += surprise(own[i]);
    }
    if (!sums_to_one(policy)) {
        stats->entropy_after = (double)NAN;
    }
    if (p) {
        memcpy(p, own, n * sizeof *p);
    }
    free(all);
    free(own);
}

void reference_row(const double *logits, size_t n, double sink, const whet_policy *policy,
                   double *p, whet_stats *stats) {
    if (any_bad(logits, n, sink)) {
        spoil(logits, n, p, stats);
        return;
    }
    describe(logits, n, sink, stats);
    if (stats->max == -(double)INFINITY) {
        fill(p, n, 0);
    } else if (whet_policy_is_temperature(policy) || stats->n == 0) {
        sharpen(logits, n, sink, policy, p, stats);
    } else {
        whet_map_row(logits, n, sink, policy, p, stats);
    }
}

/* ---- attention ---- */

/* The description with its defaults filled in. */
static whet_attention with_defaults(const whet_attention *given) {
    whet_attention a = *given;
    a.batch = a.batch ? a.batch : 1;
    a.kv_heads = a.kv_heads ? a.kv_heads : a.heads;
    a.value_dim = a.value_dim ? a.value_dim : a.head_dim;
    return a;
}

static size_t offset_in(const ptrdiff_t given[4], const size_t extent[4], size_t element,
                        const size_t index[4]) {
    ptrdiff_t stride[4];
    memcpy(stride, given, sizeof stride);
    if (!stride[0] && !stride[1] && !stride[2] && !stride[3]) {
        stride[3] = (ptrdiff_t)element;
        for (int axis = 3; axis > 0; axis--) {
            stride[axis - 1] = stride[axis] * (ptrdiff_t)extent[axis];
        }
    }
    ptrdiff_t offset = 0;
    for (int axis = 0; axis < 4; axis++) {
        offset += (ptrdiff_t)index[axis] * stride[axis];
    }
    return (size_t)offset;
}

/* One position's row of q, k or v. */
static void load_row(const whet_tensor *tensor, const size_t extent[4], size_t batch, size_t head,
                     size_t position, double *row) {
    size_t n = extent[3];
    const char *data = tensor->data;
    if (tensor->type == WHET_CUSTOM) {
        size_t index[4] = {batch, head, position, 0};
        float *converted = allocate(n, sizeof *converted);
        tensor->to_f32(data + (ptrdiff_t)offset_in(tensor->stride, extent, 0, index), converted, n,
                       tensor->context);
        for (size_t i = 0; i < n; i++) {
            row[i] = (double)converted[i];
        }
        free(converted);
        return;
    }
    if (tensor->type == WHET_Q8_0 || tensor->type == WHET_Q4_0) {
        /* a row is one element, and what stride[3] says does not matter */
        const size_t rows[4] = {extent[0], extent[1], extent[2], 1};
        const ptrdiff_t strides[4] = {tensor->stride[0], tensor->stride[1], tensor->stride[2], 0};
        size_t index[4] = {batch, head, position, 0};
        size_t offset = offset_in(strides, rows, reference_row_size(tensor->type, n), index);
        for (size_t i = 0; i < n; i++) {
            row[i] = reference_load_from_row(data + (ptrdiff_t)offset, tensor->type, i);
        }
        return;
    }
    size_t element = reference_size(tensor->type);
    for (size_t i = 0; i < n; i++) {
        size_t index[4] = {batch, head, position, i};
        row[i] = reference_load(data + (ptrdiff_t)offset_in(tensor->stride, extent, element, index),
                                tensor->type);
    }
}

/* All positions of one head: [position][dim]. */
static double *load_head(const whet_tensor *tensor, const size_t extent[4], size_t batch,
                         size_t head) {
    double *rows = allocate(extent[2] * extent[3], sizeof *rows);
    for (size_t j = 0; j < extent[2]; j++) {
        load_row(tensor, extent, batch, head, j, rows + j * extent[3]);
    }
    return rows;
}

/* The mask's entry for a key, 0 without a mask. A zero stride repeats, except for keys. */
static double mask_at(const whet_attention *a, size_t batch, size_t head, size_t query,
                      size_t key) {
    const whet_mask *mask = &a->mask;
    if (!mask->data) {
        return 0;
    }
    ptrdiff_t element = (ptrdiff_t)reference_size(mask->type);
    ptrdiff_t key_stride = mask->stride[3] ? mask->stride[3] : element;
    ptrdiff_t offset = (ptrdiff_t)batch * mask->stride[0] + (ptrdiff_t)head * mask->stride[1] +
                       (ptrdiff_t)query * mask->stride[2] + (ptrdiff_t)key * key_stride;
    return reference_load((const char *)mask->data + offset, mask->type);
}

static bool is_visible(const whet_attention *a, size_t query, size_t key) {
    int64_t position = (int64_t)query + a->offset;
    int64_t distance = position - (int64_t)key;
    if ((a->flags & WHET_CAUSAL) && distance < 0) {
        return false;
    }
    return a->window == 0 || (uint64_t)(distance < 0 ? -distance : distance) < a->window;
}

static double dot(const double *a, const double *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* e_j = softcap(scale q . k_j) - slope |i + offset - j| + mask_ij, or -inf. */
static double logit_of(const whet_attention *a, size_t batch, size_t head, size_t query, size_t key,
                       const double *q, const double *k) {
    double mask = mask_at(a, batch, head, query, key);
    if (!is_visible(a, query, key) || mask == -(double)INFINITY) {
        return -(double)INFINITY;
    }
    double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    double logit = scale * dot(q, k, a->head_dim);
    if (a->softcap > 0) {
        logit = (double)a->softcap * tanh(logit / (double)a->softcap);
    }
    if (a->alibi_slopes) {
        double distance = fabs((double)((int64_t)query + a->offset - (int64_t)key));
        logit -= (double)a->alibi_slopes[head] * distance;
    }
    return logit + mask;
}

static whet_policy policy_of(const whet_attention *a, size_t head) {
    if (!a->policies) {
        return whet_policy_softmax();
    }
    return a->policies[a->policy_count > 1 ? head : 0];
}

/* What the weights select of the values; those of masked keys are not looked at. */
static void select_values(const double *p, const double *v, size_t keys, size_t value_dim,
                          double *out) {
    fill(out, value_dim, 0);
    for (size_t j = 0; j < keys; j++) {
        for (size_t c = 0; p[j] != 0 && c < value_dim; c++) {
            out[c] += p[j] * v[j * value_dim + c];
        }
    }
}

uint64_t reference_attention(const whet_attention *attention, double *out, whet_stats *stats,
                             double *mass) {
    whet_attention a = with_defaults(attention);
    const size_t q_extent[4] = {a.batch, a.heads, a.queries, a.head_dim};
    const size_t k_extent[4] = {a.batch, a.kv_heads, a.keys, a.head_dim};
    const size_t v_extent[4] = {a.batch, a.kv_heads, a.keys, a.value_dim};
    double *q = allocate(a.head_dim, sizeof *q);
    double *logits = allocate(a.keys, sizeof *logits);
    double *p = allocate(a.keys, sizeof *p);
    uint64_t first_bad_row = UINT64_MAX;
    uint64_t row = 0;
    for (size_t batch = 0; batch < a.batch; batch++) {
        for (size_t head = 0; head < a.heads; head++) {
            size_t kv_head = head / (a.heads / a.kv_heads);
            double *k = load_head(&a.k, k_extent, batch, kv_head);
            double *v = load_head(&a.v, v_extent, batch, kv_head);
            double sink = a.sinks ? (double)a.sinks[head] : -(double)INFINITY;
            whet_policy policy = policy_of(&a, head);
            for (size_t query = 0; query < a.queries; query++, row++) {
                load_row(&a.q, q_extent, batch, head, query, q);
                for (size_t j = 0; j < a.keys; j++) {
                    logits[j] = logit_of(&a, batch, head, query, j, q, k + j * a.head_dim);
                }
                reference_row(logits, a.keys, sink, &policy, p, &stats[row]);
                select_values(p, v, a.keys, a.value_dim, out + row * a.value_dim);
                for (size_t j = 0; mass && j < a.keys; j++) {
                    mass[row] = (j ? mass[row] : 0) + p[j];
                }
                if (stats[row].flags & WHET_ROW_NOT_FINITE) {
                    fill(out + row * a.value_dim, a.value_dim, (double)NAN);
                    first_bad_row = first_bad_row == UINT64_MAX ? row : first_bad_row;
                }
            }
            free(k);
            free(v);
        }
    }
    free(q);
    free(logits);
    free(p);
    return first_bad_row;
}

/* ---- the way back ---- */

/* Half the difference between beta with `number` a little larger and a little smaller. */
static double slope_by(const double *logits, size_t n, double sink, const whet_policy *policy,
                       const whet_stats *stats, whet_policy *moved, double *number) {
    double at = *number;
    double step = 1e-7 * fmax(1, fabs(at)); /* hardly ever across a kink */
    double beta[2];
    if (!isfinite(at)) {
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        whet_stats own = *stats;
        *number = at + (i ? step : -step);
        beta[i] = beta_of(logits, n, sink, moved, &own);
    }
    *moved = *policy;
    return (beta[1] - beta[0]) / (2 * step);
}

static whet_policy_gradient number_slopes(const double *logits, size_t n, double sink,
                                          const whet_policy *policy, const whet_stats *stats) {
    whet_policy_gradient result = {.strength = 0};
    whet_policy moved = *policy;
    for (size_t i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
        result.value[i] = slope_by(logits, n, sink, policy, stats, &moved, &moved.value[i]);
    }
    result.strength = slope_by(logits, n, sink, policy, stats, &moved, &moved.strength);
    result.hold = slope_by(logits, n, sink, policy, stats, &moved, &moved.hold);
    return result;
}

/* d beta / d entropy. */
static double entropy_slope(const double *logits, size_t n, double sink, const whet_policy *policy,
                            const whet_stats *stats) {
    double beta[2];
    double step = 1e-6;
    for (int i = 0; i < 2; i++) {
        whet_stats own = *stats;
        own.entropy += i ? step : -step;
        beta[i] = beta_of(logits, n, sink, policy, &own);
    }
    return (beta[1] - beta[0]) / (2 * step);
}

/* d beta / d e_j for every entry and, last, the sink, and their sizes: entropies move by
 * -beta^2 w (e - mean). */
static void beta_slopes(const double *logits, size_t n, double sink, const whet_policy *policy,
                        const whet_stats *stats, double *result, double *sizes) {
    bool target = policy->kind == WHET_POLICY_TARGET;
    double beta = target ? 1 + (stats->beta - 1) / policy->strength : 1;
    double max = largest(logits, n, sink);
    double z = 0, mean = 0, variance = 0;
    fill(result, n + 1, 0);
    for (size_t i = 0; i <= n; i++) {
        result[i] = weight(i < n ? logits[i] : sink, max, beta);
        z += result[i];
    }
    for (size_t i = 0; i <= n; i++) {
        result[i] /= z;
        mean += result[i] > 0 ? result[i] * ((i < n ? logits[i] : sink) - max) : 0;
    }
    for (size_t i = 0; i <= n; i++) {
        double d = (i < n ? logits[i] : sink) - max - mean;
        variance += result[i] > 0 ? result[i] * d * d : 0;
        sizes[i] = result[i] > 0 ? result[i] * (fabs(d + mean) + fabs(mean)) : 0;
        result[i] = result[i] > 0 ? -result[i] * d : 0;
    }
    double factor = 0;
    if (!target) {
        factor = entropy_slope(logits, n, sink, policy, stats);
    } else if (!(stats->flags & WHET_ROW_CAPPED) && beta > 1) {
        factor = policy->strength * beta / variance;
    }
    for (size_t i = 0; i <= n; i++) {
        result[i] *= factor;
        sizes[i] *= fabs(factor);
    }
}

/* How much of the terms of a product in f32 counts as its size at least: some 1e-7, where gradients
 * are to be right to 1e-5. */
#define PRODUCT_NOISE (1.0 / 64)

/* One row's weights and their gradients, the sink's last; gradients count from that of the largest
 * weight, since they may all have much in common, and D next to all of it. */
typedef struct weighed {
    size_t n;             /* with the sink */
    double *p, *g, *rest; /* rest: 1 - p, without cancelling */
    size_t top;
    double mean, range; /* sum of p g, and the largest less the smallest g of those that count */
} weighed;

static weighed weigh(const double *p, const double *g, size_t n, double p_sink) {
    weighed w = {.n = n + 1, .p = allocate(3 * (n + 1), sizeof *w.p)};
    double low = 0, high = 0, others = 0;
    w.g = w.p + w.n;
    w.rest = w.g + w.n;
    for (size_t j = 0; j < n; j++) {
        w.p[j] = p[j];
        w.g[j] = g[j];
    }
    w.p[n] = p_sink;
    for (size_t j = 1; j <= n; j++) {
        w.top = w.p[j] > w.p[w.top] ? j : w.top;
    }
    double base = w.g[w.top];
    for (size_t j = 0; j <= n; j++) {
        w.g[j] = w.p[j] > 0 ? w.g[j] - base : 0;
        w.rest[j] = 1 - w.p[j];
        others += j == w.top ? 0 : w.p[j];
        w.mean += w.p[j] * w.g[j];
        low = fmin(low, w.g[j]);
        high = fmax(high, w.g[j]);
    }
    w.rest[w.top] = others;
    w.range = high - low;
    return w;
}

/* The sink's weight: by what the largest of the others is, or if it is larger, what they leave. */
static double sink_weight(const double *logits, const double *p, size_t n, double sink,
                          double beta) {
    size_t top = 0;
    double left = 1;
    for (size_t j = 0; j < n; j++) {
        top = p[j] > p[top] ? j : top;
        left -= p[j];
    }
    if (sink == -(double)INFINITY || left > 0.5) {
        return sink == -(double)INFINITY ? 0 : left;
    }
    return p[top] * exp(beta * (sink - logits[top]));
}

/* sum of s g over sum of s (or over one). */
static double mean_of(const double *s, const double *g, size_t n, bool normalised) {
    double sum = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        sum += s[i] > 0 ? s[i] * g[i] : 0;
        total += s[i];
    }
    return normalised ? sum / total : sum;
}

/* p_i = sigma(e_i) times (1 - sigma(e_j)) of all later j: a logit raises its own part, and lowers
 * those of all before it. */
static void stick_back(const double *logits, size_t n, const double *p, const double *g,
                       double *result) {
    double before = 0;
    for (size_t i = 0; i < n; i++) {
        result[i] = p[i] * sigma(-logits[i]) * g[i] - sigma(logits[i]) * before;
        before += p[i] * g[i];
    }
}

/* From the gradients g of the coefficients p of n entries to those of their logits. */
static void map_slopes(const whet_policy *policy, const double *logits, size_t n, const double *p,
                       const double *g, double *result) {
    bool is_entmax = policy->kind == WHET_POLICY_ENTMAX;
    if (policy->kind == WHET_POLICY_STICK_BREAKING) {
        stick_back(logits, n, p, g, result);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        result[i] = policy->kind == WHET_POLICY_HARDMAX   ? 0
                    : policy->kind == WHET_POLICY_SIGMOID ? p[i] * (1 - p[i])
                    : is_entmax && p[i] > 0               ? pow(p[i], 2 - policy->value[0])
                                                          : p[i];
    }
    double mean = policy->kind == WHET_POLICY_SIGMOID ? 0 : mean_of(result, g, n, is_entmax);
    for (size_t i = 0; i < n; i++) {
        result[i] *= result[i] > 0 ? g[i] - mean : 0;
    }
}

/* The gradient of a map's number: of sigmoid's b if it was given, of entmax's alpha by differences
 * of sum p g. */
static double map_number(const whet_policy *policy, const double *logits, size_t n, const double *g,
                         const double *slopes, double *p) {
    double sum = 0, step = 1e-5;
    for (size_t i = 0; policy->kind == WHET_POLICY_SIGMOID && i < n; i++) {
        sum -= isnan(policy->value[0]) ? 0 : slopes[i];
    }
    for (int side = -1; policy->kind == WHET_POLICY_ENTMAX && side < 2; side += 2) {
        whet_map_entmax(logits, n, policy->value[0] + side * step, p);
        for (size_t i = 0; i < n; i++) {
            sum += side * p[i] * g[i] / (2 * step);
        }
    }
    return sum;
}

/* From the gradients g of a map's coefficients to those of its logits and, last, its sink; the
 * largest gives all sizes, and no less than what rounding does to a g of `terms`. Returns the
 * gradient of its number. g has room for the sink. */
static double map_back(const double *row, size_t n, double sink, const whet_policy *policy,
                       uint64_t unmasked, double terms, double *g, double *result, double *sizes) {
    size_t entries = n + (takes_sink(policy) && sink > -(double)INFINITY);
    double *logits = allocate(n + 1, sizeof *logits);
    double *p = allocate(n + 1, sizeof *p);
    memcpy(logits, row, n * sizeof *logits);
    logits[n] = sink;
    g[n] = result[n] = 0;
    map_of(policy, logits, entries, unmasked, p);
    map_slopes(policy, logits, entries, p, g, result);
    double largest_p = policy->kind == WHET_POLICY_ENTMAX, size = 0;
    for (size_t i = 0; i < entries; i++) {
        size = fmax(size, fabs(result[i]));
        largest_p = fmax(largest_p, p[i]);
    }
    fill(sizes, n + 1, size + largest_p * terms * PRODUCT_NOISE);
    double number = map_number(policy, logits, entries, g, result, p);
    free(logits);
    free(p);
    return number;
}

/* d softcap(x) / d x at the logit of a query and a key. Where that is next to nothing, its size is
 * larger by what rounding does to an exponent. */
static double cap_slope(const whet_attention *a, const double *q, const double *k, double sharp,
                        double *size) {
    *size = 1;
    if (!(a->softcap > 0)) {
        return 1;
    }
    double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    double y = scale * dot(q, k, a->head_dim) / (double)a->softcap;
    double slope = 1 / (cosh(y) * cosh(y));
    *size = slope * fmax(1, 4 * fabs(y) / sharp);
    return slope;
}

static double times(double a, double b, bool absolute) { return absolute ? fabs(a * b) : a * b; }

static void add_numbers(whet_policy_gradient *to, const whet_policy_gradient *numbers,
                        double factor, bool absolute) {
    for (size_t i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
        to->value[i] += times(factor, numbers->value[i], absolute);
    }
    to->strength += times(factor, numbers->strength, absolute);
    to->hold += times(factor, numbers->hold, absolute);
}

/* Everything about one query row. */
typedef struct back_row {
    const whet_attention *a;
    size_t batch, head, query;
    const double *q, *k, *v, *out; /* out: the gradient of the row's output */
    double *logits, *p, *g, *slopes;
    double *p_sizes, *sizes; /* of weights and slopes */
    whet_policy policy;
    double sink, sharp;
    whet_stats stats;
} back_row;

/* The most that products out . (v_j - from) have for terms, over the keys that are seen. */
static double terms_of(const back_row *r, const double *from) {
    size_t dim = r->a->value_dim;
    double largest_sum = 0;
    for (size_t j = 0; j < r->a->keys; j++) {
        double sum = 0;
        for (size_t i = 0; i < dim; i++) {
            sum += fabs(r->out[i] * (r->v[j * dim + i] - (from ? from[i] : 0)));
        }
        largest_sum = r->p[j] > 0 ? fmax(largest_sum, sum) : largest_sum;
    }
    return largest_sum;
}

/* From the gradients of a row's weights to those of its logits and, last, its sink, and their
 * sizes; returns that of beta. */
static double row_back(const back_row *r) {
    size_t n = r->a->keys;
    const whet_stats *stats = &r->stats;
    weighed w = weigh(r->p, r->g, n, sink_weight(r->logits, r->p, n, r->sink, stats->beta));
    double beta_gradient = 0, beta_size = 0;
    /* a sink has nothing in common with the values */
    const double *from = w.p[n] > 0 ? NULL : r->v + w.top * r->a->value_dim;
    w.range += PRODUCT_NOISE * terms_of(r, from);
    beta_slopes(r->logits, n, r->sink, &r->policy, stats, r->slopes, r->sizes);
    for (size_t j = 0; j <= n; j++) {
        double d = w.p[j] > 0 ? (j < n ? r->logits[j] : r->sink) - stats->max : 0;
        beta_gradient += w.p[j] * (w.g[j] - w.mean) * d;
        beta_size += w.p[j] * w.range * fabs(d);
    }
    for (size_t j = 0; j <= n; j++) {
        double own = stats->beta * w.p[j];
        r->slopes[j] = own * (w.g[j] - w.mean) + beta_gradient * r->slopes[j];
        r->sizes[j] = own * w.rest[j] * w.range + beta_size * r->sizes[j];
    }
    free(w.p);
    return beta_gradient;
}

/* Sizes grow with what rounding does to logits as sharp as these; returns that of the largest. */
static double sharpen_sizes(const back_row *r) {
    double beta = isnan(r->stats.beta) ? 1 : r->stats.beta; /* of a map: none */
    beta *= r->a->softcap > 0 ? 2 : 1;                      /* a cap is not as exact as a product */
    double sharpest = fmax(1, beta * fabs(r->stats.max) / r->sharp);
    for (size_t j = 0; j < r->a->keys; j++) {
        double own = r->p[j] > 0 ? fmax(sharpest, beta * fabs(r->logits[j]) / r->sharp) : 1;
        r->sizes[j] *= own;
        r->p_sizes[j] *= 1 + (1 - r->p[j]) * (own - 1); /* a weight of 1 stays one */
    }
    r->sizes[r->a->keys] *= sharpest;
    return sharpest;
}

/* The gradients of a row's weights, then of its logits, and the sizes of both; returns that of beta
 * or a map's number. */
static double slopes_back(const back_row *r, bool *bad) {
    const whet_attention *a = r->a;
    bool is_map = !whet_policy_is_temperature(&r->policy);
    double largest_p = 0;
    *bad = r->stats.flags & WHET_ROW_NOT_FINITE;
    for (size_t j = 0; j < a->keys; j++) {
        r->g[j] = r->logits[j] == -(double)INFINITY
                      ? 0
                      : dot(r->out, r->v + j * a->value_dim, a->value_dim);
        *bad = *bad || !isfinite(r->g[j]);
        largest_p = fmax(largest_p, r->p[j]);
    }
    if (*bad || r->stats.n == 0) {
        return 0;
    }
    for (size_t j = 0; j < a->keys; j++) {
        r->p_sizes[j] = is_map ? largest_p : r->p[j]; /* a map has thresholds to subtract */
    }
    return is_map ? map_back(r->logits, a->keys, r->sink, &r->policy, r->stats.n, terms_of(r, NULL),
                             r->g, r->slopes, r->sizes)
                  : row_back(r);
}

/* Adds a row's share to tensors, to alibi slopes and sinks, from the gradients of its logits, or
 * from their sizes; what is missing of a bad row is NaN. */
static void add_slopes(const back_row *r, const double *p, const double *slopes, bool bad,
                       bool absolute, const reference_sums *to) {
    const whet_attention *a = r->a;
    double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    size_t row = (r->batch * a->heads + r->head) * a->queries + r->query;
    size_t stream = r->batch * a->kv_heads + r->head / (a->heads / a->kv_heads);
    double *dq = to->q + row * a->head_dim;
    for (size_t j = 0; j < a->keys; j++) {
        if (r->logits[j] == -(double)INFINITY) {
            continue;
        }
        double *dk = to->k + (stream * a->keys + j) * a->head_dim;
        double *dv = to->v + (stream * a->keys + j) * a->value_dim;
        const double *k = r->k + j * a->head_dim;
        double cap_size;
        double cap = cap_slope(a, r->q, k, r->sharp, &cap_size);
        double slope = bad ? (double)NAN : scale * slopes[j] * (absolute ? cap_size : cap);
        for (size_t i = 0; i < a->head_dim; i++) {
            dq[i] += times(slope, k[i], absolute);
            dk[i] += times(slope, r->q[i], absolute);
        }
        for (size_t i = 0; i < a->value_dim; i++) {
            dv[i] += bad ? (double)NAN : times(p[j], r->out[i], absolute);
        }
        double distance = fabs((double)((int64_t)r->query + a->offset - (int64_t)j));
        to->slopes[r->head] += bad ? 0 : times(-slopes[j], distance, absolute);
    }
    if (bad) {
        fill(dq, a->head_dim, (double)NAN);
    } else if (r->stats.n > 0) {
        to->sinks[r->head] += slopes[a->keys];
    }
}

/* Adds a row's share to everything it takes part in. */
static void add_back_row(const back_row *r, reference_gradients *result) {
    const whet_attention *a = r->a;
    bool bad;
    double beta_gradient = slopes_back(r, &bad);
    double sharpness = sharpen_sizes(r);
    add_slopes(r, r->p, r->slopes, bad, false, &result->of);
    add_slopes(r, r->p_sizes, r->sizes, bad, true, &result->sizes);
    if (bad || r->stats.n == 0) {
        return;
    }
    whet_policy_gradient numbers = {.value = {1}}; /* a map has one, and that is its gradient */
    if (whet_policy_is_temperature(&r->policy)) {
        numbers = number_slopes(r->logits, a->keys, r->sink, &r->policy, &r->stats);
    }
    size_t policy = a->policy_count > 1 ? r->head : 0;
    add_numbers(&result->of.policies[policy], &numbers, beta_gradient, false);
    add_numbers(&result->sizes.policies[policy], &numbers, beta_gradient * sharpness, true);
}

static void back_head(const whet_attention *a, const whet_tensor *out, double sharp, size_t batch,
                      size_t head, reference_gradients *result) {
    const size_t q_extent[4] = {a->batch, a->heads, a->queries, a->head_dim};
    const size_t out_extent[4] = {a->batch, a->heads, a->queries, a->value_dim};
    const size_t k_extent[4] = {a->batch, a->kv_heads, a->keys, a->head_dim};
    const size_t v_extent[4] = {a->batch, a->kv_heads, a->keys, a->value_dim};
    size_t kv_head = head / (a->heads / a->kv_heads);
    double *q = load_head(&a->q, q_extent, batch, head);
    double *grads = load_head(out, out_extent, batch, head);
    double *k = load_head(&a->k, k_extent, batch, kv_head);
    double *v = load_head(&a->v, v_extent, batch, kv_head);
    back_row r = {.a = a,
                  .batch = batch,
                  .head = head,
                  .k = k,
                  .v = v,
                  .policy = policy_of(a, head),
                  .sharp = sharp};
    r.sink = a->sinks ? (double)a->sinks[head] : -(double)INFINITY;
    r.logits = allocate(6 * (a->keys + 1), sizeof *r.logits);
    r.p = r.logits + a->keys + 1;
    r.g = r.p + a->keys + 1;
    r.slopes = r.g + a->keys + 1;
    r.sizes = r.slopes + a->keys + 1;
    r.p_sizes = r.sizes + a->keys + 1;
    for (r.query = 0; r.query < a->queries; r.query++) {
        r.q = q + r.query * a->head_dim;
        r.out = grads + r.query * a->value_dim;
        for (size_t j = 0; j < a->keys; j++) {
            r.logits[j] = logit_of(a, batch, head, r.query, j, r.q, k + j * a->head_dim);
        }
        reference_row(r.logits, a->keys, r.sink, &r.policy, r.p, &r.stats);
        add_back_row(&r, result);
    }
    free(q);
    free(grads);
    free(k);
    free(v);
    free(r.logits);
}

static reference_sums new_sums(const whet_attention *a) {
    size_t rows = a->batch * a->heads * a->queries, keys = a->batch * a->kv_heads * a->keys;
    return (reference_sums){.q = allocate(rows * a->head_dim, sizeof(double)),
                            .k = allocate(keys * a->head_dim, sizeof(double)),
                            .v = allocate(keys * a->value_dim, sizeof(double)),
                            .slopes = allocate(a->heads, sizeof(double)),
                            .sinks = allocate(a->heads, sizeof(double)),
                            .policies = allocate(a->heads, sizeof(whet_policy_gradient))};
}

reference_gradients reference_backward(const whet_attention *attention, const whet_tensor *out,
                                       double sharp) {
    whet_attention a = with_defaults(attention);
    reference_gradients result = {.of = new_sums(&a), .sizes = new_sums(&a)};
    for (size_t batch = 0; batch < a.batch; batch++) {
        for (size_t head = 0; head < a.heads; head++) {
            back_head(&a, out, sharp, batch, head, &result);
        }
    }
    return result;
}

static void free_sums(reference_sums *sums) {
    free(sums->q);
    free(sums->k);
    free(sums->v);
    free(sums->slopes);
    free(sums->sinks);
    free(sums->policies);
}

void reference_gradients_free(reference_gradients *gradients) {
    free_sums(&gradients->of);
    free_sums(&gradients->sizes);
}
