/*
 * The first steps of a recorded head, trained again: the same bits as recorded in
 * lab/heads/record.json, which also names the instruction set and the compiler
 * that they hold for.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/engine.h"

#include "base/checksum.h"
#include "base/files.h"
#include "base/machine.h"
#include "heads/builtin.h"
#include "retrieval/trainer.h"

#include <stdlib.h>
#include <string.h>

/* Before anything asks for it. */
__attribute__((constructor)) static void choose_set(void) { setenv("WHET_ISA", "avx2", 1); }

static json_t *read_record(void) {
    lab_error error = {0};
    const char *folder = getenv("WHET_SOURCE_DIR");
    if (!folder)
        SKIP("WHET_SOURCE_DIR is not set");
    char *path = lab_path(folder, "lab/heads/record.json");
    REQUIRE(path != NULL);
    json_t *record = lab_json_read(path, &error);
    free(path);
    REQUIRE(record != NULL);
    return record;
}

static const char *text_of(const json_t *record, const char *name) {
    const char *text = json_string_value(json_object_get(record, name));
    REQUIRE(text != NULL);
    return text;
}

/* Whether this build computes what the recorded one did, as far as can be told. */
static bool is_same_build(const json_t *record) {
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    return strcmp(lab_compiler(), text_of(record, "compiler")) == 0;
#else
    (void)record;
    return false;
#endif
}

TEST(the_first_steps_of_a_recorded_head_are_the_same_bits) {
    json_t *record = read_record();
    if (strcmp(whet_isa(), text_of(record, "isa")) != 0)
        SKIP("recorded with %s, which this processor lacks", text_of(record, "isa"));
    const json_t *training = json_object_get(record, "training");
    size_t hashed_at = (size_t)json_integer_value(json_object_get(training, "hashed_at"));
    size_t logged_at = (size_t)json_integer_value(json_object_get(training, "logged_at"));
    CHECK_INT(hashed_at, 300);
    CHECK_INT(logged_at, 500);
    retrieval_config config = retrieval_config_default();
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(training, "seed"));
    lab_error error = {0};
    retrieval_trainer *trainer = retrieval_trainer_create(&engine, &config, seed, NULL, &error);
    REQUIRE(trainer != NULL);
    double loss = 0;
    char hash[24] = "";
    for (size_t step = 1; step <= logged_at; step++) {
        retrieval_step result;
        REQUIRE(retrieval_trainer_step(trainer, &result, &error));
        loss += step > 1 ? result.loss : 0; /* the first has a line of its own */
        if (step != hashed_at)
            continue;
        retrieval_head head;
        REQUIRE(retrieval_trainer_head(trainer, &head, &error));
        size_t bytes = retrieval_layout_of(&config).count * sizeof(float);
        snprintf(hash, sizeof hash, "%016llx",
                 (unsigned long long)lab_checksum(lab_checksum_start, head.parameters, bytes));
        retrieval_head_free(&head);
    }
    retrieval_trainer_destroy(trainer);
    bool is_same = strcmp(hash, text_of(training, "weights_fnv1a")) == 0;
    if (!is_same && !is_same_build(record)) {
        json_decref(record);
        SKIP("recorded with %s, optimised; this build rounds differently", "gcc 12.2.0");
    }
    CHECK_STR(hash, text_of(training, "weights_fnv1a"));
    CHECK_NEAR(loss / (double)(logged_at - 1),
               json_number_value(json_object_get(training, "mean_loss")), 1e-9);
    json_decref(record);
}

static void check_file(const json_t *record, const char *name, retrieval_precision precision) {
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)builtin_heads_checksum(precision));
    CHECK_STR(text, text_of(json_object_get(json_object_get(record, "files"), name), "fnv1a"));
}

TEST(the_program_has_the_recorded_heads) {
    json_t *record = read_record();
    check_file(record, "bf16-products.heads", RETRIEVAL_BF16_PRODUCTS);
    check_file(record, "f32.heads", RETRIEVAL_F32);
    json_decref(record);
}
