/* See graph.h. Tensors are made in a context of ggml's with memory of its own. */
#include "graph.h"
#include "loaded.h"
#include "positions.h"
#include "reference/reference.h"
#include "support/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    ggml_backend_t stock, ours;
    void (*set_threads)(ggml_backend_t backend, int threads);
} host;

bool graph_start(void) {
    const char *folder = loaded_libraries(), *plugin = loaded_plugin();
    if (host.ours)
        return true;
    if (!folder || !plugin)
        return false;
    ggml_backend_load_all_from_path(folder);
    host.stock = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    if (!host.stock || !ggml_backend_load(plugin) || !ggml_backend_load(plugin))
        return false;
    host.ours = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_reg_t cpu = ggml_backend_dev_backend_reg(ggml_backend_get_device(host.stock));
    void *function = ggml_backend_reg_get_proc_address(cpu, "ggml_backend_set_n_threads");
    memcpy(&host.set_threads, &function, sizeof function);
    graph_threads(1);
    return host.ours != NULL;
}

void graph_threads(int threads) {
    host.set_threads(host.stock, threads);
    host.set_threads(host.ours, threads);
}

/* ---- tensors ---- */

typedef struct tensors {
    struct ggml_context *context;
    struct ggml_tensor *q, *k, *v, *mask, *sinks, *logits, *node;
    struct ggml_tensor *other; /* another result of the graph, or NULL */
    struct rng rng;
} tensors;

static void fill_normal(tensors *t, struct ggml_tensor *tensor, double deviation) {
    size_t n = (size_t)ggml_nelements(tensor);
    float *values = calloc(n, sizeof *values);
    rng_fill_normal(&t->rng, values, n, 0, deviation);
    if (tensor->type == GGML_TYPE_F32)
        memcpy(tensor->data, values, n * sizeof *values);
    else
        ggml_quantize_chunk(tensor->type, values, tensor->data, 0, (int64_t)n / tensor->ne[0],
                            tensor->ne[0], NULL);
    free(values);
}

static enum ggml_type cache_type(const example *e, int which) {
    return e->cache_types[which] ? (enum ggml_type)(e->cache_types[which] - 1) : GGML_TYPE_F16;
}

/* Keys or values as in a cache, and the view of it that attention takes. */
static struct ggml_tensor *make_cache(tensors *t, const example *e, char which, int dim) {
    char name[32];
    bool by_head = e->is_plain;
    struct ggml_tensor *root = ggml_new_tensor_4d(t->context, cache_type(e, which == 'v'), dim,
                                                  by_head ? e->keys : e->kv_heads,
                                                  by_head ? e->kv_heads : e->keys, e->batch);
    snprintf(name, sizeof name, "cache_%c_l%d", which, e->layer);
    ggml_set_name(root, name);
    fill_normal(t, root, 1);
    struct ggml_tensor *view = ggml_view_4d(t->context, root, root->ne[0], root->ne[1], root->ne[2],
                                            root->ne[3], root->nb[1], root->nb[2], root->nb[3], 0);
    return by_head ? view : ggml_permute(t->context, view, 0, 2, 1, 3);
}

static bool sees(const example *e, int item, int head, int query, int key) {
    int position = e->keys - e->queries + query;
    switch (e->mask) {
    case MASK_NONE:
        return true;
    case MASK_CAUSAL:
    case MASK_BIAS:
        return key <= position;
    case MASK_WINDOW:
        return key <= position && key > position - 9;
    case MASK_PREFIX:
        return key >= 2 && key < e->keys - 3;
    case MASK_HOLES:
        return key <= position && (key * 7 + query) % 5 != 0;
    case MASK_HEADS:
        return (key * 7 + query + 3 * head) % 5 != 0;
    case MASK_REPEATED:
        return (key * 7 + query + 3 * (head % 2)) % 5 != 0;
    case MASK_ITEMS:
        return (key * 7 + query + 3 * item) % 5 != 0;
    case MASK_NOTHING:
        return query % 2 == 0 && key <= position;
    }
    return true;
}

/* The mask's entry without any slope. */
static double mask_at(const example *e, int item, int head, int query, int key) {
    if (!sees(e, item, head, query, key))
        return -INFINITY;
    return e->mask == MASK_BIAS ? (double)(key - (e->keys - e->queries + query)) : 0;
}

/* Has more columns and rows than needed, which must not be read. */
static void make_mask(tensors *t, const example *e) {
    int planes = e->mask == MASK_HEADS ? e->heads : e->mask == MASK_REPEATED ? 2 : 1;
    int batch = e->mask == MASK_ITEMS ? e->batch : 1;
    if (e->mask == MASK_NONE)
        return;
    enum ggml_type type = e->has_f32_mask ? GGML_TYPE_F32 : GGML_TYPE_F16;
    int64_t columns = e->is_softmax || e->is_composed ? e->keys : e->keys + 5;
    int64_t rows = (e->queries + 63) / 64 * 64 + 3; /* older hosts need multiples of 64 */
    t->mask = ggml_new_tensor_4d(t->context, type, columns, rows, planes, batch);
    for (int s = 0; s < batch; s++)
        for (int h = 0; h < planes; h++)
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < columns; j++) {
                    bool inside = i < e->queries && j < e->keys;
                    float entry = inside ? (float)mask_at(e, s, h, i, j) : 7.0f;
                    char *at = (char *)t->mask->data + (size_t)j * t->mask->nb[0] +
                               (size_t)i * t->mask->nb[1] + (size_t)h * t->mask->nb[2] +
                               (size_t)s * t->mask->nb[3];
                    if (type == GGML_TYPE_F32)
                        memcpy(at, &entry, sizeof entry);
                    else
                        *(ggml_fp16_t *)(void *)at = ggml_fp32_to_fp16(entry);
                }
}

static void make_queries_and_keys(tensors *t, const example *e) {
    struct ggml_tensor *q =
        ggml_new_tensor_4d(t->context, GGML_TYPE_F32, e->head_dim, e->heads, e->queries, e->batch);
    fill_normal(t, q, e->sharpness);
    t->q = ggml_permute(t->context, q, 0, 2, 1, 3);
    t->k = make_cache(t, e, 'k', e->head_dim);
}

static void make_attention(tensors *t, const example *e) {
    make_queries_and_keys(t, e);
    t->v = e->values_in_keys
               ? ggml_view_4d(t->context, t->k, e->value_dim, t->k->ne[1], t->k->ne[2], t->k->ne[3],
                              t->k->nb[1], t->k->nb[2], t->k->nb[3], 0)
               : make_cache(t, e, 'v', e->value_dim);
    t->node = ggml_flash_attn_ext(t->context, t->q, t->k, t->v, t->mask, e->scale, e->max_bias,
                                  e->softcap);
    if (e->has_sinks)
        ggml_flash_attn_ext_add_sinks(t->node, t->sinks);
}

/* Values as in a cache that keeps them transposed, longer than the keys in use. */
static struct ggml_tensor *make_transposed(tensors *t, const example *e) {
    struct ggml_tensor *root = ggml_new_tensor_4d(t->context, cache_type(e, 1), e->keys + 7,
                                                  e->value_dim, e->kv_heads, e->batch);
    fill_normal(t, root, 1);
    return ggml_view_4d(t->context, root, e->keys, root->ne[1], root->ne[2], root->ne[3],
                        root->nb[1], root->nb[2], root->nb[3], 0);
}

/* As Gemma 2 caps its logits: the cap is that of logits without the softmax's factor. */
static struct ggml_tensor *cap_logits(tensors *t, const example *e, struct ggml_tensor *logits) {
    float cap = e->softcap / e->scale;
    logits = ggml_tanh(t->context, ggml_scale(t->context, logits, 1 / cap));
    return ggml_scale(t->context, logits, cap);
}

static void make_composed(tensors *t, const example *e) {
    char name[32];
    make_queries_and_keys(t, e);
    struct ggml_tensor *logits = ggml_mul_mat(t->context, t->k, t->q), *v;
    if (e->softcap > 0)
        logits = cap_logits(t, e, logits);
    struct ggml_tensor *weights =
        ggml_soft_max_ext(t->context, logits, t->mask, e->scale, e->max_bias);
    if (e->has_sinks)
        ggml_soft_max_add_sinks(weights, t->sinks);
    snprintf(name, sizeof name, "kq_soft_max-%d", e->layer);
    ggml_set_name(weights, name);
    if (e->copies_values) {
        t->v = e->values_in_keys
                   ? ggml_view_4d(t->context, t->k, e->value_dim, t->k->ne[1], t->k->ne[2],
                                  t->k->ne[3], t->k->nb[1], t->k->nb[2], t->k->nb[3], 0)
                   : make_cache(t, e, 'v', e->value_dim);
        v = ggml_cont(t->context, ggml_transpose(t->context, t->v));
    } else {
        v = make_transposed(t, e);
        t->v = ggml_transpose(t->context, v);
    }
    t->node = ggml_mul_mat(t->context, v, weights);
    if (e->shares_weights)
        t->other = ggml_scale(t->context, weights, 2);
    if (e->overlap == OVERLAP_QUERIES)
        t->node->data = t->q->data;
    if (e->overlap == OVERLAP_MASK)
        t->node->data = t->mask->data;
}

static void make_logits(tensors *t, const example *e) {
    if (e->has_products) {
        make_queries_and_keys(t, e);
        t->logits = ggml_scale(t->context, ggml_mul_mat(t->context, t->k, t->q), 1);
    } else {
        t->logits =
            ggml_new_tensor_4d(t->context, GGML_TYPE_F32, e->keys, e->queries, e->heads, e->batch);
        fill_normal(t, t->logits, e->sharpness / (double)e->scale);
    }
}

static void make_softmax(tensors *t, const example *e) {
    char name[32];
    make_logits(t, e);
    t->node = ggml_soft_max_ext(t->context, t->logits, t->mask, e->scale, e->max_bias);
    if (e->in_place) /* ggml_soft_max_ext_inplace, which older hosts lack */
        t->node->data = t->logits->data;
    if (e->has_sinks)
        ggml_soft_max_add_sinks(t->node, t->sinks);
    snprintf(name, sizeof name, "kq_soft_max-%d", e->layer);
    if (!e->has_products)
        ggml_set_name(t->node, name);
}

static tensors make_tensors(const example *e) {
    struct ggml_init_params params = {.mem_size = (size_t)256 << 20};
    tensors t = {.context = ggml_init(params), .rng = rng_seeded(17)};
    make_mask(&t, e);
    if (e->has_sinks) {
        t.sinks = ggml_new_tensor_1d(t.context, GGML_TYPE_F32, e->heads);
        fill_normal(&t, t.sinks, 1);
    }
    if (e->is_softmax)
        make_softmax(&t, e);
    else if (e->is_composed)
        make_composed(&t, e);
    else
        make_attention(&t, e);
    return t;
}

/* ---- the reference ---- */

static double slope_of(const example *e, int head) {
    if (e->max_bias <= 0)
        return 1;
    double power = exp2(floor(log2(e->heads)));
    double base = exp2(-(double)e->max_bias / power), odd = exp2(-(double)e->max_bias / 2 / power);
    return head < power ? pow(base, head + 1) : pow(odd, 2 * (head - power) + 1);
}

static void reference_logits(const tensors *t, const example *e, int s, int h, int i,
                             double *logits) {
    float q[1024] = {0}, k[1024] = {0};
    size_t row = ((size_t)s * (size_t)e->heads + (size_t)h) * (size_t)e->queries + (size_t)i;
    if (t->q)
        positions_read(t->q, s, h, i, q);
    for (int j = 0; j < e->keys; j++) {
        double logit = 0;
        if (!t->k) {
            logit = (double)((const float *)t->logits->data)[row * (size_t)e->keys + (size_t)j];
        } else {
            positions_read(t->k, s, h / (e->heads / e->kv_heads), j, k);
            for (int c = 0; c < e->head_dim; c++)
                logit += (double)q[c] * (double)k[c];
        }
        logit *= (double)e->scale;
        if (e->softcap > 0)
            logit = (double)e->softcap * tanh(logit / (double)e->softcap);
        logits[j] = logit + slope_of(e, h) * mask_at(e, s, h, i, j);
    }
}

static double spread_of(const double *logits, int n) {
    double low = INFINITY, high = -INFINITY;
    for (int j = 0; j < n; j++) {
        high = fmax(high, logits[j]);
        if (logits[j] > -INFINITY)
            low = fmin(low, logits[j]);
    }
    return high - low;
}

static void reference_output(const tensors *t, const example *e, int s, int h, const double *p,
                             double *out) {
    float v[1024] = {0};
    if (e->is_softmax) {
        memcpy(out, p, (size_t)e->keys * sizeof *out);
        return;
    }
    memset(out, 0, (size_t)e->value_dim * sizeof *out);
    for (int j = 0; j < e->keys; j++) {
        positions_read(t->v, s, h / (e->heads / e->kv_heads), j, v);
        for (int c = 0; c < e->value_dim; c++)
            out[c] += p[j] * (double)v[c];
    }
}

static void compute_reference(const tensors *t, const example *e, outcome *o, double *out) {
    whet_policy softmax = whet_policy_softmax();
    double *logits = calloc((size_t)e->keys, sizeof *logits),
           *p = calloc((size_t)e->keys, sizeof *p);
    size_t width = (size_t)(e->is_softmax ? e->keys : e->value_dim), row = 0;
    for (int s = 0; s < e->batch; s++)
        for (int h = 0; h < e->heads; h++)
            for (int i = 0; i < e->queries; i++, row++) {
                double sink =
                    t->sinks ? (double)((const float *)t->sinks->data)[h] : -(double)INFINITY;
                reference_logits(t, e, s, h, i, logits);
                reference_row(logits, (size_t)e->keys, sink,
                              e->policies ? &e->policies[h] : &softmax, p, &o->stats[row]);
                o->spread[row] = spread_of(logits, e->keys);
                if (i == e->queries - 1) {
                    size_t last = (size_t)(s * e->heads + h) * (size_t)e->keys;
                    memcpy(o->logits + last, logits, (size_t)e->keys * sizeof *logits);
                    memcpy(o->weights + last, p, (size_t)e->keys * sizeof *p);
                }
                reference_output(t, e, s, h, p, out + row * width);
            }
    free(logits);
    free(p);
}

/* ---- computing ---- */

/* The result as [item][head][query][element]: in attention's result, heads are closer together than
 * queries. */
static void copy_result(const tensors *t, const example *e, float *to) {
    const struct ggml_tensor *node = t->node;
    size_t width = (size_t)node->ne[0], row = 0;
    bool by_head = e->is_softmax || e->is_composed;
    for (int s = 0; s < e->batch; s++)
        for (int h = 0; h < e->heads; h++)
            for (int i = 0; i < e->queries; i++, row++) {
                size_t first = (size_t)(by_head ? i : h);
                size_t second = (size_t)(by_head ? h : i);
                memcpy(to + row * width,
                       (const char *)node->data + first * node->nb[1] + second * node->nb[2] +
                           (size_t)s * node->nb[3],
                       width * sizeof(float));
            }
}

/* The operations of a graph, to see whether all are restored. */
enum { NODES_MOST = 32 };
typedef struct operations {
    enum ggml_op op[NODES_MOST];
    int32_t params[NODES_MOST][GGML_MAX_OP_PARAMS / sizeof(int32_t)];
} operations;

static operations operations_of(struct ggml_cgraph *graph) {
    operations all = {.op = {GGML_OP_NONE}};
    for (int i = 0; i < ggml_graph_n_nodes(graph) && i < NODES_MOST; i++) {
        const struct ggml_tensor *node = ggml_graph_node(graph, i);
        all.op[i] = node->op;
        memcpy(all.params[i], node->op_params, sizeof all.params[i]);
    }
    return all;
}

/* Twice all weights add up to twice the number of rows. */
static bool other_is_right(const tensors *t, const outcome *o) {
    double sum = 0;
    for (int64_t i = 0; t->other && i < ggml_nelements(t->other); i++)
        sum += (double)((const float *)t->other->data)[i];
    return !t->other || fabs(sum - 2 * (double)o->rows) < 1e-4 * (double)o->rows;
}

static bool run(ggml_backend_t backend, tensors *t, const example *e, float *to) {
    struct ggml_cgraph *graph = ggml_new_graph(t->context);
    ggml_build_forward_expand(graph, t->node);
    if (t->other)
        ggml_build_forward_expand(graph, t->other);
    operations before = operations_of(graph);
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS)
        return false;
    copy_result(t, e, to);
    operations after = operations_of(graph);
    return memcmp(&before, &after, sizeof before) == 0;
}

static double distance(const float *a, const double *b, size_t n) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(difference / (size > 0 ? size : 1));
}

static int or_one(int number) { return number ? number : 1; }

static example complete(const example *given) {
    example e = *given;
    e.head_dim = or_one(e.head_dim);
    e.value_dim = e.value_dim ? e.value_dim : e.head_dim;
    e.heads = or_one(e.heads);
    e.kv_heads = e.kv_heads ? e.kv_heads : e.heads;
    e.queries = or_one(e.queries);
    e.keys = or_one(e.keys);
    e.batch = or_one(e.batch);
    e.sharpness = e.sharpness > 0 ? e.sharpness : 1;
    if (e.scale == 0)
        e.scale = 1 / sqrtf((float)e.head_dim);
    return e;
}

outcome graph_compute(const example *wanted) {
    example e = complete(wanted);
    tensors t = make_tensors(&e);
    outcome o = {.rows = (size_t)e.batch * (size_t)e.heads * (size_t)e.queries};
    o.count = o.rows * (size_t)(e.is_softmax ? e.keys : e.value_dim);
    o.stats = calloc(o.rows, sizeof *o.stats);
    o.spread = calloc(o.rows, sizeof *o.spread);
    size_t last = (size_t)e.batch * (size_t)e.heads * (size_t)e.keys;
    o.logits = calloc(last, sizeof *o.logits);
    o.weights = calloc(last, sizeof *o.weights);
    o.result = calloc(o.count, sizeof *o.result);
    o.stock = calloc(o.count, sizeof *o.stock);
    double *exact = calloc(o.count, sizeof *exact);
    compute_reference(&t, &e, &o, exact);
    float *kept = calloc(o.count, sizeof *kept); /* what the result replaces */
    memcpy(kept, t.node->data, o.count * sizeof *kept);
    bool stock_ran = run(host.stock, &t, &e, o.stock) && other_is_right(&t, &o);
    memcpy(t.node->data, kept, o.count * sizeof *kept);
    o.is_restored = run(host.ours, &t, &e, o.result) && stock_ran && other_is_right(&t, &o);
    o.error = distance(o.result, exact, o.count);
    o.stock_error = distance(o.stock, exact, o.count);
    for (size_t i = 0; i < o.count; i++)
        o.has_nan = o.has_nan || isnan(o.result[i]);
    free(kept);
    free(exact);
    ggml_free(t.context);
    return o;
}

void outcome_free(outcome *o) {
    free(o->stats);
    free(o->spread);
    free(o->logits);
    free(o->weights);
    free(o->result);
    free(o->stock);
}
