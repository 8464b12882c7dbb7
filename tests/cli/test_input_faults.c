/*
 * What the program's parts do when memory cannot be had: each allocation fails
 * in its turn, and every time there is an orderly answer and nothing is lost or
 * left behind.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/faults.h"

#include "base/atomic_file.h"
#include "commands.h"
#include "options.h"
#include "parse_rows.h"
#include "policy_list.h"
#include "read_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Runs an attempt with the first, second, ... allocation failing, until none fails any more. */
static long fail_each_in_turn(bool (*attempt)(bool failing)) {
    long rounds = 0;
    for (;; rounds++) {
        faults_begin(rounds + 1, FAULT_FOR_GOOD);
        bool is_right = attempt(true);
        faults_end();
        CHECK_MSG(faults_live() == 0, "allocation %ld: %ld blocks are left", rounds + 1,
                  faults_live());
        if (!faults_struck()) {
            /* Enough memory at last. */
            CHECK(attempt(false));
            return rounds;
        }
        CHECK_MSG(is_right, "when allocation %ld fails", rounds + 1);
        if (rounds > 1000)
            return rounds;
    }
}

static bool parse_a_long_row(bool failing) {
    char line[4000];
    memset(line, ' ', sizeof line);
    for (size_t i = 0; i < sizeof line; i += 2)
        line[i] = '1';
    line[sizeof line - 1] = '\0';
    row_values row = {0};
    row_error error;
    row_result result = parse_row(line, sizeof line - 1, &row, &error);
    bool is_right = failing ? result == ROW_NO_MEMORY : result == ROW_PARSED && row.n == 2000;
    free(row.values);
    return is_right;
}

TEST(a_row_without_memory_is_reported) { CHECK(fail_each_in_turn(parse_a_long_row) >= 2); }

static bool read_a_long_line(bool failing) {
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    line_reader reader = {.in = {.descriptor = ends[0], .output = stdout}};
    static char block[40000];
    memset(block, 'x', sizeof block);
    const char *line;
    size_t length;
    ssize_t sent = write(ends[1], block, sizeof block);
    close(ends[1]);
    line_result result = read_line(&reader, &line, &length);
    bool is_right =
        failing ? result == LINE_OUT_OF_MEMORY : result == LINE_READ && (ssize_t)length == sent;
    free(reader.in.buffer);
    close(ends[0]);
    return is_right;
}

TEST(a_line_without_memory_is_reported) {
    fflush(stdout);
    CHECK(fail_each_in_turn(read_a_long_line) >= 1);
}

/* The program's complaints would be in the way of the test's own lines. */
static int silenced(int (*run)(void)) {
    fflush(stdout);
    fflush(stderr);
    int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
    int status = run();
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    return status;
}

static int list_two_policies(void) {
    static const char *const names[] = {"softmax", "adaptive"};
    policy_list list;
    int status = make_policy_list(names, 2, &list);
    if (status == STATUS_OK)
        free_policy_list(&list);
    return status;
}

static int parse_two_options(void) {
    text_list list = {0};
    const option_spec options[] = {{"policy", OPTION_LIST, &list, "NAME", "a name"}};
    const command_syntax syntax = {
        .name = "test", .operands = "", .about = "", .options = options, .option_count = 1};
    char words[][9] = {"test", "--policy", "a", "--policy", "b"};
    char *argv[] = {words[0], words[1], words[2], words[3], words[4], NULL};
    int operands = 0;
    int status = options_status(parse_options(&syntax, 5, argv, &operands));
    free(list.items);
    return status;
}

static bool attempt_policies(bool failing) {
    return silenced(list_two_policies) == (failing ? STATUS_FAILED : STATUS_OK);
}

static bool attempt_options(bool failing) {
    return silenced(parse_two_options) == (failing ? STATUS_FAILED : STATUS_OK);
}

static void write_greeting(FILE *file, const void *context) { fputs(context, file); }

static char folder[] = "/tmp/whet-faults.XXXXXX";
static char target[64];

static bool replace_a_file(bool failing) {
    errno = 0;
    bool is_written = replace_file(target, write_greeting, "hello\n");
    return failing ? !is_written && errno == ENOMEM && access(target, F_OK) != 0 : is_written;
}

TEST(a_file_without_memory_is_not_written) {
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(target, sizeof target, "%s/file", folder);
    CHECK(fail_each_in_turn(replace_a_file) >= 2);
    CHECK(unlink(target) == 0);
    CHECK(rmdir(folder) == 0); /* and so there is nothing else in it */
}

TEST(policies_without_memory_are_reported) { CHECK(fail_each_in_turn(attempt_policies) >= 1); }

TEST(options_without_memory_are_reported) { CHECK(fail_each_in_turn(attempt_options) >= 2); }
