/*
 * Decoding over ranks: every policy, type, layout, mask and awkward size against the reference,
 * and bit for bit against one rank with two threads (launched_check); messages and bytes.
 */
#include "mpi/launched.h"
#include "support/check.h"
#include "tree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const size_t some_keys[] = {0, 1, 31, 33, 64, 97, 1000, 3333};
#define SOME_KEYS (sizeof some_keys / sizeof some_keys[0])

static example example_of(size_t queries, size_t keys, size_t seed) {
    example_shape shape = {.queries = queries, .keys = keys, .head_dim = 20, .seed = seed};
    shape.heads = 4;
    shape.kv_heads = 2;
    return example_new(shape);
}

TEST(every_number_of_keys_agrees_with_the_reference) {
    for (size_t i = 0; i < SOME_KEYS; i++) {
        for (size_t queries = 1; queries < 4; queries += 2) {
            char what[100];
            snprintf(what, sizeof what, "%zu keys, %zu queries", some_keys[i], queries);
            example e = example_of(queries, some_keys[i], i);
            example_policy(&e, i % 2 ? "adaptive" : "softmax");
            launched_check(&e, what);
            example_free(&e);
        }
    }
}

/* Of the table, so that a new one is not forgotten; those that jump on exact logits. */
TEST(every_policy_agrees_with_the_reference) {
    const whet_policy_info *info;
    for (size_t entry = 0; (info = whet_policy_table(entry)); entry++) {
        for (size_t i = 0; i < 2; i++) {
            example e = example_of(2, i ? 700 : 75, entry);
            example_make_exact(&e);
            e.attention.flags = i ? WHET_CAUSAL : 0;
            e.attention.offset = 500;
            example_policy(&e, info->example);
            launched_check(&e, info->example);
            example_sinks(&e);
            launched_check(&e, info->example);
            example_free(&e);
        }
    }
}

TEST(compositions_and_policies_by_head_agree_with_the_reference) {
    static const char *const names[][4] = {
        {"adaptive", "softmax", "target:2", "ssmax:0.4"},
        {"adaptive+softmax1", "target:1.5+topk:9", "adaptive+entmax15", "length:16+sparsemax"},
        {"adaptive+sigmoid", "sigmoid", "adaptive+stick-breaking", "exp:3+softpick"},
        {"hardmax", "topk:3", "entmax:1.3", "stick-breaking"},
        {"target:1:cap=2", "target:3:strength=0.6", "llama4", "hinge:0.1:0.2:16"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        example e = example_of(1, 900, i);
        example_make_exact(&e);
        e.attention.offset = 899;
        example_policies(&e, names[i], 4);
        launched_check(&e, names[i][1]);
        example_sinks(&e);
        example_mask(&e, MASK_HEADS, WHET_F16, 3);
        launched_check(&e, names[i][1]);
        example_free(&e);
    }
}

TEST(every_type_and_layout_agrees_with_the_reference) {
    for (size_t type = 0; type < CACHE_TYPES; type++) {
        for (example_layout layout = CONTIGUOUS; layout < LAYOUTS; layout++) {
            char what[100];
            snprintf(what, sizeof what, "%s, layout %d", whet_type_name(example_cache_types[type]),
                     (int)layout);
            example_shape shape = {.queries = 1, .keys = 300, .head_dim = 32, .layout = layout};
            shape.batch = 2;
            shape.heads = 16;
            shape.kv_heads = 8;
            shape.k_type = example_cache_types[type];
            shape.v_type = example_cache_types[(type + 1) % CACHE_TYPES];
            shape.out_type = layout == SPREAD ? WHET_F16 : WHET_F32;
            example e = example_new(shape);
            example_policy(&e, "adaptive");
            launched_check(&e, what);
            example_free(&e);
        }
    }
}

TEST(windows_slopes_masks_and_biases_agree_with_the_reference) {
    for (size_t i = 0; i < 8; i++) {
        example e = example_of(3, 1200, i);
        e.attention.flags = i % 2 ? WHET_CAUSAL : 0;
        e.attention.offset = i < 4 ? 900 : 100;
        e.attention.window = i % 4 > 1 ? 70 : 0;
        e.attention.softcap = i == 5 ? 3 : 0;
        example_policy(&e, "adaptive");
        example_alibi(&e);
        launched_check(&e, "slopes");
        example_mask(&e, MASK_QUERIES, WHET_F32, 0);
        launched_check(&e, "mask");
        example_bias(&e, MASK_HEADS, i % 2);
        launched_check(&e, "bias");
        example_free(&e);
    }
}

TEST(odd_examples_agree_with_the_reference) {
    for (size_t i = 0; i < ODD_EXAMPLES; i++) {
        example e = launched_odd(i, ODD_DECODE);
        launched_check(&e, "odd");
        example_sinks(&e);
        launched_check(&e, "odd, with sinks");
        example_free(&e);
    }
}

TEST(given_betas_agree_with_the_reference) {
    example e = example_of(2, 800, 5);
    example_betas(&e);
    launched_check(&e, "betas");
    example_policy(&e, "entmax15");
    launched_check(&e, "betas and entmax15");
    example_free(&e);
}

TEST(rows_that_are_not_finite_agree_with_the_reference) {
    static const char *const names[] = {"adaptive", "target:1", "topk:2", "stick-breaking"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        example e = example_of(2, 640, i);
        example_set(&e.k, 0, 1, 500, 3, NAN);
        example_set(&e.v, 0, 0, 10, 3, INFINITY);
        example_policy(&e, names[i]);
        float *bias = example_bias(&e, 0, 0);
        bias[10] = -INFINITY;
        launched_check(&e, names[i]);
        bias[500] = -INFINITY;
        launched_check(&e, names[i]);
        example_free(&e);
    }
}

/* ---- messages ---- */

static whet_mpi_counts counts_of(const char *policy, size_t keys) {
    example e = example_of(1, keys, 1);
    float out[4 * 20];
    example_policy(&e, policy);
    e.attention.out.data = out;
    CHECK(launched_forward(MPI_COMM_WORLD, &e.attention, NULL, NULL) == WHET_OK);
    example_free(&e);
    return launched_counts();
}

static int steps_of_doubling(void) {
    int steps = 0;
    while (2 << steps <= launched_ranks())
        steps++;
    return steps;
}

TEST(a_temperature_takes_two_reductions_and_few_messages) {
    int steps = steps_of_doubling(), extra = launched_ranks() - (1 << steps);
    int rank = launched_rank();
    unsigned messages = (unsigned)steps;
    if (rank < 2 * extra)
        messages = rank % 2 ? 1 : (unsigned)steps + 1;
    static const char *const names[] = {"softmax", "adaptive", "ssmax:0.4", "adaptive+softmax1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        whet_mpi_counts counts = counts_of(names[i], 5000);
        CHECK_INT(counts.reductions, 2);
        CHECK_INT(counts.messages, 2 * messages);
    }
}

/* With a power of two of them, a rank sends one node to a step: 72 bytes of statistics to a row,
 * then 5 sums and 20 values in double. */
TEST(messages_have_the_size_of_one_result) {
    if (launched_ranks() & (launched_ranks() - 1))
        SKIP("%d ranks are no power of two", launched_ranks());
    for (size_t keys = 4096; keys <= 32768; keys *= 8)
        CHECK_INT(counts_of("adaptive", keys).bytes,
                  (unsigned)steps_of_doubling() * 4 * (72 + 8 * (5 + 20)));
}

TEST(searches_take_a_bounded_number_of_reductions) {
    CHECK_INT(counts_of("topk:8", 5000).reductions, 2 + 5);
    CHECK_INT(counts_of("hardmax", 5000).reductions, 2 + 1);
    CHECK_INT(counts_of("stick-breaking", 5000).reductions, 2 + 1);
    CHECK_INT(counts_of("sigmoid", 5000).reductions, 2);
    static const char *const names[] = {"target:1", "target:2+entmax15", "sparsemax", "entmax:1.1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsigned long long taken = counts_of(names[i], 5000).reductions;
        CHECK_MSG(taken <= 24, "%s: %llu", names[i], taken);
    }
}

/* ---- a growing cache ---- */

TEST(a_plan_for_the_capacity_serves_every_length) {
    enum { CAPACITY = 300 };
    example e = example_of(1, CAPACITY, 7);
    float out[4 * 20], expected[4 * 20];
    whet_stats stats[4], expected_stats[4];
    example_policy(&e, "adaptive");
    e.attention.flags = WHET_CAUSAL;
    e.attention.out.data = out;
    e.attention.stats = stats;
    whet_mpi_share share;
    CHECK(whet_mpi_local_size(MPI_COMM_WORLD, CAPACITY, WHET_MPI_BLOCK, &share) == WHET_OK);
    whet_attention part = launched_part(&e.attention, share.start[0], share.count[0]);
    whet_mpi_plan *plan;
    REQUIRE(whet_mpi_decode_plan(MPI_COMM_WORLD, &part, NULL, &plan) == WHET_OK);
    for (int64_t length = 1; length <= CAPACITY; length += 23) {
        whet_attention whole = e.attention;
        whole.offset = length - 1;
        whole.out.data = expected;
        whole.stats = expected_stats;
        CHECK(whet_attention_forward(&whole, NULL, NULL) == WHET_OK);
        CHECK(whet_mpi_set_offset(plan, length - 1) == WHET_OK);
        CHECK(whet_mpi_execute(plan, NULL) == WHET_OK);
        for (size_t i = 0; i < 4 * 20; i++)
            CHECK_NEAR(out[i], expected[i], 4e-6 * e.max_value);
        for (size_t h = 0; h < 4; h++) {
            CHECK_INT(stats[h].n, length);
            CHECK_INT(stats[h].position, length - 1);
            CHECK_NEAR(stats[h].beta, expected_stats[h].beta, 1e-5);
        }
    }
    whet_mpi_destroy(plan);
    example_free(&e);
}

/* ---- shares ---- */

TEST(shares_cover_every_position_once) {
    for (size_t n = 0; n < 3000; n += n / 2 + 1) {
        for (int size = 1; size < 12; size += 2) {
            for (int layout = WHET_MPI_BLOCK; layout <= WHET_MPI_ZIGZAG; layout++) {
                unsigned char seen[3000] = {0};
                for (int r = 0; r < size; r++) {
                    whet_mpi_share s;
                    CHECK(whet_mpi_share_of(n, (whet_mpi_layout)layout, r, size, &s) == WHET_OK);
                    CHECK_INT(s.positions, s.count[0] + s.count[1]);
                    for (int i = 0; i < 2; i++)
                        for (size_t j = 0; j < s.count[i]; j++)
                            seen[s.start[i] + j]++;
                }
                for (size_t j = 0; j < n; j++)
                    CHECK_INT(seen[j], 1);
            }
        }
    }
}

/* ---- the tree ---- */

/* Every node of a range's forest is as large as it can be, and they cover the range. */
TEST(forests_cover_their_range) {
    for (size_t positions = 1; positions < 40000; positions += positions / 3 + 1) {
        piece_map map = whet_mpi_pieces(positions);
        CHECK(map.count <= PIECES_MAX && map.count * map.piece >= positions);
        for (size_t parts = 1; parts < 9; parts++) {
            for (size_t i = 0; i < parts; i++) {
                span own = whet_mpi_pieces_of(&map, i, parts);
                forest f = whet_mpi_forest_of(&map, own);
                CHECK(f.peak <= FOREST_MAX);
                size_t at = own.begin;
                for (size_t node = 0; node < f.count; node++) {
                    span covered = whet_mpi_node_pieces(&map, f.node[node]);
                    CHECK_INT(covered.begin, at);
                    at = covered.end;
                }
                CHECK_INT(at, own.end);
            }
        }
        CHECK_INT(whet_mpi_forest_of(&map, (span){0, map.count}).count, 1);
    }
}
