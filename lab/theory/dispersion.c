/* A random Transformer on kinds of tokens and their counts; see dispersion.h. */
#include "theory/dispersion.h"
#include "base/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct random_transformer {
    transformer_shape shape;
    size_t width;
    float *embedding;
    float *weights; /* a layer's six matrices, layer after layer */
};

static size_t layer_floats(size_t width) { return 8 * width * width; }

static void fill(lab_random *random, float *matrix, size_t count, double deviation) {
    for (size_t i = 0; i < count; i++)
        matrix[i] = (float)(deviation * lab_random_normal(random));
}

static void fill_weights(random_transformer *t) {
    size_t square = t->width * t->width;
    double unit = 1 / sqrt((double)t->width);
    lab_random random = lab_random_start(lab_seed_for(t->shape.seed, "transformer", 0));
    fill(&random, t->embedding, t->shape.kinds * t->width, 1);
    for (size_t i = 0; i < t->shape.layers; i++) {
        float *w = t->weights + i * layer_floats(t->width);
        fill(&random, w, 2 * square, unit * t->shape.gain);
        fill(&random, w + 2 * square, 6 * square, unit);
    }
}

random_transformer *theory_transformer_create(const transformer_shape *shape) {
    if (shape->layers < 1 || shape->layers > DISPERSION_LAYERS_MAX || shape->heads < 1 ||
        shape->heads > DISPERSION_HEADS_MAX || shape->head_dim < 1 || shape->head_dim > 128 ||
        shape->kinds < 2 || shape->kinds > DISPERSION_KINDS_MAX)
        return NULL;
    random_transformer *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->shape = *shape;
    t->width = shape->heads * shape->head_dim;
    t->embedding = calloc(shape->kinds * t->width, sizeof *t->embedding);
    t->weights = calloc(shape->layers * layer_floats(t->width), sizeof *t->weights);
    if (!t->embedding || !t->weights) {
        theory_transformer_destroy(t);
        return NULL;
    }
    fill_weights(t);
    return t;
}

void theory_transformer_destroy(random_transformer *transformer) {
    if (!transformer)
        return;
    free(transformer->weights);
    free(transformer->embedding);
    free(transformer);
}

layer_weights theory_transformer_layer(const random_transformer *t, size_t layer) {
    const float *w = t->weights + layer * layer_floats(t->width);
    size_t square = t->width * t->width;
    return (layer_weights){
        w, w + square, w + 2 * square, w + 3 * square, w + 4 * square, w + 6 * square};
}

const float *theory_transformer_embedding(const random_transformer *t) { return t->embedding; }

/* y[row] = weights x[row], for [rows][in] -> [rows][out]. */
static void apply(const float *weights, size_t in, size_t out, const double *x, size_t rows,
                  double *y) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < out; i++) {
            double sum = 0;
            for (size_t j = 0; j < in; j++)
                sum += (double)weights[i * in + j] * x[r * in + j];
            y[r * out + i] = sum;
        }
}

/* Scales every row to mean square 1, which keeps states bounded, as the theorem's proof
 * requires. */
static void normalise(const double *x, size_t rows, size_t width, double *y) {
    for (size_t r = 0; r < rows; r++) {
        double squares = 0;
        for (size_t i = 0; i < width; i++)
            squares += x[r * width + i] * x[r * width + i];
        double factor = 1 / sqrt(squares / (double)width + 1e-12);
        for (size_t i = 0; i < width; i++)
            y[r * width + i] = factor * x[r * width + i];
    }
}

/* Scratch of one forward pass: [kinds][width], or twice that. */
typedef struct states {
    double *x, *normed, *query, *key, *value, *mixed, *hidden;
} states;

static bool states_create(states *s, size_t kinds, size_t width) {
    size_t part = kinds * width;
    s->x = calloc(8 * part, sizeof *s->x);
    if (!s->x)
        return false;
    s->normed = s->x + part;
    s->query = s->x + 2 * part;
    s->key = s->x + 3 * part;
    s->value = s->x + 4 * part;
    s->mixed = s->x + 5 * part;
    s->hidden = s->x + 6 * part;
    return true;
}

/* One query kind of one head: its coefficients for a token of each kind go to `weight`, and their
 * extremes into the head's results. */
static void attend(const double *logits, const uint64_t *counts, size_t kinds, uint64_t n,
                   uint64_t queries, double *weight, head_dispersion *head) {
    double high = logits[0], low = logits[0];
    for (size_t k = 1; k < kinds; k++) {
        high = fmax(high, counts[k] ? logits[k] : high);
        low = fmin(low, counts[k] ? logits[k] : low);
    }
    double z = 0, largest = 0, smallest = 1, entropy = 0;
    for (size_t k = 0; k < kinds; k++) {
        weight[k] = exp(logits[k] - high);
        z += (double)counts[k] * weight[k];
    }
    for (size_t k = 0; k < kinds; k++) {
        weight[k] /= z;
        if (counts[k] == 0)
            continue;
        largest = fmax(largest, weight[k]);
        smallest = fmin(smallest, weight[k]);
        entropy -= weight[k] > 0 ? (double)counts[k] * weight[k] * log(weight[k]) : 0;
    }
    double spread = high - low, ratio = exp(spread);
    head->largest = fmax(head->largest, largest);
    head->spread = fmax(head->spread, spread);
    head->entropy += entropy * (double)queries / (double)n;
    head->low_slack = fmin(head->low_slack, smallest * (double)n * ratio);
    head->high_slack = fmin(head->high_slack, ratio / ((double)n * largest));
}

static void run_head(const random_transformer *t, const states *s, const uint64_t *counts,
                     uint64_t n, size_t index, head_dispersion *head) {
    size_t kinds = t->shape.kinds, dim = t->shape.head_dim, width = t->width;
    double scale = 1 / sqrt((double)dim);
    *head = (head_dispersion){.low_slack = (double)INFINITY, .high_slack = (double)INFINITY};
    for (size_t i = 0; i < kinds; i++) {
        double logits[DISPERSION_KINDS_MAX], weight[DISPERSION_KINDS_MAX];
        double *mixed = s->mixed + i * width + index * dim;
        memset(mixed, 0, dim * sizeof *mixed);
        if (counts[i] == 0)
            continue;
        for (size_t k = 0; k < kinds; k++) {
            double sum = 0;
            for (size_t j = 0; j < dim; j++)
                sum += s->query[i * width + index * dim + j] * s->key[k * width + index * dim + j];
            logits[k] = scale * sum;
        }
        attend(logits, counts, kinds, n, counts[i], weight, head);
        for (size_t k = 0; k < kinds; k++)
            for (size_t j = 0; j < dim; j++)
                mixed[j] += (double)counts[k] * weight[k] * s->value[k * width + index * dim + j];
    }
}

/* x += the block's output. */
static void add(double *x, const double *more, size_t count) {
    for (size_t i = 0; i < count; i++)
        x[i] += more[i];
}

static void run_layer(const random_transformer *t, const states *s, const uint64_t *counts,
                      uint64_t n, size_t layer, head_dispersion *heads) {
    size_t kinds = t->shape.kinds, width = t->width;
    layer_weights w = theory_transformer_layer(t, layer);
    normalise(s->x, kinds, width, s->normed);
    apply(w.query, width, width, s->normed, kinds, s->query);
    apply(w.key, width, width, s->normed, kinds, s->key);
    apply(w.value, width, width, s->normed, kinds, s->value);
    for (size_t h = 0; h < t->shape.heads; h++)
        run_head(t, s, counts, n, h, &heads[h]);
    apply(w.out, width, width, s->mixed, kinds, s->normed);
    add(s->x, s->normed, kinds * width);
    normalise(s->x, kinds, width, s->normed);
    apply(w.up, width, 2 * width, s->normed, kinds, s->hidden);
    for (size_t i = 0; i < 2 * kinds * width; i++)
        s->hidden[i] = fmax(0, s->hidden[i]);
    apply(w.down, 2 * width, width, s->hidden, kinds, s->normed);
    add(s->x, s->normed, kinds * width);
}

/* One of the first kind, the rest spread evenly over the others. */
static void count_kinds(size_t kinds, uint64_t n, uint64_t *counts) {
    counts[0] = 1;
    for (size_t k = 1; k < kinds; k++)
        counts[k] = (n - 1) / (kinds - 1) + (k - 1 < (n - 1) % (kinds - 1));
}

static bool run(const random_transformer *t, uint64_t n, head_dispersion *result, uint64_t *counts,
                double *final) {
    states s;
    uint64_t own[DISPERSION_KINDS_MAX];
    head_dispersion unused[DISPERSION_HEADS_MAX] = {{.entropy = 0}};
    size_t part = t->shape.kinds * t->width;
    if (n < 2 || !states_create(&s, t->shape.kinds, t->width))
        return false;
    count_kinds(t->shape.kinds, n, own);
    for (size_t i = 0; i < part; i++)
        s.x[i] = (double)t->embedding[i];
    for (size_t layer = 0; layer < t->shape.layers; layer++)
        run_layer(t, &s, own, n, layer, result ? result + layer * t->shape.heads : unused);
    if (counts)
        memcpy(counts, own, t->shape.kinds * sizeof *counts);
    if (final)
        memcpy(final, s.x, part * sizeof *final);
    free(s.x);
    return true;
}

bool theory_transformer_run(const random_transformer *transformer, uint64_t n,
                            head_dispersion *result, uint64_t *counts) {
    return run(transformer, n, result, counts, NULL);
}

bool theory_transformer_states(const random_transformer *transformer, uint64_t n, double *result) {
    return run(transformer, n, NULL, NULL, result);
}
