// What is made of a probe: kinds of heads, their order, and the figures' numbers, on results made
// up for the purpose.
#include "model/probe.h"

#include "support/check.h"

#include <math.h>
#include <stdlib.h>

enum { SIZES = 4, HEADS = 5 };

// Entropies of five heads as shares of ln n and offsets, one of each kind and one missing.
static double entropy_of(size_t head, size_t size) {
    double ceiling = log(16.0 * pow(4, (double)size));
    switch (head) {
    case 0:
        return 0.9 * ceiling; // diffuse
    case 1:
        return 0.1; // sharp
    case 2:
        return ceiling - log(16.0) + 0.2; // grows with ln n
    case 3:
        return 2.0; // 72 % of the shortest ceiling, 29 % of the longest
    default:
        return (double)NAN;
    }
}

static probe_result made_up(void) {
    probe_result r = {.policies = 1, .sizes = SIZES, .sequences = 2, .layers = 1, .heads = HEADS};
    size_t count = (size_t)SIZES * 2 * HEADS * PROBE_MEASURES;
    r.values = malloc(count * sizeof *r.values);
    REQUIRE(r.values);
    for (size_t i = 0; i < count; i++) {
        size_t head = i / PROBE_MEASURES % HEADS, size = i / PROBE_MEASURES / HEADS / 2;
        size_t sequence = i / PROBE_MEASURES / HEADS % 2;
        r.values[i] = (float)(entropy_of(head, size) + (sequence ? 0.01 : -0.01));
    }
    for (size_t s = 0; s < SIZES; s++) {
        r.size[s] = 4u << s;
        r.tokens[s] = 16.0 * pow(4, (double)s);
        r.perplexity[s] = (double)NAN;
    }
    return r;
}

TEST(means_are_taken_over_sequences) {
    probe_result r = made_up();
    CHECK_NEAR(probe_mean(&r, 0, 2, 0, 2, PROBE_ENTROPY), entropy_of(2, 2), 1e-6);
    CHECK(isnan(probe_mean(&r, 0, 2, 0, 4, PROBE_ENTROPY)));
    CHECK_NEAR(probe_ceiling(&r, 1), log(64), 1e-12);
    probe_free(&r);
}

TEST(heads_are_told_apart_by_what_they_do) {
    static const head_kind kinds[] = {HEAD_DISPERSES, HEAD_STAYS_SHARP, HEAD_SHARPENS,
                                      HEAD_DIFFUSE};
    static const size_t heads[] = {2, 1, 3, 0};
    static const double slopes[] = {1, 0, 0, 0.9};
    probe_result r = made_up();
    size_t count;
    head_trend *trends = probe_trends(&r, 0, &count);
    REQUIRE(trends && count == 4);
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(trends[i].kind, kinds[i]);
        CHECK_INT(trends[i].head, heads[i]);
        CHECK_NEAR(trends[i].slope, slopes[i], 1e-4);
    }
    free(trends);
    probe_free(&r);
}

TEST(a_single_size_has_no_slope) {
    probe_result r = made_up();
    r.sizes = 1;
    size_t count;
    head_trend *trends = probe_trends(&r, 0, &count);
    REQUIRE(trends && count == 4);
    for (size_t i = 0; i < count; i++) {
        CHECK(isnan(trends[i].slope) && trends[i].kind != HEAD_SHARPENS);
    }
    free(trends);
    probe_free(&r);
}

TEST(a_single_token_leaves_no_choice) {
    probe_result r = made_up();
    r.sizes = 1;
    r.tokens[0] = 1;
    size_t count;
    head_trend *trends = probe_trends(&r, 0, &count);
    REQUIRE(trends && count > 0);
    for (size_t i = 0; i < count; i++)
        CHECK(trends[i].short_share == 1 && trends[i].kind == HEAD_DIFFUSE);
    free(trends);
    probe_free(&r);
}

TEST(everything_is_kept_as_json) {
    static const char *const names[] = {"softmax"};
    probe_result r = made_up();
    probe_request request = {.model = {.path = "m\xff.gguf"}, .policies = names, .policy_count = 1};
    json_t *json = probe_json(&request, &r);
    REQUIRE(json);
    CHECK_STR(json_string_value(json_object_get(json, "model")), "m?.gguf");
    json_t *policy = json_array_get(json_object_get(json, "policies"), 0);
    CHECK_INT(json_array_size(json_object_get(policy, "heads")), 4);
    json_t *head = json_array_get(json_object_get(policy, "heads"), 2);
    CHECK_STR(json_string_value(json_object_get(head, "kind")), "disperses");
    CHECK_INT(json_array_size(json_object_get(head, "entropy")), SIZES);
    json_decref(json);
    probe_free(&r);
}
