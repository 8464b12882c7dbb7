/* Every task at awkward sizes: a naive solver is always right, and samples have the right form. */
#include "support/check.h"

#include "solvers.h"

#include <stdlib.h>

static const size_t sizes[] = {1, 2, 4, 7, 8, 13, 31, 37, 38, 47, 64, 65, 127, 500, 1031};
enum { SIZES = sizeof sizes / sizeof *sizes, SEEDS = 20 };

/* Calls `check` with samples of all tasks and sizes. */
static void for_samples(void (*check)(const task_kind *task, size_t size,
                                      const task_sample *sample)) {
    task_sample sample = {0};
    for (size_t t = 0; task_at(t); t++)
        for (size_t s = 0; s < SIZES; s++)
            for (uint64_t seed = 0; seed < SEEDS && sizes[s] >= task_at(t)->smallest; seed++) {
                REQUIRE(task_draw(task_at(t), sizes[s], task_seed(seed, TASK_TEST, s), &sample));
                check(task_at(t), sizes[s], &sample);
            }
    task_sample_free(&sample);
}

static void check_solver(const task_kind *task, size_t size, const task_sample *sample) {
    uint32_t *answer = calloc(sample->question + 16, sizeof *answer);
    REQUIRE(answer);
    size_t count = solve_task(task->name, sample->tokens, sample->question, answer);
    CHECK_MSG(task_is_right(sample, answer, count), "%s of size %zu", task->name, size);
    answer[count - 1]++;
    CHECK(!task_is_right(sample, answer, count));
    answer[count - 1]--;
    CHECK(!task_is_right(sample, answer, count - 1));
    free(answer);
}

TEST(a_naive_solver_is_always_right) { for_samples(check_solver); }

static void check_form(const task_kind *task, size_t size, const task_sample *sample) {
    REQUIRE(sample->question > 0 && sample->question < sample->count);
    CHECK_INT(sample->tokens[sample->question - 1], TASK_ANSWER);
    for (size_t i = 0; i < sample->count; i++)
        CHECK(i == sample->question - 1 ||
              (sample->tokens[i] >= TASK_SYMBOLS && sample->tokens[i] < task_vocabulary(task)));
    /* noise and needles come in pieces of up to 11 symbols; queries take up to 12 */
    CHECK_MSG(sample->question + 11 >= size && sample->question <= size + 14,
              "%s of size %zu has %zu tokens", task->name, size, sample->question);
}

TEST(questions_have_the_size_asked_for_and_the_symbols_of_their_task) { for_samples(check_form); }

TEST(answers_are_short_where_a_task_says_so) {
    task_sample sample = {0};
    for (size_t t = 0; task_at(t); t++) {
        REQUIRE(task_draw(task_at(t), 200, 1, &sample));
        size_t answer = sample.count - sample.question;
        CHECK(task_at(t)->has_short_answers ? answer <= 12 : answer >= 200);
    }
    task_sample_free(&sample);
}

TEST(a_seed_gives_one_sample_and_splits_share_none) {
    task_sample one = {0}, other = {0};
    for (size_t t = 0; task_at(t); t++) {
        const task_kind *task = task_at(t);
        REQUIRE(task_draw(task, 64, task_seed(3, TASK_TRAIN, 5), &one));
        REQUIRE(task_draw(task, 64, task_seed(3, TASK_TRAIN, 5), &other));
        CHECK(one.count == other.count && same_bytes(one.tokens, other.tokens, 4 * one.count));
        for (int split = TASK_VALIDATION; split <= TASK_TEST; split++) {
            REQUIRE(task_draw(task, 64, task_seed(3, (task_split)split, 5), &other));
            CHECK(one.count != other.count || !same_bytes(one.tokens, other.tokens, 4 * one.count));
        }
    }
    task_sample_free(&one);
    task_sample_free(&other);
}

TEST(sizes_out_of_range_and_unknown_names_are_refused) {
    task_sample sample = {0};
    for (size_t t = 0; task_at(t); t++) {
        const task_kind *task = task_at(t);
        CHECK(task_find(task->name) == task);
        CHECK(task->smallest <= task->train_min && task->train_min <= task->train_max);
        CHECK(!task_draw(task, task->smallest - 1, 1, &sample));
        CHECK(!task_draw(task, TASK_SIZE_MAX + 1, 1, &sample));
        CHECK(task_draw(task, task->smallest, 1, &sample));
    }
    CHECK(!task_find("sorting"));
    task_sample_free(&sample);
}

/* A generator whose answer were always the same would be solved without looking. */
TEST(answers_differ_between_samples) {
    task_sample sample = {0};
    for (size_t t = 0; task_at(t); t++) {
        bool differs = false;
        uint32_t last = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            REQUIRE(task_draw(task_at(t), 64, seed, &sample));
            uint32_t answer = sample.tokens[sample.count - 1];
            differs = differs || (seed > 0 && answer != last);
            last = answer;
        }
        CHECK_MSG(differs, "%s", task_at(t)->name);
    }
    task_sample_free(&sample);
}

TEST(the_entries_of_recall_fill_four_fifths) {
    task_sample sample = {0};
    REQUIRE(task_draw(task_find("recall"), 600, 1, &sample));
    size_t entries = 0;
    for (size_t i = 0; i < 600; i++)
        entries += sample.tokens[i] == TASK_SYMBOLS + 257;
    CHECK_INT(entries, 80);
    task_sample_free(&sample);
}

TEST(recall_has_four_queries_and_its_easier_form_one) {
    static const char *const names[] = {"recall", "recall-1"};
    task_sample sample = {0};
    for (size_t t = 0; t < 2; t++) {
        size_t queries = 0;
        REQUIRE(task_draw(task_find(names[t]), 64, 1, &sample));
        for (size_t i = 0; i < sample.question; i++)
            queries += sample.tokens[i] == TASK_SYMBOLS + 258;
        CHECK_INT(queries, t == 0 ? 4 : 1);
        CHECK_INT(sample.count - sample.question, 3 * queries);
    }
    task_sample_free(&sample);
}
