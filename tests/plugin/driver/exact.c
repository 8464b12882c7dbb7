/*
 * Works head by head: keys and values of a key head are converted to floats once, then every query
 * of the heads that share it is computed by definition. See exact.h.
 */
#include "exact.h"

#include "llama/positions.h"

#include <ggml-backend.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct operation {
    const struct ggml_tensor *q, *k, *v, *mask;
    float scale;
    size_t keys, key_size, value_size;
    float *k_rows, *v_rows; /* of a key head: [keys][key_size], [keys][value_size] */
    float *query;           /* [key_size] */
    double *weights, *out;  /* [keys], [value_size] */
} operation;

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory)
        exit(1);
    return memory;
}

static operation open_operation(const struct ggml_tensor *node) {
    float parameters[3]; /* scale, largest bias of ALiBi, soft cap */
    memcpy(parameters, node->op_params, sizeof parameters);
    if (parameters[1] != 0 || parameters[2] != 0 || node->src[4]) {
        fprintf(stderr, "exact: this attention has more to it than is known here\n");
        exit(1);
    }
    operation of = {.q = node->src[0],
                    .k = node->src[1],
                    .v = node->src[2],
                    .mask = node->src[3],
                    .scale = parameters[0],
                    .keys = (size_t)node->src[1]->ne[1],
                    .key_size = (size_t)node->src[1]->ne[0],
                    .value_size = (size_t)node->src[2]->ne[0]};
    of.k_rows = allocate(of.keys * of.key_size, sizeof *of.k_rows);
    of.v_rows = allocate(of.keys * of.value_size, sizeof *of.v_rows);
    of.query = allocate(of.key_size, sizeof *of.query);
    of.weights = allocate(of.keys, sizeof *of.weights);
    of.out = allocate(of.value_size, sizeof *of.out);
    return of;
}

static void close_operation(operation *of) {
    free(of->k_rows);
    free(of->v_rows);
    free(of->query);
    free(of->weights);
    free(of->out);
}

static double mask_at(const operation *of, int item, int head, int query, size_t key) {
    const struct ggml_tensor *mask = of->mask;
    if (!mask)
        return 0;
    const char *at = (const char *)mask->data + key * mask->nb[0] + (size_t)query * mask->nb[1] +
                     (size_t)(head % mask->ne[2]) * mask->nb[2] +
                     (size_t)(item % mask->ne[3]) * mask->nb[3];
    return (double)ggml_fp16_to_fp32(*(const ggml_fp16_t *)(const void *)at);
}

static void softmax(double *logits, size_t n) {
    double max = -INFINITY, sum = 0;
    for (size_t j = 0; j < n; j++)
        max = fmax(max, logits[j]);
    for (size_t j = 0; j < n; j++)
        sum += logits[j] = max > -INFINITY ? exp(logits[j] - max) : 0;
    for (size_t j = 0; j < n && sum > 0; j++)
        logits[j] /= sum;
}

/* One row into of->out. */
static void compute_row(operation *of, int item, int head, int query) {
    positions_read(of->q, item, head, query, of->query);
    for (size_t j = 0; j < of->keys; j++) {
        double product = 0;
        for (size_t c = 0; c < of->key_size; c++)
            product += (double)of->query[c] * (double)of->k_rows[j * of->key_size + c];
        of->weights[j] = (double)of->scale * product + mask_at(of, item, head, query, j);
    }
    softmax(of->weights, of->keys);
    memset(of->out, 0, of->value_size * sizeof *of->out);
    for (size_t j = 0; j < of->keys; j++)
        for (size_t c = 0; c < of->value_size && of->weights[j] > 0; c++)
            of->out[c] += of->weights[j] * (double)of->v_rows[j * of->value_size + c];
}

typedef struct distance {
    double off, size; /* sums of squares */
} distance;

/* In the result, heads are closer together than queries. */
static void compare_row(const operation *of, float *result, bool replaces, distance *from) {
    for (size_t c = 0; c < of->value_size; c++) {
        double off = (double)result[c] - of->out[c];
        from->off += off * off;
        from->size += of->out[c] * of->out[c];
        if (replaces)
            result[c] = (float)of->out[c];
    }
}

static distance compute_operation(operation *of, struct ggml_tensor *node, bool replaces) {
    int heads = (int)of->q->ne[2], heads_per_kv = heads / (int)of->k->ne[2];
    distance from = {0};
    for (int s = 0; s < (int)of->q->ne[3]; s++)
        for (int h = 0; h < heads; h++) {
            for (int j = 0; j < (int)of->keys && h % heads_per_kv == 0; j++) {
                positions_read(of->k, s, h / heads_per_kv, j,
                               of->k_rows + (size_t)j * of->key_size);
                positions_read(of->v, s, h / heads_per_kv, j,
                               of->v_rows + (size_t)j * of->value_size);
            }
            for (int i = 0; i < (int)of->q->ne[1]; i++) {
                compute_row(of, s, h, i);
                char *at = (char *)node->data + (size_t)h * node->nb[1] + (size_t)i * node->nb[2] +
                           (size_t)s * node->nb[3];
                compare_row(of, (float *)(void *)at, replaces, &from);
            }
        }
    return from;
}

bool exact_callback(struct ggml_tensor *node, bool is_asked, void *attention) {
    exact_attention *with = attention;
    bool is_wanted = node->op == GGML_OP_FLASH_ATTN_EXT;
    if (is_asked || !is_wanted)
        return is_asked ? is_wanted : true;
    operation of = open_operation(node);
    distance from = compute_operation(&of, node, with->replaces);
    close_operation(&of);
    double error = from.off == 0 ? 0 : sqrt(from.off / from.size); /* infinite where all is 0 */
    with->operations++;
    with->error_sum += error;
    if (!(error <= with->largest)) /* NaN is the worst, and stays */
        with->largest = error;
    return true;
}
