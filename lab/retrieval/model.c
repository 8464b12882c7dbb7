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

void retrieval_class_table(const retrieval_model *model, float *table) {
    const retrieval_layout *at = &model->layout;
    const float *bias = model->parameters + at->item_bias;
    const float *of_class = model->parameters + at->item_class;
    for (size_t c = 0; c <= at->classes; c++)
        for (size_t j = 0; j < at->width; j++)
            table[c * at->width + j] =
                bias[j] + (c < at->classes ? of_class[c * at->width + j] : 0);
}

/* Two places, of which the result must end up in the first. */
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
    for (size_t l = 0; l + 1 < at->depth; l++) {
        nn_product_of(model->engine, (nn_product){.m = items, .n = width, .k = width}, from,
                      parameters + at->item[l].weight, to);
        kernels->gelu_forward(to, parameters + at->item[l].bias, items, width, to, NULL);
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

void retrieval_directions(const retrieval_model *model, const float *query, size_t sets,
                          float *scratch, float *direction, float *shift) {
    const retrieval_layout *at = &model->layout;
    const nn_engine *engine = model->engine;
    const float *parameters = model->parameters;
    size_t width = at->width;
    float *a = scratch, *b = scratch + sets * width;
    const uint16_t only = 0;
    for (size_t s = 0; s < sets; s++)
        engine->kernels->item_forward(query + s, &only, 1, width, parameters + at->query_slope,
                                      parameters + at->query_bias, a + s * width, NULL);
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
        a = b;
        b = spare;
    }
    nn_product across = {.m = sets, .n = width, .k = width};
    nn_product back = {.m = sets, .n = width, .k = width, .tb = true};
    nn_product_of(engine, across, a, parameters + at->w_q, b);
    nn_product_of(engine, back, b, parameters + at->w_k, a);
    float scale = parameters[at->scale] / sqrtf((float)width);
    for (size_t i = 0; i < sets * width; i++)
        a[i] *= scale;
    const retrieval_layer *last = &at->item[at->depth - 1];
    nn_product_of(engine, back, a, parameters + last->weight, direction);
    engine->kernels->score_forward(a, sets, width, parameters + last->bias, 0, shift);
}

void retrieval_answer(const retrieval_model *model, const float *mean, const float *total,
                      size_t rows, float *scratch, float *logits) {
    const retrieval_layout *at = &model->layout;
    const nn_engine *engine = model->engine;
    const float *parameters = model->parameters;
    size_t width = at->width;
    float *a = scratch, *b = scratch + rows * width;
    const retrieval_layer *last = &at->item[at->depth - 1];
    nn_product across = {.m = rows, .n = width, .k = width};
    nn_product_of(engine, across, mean, parameters + last->weight, a);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < width; j++)
            a[r * width + j] += total[r] * parameters[last->bias + j];
    nn_product_of(engine, across, a, parameters + at->w_v, b);
    for (size_t l = 0; l < at->depth; l++) {
        nn_product_of(engine, across, b, parameters + at->phi[l].weight, a);
        engine->kernels->gelu_forward(a, parameters + at->phi[l].bias, rows, width, b, NULL);
    }
    nn_dense layer = dense_at(model, at->phi[at->depth], at->classes);
    nn_dense_forward(engine, &layer, rows, b, logits);
}
