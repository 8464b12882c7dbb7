/* Packing: q, k and v are one matrix, and so are gate and up; see weights.h. */
#include "lm/matrices.h"

#include <stdlib.h>

/* A matrix of a layer or, the last, of the model. */
typedef struct matrix {
    size_t from, to; /* in the weights, and in the packed form */
    size_t in, out;
} matrix;

enum { LAYER_MATRICES = 4 };

static void list_matrices(const lm_matrices *p, matrix list[LAYER_MATRICES]) {
    const lm_config *c = &p->model->config;
    const lm_layout *at = &p->model->layout;
    size_t queries = (size_t)c->heads * c->head_dim, keys = (size_t)c->key_heads * c->head_dim;
    list[0] = (matrix){at->query, p->qkv, c->width, queries + 2 * keys};
    list[1] = (matrix){at->output, p->output, queries, c->width};
    list[2] = (matrix){at->gate, p->gates, c->width, 2 * (size_t)c->hidden};
    list[3] = (matrix){at->down, p->down, c->hidden, c->width};
}

static void pack(const lm_matrices *p, const matrix *m, size_t from, size_t to) {
    nn_product shape = {.n = m->out, .k = m->in, .tb = true};
    p->engine->kernels->pack(shape, p->model->weights + from + m->from, p->values + to + m->to);
}

/* Computes the layout; returns its size in floats, or 0 on overflow. */
static size_t place(lm_matrices *p) {
    const lm_config *c = &p->model->config;
    const nn_kernels *kernels = p->engine->kernels;
    matrix list[LAYER_MATRICES];
    size_t *places[LAYER_MATRICES] = {&p->qkv, &p->output, &p->gates, &p->down};
    size_t all, bytes;
    list_matrices(p, list);
    for (size_t i = 0; i < LAYER_MATRICES; i++) {
        *places[i] = p->layer_size;
        p->layer_size += nn_packed_floats(kernels, list[i].in, list[i].out);
    }
    /* sizes of a model in memory do not overflow; rounded up they might */
    if (__builtin_mul_overflow(p->layer_size, (size_t)c->layers, &p->head) ||
        __builtin_add_overflow(p->head, nn_packed_floats(kernels, c->width, c->vocabulary), &all) ||
        __builtin_mul_overflow(all, 2 * sizeof(float), &bytes))
        return 0;
    return all;
}

bool lm_matrices_create(const lm_model *model, const nn_engine *engine, lm_matrices *p,
                        lab_error *error) {
    const lm_config *c = &model->config;
    *p = (lm_matrices){.model = model, .engine = engine};
    size_t floats = place(p);
    p->values = floats ? aligned_alloc(64, (floats + 15) / 16 * 64) : NULL;
    if (!p->values)
        return lab_fail_memory(error);
    matrix list[LAYER_MATRICES];
    list_matrices(p, list);
    for (size_t layer = 0; layer < c->layers; layer++)
        for (size_t i = 0; i < LAYER_MATRICES; i++)
            pack(p, &list[i], lm_layer_at(&model->layout, layer), layer * p->layer_size);
    const matrix head = {model->layout.head, p->head, c->width, c->vocabulary};
    pack(p, &head, 0, 0);
    return true;
}

void lm_matrices_free(lm_matrices *p) {
    free(p->values);
    *p = (lm_matrices){.values = NULL};
}
