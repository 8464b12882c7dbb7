/*
 * Items are processed in chunks. Where a set's features fit into a cache they
 * are kept from the logits to the answer; larger sets compute them twice. Where
 * products are rounded, psi_x of items takes the place of features.
 */
#include "retrieval/chunked.h"

#include "base/signals.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256, KEPT_BYTES = 8 << 20 };

struct retrieval_chunked {
    retrieval_model model; /* rounded for products */
    const retrieval_cells *cells;
    float *multiplied;              /* its parameters, where it rounds them */
    size_t capacity, rows_capacity; /* items and rows at most */
    size_t n;                       /* of the current set */
    bool keeps;                     /* the features of the current set */
    float *table;                   /* [classes + 1][width] */
    float *direction;               /* [width], or k where products are rounded */
    float *scratch;                 /* [2][rows][width] or [2][width] */
    float *priority, *logits;
    uint16_t *class_of;
    float *weights;  /* [rows][n] */
    float *piece;    /* [rows][CHUNK] of them */
    float *features; /* [kept or CHUNK][width]; or psi_x */
    float *spare;    /* [CHUNK][width] for deeper models and for keys of their own */
    float *deeper, *hidden;
    float *mean, *total;
};

static float *floats(size_t count) { return aligned_alloc(64, (count + 16) / 16 * 64); }

static size_t kept_items(size_t width) { return KEPT_BYTES / (width * sizeof(float)); }

retrieval_chunked *retrieval_chunked_create(const retrieval_model *model,
                                            const retrieval_cells *cells, size_t n, size_t rows,
                                            lab_error *error) {
    size_t width = model->layout.width, kept = kept_items(width);
    size_t features = n <= kept ? n : kept;
    retrieval_chunked *chunked = calloc(1, sizeof *chunked);
    if (!chunked) {
        lab_fail_memory(error);
        return NULL;
    }
    chunked->cells = cells;
    chunked->multiplied = floats(model->layout.count);
    chunked->capacity = n;
    chunked->rows_capacity = rows;
    chunked->table = floats((model->layout.classes + 1) * width);
    chunked->direction = floats(width);
    chunked->scratch = floats(2 * (rows + 1) * width);
    chunked->priority = floats(n);
    chunked->logits = floats(n);
    chunked->class_of = malloc((n + 1) * sizeof *chunked->class_of);
    chunked->weights = floats(rows * n);
    chunked->piece = floats(rows * CHUNK);
    chunked->features = floats((features < CHUNK ? CHUNK : features) * width);
    chunked->spare = floats(CHUNK * width);
    chunked->deeper = floats(CHUNK * width);
    chunked->hidden = floats(CHUNK * width);
    chunked->mean = floats(rows * width);
    chunked->total = floats(rows);
    if (!chunked->table || !chunked->direction || !chunked->scratch || !chunked->priority ||
        !chunked->logits || !chunked->class_of || !chunked->weights || !chunked->piece ||
        !chunked->features || !chunked->spare || !chunked->deeper || !chunked->hidden ||
        !chunked->multiplied || !chunked->mean || !chunked->total) {
        lab_fail_memory(error);
        retrieval_chunked_destroy(chunked);
        return NULL;
    }
    chunked->model = retrieval_as_multiplied(model, chunked->multiplied);
    retrieval_class_table(&chunked->model, chunked->table);
    return chunked;
}

void retrieval_chunked_destroy(retrieval_chunked *chunked) {
    if (!chunked)
        return;
    free(chunked->total);
    free(chunked->mean);
    free(chunked->hidden);
    free(chunked->deeper);
    free(chunked->spare);
    free(chunked->features);
    free(chunked->piece);
    free(chunked->weights);
    free(chunked->class_of);
    free(chunked->logits);
    free(chunked->priority);
    free(chunked->scratch);
    free(chunked->direction);
    free(chunked->table);
    free(chunked->multiplied);
    free(chunked);
}

float *retrieval_chunked_weights(retrieval_chunked *chunked) { return chunked->weights; }

static size_t chunk_at(const retrieval_chunked *chunked, size_t first) {
    return chunked->n - first < CHUNK ? chunked->n - first : CHUNK;
}

static void features_of(const retrieval_chunked *chunked, size_t first, size_t items, bool as_key,
                        float *to) {
    retrieval_item_features(&chunked->model, chunked->table, chunked->priority + first,
                            chunked->class_of + first, items, as_key, chunked->deeper, to);
}

/* The inputs of keys or values: features, or h where products are rounded. */
static void states_of(const retrieval_chunked *chunked, size_t first, size_t items, bool as_key,
                      float *to) {
    if (!chunked->model.rounds) {
        features_of(chunked, first, items, as_key, to);
    } else if (chunked->cells) {
        retrieval_cells_look_up(chunked->cells, as_key, chunked->priority + first,
                                chunked->class_of + first, items, to);
    } else {
        features_of(chunked, first, items, as_key, chunked->hidden);
        retrieval_item_states(&chunked->model, chunked->hidden, items, to);
    }
}

static float direction_of(const retrieval_chunked *chunked, float query) {
    const retrieval_model *model = &chunked->model;
    float shift = 0;
    if (model->rounds)
        memcpy(chunked->direction, retrieval_query_keys(model, &query, 1, chunked->scratch),
               model->layout.width * sizeof(float));
    else
        retrieval_directions(model, &query, 1, chunked->scratch, chunked->direction, &shift);
    return shift;
}

static void score_chunk(const retrieval_chunked *chunked, size_t first, size_t items, float shift) {
    size_t width = chunked->model.layout.width;
    bool is_seen = chunked->model.config.key_sees_class;
    float *values = chunked->features + (chunked->keeps ? first * width : 0), *keys = values;
    if (is_seen || chunked->keeps)
        states_of(chunked, first, items, false, values);
    if (!is_seen) {
        keys = chunked->spare;
        states_of(chunked, first, items, true, keys);
    }
    chunked->model.engine->kernels->score_forward(keys, items, width, chunked->direction, shift,
                                                  chunked->logits + first);
}

void retrieval_chunked_open(retrieval_chunked *chunked, uint64_t seed, size_t n, uint64_t index,
                            retrieval_set *set) {
    const retrieval_config *config = &chunked->model.config;
    size_t width = chunked->model.layout.width;
    lab_random random = lab_random_start(lab_seed_for(lab_seed_for(seed, "size", n), "set", index));
    chunked->n = n;
    chunked->keeps = n <= kept_items(width);
    float query = retrieval_draw_query(&random, config), shift = direction_of(chunked, query);
    retrieval_top top = {.priority = -1};
    retrieval_draw_items(&random, config, 1, 0, n,
                         (retrieval_items){chunked->priority, chunked->class_of}, &top);
    for (size_t first = 0; first < n && !lab_interrupted(); first += CHUNK) {
        size_t items = chunk_at(chunked, first);
        score_chunk(chunked, first, items, shift);
    }
    *set = (retrieval_set){.n = n,
                           .priority = chunked->priority,
                           .class_of = chunked->class_of,
                           .query = query,
                           .logits = chunked->logits,
                           .top = top.index,
                           .label = chunked->class_of[top.index]};
}

/* Adds weights times values of a chunk to the means, of every row. A product packs the values
 * first, which pays where rows are many; the sums are the same. */
static void add_weighted(const retrieval_chunked *chunked, size_t rows, size_t first, size_t items,
                         const float *values) {
    enum { FEW = 4 };
    const nn_engine *engine = chunked->model.engine;
    size_t width = chunked->model.layout.width, n = chunked->n;
    for (size_t r = 0; r < rows; r++) {
        const float *weights = chunked->weights + r * n + first;
        if (rows <= FEW)
            engine->kernels->mix_forward(values, items, width, weights, chunked->mean + r * width);
        else
            memcpy(chunked->piece + r * items, weights, items * sizeof(float));
    }
    if (rows > FEW)
        nn_product_of(engine, (nn_product){.m = rows, .n = width, .k = items, .add = true},
                      chunked->piece, values, chunked->mean);
}

void retrieval_chunked_answer(retrieval_chunked *chunked, size_t rows, float *logits) {
    size_t width = chunked->model.layout.width, n = chunked->n;
    memset(chunked->mean, 0, rows * width * sizeof(float));
    for (size_t first = 0; first < n && !lab_interrupted(); first += CHUNK) {
        size_t items = chunk_at(chunked, first);
        float *values = chunked->features + (chunked->keeps ? first * width : 0);
        if (!chunked->keeps)
            states_of(chunked, first, items, false, values);
        add_weighted(chunked, rows, first, items, values);
    }
    if (chunked->model.rounds) {
        retrieval_answer_from_states(&chunked->model, chunked->mean, rows, chunked->scratch,
                                     chunked->scratch + rows * width, logits);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        double total = 0;
        for (size_t i = 0; i < n; i++)
            total += chunked->weights[r * n + i];
        chunked->total[r] = (float)total;
    }
    retrieval_answer(&chunked->model, chunked->mean, chunked->total, rows, chunked->scratch,
                     logits);
}
