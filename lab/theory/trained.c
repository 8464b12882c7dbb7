/* Sets are drawn chunk by chunk (retrieval/chunked.h); features of their items are computed chunk
 * by chunk; see trained.h. */
#include "theory/trained.h"
#include "retrieval/chunked.h"
#include <math.h>
#include <stdlib.h>

enum { CHUNK = 256 };

struct trained_probe {
    retrieval_model model;
    retrieval_chunked *chunked;
    double sigma_q, sigma_k;
    float *block;                      /* holds all of the following */
    float *table;                      /* [classes + 1][width] */
    float *scratch;                    /* [2][width] */
    float *direction;                  /* [width] */
    float *features, *deeper, *states; /* [CHUNK][width] */
    double *sums;                      /* [4][width] */
};

static float *cut(float **rest, size_t count) {
    float *piece = *rest;
    if (piece)
        *rest += (count + 15) / 16 * 16;
    return piece;
}

static bool reserve(trained_probe *probe) {
    const retrieval_layout *at = &probe->model.layout;
    size_t width = at->width;
    size_t count = (at->classes + 4) * width + 3 * CHUNK * width + 6 * 16;
    float *rest = probe->block = aligned_alloc(64, (count + 15) / 16 * 64);
    probe->table = cut(&rest, (at->classes + 1) * width);
    probe->scratch = cut(&rest, 2 * width);
    probe->direction = cut(&rest, width);
    probe->features = cut(&rest, CHUNK * width);
    probe->deeper = cut(&rest, CHUNK * width);
    probe->states = cut(&rest, CHUNK * width);
    probe->sums = calloc(4 * width, sizeof *probe->sums);
    return probe->block && probe->sums;
}

trained_probe *trained_probe_create(const nn_engine *engine, const retrieval_head *head, size_t n,
                                    lab_error *error) {
    trained_probe *probe = calloc(1, sizeof *probe);
    if (!probe) {
        lab_fail_memory(error);
        return NULL;
    }
    probe->model = retrieval_head_model(head, engine);
    /* The statements are about the exact head: its weights, without the rounding of products. */
    if (probe->model.config.precision == RETRIEVAL_BF16_PRODUCTS)
        probe->model.config.precision = RETRIEVAL_BF16;
    const retrieval_layout *at = &probe->model.layout;
    probe->chunked = retrieval_chunked_create(&probe->model, NULL, n, 1, error);
    if (!probe->chunked || !reserve(probe)) {
        lab_fail_memory(error);
        trained_probe_destroy(probe);
        return NULL;
    }
    retrieval_class_table(&probe->model, probe->table);
    probe->sigma_q =
        theory_largest_singular_value(head->parameters + at->w_q, at->width, at->width);
    probe->sigma_k =
        theory_largest_singular_value(head->parameters + at->w_k, at->width, at->width);
    return probe;
}

void trained_probe_destroy(trained_probe *probe) {
    if (!probe)
        return;
    retrieval_chunked_destroy(probe->chunked);
    free(probe->sums);
    free(probe->block);
    free(probe);
}

static size_t chunk_at(size_t n, size_t first) { return n - first < CHUNK ? n - first : CHUNK; }

/* The output of psi_x's hidden layers for some items. */
static const float *features_of(const trained_probe *probe, const float *priority,
                                const uint16_t *class_of, size_t items, bool as_key) {
    retrieval_item_features(&probe->model, probe->table, priority, class_of, items, as_key,
                            probe->deeper, probe->features);
    return probe->features;
}

typedef struct range {
    double low, high;
} range;

static range logits_of(const retrieval_set *set) {
    range of = {(double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < set->n; i++) {
        of.low = fmin(of.low, (double)set->logits[i]);
        of.high = fmax(of.high, (double)set->logits[i]);
    }
    return of;
}

/* ---- Lemma 2.1 ---- */

trained_coefficients trained_coefficients_of(trained_probe *probe, size_t n, size_t sets,
                                             uint64_t seed) {
    trained_coefficients result = {
        .smallest = 1, .low_slack = (double)INFINITY, .high_slack = (double)INFINITY};
    for (size_t s = 0; s < sets; s++) {
        retrieval_set set;
        retrieval_chunked_open(probe->chunked, seed, n, s, &set);
        range of = logits_of(&set);
        double z = 0;
        for (size_t i = 0; i < n; i++)
            z += exp((double)set.logits[i] - of.high);
        double largest = 1 / z, smallest = exp(of.low - of.high) / z;
        coefficient_bounds own = theory_coefficient_bounds((double)n, of.high - of.low, 1);
        result.spread = fmax(result.spread, of.high - of.low);
        result.smallest = fmin(result.smallest, smallest);
        result.largest = fmax(result.largest, largest);
        result.low_slack = fmin(result.low_slack, smallest / own.low);
        result.high_slack = fmin(result.high_slack, own.high / largest);
    }
    result.bounds = theory_coefficient_bounds((double)n, result.spread, 1);
    return result;
}

/* ---- Proposition 3.1 ---- */

static double norm_of(const float *x, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/* The largest |psi_x(x)| of a set, as keys see it. */
static double largest_key(const trained_probe *probe, const retrieval_set *set) {
    const retrieval_layout *at = &probe->model.layout;
    const retrieval_layer *last = &at->item[at->depth - 1];
    nn_dense layer = {.in = at->width,
                      .out = at->width,
                      .weight = probe->model.parameters + last->weight,
                      .bias = probe->model.parameters + last->bias};
    double largest = 0;
    for (size_t first = 0; first < set->n; first += CHUNK) {
        size_t items = chunk_at(set->n, first);
        const float *features =
            features_of(probe, set->priority + first, set->class_of + first, items, true);
        nn_dense_forward(probe->model.engine, &layer, items, features, probe->states);
        for (size_t i = 0; i < items; i++)
            largest = fmax(largest, norm_of(probe->states + i * at->width, at->width));
    }
    return largest;
}

trained_spread trained_spread_of(trained_probe *probe, size_t n, size_t sets, uint64_t seed) {
    const retrieval_layout *at = &probe->model.layout;
    trained_spread mean = {
        .sigma_q = probe->sigma_q, .sigma_k = probe->sigma_k, .tightest = (double)INFINITY};
    /* a factor on all logits counts as part of the scale */
    double scale = sqrt((double)at->width) / fabs((double)probe->model.parameters[at->scale]);
    for (size_t s = 0; s < sets; s++) {
        retrieval_set set;
        retrieval_chunked_open(probe->chunked, seed, n, s, &set);
        range of = logits_of(&set);
        double query = norm_of(
            retrieval_query_features(&probe->model, &set.query, 1, probe->scratch), at->width);
        double key = largest_key(probe, &set);
        double bound = theory_spread_bound(probe->sigma_q, probe->sigma_k, query, key, scale);
        mean.query_norm += query / (double)sets;
        mean.key_norm += key / (double)sets;
        mean.spread += (of.high - of.low) / (double)sets;
        mean.bound += bound / (double)sets;
        mean.tightest = fmin(mean.tightest, bound / (of.high - of.low));
    }
    return mean;
}

/* ---- the corollary ---- */

/* y = x weight + bias (bias may be NULL), in double. */
static void apply(const float *weight, const float *bias, size_t width, const double *x,
                  double *y) {
    for (size_t j = 0; j < width; j++)
        y[j] = bias ? (double)bias[j] : 0;
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < width; j++)
            y[j] += x[i] * (double)weight[i * width + j];
}

/* The head's output from the weighted mean of features; both arrays are overwritten. */
static void output_of(const trained_probe *probe, double *mean, double *output) {
    const retrieval_layout *at = &probe->model.layout;
    const float *parameters = probe->model.parameters;
    const retrieval_layer *last = &at->item[at->depth - 1];
    apply(parameters + last->weight, parameters + last->bias, at->width, mean, output);
    for (size_t j = 0; j < at->width; j++)
        mean[j] = output[j];
    apply(parameters + at->w_v, NULL, at->width, mean, output);
}

/* exp(e - reference) of one item with a given class. */
static double weight_of(const trained_probe *probe, const retrieval_set *set, size_t item,
                        uint16_t class, float shift, double reference) {
    float logit;
    const float *key = features_of(probe, set->priority + item, &class, 1, true);
    probe->model.engine->kernels->score_forward(key, 1, probe->model.layout.width, probe->direction,
                                                shift, &logit);
    return exp((double)logit - reference);
}

/* sums += weight times the features of one item. */
static void add_item(const trained_probe *probe, const retrieval_set *set, size_t item,
                     uint16_t class, double weight, double *sums) {
    const float *value = features_of(probe, set->priority + item, &class, 1, false);
    for (size_t j = 0; j < probe->model.layout.width; j++)
        sums[j] += weight * (double)value[j];
}

/* All items but the one to retrieve: the sum of their weights and of their weighted features. */
static double add_others(const trained_probe *probe, const retrieval_set *set, double reference,
                         double *sums) {
    size_t width = probe->model.layout.width;
    double z = 0;
    for (size_t j = 0; j < width; j++)
        sums[j] = 0;
    for (size_t first = 0; first < set->n; first += CHUNK) {
        size_t items = chunk_at(set->n, first);
        const float *values =
            features_of(probe, set->priority + first, set->class_of + first, items, false);
        for (size_t i = 0; i < items; i++) {
            if (first + i == set->top)
                continue;
            double weight = exp((double)set->logits[first + i] - reference);
            z += weight;
            for (size_t j = 0; j < width; j++)
                sums[j] += weight * (double)values[i * width + j];
        }
    }
    return z;
}

/* The two outputs of a set, in the last two rows of the probe's sums; returns the coefficient of
 * the unchanged item. */
static double both_outputs(const trained_probe *probe, const retrieval_set *set) {
    size_t width = probe->model.layout.width;
    float shift;
    retrieval_directions(&probe->model, &set->query, 1, probe->scratch, probe->direction, &shift);
    double *others = probe->sums, *mean = others + width;
    double reference = logits_of(set).high, coefficient = 0;
    double others_weight = add_others(probe, set, reference, others);
    for (size_t v = 0; v < 2; v++) {
        uint16_t class = (uint16_t)((set->label + v) % probe->model.layout.classes);
        double weight = weight_of(probe, set, set->top, class, shift, reference);
        double z = others_weight + weight;
        for (size_t j = 0; j < width; j++)
            mean[j] = others[j] / z;
        add_item(probe, set, set->top, class, weight / z, mean);
        output_of(probe, mean, others + (2 + v) * width);
        if (v == 0)
            coefficient = weight / z;
    }
    return coefficient;
}

trained_precision trained_precision_of(trained_probe *probe, size_t n, size_t sets, uint64_t seed) {
    size_t width = probe->model.layout.width;
    trained_precision result = {.coefficient = 0};
    for (size_t s = 0; s < sets; s++) {
        retrieval_set set;
        retrieval_chunked_open(probe->chunked, seed, n, s, &set);
        result.coefficient += both_outputs(probe, &set) / (double)sets;
        const double *one = probe->sums + 2 * width, *other = one + width;
        for (size_t f = 0; f < PRECISION_FORMATS; f++) {
            size_t differ = 0;
            for (size_t j = 0; j < width; j++)
                differ += theory_round(one[j], &theory_formats[f]) !=
                          theory_round(other[j], &theory_formats[f]);
            result.sets[f] += (differ > 0) / (double)sets;
            result.elements[f] += (double)differ / (double)width / (double)sets;
        }
    }
    return result;
}
