/*
 * Items come in chunks. Where a set's features fit into a cache they are kept
 * from the logits to the answer; beyond, they are computed twice. Where products
 * are rounded, psi_x of items stands in for features.
 */
#include "retrieval/stream.h"

#include "base/signals.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256, KEPT_BYTES = 8 << 20 };

struct retrieval_stream {
    retrieval_model model; /* as multiplied */
    const retrieval_cells *cells;
    float *multiplied;      /* its parameters, where it rounds them */
    size_t room, rows_room; /* items and rows at most */
    size_t n;               /* of the set at hand */
    bool keeps;             /* the features of the set at hand */
    float *table;           /* [classes + 1][width] */
    float *direction;       /* [width], or k where products are rounded */
    float *scratch;         /* [2][rows][width] or [2][width] */
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

retrieval_stream *retrieval_stream_create(const retrieval_model *model,
                                          const retrieval_cells *cells, size_t n, size_t rows,
                                          lab_error *error) {
    size_t width = model->layout.width, kept = kept_items(width);
    size_t features = n <= kept ? n : kept;
    retrieval_stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        lab_fail_memory(error);
        return NULL;
    }
    stream->cells = cells;
    stream->multiplied = floats(model->layout.count);
    stream->room = n;
    stream->rows_room = rows;
    stream->table = floats((model->layout.classes + 1) * width);
    stream->direction = floats(width);
    stream->scratch = floats(2 * (rows + 1) * width);
    stream->priority = floats(n);
    stream->logits = floats(n);
    stream->class_of = malloc((n + 1) * sizeof *stream->class_of);
    stream->weights = floats(rows * n);
    stream->piece = floats(rows * CHUNK);
    stream->features = floats((features < CHUNK ? CHUNK : features) * width);
    stream->spare = floats(CHUNK * width);
    stream->deeper = floats(CHUNK * width);
    stream->hidden = floats(CHUNK * width);
    stream->mean = floats(rows * width);
    stream->total = floats(rows);
    if (!stream->table || !stream->direction || !stream->scratch || !stream->priority ||
        !stream->logits || !stream->class_of || !stream->weights || !stream->piece ||
        !stream->features || !stream->spare || !stream->deeper || !stream->hidden ||
        !stream->multiplied || !stream->mean || !stream->total) {
        lab_fail_memory(error);
        retrieval_stream_destroy(stream);
        return NULL;
    }
    stream->model = retrieval_as_multiplied(model, stream->multiplied);
    retrieval_class_table(&stream->model, stream->table);
    return stream;
}

void retrieval_stream_destroy(retrieval_stream *stream) {
    if (!stream)
        return;
    free(stream->total);
    free(stream->mean);
    free(stream->hidden);
    free(stream->deeper);
    free(stream->spare);
    free(stream->features);
    free(stream->piece);
    free(stream->weights);
    free(stream->class_of);
    free(stream->logits);
    free(stream->priority);
    free(stream->scratch);
    free(stream->direction);
    free(stream->table);
    free(stream->multiplied);
    free(stream);
}

float *retrieval_stream_weights(retrieval_stream *stream) { return stream->weights; }

static size_t chunk_at(const retrieval_stream *stream, size_t first) {
    return stream->n - first < CHUNK ? stream->n - first : CHUNK;
}

static void features_of(const retrieval_stream *stream, size_t first, size_t items, bool as_key,
                        float *to) {
    retrieval_item_features(&stream->model, stream->table, stream->priority + first,
                            stream->class_of + first, items, as_key, stream->deeper, to);
}

/* What keys or values are made of, and all that is left to do: h where products are rounded. */
static void states_of(const retrieval_stream *stream, size_t first, size_t items, bool as_key,
                      float *to) {
    if (!stream->model.rounds) {
        features_of(stream, first, items, as_key, to);
    } else if (stream->cells) {
        retrieval_cells_look_up(stream->cells, as_key, stream->priority + first,
                                stream->class_of + first, items, to);
    } else {
        features_of(stream, first, items, as_key, stream->hidden);
        retrieval_item_states(&stream->model, stream->hidden, items, to);
    }
}

static float direction_of(const retrieval_stream *stream, float query) {
    const retrieval_model *model = &stream->model;
    float shift = 0;
    if (model->rounds)
        memcpy(stream->direction, retrieval_query_keys(model, &query, 1, stream->scratch),
               model->layout.width * sizeof(float));
    else
        retrieval_directions(model, &query, 1, stream->scratch, stream->direction, &shift);
    return shift;
}

static void score_chunk(const retrieval_stream *stream, size_t first, size_t items, float shift) {
    size_t width = stream->model.layout.width;
    bool is_seen = stream->model.config.key_sees_class;
    float *values = stream->features + (stream->keeps ? first * width : 0), *keys = values;
    if (is_seen || stream->keeps)
        states_of(stream, first, items, false, values);
    if (!is_seen) {
        keys = stream->spare;
        states_of(stream, first, items, true, keys);
    }
    stream->model.engine->kernels->score_forward(keys, items, width, stream->direction, shift,
                                                 stream->logits + first);
}

void retrieval_stream_open(retrieval_stream *stream, uint64_t seed, size_t n, uint64_t index,
                           retrieval_set *set) {
    const retrieval_config *config = &stream->model.config;
    size_t width = stream->model.layout.width;
    lab_random random = lab_random_start(lab_seed_for(lab_seed_for(seed, "size", n), "set", index));
    stream->n = n;
    stream->keeps = n <= kept_items(width);
    float query = retrieval_draw_query(&random, config), shift = direction_of(stream, query);
    retrieval_top top = {.priority = -1};
    retrieval_draw_items(&random, config, 1, 0, n,
                         (retrieval_items){stream->priority, stream->class_of}, &top);
    for (size_t first = 0; first < n && !lab_interrupted(); first += CHUNK) {
        size_t items = chunk_at(stream, first);
        score_chunk(stream, first, items, shift);
    }
    *set = (retrieval_set){.n = n,
                           .priority = stream->priority,
                           .class_of = stream->class_of,
                           .query = query,
                           .logits = stream->logits,
                           .top = top.index,
                           .label = stream->class_of[top.index]};
}

void retrieval_stream_answer(retrieval_stream *stream, size_t rows, float *logits) {
    size_t width = stream->model.layout.width, n = stream->n;
    memset(stream->mean, 0, rows * width * sizeof(float));
    for (size_t first = 0; first < n && !lab_interrupted(); first += CHUNK) {
        size_t items = chunk_at(stream, first);
        float *values = stream->features + (stream->keeps ? first * width : 0);
        if (!stream->keeps)
            states_of(stream, first, items, false, values);
        for (size_t r = 0; r < rows; r++)
            memcpy(stream->piece + r * items, stream->weights + r * n + first,
                   items * sizeof(float));
        nn_product_of(stream->model.engine,
                      (nn_product){.m = rows, .n = width, .k = items, .add = true}, stream->piece,
                      values, stream->mean);
    }
    if (stream->model.rounds) {
        retrieval_answer_from_states(&stream->model, stream->mean, rows, stream->scratch,
                                     stream->scratch + rows * width, logits);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        double total = 0;
        for (size_t i = 0; i < n; i++)
            total += stream->weights[r * n + i];
        stream->total[r] = (float)total;
    }
    retrieval_answer(&stream->model, stream->mean, stream->total, rows, stream->scratch, logits);
}
