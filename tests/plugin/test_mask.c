/*
 * Shapes of masks: those that a mask has are found, and no others.
 */
#include "mask.h"
#include "support/check.h"
#include "support/random.h"
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 0xfc00, COLUMNS_MORE = 5 };

typedef struct matrix {
    host_tensor tensor;
    uint16_t *cells;
    size_t queries, keys;
} matrix;

static matrix make(size_t queries, size_t keys) {
    matrix m = {.queries = queries, .keys = keys};
    size_t columns = keys + COLUMNS_MORE;
    m.cells = malloc(queries * columns * sizeof *m.cells);
    m.tensor = (host_tensor){.type = HOST_F16,
                             .ne = {(int64_t)columns, (int64_t)queries, 1, 1},
                             .nb = {2, 2 * columns, 2 * columns * queries, 2 * columns * queries},
                             .data = m.cells};
    for (size_t i = 0; i < queries * columns; i++)
        m.cells[i] = 0x4242; /* a number that must not be read */
    return m;
}

static uint16_t *cell(matrix *m, size_t query, size_t key) {
    return &m->cells[query * (m->keys + COLUMNS_MORE) + key];
}

/* Query i sees low(i) <= key < high(i), with low clamped to 0. */
static void fill(matrix *m, int64_t low, int64_t high, int64_t shift_per_query) {
    for (size_t i = 0; i < m->queries; i++)
        for (size_t j = 0; j < m->keys; j++) {
            int64_t shift = shift_per_query * (int64_t)i, key = (int64_t)j;
            *cell(m, i, j) = key >= low + shift && key < high + shift ? 0 : HIDDEN;
        }
}

static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 127, 256};

TEST(causal_masks_are_found_at_every_offset) {
    for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
        for (size_t extra = 0; extra < 40; extra += 13) {
            size_t queries = sizes[a] + 1, keys = queries + extra + 3;
            matrix m = make(queries, keys);
            fill(&m, -1000000, (int64_t)extra + 1, 1);
            mask_shape shape = mask_look(&m.tensor, queries, keys);
            CHECK(shape.is_simple && shape.is_causal && shape.window == 0);
            CHECK_INT(shape.offset, extra);
            free(m.cells);
        }
}

TEST(windows_are_found) {
    for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
        for (size_t window = 1; window < 40; window += 6) {
            size_t queries = sizes[a] + 1, keys = queries + 20;
            matrix m = make(queries, keys);
            fill(&m, 11 - (int64_t)window, 11, 1);
            mask_shape shape = mask_look(&m.tensor, queries, keys);
            REQUIRE(shape.is_simple && shape.is_causal);
            CHECK_INT(shape.offset, 10);
            bool limits = 10 + queries > window; /* the last query's window ends inside */
            CHECK_INT(shape.window, limits ? window : 0);
            free(m.cells);
        }
}

TEST(a_range_that_all_queries_see_is_found) {
    for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
        for (size_t queries = 1; queries <= 5; queries += 2) {
            size_t keys = sizes[a] + 9;
            matrix m = make(queries, keys);
            fill(&m, 3, (int64_t)keys - 4, 0);
            mask_shape shape = mask_look(&m.tensor, queries, keys);
            CHECK(shape.is_simple && !shape.is_causal);
            CHECK_INT(shape.low, 3);
            CHECK_INT(shape.high, keys - 4);
            free(m.cells);
        }
}

TEST(one_entry_that_does_not_fit_is_noticed_wherever_it_is) {
    struct rng rng = rng_seeded(3);
    for (int kind = 0; kind < 3; kind++)
        for (int round = 0; round < 300; round++) {
            size_t queries = 12, keys = 77;
            matrix m = make(queries, keys);
            if (kind == 0)
                fill(&m, -1000000, 40, 1);
            else if (kind == 1)
                fill(&m, 20, 40, 1);
            else
                fill(&m, 5, 60, 0);
            REQUIRE(mask_look(&m.tensor, queries, keys).is_simple);
            /* not at the edges of the outer rows, which might give another shape */
            size_t i = 1 + rng_bits(&rng) % (queries - 2), j = rng_bits(&rng) % keys;
            uint16_t *at = cell(&m, i, j);
            *at = round % 3 == 2 ? 0x3c00 : *at ? 0 : HIDDEN;
            CHECK(!mask_look(&m.tensor, queries, keys).is_simple);
            free(m.cells);
        }
}

TEST(rows_without_keys_other_types_and_planes_are_not_simple) {
    matrix m = make(3, 20);
    fill(&m, 0, 0, 0);
    CHECK(!mask_look(&m.tensor, 3, 20).is_simple);
    fill(&m, -100, 5, 1);
    CHECK(mask_look(&m.tensor, 3, 20).is_simple);
    m.tensor.type = HOST_F32;
    CHECK(!mask_look(&m.tensor, 3, 20).is_simple);
    m.tensor.type = HOST_F16;
    m.tensor.ne[2] = 2;
    CHECK(!mask_look(&m.tensor, 3, 20).is_simple);
    m.tensor.ne[2] = 1;
    m.tensor.ne[3] = 2;
    CHECK(!mask_look(&m.tensor, 3, 20).is_simple);
    free(m.cells);
}
