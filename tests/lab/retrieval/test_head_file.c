/* Files of heads: the same head again, in half the space; damaged files and their refusal. */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/engine.h"

#include "base/files.h"
#include "retrieval/evaluate.h"
#include "retrieval/head_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

__attribute__((destructor)) static void remove_file(void) { unlink(path); }

/* Heads with random weights of two precisions. */
static retrieval_heads two_heads(void) {
    retrieval_heads heads = {.list = calloc(2, sizeof *heads.list), .count = 2};
    REQUIRE(heads.list != NULL);
    for (size_t i = 0; i < 2; i++) {
        retrieval_head *head = &heads.list[i];
        head->config = retrieval_config_default();
        head->config.width = 24;
        head->config.precision = i == 0 ? RETRIEVAL_BF16_PRODUCTS : RETRIEVAL_F32;
        head->seed = 7 + i;
        head->step = 40 + i;
        head->parameters = nn_floats(retrieval_layout_of(&head->config).count);
        REQUIRE(head->parameters != NULL);
        retrieval_initialise(&head->config, head->seed, head->parameters);
    }
    return heads;
}

/* The bytes of their file, to be freed. */
static char *written(size_t *size) {
    lab_error error = {0};
    retrieval_heads heads = two_heads();
    snprintf(path, sizeof path, "/tmp/whet-heads-%ld", (long)getpid());
    REQUIRE(retrieval_heads_write(path, &heads, &error));
    retrieval_heads_free(&heads);
    char *bytes = lab_read_file(path, 1 << 20, size, &error);
    REQUIRE(bytes != NULL);
    return bytes;
}

TEST(heads_come_back_with_their_seeds_steps_and_choices) {
    size_t size;
    free(written(&size));
    lab_error error = {0};
    retrieval_heads heads;
    REQUIRE(retrieval_heads_load(path, &heads, &error));
    CHECK_INT(heads.count, 2);
    CHECK_INT(heads.list[0].seed, 7);
    CHECK_INT(heads.list[1].step, 41);
    CHECK_INT(heads.list[0].config.width, 24);
    CHECK(heads.list[1].config.precision == RETRIEVAL_F32);
    retrieval_heads_free(&heads);
}

TEST(f32_weights_come_back_bit_for_bit_and_rounded_ones_as_they_multiply) {
    size_t size;
    free(written(&size));
    lab_error error = {0};
    retrieval_heads before = two_heads(), after;
    REQUIRE(retrieval_heads_load(path, &after, &error));
    size_t bytes = retrieval_layout_of(&before.list[0].config).count * sizeof(float);
    CHECK(same_bytes(before.list[1].parameters, after.list[1].parameters, bytes));
    CHECK(!same_bytes(before.list[0].parameters, after.list[0].parameters, bytes));
    float *place = malloc(bytes), *again = malloc(bytes);
    REQUIRE(place && again);
    retrieval_model model = retrieval_head_model(&before.list[0], &engine);
    CHECK(same_bytes(retrieval_as_multiplied(&model, place).parameters, after.list[0].parameters,
                     bytes));
    model = retrieval_head_model(&after.list[0], &engine);
    CHECK(same_bytes(retrieval_as_multiplied(&model, again).parameters, place, bytes));
    free(place);
    free(again);
    retrieval_heads_free(&before);
    retrieval_heads_free(&after);
}

static json_t *accuracy_of(const retrieval_heads *heads) {
    static const char *const names[] = {"softmax", "adaptive"};
    const whet_policy policies[] = {whet_policy_softmax(), whet_policy_adaptive()};
    const size_t sizes[] = {16, 300};
    lab_error error = {0};
    retrieval_evaluation result;
    retrieval_eval_request request = {.heads = heads,
                                      .sizes = sizes,
                                      .size_count = 2,
                                      .sets = 20,
                                      .policies = policies,
                                      .names = names,
                                      .policy_count = 2,
                                      .quiet = true};
    REQUIRE(retrieval_evaluate(&engine, &request, &result, &error));
    json_t *json = retrieval_evaluation_json(&result);
    retrieval_evaluation_free(&result);
    REQUIRE(json != NULL);
    return json;
}

TEST(heads_from_a_file_compute_what_the_heads_written_did) {
    size_t size;
    free(written(&size));
    lab_error error = {0};
    retrieval_heads before = two_heads(), after;
    REQUIRE(retrieval_heads_load(path, &after, &error));
    json_t *expected = accuracy_of(&before), *found = accuracy_of(&after);
    CHECK(json_equal(expected, found));
    json_decref(expected);
    json_decref(found);
    retrieval_heads_free(&before);
    retrieval_heads_free(&after);
}

/* In memory that ends where the file does, so that reading further is noticed. */
static bool is_taken(const char *bytes, size_t size, lab_error *error) {
    char *exact = malloc(size > 0 ? size : 1);
    REQUIRE(exact != NULL);
    memcpy(exact, bytes, size);
    retrieval_heads heads;
    *error = (lab_error){0};
    bool is_good = retrieval_heads_read("x", exact, size, &heads, error);
    CHECK(is_good || (heads.count == 0 && error->kind == LAB_INPUT));
    retrieval_heads_free(&heads);
    free(exact);
    return is_good;
}

TEST(files_that_end_early_are_refused) {
    size_t size, taken = 0;
    char *bytes = written(&size);
    lab_error error;
    for (size_t cut = 0; cut < size; cut += cut < 600 ? 1 : 97)
        taken += is_taken(bytes, cut, &error);
    CHECK_INT(taken, 0); /* the first record alone is not among the lengths tried */
    CHECK(is_taken(bytes, size, &error));
    free(bytes);
}

TEST(damaged_bytes_are_noticed) {
    size_t size;
    char *bytes = written(&size);
    lab_error error;
    for (size_t at = 0; at < size; at += at < 900 ? 1 : 61) {
        bytes[at] ^= 0x10;
        CHECK(!is_taken(bytes, size, &error));
        bytes[at] ^= 0x10;
    }
    free(bytes);
}
