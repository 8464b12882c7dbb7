/* Random numbers, tables, durations, signals and errors of the laboratory. */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/machine.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/signals.h"
#include "base/table.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TEST(seeds_differ_by_seed_purpose_and_index) {
    uint64_t seeds[] = {lab_seed_for(1, "data", 0), lab_seed_for(2, "data", 0),
                        lab_seed_for(1, "eval", 0), lab_seed_for(1, "data", 1),
                        lab_seed_for(1, "dat", 0),  lab_seed_for(1, "", 0)};
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(seeds[i] != seeds[j]);
    CHECK(lab_seed_for(1, "data", 1) == seeds[3]);
}

TEST(random_numbers_have_the_moments_they_should) {
    enum { COUNT = 200000 };
    lab_random random = lab_random_start(lab_seed_for(7, "moments", 0));
    double sum = 0, squares = 0, normal = 0, normal_squares = 0;
    size_t counts[10] = {0};
    for (size_t i = 0; i < COUNT; i++) {
        double u = (double)lab_random_float(&random);
        REQUIRE(u >= 0 && u < 1);
        sum += u;
        squares += u * u;
        double z = lab_random_normal(&random);
        normal += z;
        normal_squares += z * z;
        counts[lab_random_below(&random, 10)]++;
    }
    CHECK_NEAR(sum / COUNT, 0.5, 0.003);
    CHECK_NEAR(squares / COUNT, 1.0 / 3, 0.003);
    CHECK_NEAR(normal / COUNT, 0, 0.01);
    CHECK_NEAR(normal_squares / COUNT, 1, 0.015);
    for (size_t i = 0; i < 10; i++)
        CHECK_NEAR((double)counts[i] / COUNT, 0.1, 0.004);
}

TEST(tables_align_their_columns) {
    lab_table table = lab_table_start(3);
    const char *const cells[] = {"name", "n", "β", "a", "16", "", "long name", "1,024", "2.5"};
    for (size_t i = 0; i < 9; i++)
        lab_table_add(&table, "%s", cells[i]);
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    REQUIRE(file != NULL);
    CHECK(lab_table_finish(&table, file));
    fclose(file);
    CHECK_STR(text, "name           n    β\n"
                    "a             16\n"
                    "long name  1,024  2.5\n");
    free(text);
}

TEST(durations_are_told_in_fitting_units) {
    char text[LAB_TIME_SIZE];
    CHECK_STR(lab_duration(41.6, text), "42 s");
    CHECK_STR(lab_duration(200, text), "3 min 20 s");
    CHECK_STR(lab_duration(4320, text), "1 h 12 min");
    CHECK_STR(lab_duration(47.5 * 3600, text), "47 h 30 min");
    CHECK_STR(lab_duration(58617000, text), "678 days");
    CHECK_STR(lab_duration((double)NAN, text), "?");
    CHECK_INT(strlen(lab_time_of_day(text)), 20);
}

/* Takes two signals, `apart` nanoseconds from one to the other, in a process of its own. Its status
 * is 4 where it lives on; `text` has what it says on standard error. */
static int status_after_two(int first, int second, long apart, char *text, size_t size) {
    int ends[2], status = 0;
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct timespec rest = {apart / 1000000000, apart % 1000000000};
        dup2(ends[1], STDERR_FILENO);
        lab_catch_interrupts();
        if (lab_interrupted())
            _exit(1);
        raise(first);
        if (!lab_interrupted())
            _exit(2);
        nanosleep(&rest, NULL);
        raise(second);
        _exit(lab_interrupted() ? 4 : 3);
    }
    close(ends[1]);
    waitpid(child, &status, 0);
    ssize_t length = read(ends[0], text, size - 1);
    close(ends[0]);
    REQUIRE(length >= 0);
    text[length] = '\0';
    return status;
}

TEST(the_first_interrupt_is_a_flag_and_the_second_ends_the_program_after_a_word) {
    char text[256];
    int status = status_after_two(SIGINT, SIGINT, 1100000000, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    CHECK_MSG(strstr(text, "whet: second signal: ended at once") != NULL, "%s", text);
    status = status_after_two(SIGINT, SIGTERM, 1100000000, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(signals_that_come_together_are_one) {
    char text[256];
    int status = status_after_two(SIGTERM, SIGTERM, 0, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    CHECK_STR(text, "");
}

TEST(the_first_of_several_errors_is_kept) {
    lab_error error = {0};
    CHECK(!lab_fail(&error, LAB_INPUT, "no %s", "file"));
    CHECK(!lab_fail_memory(&error));
    CHECK_STR(error.text, "no file");
    CHECK_INT(error.kind, LAB_INPUT);
    CHECK(!lab_fail_memory(NULL));
}

TEST(an_error_gives_no_orders_to_a_terminal) {
    lab_error error = {0};
    lab_fail(&error, LAB_INPUT, "a tensor '%s'", "\x1b[2Jw\xC3\xA4hlt\n!\x7f");
    CHECK_STR(error.text, "a tensor '?[2Jw\xC3\xA4hlt?!?'");
}

TEST(the_machine_has_a_processor) {
    char name[64];
    lab_cpu_name(name, sizeof name);
    CHECK(*name && lab_processors() >= 1 && *lab_compiler());
}

/* What a pipe gets: lines with the share done and the time left. */
TEST(progress_into_a_pipe_comes_in_lines) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        lab_progress progress = lab_progress_begin("work", 0, 100, false);
        progress.shown -= 10; /* as if ten seconds had gone by */
        progress.began -= 10;
        lab_progress_show(&progress, 25, "loss %.2f", 0.5);
        lab_progress_show(&progress, 26, "not due yet");
        lab_progress_end(&progress);
        _exit(0);
    }
    close(ends[1]);
    char text[256] = "";
    waitpid(child, NULL, 0);
    ssize_t length = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    REQUIRE(length >= 0);
    CHECK_STR(text, "work  25 %, loss 0.50, 30 s left\n");
}

TEST(arrays_grow_and_keep_their_items) {
    size_t capacity = 0, moves = 0;
    int *items = NULL;
    for (int i = 0; i < 10000; i++) {
        size_t before = capacity;
        int *grown = lab_grow(items, sizeof *items, (size_t)i + 1, &capacity);
        REQUIRE(grown != NULL && capacity > (size_t)i);
        moves += capacity != before;
        items = grown;
        items[i] = i;
    }
    for (int i = 0; i < 10000; i++)
        CHECK_INT(items[i], i);
    CHECK(moves < 32);
    size_t kept = capacity;
    CHECK(lab_grow(items, sizeof *items, SIZE_MAX / 2, &capacity) == NULL && capacity == kept);
    CHECK(lab_grow(items, sizeof *items, SIZE_MAX, &capacity) == NULL && capacity == kept);
    free(items);
}
