/*
 * Whole commands when memory runs out: every allocation and thread creation of a
 * command fails in its turn, in a process of its own. Each time the exit status
 * is 1, a message is on standard error, nothing is lost, and what is on standard
 * output is the beginning of the right answer, in whole lines.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/faults.h"

#include "commands.h"
#include "gguf/write.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 12, FAULTS_MAX = 200, TEXT_MAX = 1 << 20 };

/* A command line, what it finds on standard input, and how many faults to try (0: all). */
typedef struct command_line {
    int (*run)(int argc, char **argv);
    const char *arguments[ARGUMENTS_MAX];
    const char *input;
    long faults_max;
} command_line;

typedef struct outcome {
    int status; /* -1: crashed */
    bool struck;
    long live;
    char *output; /* owned */
    char *errors; /* owned */
} outcome;

static FILE *file_with(const char *text) {
    FILE *file = tmpfile();
    if (file) {
        fputs(text, file);
        rewind(file);
    }
    return file;
}

static char *text_of(FILE *file) {
    char *text = calloc(1, TEXT_MAX);
    if (!text) {
        abort(); /* this one was not meant to fail */
    }
    rewind(file);
    text[fread(text, 1, TEXT_MAX - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void free_outcome(outcome *ended) {
    free(ended->output);
    free(ended->errors);
}

/* The child: tells what became of it through a pipe, whose other end is lost if it crashes. */
static _Noreturn void run_in_child(const command_line *line, long k, fault_kind kind, int report) {
    char texts[ARGUMENTS_MAX][64];
    char *argv[ARGUMENTS_MAX + 1] = {NULL};
    int argc = 0;
    for (; argc < ARGUMENTS_MAX && line->arguments[argc]; argc++) {
        snprintf(texts[argc], sizeof texts[argc], "%s", line->arguments[argc]);
        argv[argc] = texts[argc];
    }
    outcome ended = {0};
    alarm(200);
    faults_begin(k, kind);
    ended.status = line->run(argc, argv);
    faults_end();
    ended.struck = faults_struck();
    ended.live = faults_live();
    fflush(stdout);
    fflush(stderr);
    _exit(write(report, &ended, sizeof ended) == (ssize_t)sizeof ended ? 0 : 1);
}

static outcome run_line(const command_line *line, long k, fault_kind kind) {
    outcome ended = {.status = -1};
    int ends[2] = {-1, -1};
    FILE *input = file_with(line->input ? line->input : "");
    FILE *output = tmpfile();
    FILE *errors = tmpfile();
    REQUIRE(input && output && errors && pipe(ends) == 0);
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(input), STDIN_FILENO);
        dup2(fileno(output), STDOUT_FILENO);
        dup2(fileno(errors), STDERR_FILENO);
        run_in_child(line, k, kind, ends[1]);
    }
    close(ends[1]);
    outcome told;
    int status = 0;
    bool has_told = read(ends[0], &told, sizeof told) == (ssize_t)sizeof told;
    close(ends[0]);
    if (CHECK(child > 0 && waitpid(child, &status, 0) == child) && has_told && status == 0) {
        ended = told;
    }
    fclose(input);
    ended.output = text_of(output);
    ended.errors = text_of(errors);
    return ended;
}

/* Whether a text is the beginning of another, and stops at the end of a line. */
static bool begins_in_whole_lines(const char *whole, const char *part) {
    size_t length = strlen(part);
    return strncmp(whole, part, length) == 0 && (length == 0 || part[length - 1] == '\n');
}

static void check_failure(const outcome *ended, const char *right_output) {
    CHECK_INT(ended->status, STATUS_FAILED);
    CHECK_INT(ended->live, 0);
    CHECK_MSG(strncmp(ended->errors, "whet ", 5) == 0 && strstr(ended->errors, "memory"),
              "standard error: %s", ended->errors);
    CHECK_MSG(begins_in_whole_lines(right_output, ended->output), "standard output: %s",
              ended->output);
}

/* Fails each call in turn; returns how many there are. */
static long fail_line(const command_line *line, fault_kind kind, const char *right_output) {
    long faults_max = line->faults_max ? line->faults_max : FAULTS_MAX;
    for (long k = 1; k <= faults_max; k++) {
        outcome ended = run_line(line, k, kind);
        bool struck = ended.status < 0 || ended.struck;
        if (struck) {
            check_failure(&ended, right_output);
        } else {
            CHECK_INT(ended.status, STATUS_OK);
            CHECK_STR(ended.output, right_output);
        }
        free_outcome(&ended);
        if (!struck) {
            return k - 1;
        }
    }
    return faults_max;
}

/* The least number of allocations that must have failed for the test to mean anything. */
static void check_line(const command_line *line, long faults_min) {
    outcome right = run_line(line, 0, FAULT_ONCE);
    CHECK_INT(right.status, STATUS_OK);
    CHECK_INT(right.live, 0);
    CHECK_STR(right.errors, "");
    long once = fail_line(line, FAULT_ONCE, right.output);
    long for_good = fail_line(line, FAULT_FOR_GOOD, right.output);
    CHECK_INT(once, for_good);
    CHECK(once >= faults_min && once < FAULTS_MAX);
    free_outcome(&right);
}

/* Rows that grow, so that every buffer grows, too: 2, 300, 1000, 20,000 and 3 numbers. */
static const char *growing_rows(void) {
    static char text[100000];
    static const int lengths[] = {2, 300, 1000, 20000, 3};
    size_t used = 0;
    for (size_t row = 0; row < sizeof lengths / sizeof lengths[0]; row++) {
        for (int n = 0; n < lengths[row]; n++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%d.%d ", n % 7, n % 10);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "\n");
    }
    return text;
}

TEST(softmax_says_when_memory_runs_out) {
    command_line line = {.run = command_softmax, .arguments = {"softmax"}, .input = growing_rows()};
    check_line(&line, 6);
}

TEST(softmax_with_several_policies_says_when_memory_runs_out) {
    command_line line = {.run = command_softmax,
                         .arguments = {"softmax", "--policy", "adaptive", "--policy", "topk:3",
                                       "--policy=target:1", "-"},
                         .input = growing_rows()};
    check_line(&line, 8);
}

TEST(statistics_say_when_memory_runs_out) {
    command_line line = {.run = command_softmax,
                         .arguments = {"softmax", "--stats", "--policy", "adaptive"},
                         .input = growing_rows()};
    check_line(&line, 6);
}

/* The same as JSON. */
static const char *growing_arrays(void) {
    static char text[110000];
    size_t used = 0;
    bool is_first = true;
    text[used++] = '[';
    for (const char *c = growing_rows(); *c; c++)
        if (*c == '\n') {
            text[used++] = '\n';
            is_first = true;
        } else if (*c == ' ' && c[1] == '\n') {
            text[used++] = ']';
        } else if (*c == ' ') {
            text[used++] = ',';
        } else {
            if (is_first)
                used += (size_t)snprintf(text + used, sizeof text - used, used > 1 ? ",[" : "[");
            is_first = false;
            text[used++] = *c;
        }
    text[used++] = ']';
    text[used] = '\0';
    return text;
}

TEST(rows_of_json_say_when_memory_runs_out) {
    command_line line = {
        .run = command_softmax, .arguments = {"softmax"}, .input = growing_arrays()};
    check_line(&line, 6);
}

TEST(rows_of_npy_say_when_memory_runs_out) {
    char path[] = "/tmp/whet-faults.XXXXXX";
    int descriptor = mkstemp(path);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    REQUIRE(file != NULL);
    static const float values[3 * 20000];
    static const char header[] = "{'descr': '=f4', 'fortran_order': True, 'shape': (3, 20000), }\n";
    fprintf(file, "\x93NUMPY\x01%c%c%c%s", 0, (int)sizeof header - 1, 0, header);
    CHECK_INT(fwrite(values, sizeof values, 1, file), 1);
    CHECK_INT(fclose(file), 0);
    command_line line = {.run = command_softmax, .arguments = {"softmax", path}};
    check_line(&line, 6);
    CHECK_INT(unlink(path), 0);
}

TEST(tensors_of_gguf_files_say_when_memory_runs_out) {
    char folder[] = "/tmp/whet-cli-faults.XXXXXX";
    char path[64], kept[64];
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    snprintf(kept, sizeof kept, "%s/kept.json", folder);
    static const float values[3 * 32];
    static const uint64_t dims[] = {32, 3};
    lab_error error = {.kind = LAB_NO_ERROR};
    gguf_writer *writer = gguf_writer_start();
    gguf_put_tensor(writer, "t", 2, dims, GGUF_F32, values);
    REQUIRE(gguf_writer_finish(writer, path, &error));
    command_line list = {.run = command_gguf, .arguments = {"gguf", path}};
    check_line(&list, 3);
    command_line json = {.run = command_gguf, .arguments = {"gguf", path, "--json", kept}};
    check_line(&json, 3);
    command_line floats = {.run = command_gguf,
                           .arguments = {"gguf", path, "--tensor", "t", "--out", kept}};
    check_line(&floats, 3);
    CHECK_INT(unlink(kept), 0);
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(folder), 0);
}

TEST(policies_need_no_memory) {
    static const char *const options[] = {NULL, "--json", "--names", "--help"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        command_line line = {.run = command_policies, .arguments = {"policies", options[i]}};
        check_line(&line, 0);
    }
}

TEST(the_demo_says_when_memory_runs_out) {
    command_line line = {
        .run = command_demo,
        .arguments = {"demo", "--policy", "softmax", "--policy", "length:16", "--no-color"}};
    check_line(&line, 6);
}

TEST(the_demo_leaves_no_file_behind_when_memory_runs_out) {
    char folder[] = "/tmp/whet-cli-faults.XXXXXX";
    char path[64];
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/demo.svg", folder);
    command_line line = {.run = command_demo,
                         .arguments = {"demo", "--policy", "softmax", "--svg", path}};
    for (long k = 1; k < FAULTS_MAX; k++) {
        outcome ended = run_line(&line, k, FAULT_ONCE);
        bool struck = ended.status < 0 || ended.struck;
        if (struck) {
            check_failure(&ended, "");
            CHECK(access(path, F_OK) != 0);
        } else {
            CHECK_INT(ended.status, STATUS_OK);
            CHECK(unlink(path) == 0);
            CHECK(k > 5);
        }
        free_outcome(&ended);
        if (!struck) {
            break;
        }
    }
    CHECK(rmdir(folder) == 0); /* nothing else is in it */
}

/* The benchmark measures for a while once it has its memory: only the faults before that. */
static void check_bench(const char *section, long faults) {
    command_line line = {
        .run = command_bench,
        .arguments = {"bench", "--quick", "--threads", "1", "--only", section},
        .faults_max = faults,
    };
    CHECK_INT(fail_line(&line, FAULT_FOR_GOOD, ""), faults);
}

TEST(the_benchmark_says_when_memory_runs_out) {
    check_bench("rows", 4); /* the pool, its list of threads, rows in and out */
    check_bench("prefill", 6);
    check_bench("decode", 6);
}
