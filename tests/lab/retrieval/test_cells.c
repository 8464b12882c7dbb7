/*
 * Heads whose products are rounded, in evaluation: looked up or computed, their
 * keys and values are the same, and the answer is that of a training tile.
 */
#include "support/check.h"
#include "support/engine.h"

#include "retrieval/chunked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 700, CLASSES = 7, ROWS = 2 };

typedef struct problem {
    retrieval_model model;
    float *parameters;
} problem;

static problem make_problem(uint32_t depth, uint32_t width, bool key_sees_class) {
    retrieval_config config = retrieval_config_default();
    config.depth = depth;
    config.width = width;
    config.classes = CLASSES;
    config.key_sees_class = key_sees_class;
    config.precision = RETRIEVAL_BF16_PRODUCTS;
    config.scale = 5;
    problem p = {.model = {.engine = &engine,
                           .config = config,
                           .layout = retrieval_layout_of(&config),
                           .policy = whet_policy_softmax()}};
    p.parameters = nn_floats(p.model.layout.count);
    REQUIRE(p.parameters != NULL);
    retrieval_initialise(&config, 9, p.parameters);
    p.model.parameters = p.parameters;
    return p;
}

/* Answers of a set by softmax and by its logits doubled. */
static void answer(const problem *p, const retrieval_cells *cells, retrieval_set *set,
                   float logits[N], float answers[ROWS * CLASSES], uint16_t class_of[N],
                   float priority[N]) {
    lab_error error = {.kind = LAB_NO_ERROR};
    retrieval_chunked *chunked = retrieval_chunked_create(&p->model, cells, N, ROWS, &error);
    REQUIRE(chunked != NULL);
    retrieval_chunked_open(chunked, 3, N, 1, set);
    const whet_policy policies[ROWS] = {whet_policy_softmax(), whet_policy_fixed(2)};
    for (size_t r = 0; r < ROWS; r++) {
        whet_rows row = {.size = sizeof row,
                         .rows = 1,
                         .n = N,
                         .in = set->logits,
                         .out = retrieval_chunked_weights(chunked) + r * N};
        REQUIRE(whet_softmax(&row, &policies[r], NULL) == WHET_OK);
    }
    retrieval_chunked_answer(chunked, ROWS, answers);
    memcpy(logits, set->logits, N * sizeof(float));
    memcpy(class_of, set->class_of, N * sizeof *class_of);
    memcpy(priority, set->priority, N * sizeof(float));
    retrieval_chunked_destroy(chunked);
}

static void compare(uint32_t depth, uint32_t width, bool key_sees_class) {
    problem p = make_problem(depth, width, key_sees_class);
    static float logits[2][N], answers[2][ROWS * CLASSES], priority[N], in_tile[CLASSES];
    static uint16_t class_of[N];
    retrieval_set set;
    retrieval_cells *cells = retrieval_cells_create(&p.model);
    REQUIRE(cells != NULL && retrieval_cells_pay(&p.model.config, 1, 1e6));
    answer(&p, cells, &set, logits[0], answers[0], class_of, priority);
    answer(&p, NULL, &set, logits[1], answers[1], class_of, priority);
    for (size_t i = 0; i < N; i++)
        CHECK(logits[0][i] == logits[1][i]);
    for (size_t i = 0; i < ROWS * CLASSES; i++)
        CHECK(answers[0][i] == answers[1][i]);

    retrieval_workspace *workspace = retrieval_workspace_create(&p.model.config, 1, N);
    REQUIRE(workspace != NULL);
    retrieval_batch batch = {1, N, priority, class_of, &set.query, &set.label};
    retrieval_tile(&p.model, &batch, 1, workspace, NULL, in_tile);
    for (size_t c = 0; c < CLASSES; c++) /* a number on the edge may be rounded either way */
        CHECK_NEAR(answers[0][c], in_tile[c], 1e-3);
    retrieval_workspace_destroy(workspace);
    retrieval_cells_destroy(cells);
    free(p.parameters);
}

TEST(what_is_looked_up_is_what_would_be_computed) { compare(1, 128, true); }

TEST(so_it_is_for_deeper_heads_of_awkward_width) { compare(2, 33, true); }

TEST(so_it_is_for_keys_that_do_not_see_the_class) { compare(1, 31, false); }

TEST(nothing_is_looked_up_where_it_would_be_too_much_or_of_no_use) {
    retrieval_config config = retrieval_config_default();
    config.precision = RETRIEVAL_BF16;
    CHECK(!retrieval_cells_pay(&config, 1, 1e6));
    config.precision = RETRIEVAL_BF16_PRODUCTS;
    CHECK(retrieval_cells_pay(&config, 10, 1e6));
    CHECK(!retrieval_cells_pay(&config, 1000, 1e6));
    CHECK(!retrieval_cells_pay(&config, 1, 1e4));
    config.classes = RETRIEVAL_CLASSES_MAX;
    config.width = RETRIEVAL_WIDTH_MAX;
    CHECK(!retrieval_cells_pay(&config, 1, 1e9));
}
