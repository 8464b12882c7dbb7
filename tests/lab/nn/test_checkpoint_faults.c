// Checkpoints while memory runs out: written whole or not at all, and one that cannot be read
// because memory runs out is not called damaged.
#define _POSIX_C_SOURCE 200809L

#include "support/faults.h"
#include "support/lab_faults.h"

#include "nn/checkpoint.h"

#include <unistd.h>

static char path[64];
static const float numbers[] = {1, 2, 3, 4};

static bool write_step(uint64_t step, lab_error *error) {
    snprintf(path, sizeof path, "/tmp/whet-checkpoint-faults-%ld", (long)getpid());
    const nn_span spans[] = {{numbers, 3}, {numbers, 1}};
    json_t *description = json_pack("{s:s, s:[i,i]}", "model", "test", "sizes", 5, 16);
    bool is_written = nn_checkpoint_write(path, description, step, spans, 2, error);
    json_decref(description);
    return is_written;
}

static bool write_second(lab_error *error) { return write_step(2, error); }

static uint64_t step_of_file(void) {
    nn_checkpoint read;
    REQUIRE(nn_checkpoint_read(path, &read, NULL));
    uint64_t step = read.step;
    nn_checkpoint_free(&read);
    return step;
}

static void check_step(bool is_done) { CHECK_INT(step_of_file(), is_done ? 2 : 1); }

TEST(a_checkpoint_is_replaced_or_left_alone) {
    REQUIRE(write_step(1, NULL));
    lab_faults_try(write_second, check_step);
    unlink(path);
}

static bool read_back(lab_error *error) {
    nn_checkpoint read;
    bool is_read = nn_checkpoint_read(path, &read, error);
    if (is_read) {
        CHECK_INT(read.count, 4);
        nn_checkpoint_free(&read);
    }
    return is_read;
}

TEST(a_checkpoint_is_read_whole_or_for_want_of_memory_not) {
    REQUIRE(write_step(1, NULL));
    lab_faults_try(read_back, NULL);
    unlink(path);
}
