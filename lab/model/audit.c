/*
 * Proposition 3.1 on a language model's weights; see audit.h. A head's map of d inputs matters
 * only through its Gram matrix, head_dim x head_dim, which is computed once; singular values, also
 * weighted ones, are then eigenvalues of small matrices.
 */
#include "model/audit.h"
#include "model/spectrum.h"

#include "base/csv.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/signals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BALANCE_STEPS = 60, POWER_STEPS = 3, NAME_SIZE = 64 };

/* A map of inputs no longer than `radius` to queries or keys: inputs' images, plus a bias. */
typedef struct head_map {
    double *gram; /* [n][n] */
    double *bias; /* [n]; zeros where there is none */
    double radius;
} head_map;

/* Scratch for going through the heads, allocated once. */
typedef struct auditor {
    const gguf_file *file;
    const model_shape *shape;
    size_t n;       /* head_dim */
    float *gains;   /* [width] of the layer's norm */
    float *row;     /* [width] of a tensor */
    double *rows;   /* [n][width], a head's map */
    double *memory; /* holds all of the following */
    head_map query, key;
    double *scaled;       /* [n][n] */
    double *work;         /* [n][n] */
    double *query_top;    /* [n], the eigenvector of the largest eigenvalue */
    double *key_top;      /* [n] */
    double *weights;      /* [n], logarithms; the same for both of a pair */
    double *best_weights; /* [n] */
    lab_error *error;
} auditor;

static void close_auditor(auditor *a) {
    free(a->gains);
    free(a->row);
    free(a->rows);
    free(a->memory);
}

static bool open_auditor(auditor *a) {
    size_t n = a->n, square = n * n;
    a->gains = malloc(a->shape->width * sizeof *a->gains);
    a->row = malloc((n > a->shape->width ? n : a->shape->width) * sizeof *a->row);
    a->rows = malloc(n * a->shape->width * sizeof *a->rows);
    a->memory = calloc(4 * square + 6 * n, sizeof *a->memory);
    if (!a->gains || !a->row || !a->rows || !a->memory)
        return lab_fail_memory(a->error);
    double *at = a->memory;
    a->query.gram = at;
    a->key.gram = at += square;
    a->scaled = at += square;
    a->work = at += square;
    a->query.bias = at += square;
    a->key.bias = at += n;
    a->query_top = at += n;
    a->key_top = at += n;
    a->weights = at += n;
    a->best_weights = at + n;
    return true;
}

/* ---- from the file ---- */

/* "blk.3.attn_q.weight" */
static const char *tensor_name(uint32_t layer, const char *rest, char name[NAME_SIZE]) {
    snprintf(name, NAME_SIZE, "blk.%u.%s", layer, rest);
    return name;
}

static bool fail_not_finite(auditor *a, const gguf_tensor *tensor) {
    return lab_fail(a->error, LAB_INPUT, "tensor \"%.*s\" has a value that is not finite",
                    (int)tensor->name.length, tensor->name.bytes);
}

static bool read_row(auditor *a, const gguf_tensor *tensor, uint64_t row, float *values) {
    gguf_dequantise(tensor, row, values);
    for (uint64_t i = 0; i < tensor->dims[0]; i++)
        if (!isfinite(values[i]))
            return fail_not_finite(a, tensor);
    return true;
}

/* Whether computations with a Gram matrix, whose largest entries are on its diagonal, stay
 * finite. */
static bool can_be_squared(const double *gram, size_t n) {
    double trace = 0;
    for (size_t i = 0; i < n; i++)
        trace += gram[i * n + i];
    return isfinite(trace * trace);
}

/* The tensor of all queries' or keys' maps of a layer, or of their biases: by itself, or fused with
 * others, in which case `first` is advanced to its rows. NULL if there is neither. */
static const gguf_tensor *find_part(auditor *a, uint32_t layer, bool is_key, const char *what,
                                    uint64_t *first) {
    char name[NAME_SIZE], rest[32];
    snprintf(rest, sizeof rest, "attn_%c.%s", is_key ? 'k' : 'q', what);
    const gguf_tensor *tensor = gguf_find_tensor(a->file, tensor_name(layer, rest, name));
    if (tensor)
        return tensor;
    snprintf(rest, sizeof rest, "attn_qkv.%s", what);
    tensor = gguf_find_tensor(a->file, tensor_name(layer, rest, name));
    if (tensor && is_key)
        *first += (uint64_t)a->shape->heads[layer] * a->n;
    return tensor;
}

/* Whether a tensor can be read and has the expected rows. */
static bool check_tensor(auditor *a, const gguf_tensor *tensor, bool has_shape) {
    int length = (int)tensor->name.length;
    if (!gguf_can_dequantise(tensor->type))
        return lab_fail(a->error, LAB_INPUT, "tensor \"%.*s\" has the unsupported type %s", length,
                        tensor->name.bytes, gguf_type_name(tensor->type));
    return has_shape ||
           lab_fail(a->error, LAB_INPUT,
                    "tensor \"%.*s\" does not fit %u heads on %u of %zu dimensions", length,
                    tensor->name.bytes, a->shape->heads[0], a->shape->kv_heads[0], a->n);
}

/* The map of a head, gains folded in, as a Gram matrix. */
static bool read_weights(auditor *a, uint32_t layer, uint32_t head, bool is_key, head_map *map) {
    uint64_t first = (uint64_t)head * a->n, width = a->shape->width;
    const gguf_tensor *tensor = find_part(a, layer, is_key, "weight", &first);
    if (!tensor)
        return lab_fail(a->error, LAB_INPUT, "the model has no tensor \"blk.%u.attn_%c.weight\"",
                        layer, is_key ? 'k' : 'q');
    if (!check_tensor(a, tensor, tensor->dims[0] == width && tensor->rows >= first + a->n))
        return false;
    for (size_t i = 0; i < a->n; i++) {
        double *row = a->rows + i * width;
        if (!read_row(a, tensor, first + i, a->row))
            return false;
        for (uint64_t j = 0; j < width; j++)
            row[j] = (double)a->row[j] * (double)a->gains[j];
    }
    gram_matrix(a->rows, a->n, width, map->gram);
    if (!can_be_squared(map->gram, a->n))
        return fail_not_finite(a, tensor);
    map->radius = sqrt((double)width);
    return true;
}

static bool read_bias(auditor *a, uint32_t layer, uint32_t head, bool is_key, head_map *map) {
    uint64_t first = (uint64_t)head * a->n;
    memset(map->bias, 0, a->n * sizeof *map->bias);
    const gguf_tensor *tensor = find_part(a, layer, is_key, "bias", &first);
    if (!tensor)
        return true;
    if (!check_tensor(a, tensor, tensor->dims[0] >= first + a->n && tensor->rows == 1))
        return false;
    float *values = malloc(tensor->dims[0] * sizeof *values);
    if (!values)
        return lab_fail_memory(a->error);
    bool is_read = read_row(a, tensor, 0, values);
    for (size_t i = 0; is_read && i < a->n; i++)
        map->bias[i] = (double)values[first + i];
    free(values);
    return is_read;
}

/* Normalised queries or keys: the gains are the map. */
static bool read_head_norm(auditor *a, uint32_t layer, bool is_key, head_map *map) {
    char name[NAME_SIZE];
    tensor_name(layer, is_key ? "attn_k_norm.weight" : "attn_q_norm.weight", name);
    const gguf_tensor *tensor = gguf_get_tensor(a->file, name, a->n, 1, a->error);
    if (!tensor || !read_row(a, tensor, 0, a->row))
        return false;
    memset(map->gram, 0, a->n * a->n * sizeof *map->gram);
    memset(map->bias, 0, a->n * sizeof *map->bias);
    for (size_t i = 0; i < a->n; i++)
        map->gram[i * a->n + i] = (double)a->row[i] * (double)a->row[i];
    map->radius = sqrt((double)a->n);
    return true;
}

static bool read_map(auditor *a, uint32_t layer, uint32_t head, bool is_key) {
    head_map *map = is_key ? &a->key : &a->query;
    if (a->shape->has_head_norms)
        return read_head_norm(a, layer, is_key, map);
    return read_weights(a, layer, head, is_key, map) && read_bias(a, layer, head, is_key, map);
}

static bool read_gains(auditor *a, uint32_t layer) {
    char name[NAME_SIZE];
    const gguf_tensor *tensor = gguf_get_tensor(
        a->file, tensor_name(layer, "attn_norm.weight", name), a->shape->width, 1, a->error);
    return tensor && read_row(a, tensor, 0, a->gains);
}

/* ---- bounds ---- */

/* scaled = D gram D with D = exp(sign * weights / 2). */
static void scale_gram(auditor *a, const head_map *map, const double *weights, double sign) {
    for (size_t i = 0; i < a->n; i++)
        for (size_t j = 0; j < a->n; j++)
            a->scaled[i * a->n + j] =
                map->gram[i * a->n + j] * exp(0.5 * sign * (weights[i] + weights[j]));
}

/* The largest length of a query or key whose dimensions are multiplied by D; `top` is where power
 * iteration starts and ends. The singular value goes to `sigma` unless that is NULL. */
static double largest_length(auditor *a, const head_map *map, const double *weights, double sign,
                             double *top, double *sigma) {
    double bias = 0;
    scale_gram(a, map, weights, sign);
    double value = sqrt(eigenvalue_from_above(a->scaled, a->n, top, a->work));
    for (size_t i = 0; i < a->n; i++)
        bias += map->bias[i] * map->bias[i] * exp(sign * weights[i]);
    if (sigma)
        *sigma = value;
    return value * map->radius + sqrt(bias);
}

/* The dimension rotated together with dimension i: i itself if there is none. */
static size_t partner(const model_shape *shape, size_t i) {
    size_t half = shape->rotated / 2;
    if (i >= shape->rotated)
        return i;
    if (shape->pairs_are_apart)
        return i < half ? i + half : i - half;
    return i ^ 1;
}

/* Adds `value` of both dimensions to each pair's weight, or sets it. */
static double pair_sum(const auditor *a, const double *values, size_t stride, size_t i) {
    size_t other = partner(a->shape, i);
    return values[i * stride] + (other != i ? values[other * stride] : 0);
}

/* Weights at which a pair contributes about as much to queries as to keys. */
static void start_weights(auditor *a) {
    for (size_t i = 0; i < a->n; i++) {
        double of_query = pair_sum(a, a->query.gram, a->n + 1, i);
        double of_key = pair_sum(a, a->key.gram, a->n + 1, i);
        a->weights[i] = of_query > 0 && of_key > 0 ? 0.5 * log(of_key / of_query) : 0;
        a->query_top[i] = a->key_top[i] = 1 + 0.01 * (double)(i % 7);
    }
}

/* Power iteration on the scaled Gram matrix; the eigenvalue so far, from below. */
static double approach(auditor *a, const head_map *map, double sign, double *top) {
    double value = 0;
    scale_gram(a, map, a->weights, sign);
    for (int i = 0; i < POWER_STEPS; i++)
        value = power_step(a->scaled, a->n, top, a->work);
    return value;
}

/*
 * Looks for weights that make the product of the two singular values small: gradient descent,
 * where the gradient is the difference of a pair's shares in the two eigenvectors. The logarithm
 * of the product is convex in the logarithms of the weights, and any weights give a bound that
 * holds, so it need not be exact.
 */
static void balance(auditor *a) {
    double least = (double)INFINITY, squares[2][MODEL_HEAD_DIM_MAX];
    start_weights(a);
    for (int step = 0; step < BALANCE_STEPS; step++) {
        double product =
            approach(a, &a->query, 1, a->query_top) * approach(a, &a->key, -1, a->key_top);
        if (product < least && step >= BALANCE_STEPS / 4) {
            least = product;
            memcpy(a->best_weights, a->weights, a->n * sizeof *a->weights);
        }
        for (size_t i = 0; i < a->n; i++) {
            squares[0][i] = a->query_top[i] * a->query_top[i];
            squares[1][i] = a->key_top[i] * a->key_top[i];
        }
        double size = 2.0 / (1 + 0.1 * step);
        for (size_t i = 0; i < a->n; i++)
            a->weights[i] -= size * (pair_sum(a, squares[0], 1, i) - pair_sum(a, squares[1], 1, i));
    }
}

/* A logit's bound as a spread, after the soft cap. */
static double spread_of(const model_shape *shape, double logit) {
    return 2 * (shape->soft_cap > 0 ? shape->soft_cap * tanh(logit / shape->soft_cap) : logit);
}

double audit_log10_reach(double spread, double mass) {
    double exponent = spread + log((1 - mass) / mass);
    return (exponent > 30 ? exponent : log1p(exp(exponent))) / log(10);
}

static void measure_head(auditor *a, double mass, audit_head *head) {
    const model_shape *shape = a->shape;
    double factor = shape->scale * shape->rope_factor * shape->rope_factor;
    balance(a);
    double product = largest_length(a, &a->query, a->best_weights, 1, a->query_top, NULL) *
                     largest_length(a, &a->key, a->best_weights, -1, a->key_top, NULL);
    memset(a->weights, 0, a->n * sizeof *a->weights);
    head->query_length =
        largest_length(a, &a->query, a->weights, 1, a->query_top, &head->sigma_query);
    head->key_length = largest_length(a, &a->key, a->weights, -1, a->key_top, &head->sigma_key);
    head->bound = spread_of(shape, factor * head->query_length * head->key_length);
    head->tighter = fmin(head->bound, spread_of(shape, factor * product));
    double attained =
        sqrt(product_eigenvalue_from_below(a->query.gram, a->key.gram, a->n, a->work));
    head->attained = spread_of(shape, factor * attained * a->query.radius * a->key.radius);
    head->log10_reach = audit_log10_reach(head->tighter, mass);
}

/* ---- all heads ---- */

static bool audit_layer(auditor *a, uint32_t layer, double mass, audit_head *heads,
                        lab_progress *progress, size_t done) {
    uint32_t heads_per_kv = a->shape->heads[layer] / a->shape->kv_heads[layer];
    if (!read_gains(a, layer))
        return false;
    for (uint32_t h = 0; h < a->shape->heads[layer]; h++) {
        if (lab_interrupted())
            return lab_fail(a->error, LAB_STOPPED, "stopped");
        if ((h % heads_per_kv == 0 && !read_map(a, layer, h / heads_per_kv, true)) ||
            !read_map(a, layer, h, false))
            return false;
        heads[h] = (audit_head){.layer = layer, .head = h};
        measure_head(a, mass, &heads[h]);
        lab_progress_show(progress, done + h + 1, "layer %u", layer);
    }
    return true;
}

static bool audit_layers(auditor *a, bool quiet, model_audit *audit) {
    lab_progress progress = lab_progress_begin("audit", 0, audit->count, quiet);
    size_t done = 0;
    bool is_done = true;
    for (uint32_t layer = 0; is_done && layer < a->shape->layers; layer++) {
        is_done = a->shape->heads[layer] == 0 ||
                  audit_layer(a, layer, audit->mass, audit->heads + done, &progress, done);
        done += a->shape->heads[layer];
    }
    lab_progress_end(&progress);
    return is_done;
}

bool audit_model(const gguf_file *file, double mass, bool quiet, model_audit *audit,
                 lab_error *error) {
    *audit = (model_audit){.mass = mass};
    if (!model_shape_read(file, &audit->shape, error))
        return false;
    audit->count = model_head_count(&audit->shape);
    audit->heads = calloc(audit->count, sizeof *audit->heads);
    if (!audit->heads)
        return lab_fail_memory(error);
    auditor a = {.file = file, .shape = &audit->shape, .n = audit->shape.head_dim, .error = error};
    bool is_done = open_auditor(&a) && audit_layers(&a, quiet, audit);
    close_auditor(&a);
    if (!is_done)
        audit_free(audit);
    return is_done;
}

void audit_free(model_audit *audit) {
    free(audit->heads);
    audit->heads = NULL;
}

/* ---- JSON and CSV ---- */

/* Columns of numbers, in CSV and JSON alike. */
static const struct {
    const char *name;
    size_t offset;
} columns[] = {
    {"sigma_query", offsetof(audit_head, sigma_query)},
    {"sigma_key", offsetof(audit_head, sigma_key)},
    {"query_length", offsetof(audit_head, query_length)},
    {"key_length", offsetof(audit_head, key_length)},
    {"spread_bound", offsetof(audit_head, bound)},
    {"spread_tighter", offsetof(audit_head, tighter)},
    {"spread_attained", offsetof(audit_head, attained)},
    {"log10_reach", offsetof(audit_head, log10_reach)},
};

enum { COLUMNS = sizeof columns / sizeof columns[0] };

static double number_at(const audit_head *head, size_t column) {
    double number;
    memcpy(&number, (const char *)head + columns[column].offset, sizeof number);
    return number;
}

json_t *audit_json(const model_audit *audit) {
    const model_shape *shape = &audit->shape;
    unsigned mark = lab_json_mark();
    json_t *heads = json_array();
    for (size_t i = 0; i < audit->count; i++) {
        json_t *head = json_pack("{s:i, s:i}", "layer", (int)audit->heads[i].layer, "head",
                                 (int)audit->heads[i].head);
        for (size_t c = 0; c < COLUMNS; c++)
            json_object_set_new(head, columns[c].name,
                                lab_json_number(number_at(&audit->heads[i], c)));
        json_array_append_new(heads, head);
    }
    json_t *all =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:f, s:f, s:f, s:f, s:o}", "architecture",
                  shape->architecture, "name", shape->name, "layers", (int)shape->layers, "width",
                  (int)shape->width, "head_dim", (int)shape->head_dim, "context",
                  (json_int_t)shape->context, "scale", shape->scale, "soft_cap", shape->soft_cap,
                  "rope_factor", shape->rope_factor, "mass", audit->mass, "heads", heads);
    return lab_json_whole(all, mark);
}

void audit_csv(FILE *file, const void *context) {
    const model_audit *audit = context;
    lab_csv csv = {.file = file};
    lab_csv_text(&csv, "layer");
    lab_csv_text(&csv, "head");
    for (size_t c = 0; c < COLUMNS; c++)
        lab_csv_text(&csv, columns[c].name);
    lab_csv_end_line(&csv);
    for (size_t i = 0; i < audit->count; i++) {
        lab_csv_number(&csv, audit->heads[i].layer);
        lab_csv_number(&csv, audit->heads[i].head);
        for (size_t c = 0; c < COLUMNS; c++)
            lab_csv_number(&csv, number_at(&audit->heads[i], c));
        lab_csv_end_line(&csv);
    }
}
