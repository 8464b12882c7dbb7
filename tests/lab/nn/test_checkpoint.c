/* Checkpoints: what is written comes back, and any byte that changes is noticed. */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "nn/checkpoint.h"
#include "retrieval/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];

static void write_example(void) {
    snprintf(path, sizeof path, "/tmp/whet-checkpoint-%ld", (long)getpid());
    const float one[] = {1, 2, 3}, two[] = {-4};
    const nn_span spans[] = {{one, 3}, {two, 1}};
    json_t *description = json_pack("{s:s}", "model", "test");
    REQUIRE(nn_checkpoint_write(path, description, 77, spans, 2, NULL));
    json_decref(description);
}

TEST(what_was_written_is_read_back) {
    write_example();
    nn_checkpoint read;
    lab_error error = {0};
    REQUIRE(nn_checkpoint_read(path, &read, &error));
    CHECK_INT(read.step, 77);
    CHECK_INT(read.count, 4);
    CHECK(read.values[0] == 1 && read.values[2] == 3 && read.values[3] == -4);
    CHECK_STR(json_string_value(json_object_get(read.description, "model")), "test");
    nn_checkpoint_free(&read);
    unlink(path);
}

static bool is_refused(const char *bytes, size_t size) {
    nn_checkpoint read;
    lab_error error = {0};
    REQUIRE(replace_file_bytes(path, bytes, size));
    bool refused = !nn_checkpoint_read(path, &read, &error) && error.kind == LAB_INPUT &&
                   strstr(error.text, path);
    if (!refused)
        nn_checkpoint_free(&read);
    return refused;
}

TEST(any_byte_that_changes_is_noticed) {
    write_example();
    size_t size;
    char *bytes = lab_read_file(path, 1000, &size, NULL);
    REQUIRE(bytes != NULL);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x10;
        CHECK_MSG(is_refused(bytes, size), "byte %zu", i);
        bytes[i] ^= 0x10;
    }
    for (size_t shorter = 0; shorter < size; shorter++)
        CHECK_MSG(is_refused(bytes, shorter), "cut to %zu", shorter);
    free(bytes);
    unlink(path);
}

/* A sparse file of `length` bytes that begins with these. */
static void write_long(const char *bytes, size_t size, off_t length) {
    REQUIRE(replace_file_bytes(path, bytes, size));
    REQUIRE(truncate(path, length) == 0);
}

TEST(large_files_are_looked_at_before_memory_is_taken_for_them) {
    write_example();
    size_t size;
    char *bytes = lab_read_file(path, 1000, &size, NULL);
    REQUIRE(bytes != NULL);
    nn_checkpoint read;
    lab_error error = {0};
    write_long(bytes, size, (off_t)1 << 36);
    CHECK(!nn_checkpoint_read(path, &read, &error));
    CHECK_MSG(strstr(error.text, "sizes do not match") != NULL, "%s", error.text);
    error = (lab_error){0};
    write_long(bytes, size, ((off_t)1 << 40) + 1);
    CHECK(!nn_checkpoint_read(path, &read, &error));
    CHECK_MSG(strstr(error.text, "too large") != NULL, "%s", error.text);
    free(bytes);
    unlink(path);
}

TEST(a_checkpoint_of_another_model_is_no_head) {
    write_example();
    retrieval_head head;
    lab_error error = {0};
    CHECK(!retrieval_head_load(path, &head, &error));
    CHECK_INT(error.kind, LAB_INPUT);
    CHECK(strstr(error.text, "not a checkpoint of a max-retrieval head"));
    retrieval_head_free(&head);
    unlink(path);
}
