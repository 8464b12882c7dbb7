/*
 * Gradients of every layer against torch's autograd in double, which runs in a
 * process of its own (bench/retrieval_peer.py); skipped where there is none.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/torch.h"

#include "base/files.h"
#include "retrieval/model.h"
#include "retrieval/task.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SETS = 50, N = 9, CLASSES = 10 };

/* A parameter tensor: where it lies in the layout. torch's first layer of psi_x has priority and
 * classes in one matrix, which the layout keeps apart but in order. */
typedef struct piece {
    const char *name;
    size_t offset, count;
} piece;

static size_t add(piece *pieces, size_t count, const char *name, size_t offset, size_t floats) {
    pieces[count] = (piece){name, offset, floats};
    return count + 1;
}

static size_t add_layer(piece *pieces, size_t count, const char *name, retrieval_layer layer,
                        size_t in, size_t out) {
    count = add(pieces, count, name, layer.weight, in * out);
    return add(pieces, count, name, layer.bias, out);
}

static size_t list_pieces(const retrieval_layout *at, piece *pieces) {
    size_t count = 0, width = at->width;
    count = add(pieces, count, "item slope", at->item_slope, width);
    count = add(pieces, count, "item class", at->item_class, at->classes * width);
    count = add(pieces, count, "item bias", at->item_bias, width);
    for (size_t l = 0; l < at->depth; l++)
        count = add_layer(pieces, count, "psi_x", at->item[l], width, width);
    count = add(pieces, count, "query slope", at->query_slope, width);
    count = add(pieces, count, "query bias", at->query_bias, width);
    for (size_t l = 0; l < at->depth; l++)
        count = add_layer(pieces, count, "psi_q", at->query[l], width, width);
    for (size_t l = 0; l < at->depth; l++)
        count = add_layer(pieces, count, "phi", at->phi[l], width, width);
    count = add_layer(pieces, count, "phi's last", at->phi[at->depth], width, at->classes);
    count = add(pieces, count, "w_q", at->w_q, width * width);
    count = add(pieces, count, "w_k", at->w_k, width * width);
    count = add(pieces, count, "w_v", at->w_v, width * width);
    return add(pieces, count, "scale", at->scale, 1);
}

static void write_floats(FILE *file, const float *values, size_t count) {
    fwrite(values, sizeof(float), count, file);
}

static void write_integers(FILE *file, const uint16_t *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float value = values[i];
        write_floats(file, &value, 1);
    }
}

static double *ask_torch(const char *python, const char *folder, const retrieval_batch *batch,
                         const retrieval_layout *at, const float *parameters, const piece *pieces,
                         size_t count, bool is_adaptive, bool rounds, size_t *answers) {
    char path[256];
    snprintf(path, sizeof path, "%s/in", folder);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    int head[] = {(int)at->depth, (int)at->width, CLASSES, SETS, N, is_adaptive, rounds};
    fwrite(head, sizeof head, 1, file);
    for (size_t i = 0; i < count; i++)
        write_floats(file, parameters + pieces[i].offset, pieces[i].count);
    write_floats(file, batch->priority, SETS * N);
    write_integers(file, batch->class_of, SETS * N);
    write_floats(file, batch->query, SETS);
    write_integers(file, batch->label, SETS);
    fclose(file);
    size_t size;
    double *values = (double *)(void *)lab_read_file(
        run_peer(python, "retrieval_peer.py gradients", folder), 1 << 26, &size, NULL);
    REQUIRE(values != NULL);
    *answers = size / sizeof(double);
    return values;
}

/* Where the numbers are rounded on the way, some of them, being computed in f32 here and in double
 * there, will fall to different sides. */
static void compare(retrieval_config config, double tolerance) {
    const char *python = python_with_torch();
    nn_engine engine;
    lab_error error = {0};
    if (!nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
    if (!getenv("WHET_SOURCE_DIR"))
        SKIP("needs WHET_SOURCE_DIR");
    config.learn_scale = true;
    bool rounds = config.precision == RETRIEVAL_BF16_PRODUCTS;
    retrieval_model model = {
        .engine = &engine, .config = config, .layout = retrieval_layout_of(&config)};
    whet_policy_parse(config.policy, &model.policy, NULL, 0);
    size_t floats = model.layout.count;
    float *parameters = aligned_alloc(64, floats * sizeof(float));
    float *gradient = aligned_alloc(64, floats * sizeof(float));
    retrieval_workspace *workspace = retrieval_workspace_create(&config, SETS, N);
    REQUIRE(parameters && gradient && workspace);
    retrieval_initialise(&config, 5, parameters);
    model.parameters = parameters;
    lab_random random = lab_random_start(21);
    for (size_t i = 0; i < floats; i++)
        parameters[i] += 0.05f * (float)lab_random_normal(&random);
    parameters[model.layout.scale] = 3;
    float priority[SETS * N], query[SETS];
    uint16_t class_of[SETS * N] = {0}, label[SETS];
    for (size_t s = 0; s < SETS; s++) {
        retrieval_top top = {.priority = -1};
        retrieval_draw_items(&random, &config, 1, 0, N,
                             (retrieval_items){priority + s * N, class_of + s * N}, &top);
        label[s] = class_of[s * N + top.index];
        query[s] = retrieval_draw_query(&random, &config);
    }
    retrieval_batch batch = {SETS, N, priority, class_of, query, label};
    retrieval_outcome outcome =
        retrieval_tile(&model, &batch, 1.0f / SETS, workspace, gradient, NULL);

    char folder[] = "/tmp/whet-torch.XXXXXX";
    REQUIRE(mkdtemp(folder));
    piece pieces[80];
    size_t count = list_pieces(&model.layout, pieces), answers;
    double *expected = ask_torch(python, folder, &batch, &model.layout, parameters, pieces, count,
                                 model.policy.temperature != WHET_POLICY_SOFTMAX, rounds, &answers);
    CHECK_NEAR(outcome.loss / SETS, expected[0], tolerance);
    size_t at = 1;
    for (size_t i = 0; i < count && at + pieces[i].count <= answers; i++) {
        double largest = 0, worst = 0;
        for (size_t k = 0; k < pieces[i].count; k++) {
            double want = expected[at + k];
            largest = fmax(largest, fabs(want));
            worst = fmax(worst, fabs((double)gradient[pieces[i].offset + k] - want));
        }
        CHECK_MSG(worst <= tolerance * largest + 1e-7, "%s: off by %g of %g", pieces[i].name, worst,
                  largest);
        at += pieces[i].count;
    }
    CHECK_INT(at, answers);
    free(expected);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0); /* NOLINT(cert-env33-c) */
    retrieval_workspace_destroy(workspace);
    free(parameters);
    free(gradient);
    nn_engine_close(&engine);
}

static retrieval_config config_of(retrieval_precision precision) {
    retrieval_config config = retrieval_config_default();
    config.precision = precision;
    return config;
}

static const double exact = 2e-5;

TEST(every_gradient_is_that_of_torch) { compare(config_of(RETRIEVAL_F32), exact); }

TEST(every_gradient_with_rounded_products_is_that_of_torch) {
    retrieval_config config = config_of(RETRIEVAL_BF16_PRODUCTS);
    compare(config, 5e-3);
    config.depth = 2;
    compare(config, 5e-3);
}

TEST(every_gradient_of_a_deeper_model_is_that_of_torch) {
    retrieval_config config = config_of(RETRIEVAL_F32);
    config.depth = 3;
    config.width = 40;
    compare(config, exact);
}

TEST(every_gradient_through_adaptive_temperature_is_that_of_torch) {
    retrieval_config config = config_of(RETRIEVAL_F32);
    snprintf(config.policy, sizeof config.policy, "adaptive");
    compare(config, exact);
}
