/*
 * The model's layout and initial weights, and the pieces of its forward pass.
 * Forward and backward of a training tile are in tile.c.
 */
#include "retrieval/model.h"

#include <math.h>
#include <string.h>

static size_t reserve(size_t *count, size_t floats) {
    size_t at = *count;
    *count += (floats + 15) / 16 * 16;
    return at;
}

static retrieval_layer reserve_layer(size_t *count, size_t in, size_t out) {
    size_t weight = reserve(count, in * out);
    return (retrieval_layer){weight, reserve(count, out)};
}

retrieval_layout retrieval_layout_of(const retrieval_config *config) {
    size_t width = config->width, count = 0;
    retrieval_layout at = {.depth = config->depth, .width = width, .classes = config->classes};
    at.item_slope = reserve(&count, width);
    at.item_class = reserve(&count, config->classes * width);
    at.item_bias = reserve(&count, width);
    for (size_t l = 0; l < at.depth; l++)
        at.item[l] = reserve_layer(&count, width, width);
    at.query_slope = reserve(&count, width);
    at.query_bias = reserve(&count, width);
    for (size_t l = 0; l < at.depth; l++)
        at.query[l] = reserve_layer(&count, width, width);
    at.w_q = reserve(&count, width * width);
    at.w_k = reserve(&count, width * width);
    at.w_v = reserve(&count, width * width);
    for (size_t l = 0; l < at.depth; l++)
        at.phi[l] = reserve_layer(&count, width, width);
    at.phi[at.depth] = reserve_layer(&count, width, config->classes);
    at.scale = reserve(&count, 1);
    at.count = count;
    return at;
}

size_t retrieval_parameters(const retrieval_config *config) {
    size_t width = config->width, depth = config->depth, classes = config->classes;
    size_t hidden = width * width + width;
    return (classes + 2) * width + 2 * width + 3 * depth * hidden + 3 * width * width +
           width * classes + classes + (config->learn_scale ? 1 : 0);
}

size_t retrieval_tile_sets(const retrieval_config *config) {
    return config->precision == RETRIEVAL_BF16_PRODUCTS ? 64 : 128;
}

void retrieval_initialise(const retrieval_config *config, uint64_t seed, float *parameters) {
    retrieval_layout at = retrieval_layout_of(config);
    lab_random random = lab_random_start(lab_seed_for(seed, "weights", 0));
    size_t width = at.width, square = width * width;
    double of_item = sqrt(1.0 / (double)(at.classes + 1)), of_hidden = sqrt(1.0 / (double)width);
    memset(parameters, 0, at.count * sizeof *parameters);
    nn_truncated_normal(&random, parameters + at.item_slope, width, of_item);
    nn_truncated_normal(&random, parameters + at.item_class, at.classes * width, of_item);
    nn_truncated_normal(&random, parameters + at.query_slope, width, 1);
    for (size_t l = 0; l < at.depth; l++) {
        nn_truncated_normal(&random, parameters + at.item[l].weight, square, of_hidden);
        nn_truncated_normal(&random, parameters + at.query[l].weight, square, of_hidden);
        nn_truncated_normal(&random, parameters + at.phi[l].weight, square, of_hidden);
    }
    nn_truncated_normal(&random, parameters + at.w_q, square, of_hidden);
    nn_truncated_normal(&random, parameters + at.w_k, square, of_hidden);
    nn_truncated_normal(&random, parameters + at.w_v, square, of_hidden);
    nn_truncated_normal(&random, parameters + at.phi[at.depth].weight, width * at.classes,
                        of_hidden);
    parameters[at.scale] = (float)config->scale;
}

/* A layer's weights; its bias is added, not multiplied. */
static void round_matrix(const retrieval_model *model, float *place, size_t weight, size_t count) {
    model->engine->kernels->round_to_bf16(place + weight, count);
}

static void round_layers(const retrieval_model *model, float *place, const retrieval_layer *layers,
                         size_t count) {
    for (size_t l = 0; l < count; l++)
        round_matrix(model, place, layers[l].weight, model->layout.width * model->layout.width);
}

retrieval_model retrieval_as_multiplied(const retrieval_model *model, float *place) {
    const retrieval_layout *at = &model->layout;
    retrieval_model multiplied = *model;
    if (model->config.precision != RETRIEVAL_BF16_PRODUCTS)
        return multiplied;
    memcpy(place, model->parameters, at->count * sizeof *place);
    round_matrix(model, place, at->item_slope, at->width);
    round_matrix(model, place, at->item_class, at->classes * at->width);
    round_layers(model, place, at->item, at->depth);
    round_layers(model, place, at->query, at->depth);
    round_layers(model, place, at->phi, at->depth);
    round_matrix(model, place, at->phi[at->depth].weight, at->width * at->classes);
    const size_t squares[] = {at->w_q, at->w_k, at->w_v};
    for (size_t i = 0; i < sizeof squares / sizeof squares[0]; i++)
        round_matrix(model, place, squares[i], at->width * at->width);
    multiplied.parameters = place;
    multiplied.rounds = true;
    return multiplied;
}

void retrieval_class_table(const retrieval_model *model, float *table) {
    const retrieval_layout *at = &model->layout;
    const float *bias = model->parameters + at->item_bias;
    const float *of_class = model->parameters + at->item_class;
    for (size_t c = 0; c <= at->classes; c++)
        for (size_t j = 0; j < at->width; j++)
            table[c * at->width + j] =
                bias[j] + (c < at->classes ? of_class[c * at->width + j] : 0);
}

/* Two buffers; the result must end up in the first. */
void retrieval_item_features(const retrieval_model *model, const float *table,
                             const float *priority, const uint16_t *class_of, size_t items,
                             bool as_key, float *scratch, float *t) {
    const retrieval_layout *at = &model->layout;
    const nn_kernels *kernels = model->engine->kernels;
    const float *parameters = model->parameters;
    size_t width = at->width;
    float *from = at->depth % 2 == 1 ? t : scratch, *to = at->depth % 2 == 1 ? scratch : t;
    bool is_blind = as_key && !model->config.key_sees_class;
    for (size_t done = 0; done < items;) {
        /* Without their class all items share one row of the table: class 0 of a table of one. */
        static const uint16_t none[256];
        size_t now = !is_blind ? items : items - done < 256 ? items - done : 256;
        kernels->item_forward(
            priority + done, is_blind ? none : class_of, now, width, parameters + at->item_slope,
            is_blind ? table + at->classes * width : table, from + done * width, NULL);
        done += now;
    }
    retrieval_round(model, from, items * width);
    for (size_t l = 0; l + 1 < at->depth; l++) {
        nn_product_of(model->engine, (nn_product){.m = items, .n = width, .k = width}, from,
                      parameters + at->item[l].weight, to);
        kernels->gelu_forward(to, parameters + at->item[l].bias, items, width, to, NULL);
        retrieval_round(model, to, items * width);
        float *spare = from;
        from = to;
        to = spare;
    }
}

static nn_dense dense_at(const retrieval_model *model, retrieval_layer layer, size_t out) {
    return (nn_dense){.in = model->layout.width,
                      .out = out,
                      .weight = model->parameters + layer.weight,
                      .bias = model->parameters + layer.bias};
}

float *retrieval_query_features(const retrieval_model *model, const float *query, size_t sets,
                                float *scratch) {
    const retrieval_layout *at = &model->layout;
    const nn_engine *engine = model->engine;
    const float *parameters = model->parameters;
    size_t width = at->width;
    float *a = scratch, *b = scratch + sets * width;
    const uint16_t only = 0;
    for (size_t s = 0; s < sets; s++)
        engine->kernels->item_forward(query + s, &only, 1, width, parameters + at->query_slope,
                                      parameters + at->query_bias, a + s * width, NULL);
    retrieval_round(model, a, sets * width);
    for (size_t l = 0; l < at->depth; l++) {
        nn_dense layer = dense_at(model, at->query[l], width);
        float *spare = a;
        if (l + 1 < at->depth) {
            layer.bias = NULL; /* gelu_forward adds it */
            nn_dense_forward(engine, &layer, sets, a, b);
            engine->kernels->gelu_forward(b, parameters + at->query[l].bias, sets, width, b, NULL);
        } else {
            nn_dense_forward(engine, &layer, sets, a, b);
        }
        retrieval_round(model, b, sets * width);
        a = b;
        b = spare;
    }
    return a;
}

static float logit_scale(const retrieval_model *model) {
    return model->parameters[model->layout.scale] / sqrtf((float)model->layout.width);
}

float *retrieval_query_keys(const retrieval_model *model, const float *query, size_t sets,
                            float *scratch) {
    const retrieval_layout *at = &model->layout;
    size_t width = at->width;
    float *a = retrieval_query_features(model, query, sets, scratch);
    float *b = a == scratch ? scratch + sets * width : scratch;
    nn_product across = {.m = sets, .n = width, .k = width};
    nn_product back = {.m = sets, .n = width, .k = width, .tb = true};
    nn_product_of(model->engine, across, a, model->parameters + at->w_q, b);
    nn_product_of(model->engine, back, b, model->parameters + at->w_k, a);
    model->engine->kernels->scale(a, logit_scale(model), sets * width);
    return a;
}

void retrieval_directions(const retrieval_model *model, const float *query, size_t sets,
                          float *scratch, float *direction, float *shift) {
    const retrieval_layout *at = &model->layout;
    size_t width = at->width;
    const retrieval_layer *last = &at->item[at->depth - 1];
    const float *k = retrieval_query_keys(model, query, sets, scratch);
    nn_product_of(model->engine, (nn_product){.m = sets, .n = width, .k = width, .tb = true}, k,
                  model->parameters + last->weight, direction);
    model->engine->kernels->score_forward(k, sets, width, model->parameters + last->bias, 0, shift);
}

void retrieval_item_states(const retrieval_model *model, const float *t, size_t items, float *h) {
    const retrieval_layout *at = &model->layout;
    nn_dense last = dense_at(model, at->item[at->depth - 1], at->width);
    nn_dense_forward(model->engine, &last, items, t, h);
    retrieval_round(model, h, items * at->width);
}

void retrieval_answer_from_states(const retrieval_model *model, const float *h_bar, size_t rows,
                                  float *v, float *scratch, float *logits) {
    const retrieval_layout *at = &model->layout;
    size_t width = at->width;
    nn_product across = {.m = rows, .n = width, .k = width};
    nn_product_of(model->engine, across, h_bar, model->parameters + at->w_v, v);
    retrieval_round(model, v, rows * width);
    for (size_t l = 0; l < at->depth; l++) {
        nn_product_of(model->engine, across, v, model->parameters + at->phi[l].weight, scratch);
        model->engine->kernels->gelu_forward(scratch, model->parameters + at->phi[l].bias, rows,
                                             width, v, NULL);
        retrieval_round(model, v, rows * width);
    }
    nn_dense layer = dense_at(model, at->phi[at->depth], at->classes);
    nn_dense_forward(model->engine, &layer, rows, v, logits);
}

void retrieval_answer(const retrieval_model *model, const float *mean, const float *total,
                      size_t rows, float *scratch, float *logits) {
    const retrieval_layout *at = &model->layout;
    size_t width = at->width;
    float *h_bar = scratch, *v = scratch + rows * width;
    const retrieval_layer *last = &at->item[at->depth - 1];
    nn_product_of(model->engine, (nn_product){.m = rows, .n = width, .k = width}, mean,
                  model->parameters + last->weight, h_bar);
    model->engine->kernels->outer_add(total, model->parameters + last->bias, rows, width, h_bar);
    retrieval_answer_from_states(model, h_bar, rows, v, h_bar, logits);
}
