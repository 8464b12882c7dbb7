// Scoring: what counts as exact, as a right end, and as steps before the first error.
#include "clrs/score.h"
#include "support/check.h"

static clrs_score score(const char *algorithm, const char *prediction, const char *reference) {
    return clrs_score_answer(clrs_algorithm_find(algorithm),
                             (clrs_span){prediction, strlen(prediction)},
                             (clrs_span){reference, strlen(reference)});
}

#define CHECK_SCORE(algorithm, prediction, reference, is_exact, is_final, right, all)              \
    do {                                                                                           \
        clrs_score got = score(algorithm, prediction, reference);                                  \
        CHECK_INT(got.exact, is_exact);                                                            \
        CHECK_INT(got.final, is_final);                                                            \
        CHECK_INT(got.steps_right, right);                                                         \
        CHECK_INT(got.steps, all);                                                                 \
    } while (0)

TEST(white_space_around_an_answer_does_not_count) {
    CHECK_SCORE("bfs", "  [0 1]\n", "[0 1]\n\n", true, true, 0, 0);
    CHECK_SCORE("bfs", "[0  1]", "[0 1]\n\n", false, false, 0, 0);
    CHECK_SCORE("bfs", "", "[0 1]\n\n", false, false, 0, 0);
}

TEST(the_final_part_follows_the_last_bar) {
    CHECK_SCORE("bfs", "[9 9] | [0 1]", "[0 0] | [0 1]\n\n", false, true, 0, 1);
    CHECK_SCORE("bfs", "[0 0] | [0 0] | [0 1]", "[0 0] | [0 1]\n\n", false, true, 0, 1);
    CHECK_SCORE("bfs", "[0 1]", "[0 0] | [0 1]\n\n", false, true, 0, 1);
    CHECK_SCORE("bfs", "[0 0] | [1 1]", "[0 0] | [0 1]\n\n", false, false, 1, 1);
}

TEST(an_empty_trace_has_no_steps) {
    CHECK_SCORE("bfs", " | [0 1]\n\n", " | [0 1]\n\n", true, true, 0, 0);
    CHECK_SCORE("bfs", "[0 0] | [0 1]\n\n", " | [0 1]\n\n", false, true, 0, 0);
}

TEST(steps_count_up_to_the_first_error) {
    const char *reference = "[0 1], [0 2], [0 3], [0 4] | [0 5]\n\n";
    CHECK_SCORE("bfs", reference, reference, true, true, 4, 4);
    CHECK_SCORE("bfs", "[0 1], [0 2], [9 9], [0 4] | [0 5]", reference, false, true, 2, 4);
    CHECK_SCORE("bfs", "[0 1], [0 2], [0 3]", reference, false, false, 3, 4);
    CHECK_SCORE("bfs", "[9 1], [0 2], [0 3], [0 4] | [0 5]", reference, false, true, 0, 4);
    CHECK_SCORE("bfs", "[0 1], [0 2], [0 3], [0 4], [0 4] | [0 5]", reference, false, true, 4, 4);
}

TEST(matrices_and_pairs_are_single_steps) {
    CHECK_SCORE("bridges", "[[0 1], [1 0]], [[1 1], [1 1]] | [[1 1], [1 1]]",
                "[[0 1], [1 0]], [[0 0], [1 1]] | [[1 1], [1 1]]", false, true, 1, 2);
    CHECK_SCORE("binary_search", "(0, 4), (3, 4) | (4, 4)", "(0, 4), (2, 4) | (4, 4)", false, true,
                1, 2);
}

TEST(a_list_and_its_head_are_one_step) {
    CHECK_SCORE("topological_sort", "[0 1], 0, [0 1], 0 | [0 0], 1",
                "[0 1], 0, [0 1], 1 | [0 0], 1", false, true, 1, 2);
}

TEST(unbalanced_brackets_do_no_harm) {
    CHECK_SCORE("bfs", "]]], [0 1], ((( |", "[0 1], [0 2] | [0 1]", false, false, 0, 2);
    CHECK_SCORE("bfs", "| | |", " | [0 1]", false, false, 0, 0);
}

TEST(references_are_made_again_in_any_order) {
    clrs_scores scores = {.count = 0};
    clrs_request request = clrs_request_default("bfs", 5);
    clrs_span five, two, again;
    char kept[64];
    REQUIRE(clrs_scores_reference(&scores, &request, 5, &five) == CLRS_OK);
    REQUIRE(five.length < sizeof kept);
    memcpy(kept, five.start, five.length + 1);
    REQUIRE(clrs_scores_reference(&scores, &request, 2, &two) == CLRS_OK);
    for (uint64_t seed = 1; seed < 100; seed++) { // more samplers than are kept
        request.seed = seed;
        REQUIRE(clrs_scores_reference(&scores, &request, 0, &two) == CLRS_OK);
    }
    request.seed = 0;
    REQUIRE(clrs_scores_reference(&scores, &request, 5, &again) == CLRS_OK);
    CHECK_STR(again.start, kept);
    clrs_scores_free(&scores);
}

TEST(sums_are_kept_by_algorithm_and_length) {
    clrs_scores scores = {.count = 0};
    const clrs_algorithm *bfs = clrs_algorithm_find("bfs"), *dfs = clrs_algorithm_find("dfs");
    clrs_span right = {"1", 1}, wrong = {"2", 1};
    for (int length = 90; length > 0; length--) {
        CHECK(clrs_scores_add(&scores, dfs, length, right, right));
        CHECK(clrs_scores_add(&scores, bfs, length, wrong, right));
        CHECK(clrs_scores_add(&scores, bfs, length, right, right));
    }
    CHECK_INT(scores.count, 180);
    CHECK(scores.sums[0].algorithm == bfs && scores.sums[0].length == 1);
    CHECK(scores.sums[179].algorithm == dfs && scores.sums[179].length == 90);
    CHECK_INT(scores.sums[3].samples, 2);
    CHECK_INT(scores.sums[3].exact, 1);
    clrs_score_sum total = clrs_scores_total(&scores);
    CHECK_INT(total.samples, 270);
    CHECK_INT(total.final, 180);
    CHECK_INT(total.traced, 0);
    clrs_scores_free(&scores);
}
