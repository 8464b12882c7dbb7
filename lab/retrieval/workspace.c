/* Memory for one training tile: one block, divided into arrays. */
#include "retrieval/tile.h"

#include <stdlib.h>
#include <string.h>

/* Hands out aligned pieces of one allocation: a first pass measures its size. */
typedef struct arena {
    float *base;
    size_t used;
} arena;

static float *take(arena *from, size_t floats) {
    float *piece = from->base ? from->base + from->used : NULL;
    from->used += (floats + 15) / 16 * 16;
    return piece;
}

static void divide_pass(arena *from, item_pass *pass, size_t depth, size_t sets,
                        size_t floats_a_set) {
    size_t group = retrieval_group_size(depth, sets);
    for (size_t l = 0; l < depth; l++) {
        pass->h[l] = take(from, sets * floats_a_set);
        pass->d[l] = take(from, sets * floats_a_set);
    }
    pass->grad = take(from, depth > 1 ? group * floats_a_set : 0);
    pass->spare = take(from, depth > 1 ? group * floats_a_set : 0);
}

static void divide_unfolded(arena *from, retrieval_workspace *w, const retrieval_config *config,
                            size_t row, size_t n) {
    unfolded_rows *u = &w->unfolded;
    size_t items = w->is_unfolded ? row * n : 0, sums = w->is_unfolded ? row : 0;
    size_t packed = nn_packed_floats(nn_kernels_for_this_machine(), config->width, config->width);
    u->h[PASS_VALUES] = take(from, items);
    u->h[PASS_KEYS] = take(from, config->key_sees_class ? 0 : items);
    u->packed = take(from, w->is_unfolded ? packed : 0);
    u->grad_h_bar = take(from, sums);
    u->grad_k = take(from, sums);
    bool rounds = config->precision == RETRIEVAL_BF16_PRODUCTS;
    w->multiplied = take(from, rounds ? retrieval_layout_of(config).count : 0);
}

static void divide(arena *from, retrieval_workspace *w, const retrieval_config *config, size_t sets,
                   size_t n) {
    size_t width = config->width, row = sets * width, depth = config->depth;
    size_t by_class = sets * config->classes;
    divide_pass(from, &w->passes[PASS_VALUES], depth, sets, n * width);
    divide_pass(from, &w->passes[PASS_KEYS], depth, sets, config->key_sees_class ? 0 : n * width);
    divide_pass(from, &w->passes[PASS_LEAK], depth, sets,
                config->leak > 0 ? LEAK_POINTS * config->classes * width : 0);
    divide_unfolded(from, w, config, row, n);
    w->leak_priority = take(from, LEAK_POINTS * by_class);
    w->table = take(from, (config->classes + 1) * width);
    w->grad_table = take(from, (config->classes + 1) * width);
    for (size_t l = 0; l < depth; l++) {
        w->query_h[l] = take(from, row);
        w->query_d[l] = take(from, row);
        w->phi_h[l] = take(from, row);
        w->phi_d[l] = take(from, row);
    }
    float **const rows[] = {&w->h_q,   &w->u, &w->k,      &w->direction, &w->mean,
                            &w->h_bar, &w->v, &w->grad_a, &w->grad_b,    &w->grad_direction};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        *rows[i] = take(from, row);
    float **const numbers[] = {&w->shift, &w->total, &w->losses, &w->grad_shift, &w->grad_total};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *numbers[i] = take(from, sets);
    w->share = take(from, sets * RETRIEVAL_NODES);
    w->node_direction = take(from, RETRIEVAL_NODES * width);
    w->node_shift = take(from, RETRIEVAL_NODES);
    w->score = take(from, sets * n);
    w->weight = take(from, sets * n);
    w->grad_weight = take(from, sets * n);
    w->leak = take(from, LEAK_POINTS * by_class);
    w->grad_leak = take(from, LEAK_POINTS * by_class);
    w->logits = take(from, by_class);
}

static retrieval_workspace *create(const retrieval_config *config, size_t sets, size_t n,
                                   bool is_unfolded) {
    retrieval_workspace *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->is_unfolded = is_unfolded;
    arena measured = {.base = NULL};
    divide(&measured, w, config, sets, n);
    w->floats = aligned_alloc(64, measured.used * sizeof(float));
    w->integers = malloc(sets * (n + LEAK_POINTS * config->classes) * sizeof *w->integers);
    if (!w->floats || !w->integers) {
        retrieval_workspace_destroy(w);
        return NULL;
    }
    memset(w->floats, 0, measured.used * sizeof(float));
    arena real = {.base = w->floats};
    divide(&real, w, config, sets, n);
    w->nodes = retrieval_nodes_make();
    w->no_class = w->integers;
    w->any_class = w->integers + sets * n;
    for (size_t i = 0; i < sets * n; i++)
        w->no_class[i] = (uint16_t)config->classes;
    for (size_t i = 0; i < LEAK_POINTS * sets * config->classes; i++)
        w->any_class[i] = (uint16_t)(i % config->classes);
    return w;
}

retrieval_workspace *retrieval_workspace_create(const retrieval_config *config, size_t sets,
                                                size_t n) {
    return create(config, sets, n, config->precision == RETRIEVAL_BF16_PRODUCTS);
}

retrieval_workspace *retrieval_workspace_create_unfolded(const retrieval_config *config,
                                                         size_t sets, size_t n) {
    return config->leak > 0 ? NULL : create(config, sets, n, true);
}

void retrieval_workspace_destroy(retrieval_workspace *workspace) {
    if (!workspace)
        return;
    free(workspace->floats);
    free(workspace->integers);
    free(workspace);
}
