/*
 * Policies by layer and head, from a file, and what is recorded of them: both compared with the
 * reference in double. Layer i has policy i of the list below; layers 30 and 31 have several at
 * once.
 */
#include "graph.h"
#include "llama/record.h"
#include "recording.h"
#include "support/check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INTERVAL = 3, KEYS = 5, MIXED_LAYER = 30, ONE_MAP_LAYER = 31, HEADS = 4 };

static const char *const names[] = {"softmax",
                                    "fixed:1.7",
                                    "adaptive",
                                    "adaptive:hold",
                                    "target:1",
                                    "ssmax:0.6",
                                    "length:64",
                                    "exp:1.5",
                                    "topk:5",
                                    "hardmax",
                                    "entmax15",
                                    "softmax1",
                                    "sigmoid:1",
                                    "sigmoid",
                                    "sparsemax",
                                    "stick-breaking",
                                    "linear:50",
                                    "poly:0.2/1",
                                    "adaptive:strength=0.3"};
enum { POLICIES = sizeof names / sizeof *names };

static char rows_path[] = "/tmp/whet-rows.XXXXXX", config_path[] = "/tmp/whet-config.XXXXXX";

static void write_config(void) {
    FILE *file = fopen(config_path, "w");
    REQUIRE(file != NULL);
    fprintf(file, "{\"rules\": [");
    for (int i = 0; i < POLICIES; i++)
        fprintf(file, "{\"layers\": \"%d\", \"policy\": \"%s\"},\n", i, names[i]);
    fprintf(file, "{\"layers\": \"%d\", \"heads\": \"0\", \"policy\": \"adaptive\"},\n",
            MIXED_LAYER);
    fprintf(file, "{\"layers\": \"%d\", \"heads\": \"2-3\", \"policy\": \"topk:5\"},\n",
            MIXED_LAYER);
    fprintf(file, "{\"layers\": \"%d\", \"heads\": \"1\", \"policy\": \"sparsemax\"}]}",
            ONE_MAP_LAYER);
    fclose(file);
}

static void start(void) {
    static bool is_started;
    if (is_started)
        return;
    int rows = mkstemp(rows_path), config = mkstemp(config_path);
    REQUIRE(rows >= 0 && config >= 0);
    close(rows);
    close(config);
    write_config();
    setenv("WHET_CONFIG", config_path, 1);
    setenv("WHET_STATS", rows_path, 1);
    setenv("WHET_STATS_ROWS", "3", 1);
    setenv("WHET_STATS_KEYS", "5", 1);
    setenv("WHET_STATS_GAPS", "1", 1);
    bool can_start = graph_start();
    unlink(config_path);
    if (!can_start)
        SKIP("the host or the plug-in cannot be loaded");
    is_started = true;
}

__attribute__((constructor)) static void before(void) { check_before_each(start); }
__attribute__((destructor)) static void after(void) { unlink(rows_path); }

/* ---- lines ---- */

/* Where the next evaluation's lines start, since lines are appended. */
static long lines_end;

static bool read_line(FILE *file, record_row *l, record_detail *detail) {
    char text[RECORD_DETAILED_BYTES];
    return fgets(text, sizeof text, file) && record_parse_detailed(text, l, detail);
}

static FILE *open_rows(void) {
    FILE *file = fopen(rows_path, "r");
    REQUIRE(file != NULL);
    if (lines_end == 0) {
        char header[256];
        REQUIRE(fgets(header, sizeof header, file) != NULL);
        CHECK_STR(header, record_detailed_header);
        lines_end = ftell(file);
    }
    fseek(file, lines_end, SEEK_SET);
    return file;
}

static void check_line(const record_row *l, const whet_stats *s, double spread, const example *e) {
    /* logits of attention are sums of rounded products, which a beta multiplies */
    double near = 2e-5 * fmax(1, isnan(s->beta) ? 1 : s->beta);
    bool is_searched = e->policies && whet_policy_is_temperature(&e->policies[0]) &&
                       isnan(whet_policy_beta(&e->policies[0], s));
    CHECK_INT(l->layer, e->layer);
    CHECK_INT(l->keys, s->n);
    CHECK_NEAR(l->entropy, s->entropy, near * fmax(1, s->entropy));
    CHECK_NEAR(l->entropy_after, s->entropy_after, near * 10);
    CHECK_NEAR(l->beta, s->beta, is_searched ? 1e-3 * s->beta : near * 10);
    CHECK_NEAR(l->max_prob, s->max_prob, near * 10);
    CHECK_NEAR(l->sink_share, s->sink_share, near * 10);
    CHECK_INT(l->argmax, s->argmax);
    if (!isnan(l->spread) || !e->has_sinks)
        CHECK_NEAR(l->spread, spread, 1e-5 * fmax(1, spread));
}

/* The largest weights, and the histogram, of a last row; nothing of others. */
static void check_detail(const record_detail *detail, const whet_stats *s, const double *logits,
                         const double *weights, size_t n) {
    double near = 2e-4 * fmax(1, isnan(s->beta) ? 1 : s->beta), sum = 0, below = 1;
    double largest = -INFINITY, within = 0, clearly = 0;
    size_t positive = 0;
    for (size_t i = 0; i < n; i++) {
        positive += weights[i] > near;
        largest = fmax(largest, logits[i]);
    }
    CHECK(detail->key_count <= KEYS && detail->key_count >= (positive < KEYS ? positive : KEYS));
    for (size_t i = 0; i < detail->key_count; i++) {
        REQUIRE(detail->keys[i].index < n);
        CHECK_NEAR(detail->keys[i].weight, weights[detail->keys[i].index], near);
        CHECK(detail->keys[i].weight <= below);
        below = detail->keys[i].weight;
    }
    for (size_t i = 0; i < n; i++) { /* no other is larger */
        bool is_kept = false;
        for (size_t k = 0; k < detail->key_count; k++)
            is_kept |= detail->keys[k].index == i;
        CHECK(is_kept || weights[i] <= (detail->key_count == KEYS ? below : 0) + near);
        within += logits[i] >= largest - 1 - 0.07;
        clearly += logits[i] >= largest - 1 + 0.07;
        sum += exp(logits[i] - largest);
    }
    CHECK_NEAR(detail->gaps.largest, largest, 1e-4 * fmax(1, fabs(largest)));
    CHECK(gaps_within(&detail->gaps, 1) >= clearly && gaps_within(&detail->gaps, 1) <= within);
    CHECK_NEAR(gaps_ln_sum(&detail->gaps, 1), log(sum), 1.0 / 32);
}

static void check_recorded(const example *e, const outcome *o) {
    FILE *file = open_rows();
    size_t queries = (size_t)e->queries, recorded = recorded_count(queries, INTERVAL);
    int heads = e->heads, batch = e->batch ? e->batch : 1;
    record_row l = {.evaluation = 0};
    static record_detail detail;
    for (int row = 0; row < batch * heads; row++)
        for (size_t i = 0; i < recorded; i++) {
            size_t query = recorded_query(queries, INTERVAL, i), at = (size_t)row * queries + query;
            if (o->stats[at].n == 0)
                continue;
            REQUIRE(read_line(file, &l, &detail));
            CHECK_INT(l.head, row % heads);
            CHECK_INT(l.position, query);
            check_line(&l, &o->stats[at], o->spread[at], e);
            size_t last = (size_t)row * (size_t)e->keys;
            if (query == queries - 1)
                check_detail(&detail, &o->stats[at], o->logits + last, o->weights + last,
                             (size_t)e->keys);
            else
                CHECK(detail.key_count == 0 && detail.gaps.counts[0] == 0);
        }
    lines_end = ftell(file);
    CHECK(!read_line(file, &l, &detail));
    fclose(file);
}

static void check_example(const example *e, double near) {
    outcome o = graph_compute(e);
    CHECK_MSG(o.error <= near && !o.has_nan && o.is_restored, "error %g in layer %d, mask %d",
              o.error, e->layer, (int)e->mask);
    check_recorded(e, &o);
    outcome_free(&o);
}

/* ---- tests ---- */

static whet_policy named(const char *name) {
    whet_policy policy;
    REQUIRE(whet_policy_parse(name, &policy, NULL, 0) == WHET_OK);
    return policy;
}

static example for_policy(int i, whet_policy *policies) {
    for (int head = 0; head < HEADS; head++)
        policies[head] = named(names[i]);
    return (example){.head_dim = 64,
                     .heads = HEADS,
                     .kv_heads = 2,
                     .keys = 150,
                     .mask = MASK_CAUSAL,
                     .sharpness = 2,
                     .layer = i,
                     .policies = policies};
}

TEST(every_policy_of_the_library_in_attention_and_in_softmax) {
    whet_policy policies[HEADS];
    for (int i = 0; i < POLICIES; i++)
        for (int variant = 0; variant < 5; variant++) {
            example e = for_policy(i, policies);
            e.queries = variant == 0 || variant == 3 ? 1 : 40;
            e.is_softmax = variant == 2;
            e.is_composed = variant > 2;
            if (e.is_softmax)
                e.scale = 0.125f;
            check_example(&e, 1e-4);
        }
}

TEST(sinks_with_every_policy) {
    whet_policy policies[HEADS];
    for (int i = 0; i < POLICIES; i++)
        for (int variant = 0; variant < 3; variant++) {
            example e = for_policy(i, policies);
            e.queries = 10;
            e.has_sinks = true;
            e.is_softmax = variant == 1;
            e.is_composed = variant == 2;
            check_example(&e, 1e-4);
        }
}

TEST(heads_of_one_layer_with_policies_of_their_own) {
    whet_policy policies[HEADS] = {named("adaptive"), named("softmax"), named("topk:5"),
                                   named("topk:5")};
    for (int variant = 0; variant < 6; variant++) {
        example e = for_policy(0, (whet_policy[HEADS]){{0}});
        e.layer = MIXED_LAYER;
        e.policies = policies;
        e.queries = variant & 1 ? 33 : 1;
        e.is_softmax = variant / 2 == 1;
        e.is_composed = variant / 2 == 2;
        check_example(&e, 1e-4);
    }
}

/* A map keeps whole rows of logits, which softmax does not: memory is sized for the head that needs
 * most. */
TEST(heads_with_policies_of_their_own_and_alibi) {
    whet_policy mixed[HEADS] = {named("adaptive"), named("softmax"), named("topk:5"),
                                named("topk:5")};
    whet_policy one_map[HEADS] = {named("softmax"), named("sparsemax"), named("softmax"),
                                  named("softmax")};
    for (int variant = 0; variant < 8; variant++) {
        example e = for_policy(0, (whet_policy[HEADS]){{0}});
        e.is_composed = variant & 4;
        e.layer = variant & 1 ? ONE_MAP_LAYER : MIXED_LAYER;
        e.policies = variant & 1 ? one_map : mixed;
        e.queries = variant & 2 ? 40 : 1;
        e.keys = 2048;
        e.mask = MASK_BIAS;
        e.max_bias = 8;
        check_example(&e, 1e-4);
    }
}

TEST(rows_of_all_masks_batches_and_types_are_recorded) {
    for (int mask = MASK_NONE; mask <= MASK_BIAS; mask++)
        for (int type = 0; type < 3; type++) {
            static const enum ggml_type types[] = {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q5_1};
            example e = {.head_dim = 64,
                         .heads = HEADS,
                         .kv_heads = 2,
                         .queries = 17,
                         .keys = 40,
                         .batch = 2,
                         .mask = (mask_kind)mask,
                         .max_bias = mask == MASK_BIAS ? 8.0f : 0.0f,
                         .cache_types = {(int)types[type] + 1, (int)types[type] + 1}};
            check_example(&e, 1e-5);
            e.queries = 1;
            check_example(&e, 1e-5);
            e.queries = 17;
            e.is_softmax = true;
            if (mask != MASK_NONE)
                check_example(&e, 1e-5);
            e.is_softmax = false;
            e.is_composed = true;
            e.cache_types[1] = 0;
            if (mask != MASK_NONE)
                check_example(&e, 1e-5);
        }
}

TEST(softmax_without_a_name_is_recognised_by_its_keys) {
    whet_policy policies[HEADS];
    for (int i = 0; i < 3; i++)
        for (int queries = 1; queries <= 33; queries += 16) {
            example e = for_policy(i, policies);
            e.is_softmax = e.has_products = true;
            e.queries = queries;
            e.cache_types[0] = (int)GGML_TYPE_F32 + 1;
            check_example(&e, 1e-4);
        }
}
