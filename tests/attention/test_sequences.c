/*
 * Several sequences in one cache, told apart by the mask: results and statistics against the
 * reference however the cache is shared out, with windows, sinks, biases, ALiBi and every kind of
 * policy; nothing of a sequence's result depends on the others; and the same bits as in a cache of
 * its own.
 */
#include "attention/example.h"
#include "support/check.h"
#include "support/isa.h"
#include "whet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const policies[] = {"softmax",  "adaptive",           "target:1.5", "topk:5",
                                       "hardmax",  "stick-breaking",     "entmax15",   "sigmoid",
                                       "softmax1", "adaptive+entmax:1.3"};
#define POLICIES (sizeof policies / sizeof policies[0])

/* Few queries, of one sequence, of some and one of each; and enough for the other path. */
typedef struct problem {
    size_t queries, sequences, keys;
} problem;
static const problem problems[] = {{1, 1, 70},  {4, 4, 333},  {6, 3, 1500},
                                   {5, 2, 130}, {60, 4, 900}, {70, 1, 400}};
#define PROBLEMS (sizeof problems / sizeof problems[0])

static example make(const problem *p, size_t seed) {
    example_shape shape = {.batch = 1 + seed % 2,
                           .heads = 4,
                           .kv_heads = seed % 3 == 2 ? 4 : 2,
                           .queries = p->queries,
                           .keys = p->keys,
                           .head_dim = 32,
                           .value_dim = seed % 4 ? 32 : 64,
                           .layout = (example_layout)(seed % LAYOUTS),
                           .seed = seed};
    shape.k_type = example_cache_types[seed % CACHE_TYPES];
    shape.v_type = example_cache_types[seed / 2 % CACHE_TYPES];
    return example_new(shape);
}

static void check_all(bool extras) {
    size_t seed = extras ? 1000 : 0;
    for (size_t i = 0; i < PROBLEMS; i++)
        for (size_t how = 0; how < SHARINGS; how++)
            for (size_t windowed = 0; windowed < 2; windowed++, seed++) {
                example e = make(&problems[i], seed);
                example_sequences(&e, problems[i].sequences, (example_sharing)how, windowed * 40,
                                  seed % 2 ? WHET_F16 : WHET_F32, extras && seed % 3 == 0);
                if (extras && seed % 2)
                    example_sinks(&e);
                if (extras && seed % 3)
                    example_bias(&e, seed % 4, 0);
                if (extras && how == INTERLEAVED && windowed == 0) {
                    e.attention.offset = (int64_t)(problems[i].keys - problems[i].queries);
                    example_alibi(&e);
                }
                if (extras && seed % 5 == 1)
                    e.attention.softcap = 3;
                if (extras && seed % 7 == 0) {
                    e.attention.flags = WHET_CAUSAL;
                    e.attention.offset = (int64_t)problems[i].keys / 2;
                }
                for (size_t p = 0; p < 3; p++) {
                    example_policy(&e, policies[(seed * 3 + p) % POLICIES]);
                    char what[100];
                    snprintf(what, sizeof what, "problem %zu, sharing %zu, window %zu, seed %zu", i,
                             how, windowed * 40, seed);
                    example_check(&e, what);
                }
                example_free(&e);
            }
    example_print_worst();
}

TEST(each_query_sees_its_own_sequence) { check_all(false); }

TEST(sinks_biases_distances_and_limits_go_by_the_keys_that_are_seen) { check_all(true); }

/* ---- other sequences ---- */

/* A run of the example: output and largest logits. */
typedef struct result {
    float *out;
    float largest[8];
    size_t bytes;
} result;

static result run(example *e) {
    whet_attention *a = &e->attention;
    result r = {.bytes = (a->batch ? a->batch : 1) * a->heads * a->queries * e->v.extent[3] * 4};
    r.out = malloc(r.bytes);
    REQUIRE(r.out && a->heads <= 8);
    a->out = (whet_tensor_out){.data = r.out};
    a->max_logits = r.largest;
    CHECK(whet_attention_forward(a, NULL, NULL) == WHET_OK);
    a->max_logits = NULL;
    return r;
}

static void spoil(example *e, size_t j) {
    for (size_t batch = 0; batch < e->k.extent[0]; batch++)
        for (size_t head = 0; head < e->k.extent[1]; head++) {
            example_set_row(&e->k, batch, head, j, NAN);
            example_set_row(&e->v, batch, head, j, 1000);
        }
}

/* Keys that no query sees may hold anything: in the result nothing changes, nor in max_logits.
 * (Infinite values are tested in masks: they are left out by another order of sums.) */
TEST(keys_of_no_query_may_hold_anything) {
    for (size_t i = 0; i < PROBLEMS; i++)
        for (size_t p = 0; p < POLICIES; p++) {
            example e = make(&problems[i], 20 + i + p);
            if (e.k.type == WHET_CUSTOM || e.v.type == WHET_CUSTOM) {
                example_free(&e);
                continue;
            }
            example_policy(&e, policies[p]);
            float *mask = example_sequences(&e, problems[i].sequences, SCATTERED, 30, WHET_F32, 0);
            result before = run(&e);
            for (size_t j = 0; j < problems[i].keys; j++) {
                bool is_seen = false;
                for (size_t query = 0; query < problems[i].queries; query++)
                    is_seen = is_seen || mask[query * problems[i].keys + j] > -INFINITY;
                if (!is_seen)
                    spoil(&e, j);
            }
            result after = run(&e);
            CHECK_MSG(!memcmp(before.out, after.out, before.bytes), "problem %zu, %s", i,
                      policies[p]);
            CHECK(!memcmp(before.largest, after.largest, e.attention.heads * sizeof(float)));
            free(before.out);
            free(after.out);
            example_free(&e);
        }
}

/* Without sinks, the largest logit of a head is that of its rows. */
TEST(the_largest_logits_are_those_of_keys_that_are_seen) {
    for (size_t i = 0; i < PROBLEMS; i++)
        for (size_t how = 0; how < SHARINGS; how++) {
            example e = make(&problems[i], 50 + i);
            whet_attention *a = &e.attention;
            example_sequences(&e, problems[i].sequences, (example_sharing)how, 0, WHET_F16, false);
            size_t heads = a->heads, rows = a->batch * heads * a->queries;
            whet_stats *stats = calloc(rows, sizeof *stats);
            REQUIRE(stats);
            a->stats = stats;
            result r = run(&e);
            for (size_t head = 0; head < heads; head++) {
                double most = -(double)INFINITY;
                for (size_t row = 0; row < rows; row++)
                    if (row / a->queries % heads == head && stats[row].n > 0)
                        most = fmax(most, stats[row].max);
                CHECK((double)r.largest[head] == most);
            }
            free(stats);
            free(r.out);
            example_free(&e);
        }
}

/* The keys of one sequence moved to a cache of their own. */
static void use_own_cache(example *e, size_t sequences, example_sharing how, size_t sequence) {
    whet_attention *a = &e->attention;
    size_t keys = a->keys / sequences, step = how == INTERLEAVED ? sequences : 1;
    ptrdiff_t first = (ptrdiff_t)(how == INTERLEAVED ? sequence : sequence * keys);
    a->k.data = (const char *)a->k.data + first * a->k.stride[2];
    a->v.data = (const char *)a->v.data + first * a->v.stride[2];
    a->k.stride[2] *= (ptrdiff_t)step;
    a->v.stride[2] *= (ptrdiff_t)step;
    a->keys = keys;
    a->mask = (whet_mask){.data = NULL};
}

TEST(a_token_of_each_sequence_has_the_bits_of_a_cache_of_its_own) {
    enum { SEQUENCES = 4, LENGTH = 1600, DIM = 48 };
    for (size_t how = 0; how < SCATTERED; how++)
        for (size_t p = 0; p < POLICIES; p++) {
            example_shape shape = {.heads = 4,
                                   .kv_heads = 2,
                                   .queries = SEQUENCES,
                                   .keys = SEQUENCES * LENGTH,
                                   .head_dim = DIM,
                                   .k_type = p % 2 ? WHET_F16 : WHET_F32,
                                   .seed = p};
            example e = example_new(shape);
            whet_attention *a = &e.attention;
            memcpy(a->k.stride, e.k.stride, sizeof e.k.stride);
            memcpy(a->v.stride, e.v.stride, sizeof e.v.stride);
            memcpy(a->q.stride, e.q.stride, sizeof e.q.stride);
            example_policy(&e, policies[p]);
            example_sequences(&e, SEQUENCES, (example_sharing)how, 0, WHET_F16, false);
            result together = run(&e);
            whet_attention all = *a;
            for (size_t i = 0; i < SEQUENCES; i++) {
                *a = all;
                use_own_cache(&e, SEQUENCES, (example_sharing)how, i);
                a->q.data = (const char *)a->q.data + (ptrdiff_t)i * a->q.stride[2];
                a->queries = 1;
                result alone = run(&e);
                for (size_t head = 0; head < 4; head++)
                    CHECK_MSG(same_bytes(alone.out + head * DIM,
                                         together.out + (head * SEQUENCES + i) * DIM, DIM * 4),
                              "sharing %zu, %s, sequence %zu, head %zu", how, policies[p], i, head);
                free(alone.out);
            }
            free(together.out);
            example_free(&e);
        }
}
