// Retrieval scores from recorded rows, and the prompts they come from.
#include "model/needles.h"
#include "model/prompts.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

static void take(needles *all, const char *text) {
    lab_error error = {.kind = LAB_NO_ERROR};
    json_t *steps = json_loads(text, 0, NULL);
    REQUIRE(steps != NULL);
    CHECK(needles_take(all, steps, &error));
    json_decref(steps);
}

static void add(needles *all, uint64_t evaluation, size_t head, uint64_t argmax) {
    needles_add(all, head, &(record_row){.evaluation = evaluation, .argmax = argmax});
}

TEST(a_head_scores_where_its_largest_weight_lies_on_the_copied_token) {
    needles all = {.count = 0};
    take(&all, "[[7, 20, true], [3, 10, true]]");
    take(&all, "[[8, 21, false], [4, 11, true]]");
    REQUIRE(needles_begin(&all, 2, NULL));
    add(&all, 3, 0, 10);
    add(&all, 3, 1, 5);
    add(&all, 3, 1, 10); // the last row of an evaluation decides
    add(&all, 4, 0, 12);
    add(&all, 7, 0, 20);
    add(&all, 8, 0, 21); // the model would have chosen another token
    add(&all, 9, 0, 21); // not of an answer
    CHECK_INT(needles_score(&all, 0).tokens, 4);
    CHECK_INT(needles_score(&all, 0).copied, 3);
    CHECK_NEAR(needles_score(&all, 0).share, 2.0 / 3, 1e-12);
    CHECK_NEAR(needles_score(&all, 1).share, 1.0 / 3, 1e-12);
    needles_forget(&all);
}

TEST(all_tokens_count_where_the_model_copies_none) {
    needles all = {.count = 0};
    take(&all, "[[0, 1, false], [1, 2, false]]");
    REQUIRE(needles_begin(&all, 1, NULL));
    add(&all, 1, 0, 2);
    CHECK_NEAR(needles_score(&all, 0).share, 0.5, 1e-12);
    needles_forget(&all);
}

TEST(without_needles_there_is_no_score) {
    needles all = {.count = 0};
    CHECK(needles_take(&all, NULL, NULL));
    REQUIRE(needles_begin(&all, 1, NULL));
    add(&all, 0, 0, 0);
    CHECK(isnan(needles_score(&all, 0).share));
    needles_forget(&all);
}

TEST(needles_lie_at_growing_depths_and_differ) {
    static const uint64_t sizes[] = {16, 64};
    prompt_list list;
    REQUIRE(prompts_of_needles(sizes, 2, 4, "hay", 1, &list));
    CHECK_INT(list.count, 8);
    for (size_t i = 0; i < list.count; i++) {
        const prompt *p = &list.items[i];
        CHECK_NEAR(p->depth, (double)(i % 4) / 4 + 0.125, 1e-12);
        CHECK_INT(p->token_limit, sizes[i / 4]);
        CHECK(p->answer[0] == ' ' && strlen(p->answer) == 6 && strstr(p->lead, "secret number"));
        CHECK(i == 0 || strcmp(p->answer, list.items[i - 1].answer) != 0);
    }
    prompts_free(&list);
}
