/*
 * Attention by definition: every logit, then every row, then what its weights
 * select of the values.
 */
#include "reference/parts.h"

whet_attention reference_with_defaults(const whet_attention *given) {
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
        float *converted = reference_allocate(n, sizeof *converted);
        tensor->to_f32(data + (ptrdiff_t)offset_in(tensor->stride, extent, 0, index), converted, n,
                       tensor->context);
        for (size_t i = 0; i < n; i++) {
            row[i] = (double)converted[i];
        }
        free(converted);
        return;
    }
    if (reference_is_quantised(tensor->type)) {
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

double *reference_load_head(const whet_tensor *tensor, const size_t extent[4], size_t batch,
                            size_t head) {
    double *rows = reference_allocate(extent[2] * extent[3], sizeof *rows);
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

/* The bias of a key, 0 without one. */
static double bias_at(const whet_attention *a, size_t batch, size_t head, size_t key) {
    const whet_key_bias *bias = &a->bias;
    if (!bias->data) {
        return 0;
    }
    ptrdiff_t key_stride = bias->stride[2] ? bias->stride[2] : (ptrdiff_t)sizeof(float);
    ptrdiff_t offset = (ptrdiff_t)batch * bias->stride[0] + (ptrdiff_t)head * bias->stride[1] +
                       (ptrdiff_t)key * key_stride;
    return reference_load((const char *)bias->data + offset, WHET_F32);
}

static bool is_visible(const whet_attention *a, size_t query, size_t key) {
    int64_t position = (int64_t)query + a->offset;
    int64_t distance = position - (int64_t)key;
    if ((a->flags & WHET_CAUSAL) && distance < 0) {
        return false;
    }
    return a->window == 0 || (uint64_t)(distance < 0 ? -distance : distance) < a->window;
}

double reference_logit(const whet_attention *a, size_t batch, size_t head, size_t query, size_t key,
                       const double *q, const double *k) {
    double mask = mask_at(a, batch, head, query, key);
    double bias = bias_at(a, batch, head, key);
    if (!is_visible(a, query, key) || mask == -(double)INFINITY || bias == -(double)INFINITY) {
        return -(double)INFINITY;
    }
    double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    double logit = scale * reference_dot(q, k, a->head_dim);
    if (a->softcap > 0) {
        logit = (double)a->softcap * tanh(logit / (double)a->softcap);
    }
    if (a->alibi_slopes) {
        double distance = fabs((double)((int64_t)query + a->offset - (int64_t)key));
        logit -= (double)a->alibi_slopes[head] * distance;
    }
    return logit + bias + mask;
}

whet_policy reference_policy(const whet_attention *a, size_t head) {
    if (!a->policies) {
        return whet_policy_softmax();
    }
    return a->policies[a->policy_count > 1 ? head : 0];
}

/* What the weights select of the values; those of masked keys are not looked at. */
static void select_values(const double *p, const double *v, size_t keys, size_t value_dim,
                          double *out) {
    reference_fill(out, value_dim, 0);
    for (size_t j = 0; j < keys; j++) {
        for (size_t c = 0; p[j] != 0 && c < value_dim; c++) {
            out[c] += p[j] * v[j * value_dim + c];
        }
    }
}

/* One row at the beta that is given for it, if there are any. */
static void attend_row(const whet_attention *a, uint64_t row, size_t head, const double *logits,
                       double *p, whet_stats *stats) {
    double sink = a->sinks ? (double)a->sinks[head] : -(double)INFINITY;
    whet_policy policy = reference_policy(a, head);
    if (a->betas) {
        reference_row_at_beta(logits, a->keys, sink, (double)a->betas[row], &policy, p, stats);
    } else {
        reference_row(logits, a->keys, sink, &policy, p, stats);
    }
    stats->position = (int64_t)(row % a->queries) + a->offset;
}

double reference_attention_logit(const whet_attention *attention, uint64_t row, size_t key) {
    whet_attention a = reference_with_defaults(attention);
    const size_t q_extent[4] = {a.batch, a.heads, a.queries, a.head_dim};
    const size_t k_extent[4] = {a.batch, a.kv_heads, a.keys, a.head_dim};
    size_t query = row % a.queries;
    size_t head = row / a.queries % a.heads;
    size_t batch = row / a.queries / a.heads;
    double *q = reference_allocate(a.head_dim, sizeof *q);
    double *k = reference_allocate(a.head_dim, sizeof *k);
    load_row(&a.q, q_extent, batch, head, query, q);
    load_row(&a.k, k_extent, batch, head / (a.heads / a.kv_heads), key, k);
    double logit = reference_logit(&a, batch, head, query, key, q, k);
    free(q);
    free(k);
    return logit;
}

void reference_max_logits(const whet_attention *attention, double *result) {
    whet_attention a = reference_with_defaults(attention);
    const size_t q_extent[4] = {a.batch, a.heads, a.queries, a.head_dim};
    const size_t k_extent[4] = {a.batch, a.kv_heads, a.keys, a.head_dim};
    for (size_t head = 0; head < a.heads; head++) {
        result[head] = -(double)INFINITY;
        for (size_t batch = 0; batch < a.batch; batch++) {
            double *q = reference_load_head(&a.q, q_extent, batch, head);
            double *k = reference_load_head(&a.k, k_extent, batch, head / (a.heads / a.kv_heads));
            for (size_t i = 0; i < a.queries * a.keys; i++) {
                size_t query = i / a.keys;
                size_t key = i % a.keys;
                double logit = reference_logit(&a, batch, head, query, key, q + query * a.head_dim,
                                               k + key * a.head_dim);
                result[head] = isnan(logit) || logit > result[head] ? logit : result[head];
                if (isnan(logit)) {
                    break;
                }
            }
            free(q);
            free(k);
            if (isnan(result[head])) {
                break;
            }
        }
    }
}

uint64_t reference_attention(const whet_attention *attention, double *out, whet_stats *stats,
                             double *mass) {
    whet_attention a = reference_with_defaults(attention);
    const size_t q_extent[4] = {a.batch, a.heads, a.queries, a.head_dim};
    const size_t k_extent[4] = {a.batch, a.kv_heads, a.keys, a.head_dim};
    const size_t v_extent[4] = {a.batch, a.kv_heads, a.keys, a.value_dim};
    double *q = reference_allocate(a.head_dim, sizeof *q);
    double *logits = reference_allocate(a.keys, sizeof *logits);
    double *p = reference_allocate(a.keys, sizeof *p);
    uint64_t first_bad_row = UINT64_MAX;
    uint64_t row = 0;
    for (size_t batch = 0; batch < a.batch; batch++) {
        for (size_t head = 0; head < a.heads; head++) {
            size_t kv_head = head / (a.heads / a.kv_heads);
            double *k = reference_load_head(&a.k, k_extent, batch, kv_head);
            double *v = reference_load_head(&a.v, v_extent, batch, kv_head);
            for (size_t query = 0; query < a.queries; query++, row++) {
                load_row(&a.q, q_extent, batch, head, query, q);
                for (size_t j = 0; j < a.keys; j++) {
                    logits[j] = reference_logit(&a, batch, head, query, j, q, k + j * a.head_dim);
                }
                attend_row(&a, row, head, logits, p, &stats[row]);
                select_values(p, v, a.keys, a.value_dim, out + row * a.value_dim);
                for (size_t j = 0; mass && j < a.keys; j++) {
                    mass[row] = (j ? mass[row] : 0) + p[j];
                }
                if (stats[row].flags & WHET_ROW_NOT_FINITE) {
                    reference_fill(out + row * a.value_dim, a.value_dim, (double)NAN);
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
