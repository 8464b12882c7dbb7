// Streams: going to a sample by its index, what hints change and what they do not, requests that
// are refused, and lengths at either end.
#include "clrs/clrs.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

static clrs_sampler *open_sampler(const char *algorithm, int64_t length, bool hints) {
    clrs_request request = clrs_request_default(algorithm, length);
    request.seed = 7;
    request.hints = hints;
    clrs_sampler *sampler;
    REQUIRE(clrs_sampler_create(&request, &sampler) == CLRS_OK);
    return sampler;
}

// The question and the answer, to be freed.
static char *next_text(clrs_sampler *sampler) {
    clrs_sample sample;
    REQUIRE(clrs_sampler_next(sampler, &sample) == CLRS_OK);
    CHECK_INT(strlen(sample.question), sample.question_length);
    CHECK_INT(strlen(sample.answer), sample.answer_length);
    char *text = malloc(sample.question_length + sample.answer_length + 1);
    REQUIRE(text != NULL);
    memcpy(text, sample.question, sample.question_length);
    memcpy(text + sample.question_length, sample.answer, sample.answer_length + 1);
    return text;
}

static void check_text_at(clrs_sampler *sampler, uint64_t index, const char *expected) {
    REQUIRE(clrs_sampler_seek(sampler, index) == CLRS_OK);
    char *text = next_text(sampler);
    CHECK_STR(text, expected);
    free(text);
}

TEST(any_sample_can_be_gone_to_forwards_and_backwards) {
    enum { SAMPLES = 6 };
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        for (int hints = 0; hints < 2; hints++) {
            const char *name = clrs_algorithm_at(i)->name;
            clrs_sampler *sampler = open_sampler(name, 9, hints);
            char *texts[SAMPLES];
            for (size_t k = 0; k < SAMPLES; k++)
                texts[k] = next_text(sampler);
            check_text_at(sampler, 2, texts[2]);
            check_text_at(sampler, 5, texts[5]);
            check_text_at(sampler, 0, texts[0]);
            clrs_sampler *fresh = open_sampler(name, 9, hints);
            check_text_at(fresh, 4, texts[4]);
            clrs_sampler_destroy(fresh);
            clrs_sampler_destroy(sampler);
            for (size_t k = 0; k < SAMPLES; k++)
                free(texts[k]);
        }
}

TEST(hints_leave_the_instance_as_it_is) {
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++) {
        const char *name = clrs_algorithm_at(i)->name;
        clrs_sampler *plain = open_sampler(name, 12, false), *hinted = open_sampler(name, 12, true);
        for (int k = 0; k < 5; k++) {
            clrs_sample a, b;
            REQUIRE(clrs_sampler_next(plain, &a) == CLRS_OK);
            REQUIRE(clrs_sampler_next(hinted, &b) == CLRS_OK);
            const char *inputs_end = strrchr(a.question, '\n'); // of the last of three lines
            size_t inputs = (size_t)(inputs_end - a.question);
            while (inputs > 0 && a.question[inputs - 1] != '\n')
                inputs--;
            CHECK(strncmp(a.question, b.question, inputs - 1) == 0);
            bool has_trace = strstr(b.question, "initial_trace") != NULL;
            CHECK_MSG(has_trace == (strcmp(name, "segments_intersect") != 0), "%s", name);
            CHECK_INT(b.hints, true);
        }
        clrs_sampler_destroy(plain);
        clrs_sampler_destroy(hinted);
    }
}

static clrs_status try_request(clrs_request request, const char *part_of_message) {
    char message[CLRS_MESSAGE_SIZE] = "";
    clrs_sampler *sampler;
    clrs_status status = clrs_request_check(&request, message);
    CHECK_INT(clrs_sampler_create(&request, &sampler), status);
    CHECK(sampler == NULL);
    CHECK_MSG(strstr(message, part_of_message) != NULL, "%s", message);
    return status;
}

TEST(requests_that_make_no_sense_are_refused) {
    clrs_request request = clrs_request_default("bfs", 4);
    request.algorithm = "find_maximum_subarray";
    CHECK_INT(try_request(request, "find_maximum_subarray"), CLRS_ERROR_ALGORITHM);
    request.algorithm = NULL;
    CHECK_INT(try_request(request, "unknown"), CLRS_ERROR_ALGORITHM);
    request = clrs_request_default("bfs", 1);
    CHECK_INT(try_request(request, "from 2"), CLRS_ERROR_LENGTH);
    request.length = -1;
    CHECK_INT(try_request(request, "-1"), CLRS_ERROR_LENGTH);
    request.length = (int64_t)CLRS_LENGTH_MAX + 1;
    CHECK_INT(try_request(request, "16777217"), CLRS_ERROR_LENGTH);
    request = clrs_request_default("bfs", 4);
    request.seed = (uint64_t)UINT32_MAX + 1;
    CHECK_INT(try_request(request, "4294967296"), CLRS_ERROR_SEED);
    request = clrs_request_default("bfs", 4);
    request.decimals = -1;
    CHECK_INT(try_request(request, "-1"), CLRS_ERROR_DECIMALS);
    request.decimals = CLRS_DECIMALS_MAX + 1;
    CHECK_INT(try_request(request, "20"), CLRS_ERROR_DECIMALS);
}

TEST(the_shortest_lengths_are_those_of_the_reference) {
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++) {
        const clrs_algorithm *algorithm = clrs_algorithm_at(i);
        clrs_request request = clrs_request_default(algorithm->name, algorithm->shortest - 1);
        CHECK_INT(clrs_request_check(&request, NULL), CLRS_ERROR_LENGTH);
        for (int hints = 0; hints < 2; hints++) {
            clrs_sampler *sampler = open_sampler(algorithm->name, algorithm->shortest, hints);
            for (int k = 0; k < 50; k++)
                free(next_text(sampler));
            clrs_sampler_destroy(sampler);
        }
    }
    CHECK_INT(clrs_algorithm_find("optimal_bst")->shortest, 1);
    CHECK_INT(clrs_algorithm_find("kmp_matcher")->shortest, 3);
    CHECK_INT(clrs_algorithm_find("strongly_connected_components")->shortest, 4);
}

TEST(the_largest_seed_works) {
    clrs_request request = clrs_request_default("minimum", 2);
    request.seed = UINT32_MAX;
    request.decimals = 0;
    clrs_sampler *sampler;
    clrs_sample sample;
    REQUIRE(clrs_sampler_create(&request, &sampler) == CLRS_OK);
    REQUIRE(clrs_sampler_next(sampler, &sample) == CLRS_OK);
    CHECK_STR(sample.question, "minimum:\nkey: [0.0976320289940138 0.9123828453026218]\nmin:\n");
    CHECK_STR(sample.answer, "0\n\n");
    clrs_sampler_destroy(sampler);
}

// The cost of some grows with the third power of the length.
TEST(long_instances_are_made) {
    static const struct {
        const char *name;
        int length;
    } cases[] = {
        {"insertion_sort", 4097},  {"quicksort", 10000},      {"bfs", 1000},
        {"dijkstra", 700},         {"mst_kruskal", 700},      {"kmp_matcher", 100000},
        {"task_scheduling", 9999}, {"topological_sort", 600}, {"segments_intersect", 5000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int ties = 0; ties < 2; ties++) {
            clrs_request request = clrs_request_default(cases[i].name, cases[i].length);
            request.ties = ties ? CLRS_TIES_SIMD : CLRS_TIES_SCALAR;
            clrs_sampler *sampler;
            clrs_sample sample;
            REQUIRE(clrs_sampler_create(&request, &sampler) == CLRS_OK);
            CHECK_INT(clrs_sampler_next(sampler, &sample), CLRS_OK);
            CHECK(sample.answer_length > 2);
            clrs_sampler_destroy(sampler);
        }
}

TEST(too_many_points_for_so_few_decimals_end_with_an_error) {
    clrs_request request = clrs_request_default("graham_scan", 100);
    request.decimals = 1;
    clrs_sampler *sampler;
    clrs_sample sample;
    REQUIRE(clrs_sampler_create(&request, &sampler) == CLRS_OK);
    CHECK_INT(clrs_sampler_next(sampler, &sample), CLRS_ERROR_HULL);
    clrs_sampler_destroy(sampler);
}

TEST(the_default_sets_have_as_many_samples_as_published) {
    size_t pairs[2] = {0, 0};
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        for (int split = 0; split < 2; split++)
            for (size_t k = 0; clrs_default_length(clrs_algorithm_at(i), (clrs_split)split, k); k++)
                pairs[split]++;
    CHECK_INT(pairs[CLRS_SPLIT_TRAIN], 215);
    CHECK_INT(pairs[CLRS_SPLIT_VAL], 823);
    CHECK_INT(pairs[CLRS_SPLIT_TRAIN] * clrs_default_count(CLRS_SPLIT_TRAIN), 2150000);
    CHECK_INT(pairs[CLRS_SPLIT_VAL] * 5 * clrs_default_count(CLRS_SPLIT_VAL), 514375);
    CHECK_INT(clrs_default_seed(CLRS_SPLIT_TRAIN, 0), 0);
    CHECK_INT(clrs_default_seed(CLRS_SPLIT_VAL, 4), 94);
    CHECK_INT(clrs_default_seed(CLRS_SPLIT_VAL, 5), -1);
}

TEST(names_are_in_order_and_found_again) {
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++) {
        const clrs_algorithm *algorithm = clrs_algorithm_at(i);
        CHECK(clrs_algorithm_find(algorithm->name) == algorithm);
        CHECK(i == 0 || strcmp(clrs_algorithm_at(i - 1)->name, algorithm->name) < 0);
    }
    CHECK(clrs_algorithm_at(CLRS_ALGORITHM_COUNT) == NULL);
    CHECK(clrs_algorithm_find("") == NULL);
}
