/*
 * The backward pass of attention: from the gradients of a row's output to those
 * of its weights, its logits, and everything they are made of; beside each sum
 * the size of its terms (see reference.h).
 */
#include "reference/parts.h"

/* One row's weights and their gradients, the sink's last; gradients count from that of the largest
 * weight, since they may all have much in common, and D next to all of it. */
typedef struct weighed {
    size_t n;             /* with the sink */
    double *p, *g, *rest; /* rest: 1 - p, without cancelling */
    size_t top;
    double mean, range; /* sum of p g, and the largest less the smallest g of those that count */
} weighed;

static weighed weigh(const double *p, const double *g, size_t n, double p_sink) {
    weighed w = {.n = n + 1, .p = reference_allocate(3 * (n + 1), sizeof *w.p)};
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

/* d softcap(x) / d x at the logit of a query and a key. Where that is next to nothing, its size is
 * larger by what rounding does to an exponent. */
static double cap_derivative(const whet_attention *a, const double *q, const double *k,
                             double sharp, double *size) {
    *size = 1;
    if (!(a->softcap > 0)) {
        return 1;
    }
    double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    double y = scale * reference_dot(q, k, a->head_dim) / (double)a->softcap;
    double derivative = 1 / (cosh(y) * cosh(y));
    *size = derivative * fmax(1, 4 * fabs(y) / sharp);
    return derivative;
}

static double times(double a, double b, bool absolute) { return absolute ? fabs(a * b) : a * b; }

static void add_parameters(whet_policy_gradient *to, const whet_policy_gradient *derivatives,
                           double factor, bool absolute) {
    for (size_t i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
        to->value[i] += times(factor, derivatives->value[i], absolute);
    }
    to->strength += times(factor, derivatives->strength, absolute);
    to->hold += times(factor, derivatives->hold, absolute);
}

/* Everything about one query row. */
typedef struct back_row {
    const whet_attention *a;
    size_t batch, head, query;
    const double *q, *k, *v, *out; /* out: the gradient of the row's output */
    double logsumexp_grad, entropy_grad, entropy_after_grad;
    double *logits, *p, *g, *logit_grads;
    double *p_sizes, *sizes; /* of weights and logit_grads */
    whet_policy policy;
    double sink, sharp;
    whet_stats stats;
} back_row;

static size_t row_index(const back_row *r) {
    return (r->batch * r->a->heads + r->head) * r->a->queries + r->query;
}

/* The logits of a row, its weights and statistics, at a beta that is given or the policy's. */
static void describe_row(back_row *r) {
    const whet_attention *a = r->a;
    for (size_t j = 0; j < a->keys; j++) {
        r->logits[j] =
            reference_logit(a, r->batch, r->head, r->query, j, r->q, r->k + j * a->head_dim);
    }
    if (a->betas) {
        reference_row_at_beta(r->logits, a->keys, r->sink, (double)a->betas[row_index(r)],
                              &r->policy, r->p, &r->stats);
    } else {
        reference_row(r->logits, a->keys, r->sink, &r->policy, r->p, &r->stats);
    }
}

/* Logit j of a row, or its sink for j = keys. */
static double entry_at(const back_row *r, size_t j) {
    return j < r->a->keys ? r->logits[j] : r->sink;
}

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

/* d - mean of every entry, d = e - max, and the mean of d under weights w; masked ones get 0. */
static double center(const back_row *r, const double *w, double *result) {
    double mean = 0;
    for (size_t j = 0; j <= r->a->keys; j++) {
        result[j] = entry_at(r, j) == -(double)INFINITY ? 0 : entry_at(r, j) - r->stats.max;
        mean += w[j] * result[j];
    }
    for (size_t j = 0; j <= r->a->keys; j++) {
        result[j] -= entry_at(r, j) == -(double)INFINITY ? 0 : mean;
    }
    return mean;
}

/* What the gradient of a softmax row's own entropy adds to that of beta, d H / d beta = -beta var
 * e, and to those of its logits, d H / d e_j = -beta^2 p_j (e_j - mean). */
static void add_entropy_after(const back_row *r, const double *p, double *logit_grads,
                              double *sizes, reference_row_grads *grads) {
    size_t n = r->a->keys;
    double beta = r->stats.beta, factor = -beta * r->entropy_after_grad;
    double *d = reference_allocate(n + 1, sizeof *d);
    double mean = center(r, p, d);
    for (size_t j = 0; j <= n; j++) {
        double size = fabs(d[j] + mean) + fabs(mean);
        grads->beta += factor * p[j] * d[j] * d[j];
        grads->beta_size += fabs(factor) * p[j] * size * size;
        logit_grads[j] = beta * factor * p[j] * d[j];
        sizes[j] = beta * fabs(factor) * p[j] * size;
    }
    free(d);
}

/* Adds what the gradients of logsumexp and entropy are to logits: with w = softmax(e), w and
 * -w (e - mean). */
static void add_statistics(const back_row *r) {
    size_t n = r->a->keys;
    double *w = reference_allocate(2 * (n + 1), sizeof *w), *d = w + n + 1;
    for (size_t j = 0; j <= n; j++) {
        w[j] = reference_weight(entry_at(r, j), r->stats.max, 1) / r->stats.z;
    }
    double mean = center(r, w, d);
    for (size_t j = 0; j <= n; j++) {
        double size = fabs(d[j] + mean) + fabs(mean);
        r->logit_grads[j] += w[j] * (r->logsumexp_grad - r->entropy_grad * d[j]);
        r->sizes[j] += w[j] * (fabs(r->logsumexp_grad) + fabs(r->entropy_grad) * size);
    }
    free(w);
}

/* From the gradients of a row's weights to those of its logits and, last, its sink, and their
 * sizes; returns that of beta. */
static reference_row_grads row_back(const back_row *r) {
    size_t n = r->a->keys;
    const whet_stats *stats = &r->stats;
    weighed w = weigh(r->p, r->g, n, sink_weight(r->logits, r->p, n, r->sink, stats->beta));
    double *after = reference_allocate(2 * (n + 1), sizeof *after), *after_sizes = after + n + 1;
    reference_row_grads grads = {.beta = 0};
    /* a sink has nothing in common with the values */
    const double *from = w.p[n] > 0 ? NULL : r->v + w.top * r->a->value_dim;
    w.range += PRODUCT_NOISE * terms_of(r, from);
    reference_beta_gradient(r->logits, n, r->sink, &r->policy, stats, r->logit_grads, r->sizes);
    for (size_t j = 0; j <= n; j++) {
        double d = w.p[j] > 0 ? (j < n ? r->logits[j] : r->sink) - stats->max : 0;
        grads.beta += w.p[j] * (w.g[j] - w.mean) * d;
        grads.beta_size += w.p[j] * w.range * fabs(d);
    }
    add_entropy_after(r, w.p, after, after_sizes, &grads);
    for (size_t j = 0; j <= n; j++) {
        double own = stats->beta * w.p[j];
        r->logit_grads[j] = own * (w.g[j] - w.mean) + after[j] + grads.beta * r->logit_grads[j];
        r->sizes[j] = own * w.rest[j] * w.range + after_sizes[j] + grads.beta_size * r->sizes[j];
    }
    /* a small distance has the rounding of the logits it is between */
    for (size_t j = 0; j <= n; j++) {
        double rounded = w.p[j] > 0 ? fmax(LOGIT_PARTS, fabs(entry_at(r, j))) * PRODUCT_NOISE : 0;
        grads.beta_size += w.p[j] * w.range * rounded;
        grads.beta_size += stats->beta > 0 ? 2 * after_sizes[j] / stats->beta * rounded : 0;
    }
    free(after);
    free(w.p);
    return grads;
}

/* The size of what rounding of logits does to the logarithms of a map's coefficients: those of
 * entmax move by p^(1 - a), which is a lot next to the threshold. */
static double log_terms(const back_row *r) {
    double largest = fabs(r->stats.max), steepest = 1;
    for (size_t j = 0; j < r->a->keys; j++) {
        if (r->p[j] > 0) {
            largest = fmax(largest, fabs(r->logits[j]));
            steepest = fmax(steepest, pow(r->p[j], 1 - r->policy.map_value[0]));
        }
    }
    steepest = r->policy.map == WHET_POLICY_ENTMAX ? steepest : 1;
    return fabs(r->entropy_after_grad) * r->stats.beta * largest * steepest;
}

/* Whether what arrives at a row's statistics is finite, as far as it has any: that is all there is
 * of an empty row, the logsumexp of its sink. */
static bool statistics_are_finite(const back_row *r) {
    if (r->stats.n == 0) {
        return r->sink == -(double)INFINITY || isfinite(r->logsumexp_grad);
    }
    return isfinite(r->logsumexp_grad) && isfinite(r->entropy_grad) &&
           isfinite(r->entropy_after_grad);
}

/* Sizes grow with what rounding does to logits as sharp as these; returns that of the largest. */
static double sharpen_sizes(const back_row *r) {
    double beta = r->stats.beta * (r->a->softcap > 0 ? 2 : 1); /* a cap is not as exact */
    double sharpest = fmax(1, beta * fabs(r->stats.max) / r->sharp);
    for (size_t j = 0; j < r->a->keys; j++) {
        double own = r->p[j] > 0 ? fmax(sharpest, beta * fabs(r->logits[j]) / r->sharp) : 1;
        r->sizes[j] *= own;
        r->p_sizes[j] *= 1 + (1 - r->p[j]) * (own - 1); /* a weight of 1 stays one */
    }
    r->sizes[r->a->keys] *= sharpest;
    return sharpest;
}

/* The gradients of a row's weights, then of its logits, and the sizes of both; returns those of
 * beta and the map's parameter. */
static reference_row_grads backward_through_row(const back_row *r, bool *bad) {
    const whet_attention *a = r->a;
    bool is_map = !whet_policy_is_temperature(&r->policy);
    double largest_p = 0;
    *bad = (r->stats.flags & WHET_ROW_NOT_FINITE) || !statistics_are_finite(r);
    for (size_t j = 0; j < a->keys; j++) {
        r->g[j] = r->logits[j] == -(double)INFINITY
                      ? 0
                      : reference_dot(r->out, r->v + j * a->value_dim, a->value_dim);
        *bad = *bad || !isfinite(r->g[j]);
        largest_p = fmax(largest_p, r->p[j]);
    }
    if (*bad || r->stats.n == 0) {
        r->logit_grads[a->keys] = r->sink > -(double)INFINITY ? r->logsumexp_grad : 0;
        r->sizes[a->keys] = fabs(r->logit_grads[a->keys]);
        return (reference_row_grads){.beta = 0};
    }
    for (size_t j = 0; j < a->keys; j++) {
        r->p_sizes[j] = is_map ? largest_p : r->p[j]; /* a map has thresholds to subtract */
    }
    reference_row_grads grads =
        is_map ? reference_map_back(r->logits, a->keys, r->sink, &r->policy, &r->stats,
                                    terms_of(r, NULL) + log_terms(r), r->entropy_after_grad, r->g,
                                    r->logit_grads, r->sizes)
               : row_back(r);
    add_statistics(r);
    return grads;
}

/* Adds a row's share to tensors, to alibi slopes and sinks, from the gradients of its logits, or
 * from their sizes; what is missing of a bad row is NaN. */
static void add_logit_grads(const back_row *r, const double *p, const double *logit_grads, bool bad,
                            bool absolute, const reference_sums *to) {
    const whet_attention *a = r->a;
    double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    size_t kv_slice = r->batch * a->kv_heads + r->head / (a->heads / a->kv_heads);
    double *dq = to->q + row_index(r) * a->head_dim;
    double *bias = to->bias + (r->batch * a->heads + r->head) * a->keys;
    for (size_t j = 0; j < a->keys; j++) {
        if (r->logits[j] == -(double)INFINITY) {
            continue;
        }
        double *dk = to->k + (kv_slice * a->keys + j) * a->head_dim;
        double *dv = to->v + (kv_slice * a->keys + j) * a->value_dim;
        const double *k = r->k + j * a->head_dim;
        double cap_size;
        double cap = cap_derivative(a, r->q, k, r->sharp, &cap_size);
        double logit_grad =
            bad ? (double)NAN : scale * logit_grads[j] * (absolute ? cap_size : cap);
        for (size_t i = 0; i < a->head_dim; i++) {
            dq[i] += times(logit_grad, k[i], absolute);
            dk[i] += times(logit_grad, r->q[i], absolute);
        }
        for (size_t i = 0; i < a->value_dim; i++) {
            dv[i] += bad ? (double)NAN : times(p[j], r->out[i], absolute);
        }
        double distance = fabs((double)((int64_t)r->query + a->offset - (int64_t)j));
        bias[j] += bad ? (double)NAN : logit_grads[j];
        to->alibi_slopes[r->head] += bad ? 0 : times(-logit_grads[j], distance, absolute);
    }
    if (bad) {
        reference_fill(dq, a->head_dim, (double)NAN);
    } else {
        to->sinks[r->head] += logit_grads[a->keys];
    }
}

/* Adds a row's share to everything it takes part in. */
static void add_back_row(const back_row *r, reference_gradients *result) {
    const whet_attention *a = r->a;
    bool bad;
    reference_row_grads grads = backward_through_row(r, &bad);
    double sharpness = sharpen_sizes(r);
    add_logit_grads(r, r->p, r->logit_grads, bad, false, &result->of);
    add_logit_grads(r, r->p_sizes, r->sizes, bad, true, &result->sizes);
    result->of.betas[row_index(r)] = bad ? (double)NAN : grads.beta;
    result->sizes.betas[row_index(r)] = grads.beta_size * sharpness;
    if (bad || r->stats.n == 0) {
        return;
    }
    whet_policy_gradient derivatives =
        reference_parameter_derivatives(r->logits, a->keys, r->sink, &r->policy, &r->stats);
    size_t policy = a->policy_count > 1 ? r->head : 0;
    whet_policy_gradient *of = &result->of.policies[policy],
                         *size = &result->sizes.policies[policy];
    add_parameters(of, &derivatives, grads.beta, false);
    add_parameters(size, &derivatives, grads.beta * sharpness, true);
    of->map_value[0] += grads.map_value;
    size->map_value[0] += fabs(grads.map_value * sharpness);
}

/* A head, and buffers for one of its rows. */
typedef struct back_head {
    double *q, *grads, *k, *v;
    back_row row;
} back_head;

static back_head open_head(const whet_gradients *g, double sharp, size_t batch, size_t head) {
    const whet_attention *a = &g->attention;
    const size_t q_extent[4] = {a->batch, a->heads, a->queries, a->head_dim};
    const size_t out_extent[4] = {a->batch, a->heads, a->queries, a->value_dim};
    const size_t k_extent[4] = {a->batch, a->kv_heads, a->keys, a->head_dim};
    const size_t v_extent[4] = {a->batch, a->kv_heads, a->keys, a->value_dim};
    size_t kv_head = head / (a->heads / a->kv_heads);
    back_head h = {.q = reference_load_head(&a->q, q_extent, batch, head),
                   .k = reference_load_head(&a->k, k_extent, batch, kv_head),
                   .v = reference_load_head(&a->v, v_extent, batch, kv_head)};
    h.grads = g->out.data ? reference_load_head(&g->out, out_extent, batch, head)
                          : reference_allocate(a->queries * a->value_dim, sizeof *h.grads);
    back_row *r = &h.row;
    *r = (back_row){.a = a,
                    .batch = batch,
                    .head = head,
                    .k = h.k,
                    .v = h.v,
                    .policy = reference_policy(a, head),
                    .sharp = sharp};
    r->sink = a->sinks ? (double)a->sinks[head] : -(double)INFINITY;
    r->logits = reference_allocate(6 * (a->keys + 1), sizeof *r->logits);
    r->p = r->logits + a->keys + 1;
    r->g = r->p + a->keys + 1;
    r->logit_grads = r->g + a->keys + 1;
    r->sizes = r->logit_grads + a->keys + 1;
    r->p_sizes = r->sizes + a->keys + 1;
    return h;
}

static void close_head(back_head *h) {
    free(h->q);
    free(h->grads);
    free(h->k);
    free(h->v);
    free(h->row.logits);
}

static double given(const float *gradients, size_t row) {
    return gradients ? (double)gradients[row] : 0;
}

static void open_row(back_head *h, const whet_gradients *g, size_t query) {
    back_row *r = &h->row;
    r->query = query;
    r->q = h->q + query * r->a->head_dim;
    r->out = h->grads + query * r->a->value_dim;
    r->logsumexp_grad = given(g->logsumexp, row_index(r));
    r->entropy_grad = given(g->entropy, row_index(r));
    r->entropy_after_grad = given(g->entropy_after, row_index(r));
    describe_row(r);
}

static reference_sums new_sums(const whet_attention *a) {
    size_t rows = a->batch * a->heads * a->queries, keys = a->batch * a->kv_heads * a->keys;
    return (reference_sums){.q = reference_allocate(rows * a->head_dim, sizeof(double)),
                            .k = reference_allocate(keys * a->head_dim, sizeof(double)),
                            .v = reference_allocate(keys * a->value_dim, sizeof(double)),
                            .alibi_slopes = reference_allocate(a->heads, sizeof(double)),
                            .sinks = reference_allocate(a->heads, sizeof(double)),
                            .bias =
                                reference_allocate(a->batch * a->heads * a->keys, sizeof(double)),
                            .betas = reference_allocate(rows, sizeof(double)),
                            .policies = reference_allocate(a->heads, sizeof(whet_policy_gradient))};
}

reference_gradients reference_backward(const whet_gradients *given, double sharp) {
    whet_gradients g = *given;
    g.attention = reference_with_defaults(&given->attention);
    const whet_attention *a = &g.attention;
    reference_gradients result = {.of = new_sums(a), .sizes = new_sums(a)};
    for (size_t i = 0; i < a->batch * a->heads; i++) {
        back_head h = open_head(&g, sharp, i / a->heads, i % a->heads);
        for (size_t query = 0; query < a->queries; query++) {
            open_row(&h, &g, query);
            add_back_row(&h.row, &result);
        }
        close_head(&h);
    }
    return result;
}

/* A row's share of the loss. */
static double row_loss(const back_row *r) {
    double sum = 0;
    for (size_t j = 0; j < r->a->keys; j++) {
        sum += r->p[j] != 0
                   ? r->p[j] * reference_dot(r->out, r->v + j * r->a->value_dim, r->a->value_dim)
                   : 0;
    }
    sum += r->logsumexp_grad != 0 && r->stats.z > 0 ? r->logsumexp_grad * r->stats.logsumexp : 0;
    sum += r->entropy_grad != 0 ? r->entropy_grad * r->stats.entropy : 0;
    return sum + (r->entropy_after_grad != 0 ? r->entropy_after_grad * r->stats.entropy_after : 0);
}

double reference_attention_loss(const whet_gradients *given) {
    double sum = 0;
    whet_gradients g = *given;
    g.attention = reference_with_defaults(&given->attention);
    const whet_attention *a = &g.attention;
    for (size_t i = 0; i < a->batch * a->heads; i++) {
        back_head h = open_head(&g, 1, i / a->heads, i % a->heads);
        for (size_t query = 0; query < a->queries; query++) {
            open_row(&h, &g, query);
            sum += row_loss(&h.row);
        }
        close_head(&h);
    }
    return sum;
}

static void free_sums(reference_sums *sums) {
    free(sums->q);
    free(sums->k);
    free(sums->v);
    free(sums->alibi_slopes);
    free(sums->sinks);
    free(sums->bias);
    free(sums->betas);
    free(sums->policies);
}

void reference_gradients_free(reference_gradients *gradients) {
    free_sums(&gradients->of);
    free_sums(&gradients->sizes);
}
