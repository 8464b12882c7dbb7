/* The heads that are part of the program: ten of one kind, one of another, trained to the end. */
#include "support/check.h"
#include "support/engine.h"

#include "heads/builtin.h"
#include "retrieval/evaluate.h"

static double accuracy_at_16(const retrieval_heads *heads) {
    static const char *const names[] = {"softmax"};
    const whet_policy policy = whet_policy_softmax();
    const size_t size = 16;
    lab_error error = {0};
    retrieval_evaluation result;
    retrieval_eval_request request = {.heads = heads,
                                      .sizes = &size,
                                      .size_count = 1,
                                      .sets = 500,
                                      .policies = &policy,
                                      .names = names,
                                      .policy_count = 1,
                                      .quiet = true};
    REQUIRE(retrieval_evaluate(&engine, &request, &result, &error));
    double lowest = 1;
    for (size_t head = 0; head < heads->count; head++) {
        double accuracy = result.cells[head].measure[RETRIEVAL_ACCURACY].mean;
        lowest = accuracy < lowest ? accuracy : lowest;
    }
    retrieval_evaluation_free(&result);
    return lowest;
}

static void check_heads(retrieval_precision precision) {
    lab_error error = {0};
    retrieval_heads heads;
    REQUIRE(builtin_heads(precision, &heads, &error));
    CHECK_INT(heads.count, builtin_head_count(precision));
    retrieval_config expected = retrieval_config_default();
    expected.precision = precision;
    for (size_t i = 0; i < heads.count; i++) {
        CHECK_INT(heads.list[i].seed, i);
        CHECK_INT(heads.list[i].step, 100000);
        json_t *ours = retrieval_config_to_json(&heads.list[i].config, i);
        json_t *paper = retrieval_config_to_json(&expected, i);
        CHECK(json_equal(ours, paper));
        json_decref(ours);
        json_decref(paper);
    }
    CHECK(accuracy_at_16(&heads) > 0.95);
    retrieval_heads_free(&heads);
}

TEST(ten_heads_of_the_paper_s_reading_are_trained_to_the_end) {
    CHECK_INT(builtin_head_count(RETRIEVAL_BF16_PRODUCTS), 10);
    check_heads(RETRIEVAL_BF16_PRODUCTS);
}

TEST(one_head_of_f32_is_trained_to_the_end) {
    CHECK_INT(builtin_head_count(RETRIEVAL_F32), 1);
    check_heads(RETRIEVAL_F32);
}

TEST(there_are_none_of_rounded_inputs_alone) {
    lab_error error = {0};
    retrieval_heads heads;
    CHECK(!builtin_heads(RETRIEVAL_BF16, &heads, &error));
    CHECK(error.kind == LAB_INPUT && heads.count == 0);
    CHECK_INT(builtin_head_count(RETRIEVAL_BF16), 0);
}

TEST(kinds_are_told_apart_by_checksum) {
    CHECK(builtin_heads_checksum(RETRIEVAL_F32) != builtin_heads_checksum(RETRIEVAL_BF16_PRODUCTS));
}
