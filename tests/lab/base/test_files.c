/* Files of the laboratory on disks that do not cooperate: nothing earlier is ever lost. */
#include "support/check.h"

#include "base/atomic_file.h"
#include "base/csv.h"
#include "base/files.h"
#include "base/json.h"
#include "base/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static void make_scratch(void) {
    snprintf(folder, sizeof folder, "/tmp/whet-base.XXXXXX");
    REQUIRE(mkdtemp(folder));
}

static void remove_scratch(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK_INT(system(command), 0); /* NOLINT(cert-env33-c): a path of our own */
}

static void write_text(FILE *file, const void *context) { fputs(context, file); }

static void write_much(FILE *file, const void *context) {
    (void)context;
    for (int i = 0; i < 100000; i++)
        fputs("0123456789", file);
}

static bool holds(const char *path, const char *expected) {
    size_t size;
    char *text = lab_read_file(path, 1 << 20, &size, NULL);
    bool same = text && strcmp(text, expected) == 0;
    free(text);
    return same;
}

static int entries(void) {
    char command[160];
    snprintf(command, sizeof command, "test $(ls -A %s | wc -l) -eq 1", folder);
    return system(command); /* NOLINT(cert-env33-c) */
}

/* In a process of its own: a limit on the size of files is for good. */
static int replace_with_little_disk(const char *path) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        struct rlimit limit = {65536, 65536};
        setrlimit(RLIMIT_FSIZE, &limit);
        bool is_done = replace_file(path, write_much, NULL);
        _exit(is_done ? 0 : errno == EFBIG ? 3 : 4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_full_disk_leaves_the_old_file_and_nothing_else) {
    make_scratch();
    char *path = lab_path(folder, "result.json");
    REQUIRE(path && replace_file(path, write_text, "old\n"));
    CHECK_INT(replace_with_little_disk(path), 3);
    CHECK(holds(path, "old\n"));
    CHECK_INT(entries(), 0);
    free(path);
    remove_scratch();
}

TEST(a_folder_that_cannot_be_written_to_is_a_clear_error) {
    make_scratch();
    lab_error error = {0};
    char *path = lab_path(folder, "missing/%s", "result.json");
    json_t *json = json_object();
    REQUIRE(path && json);
    CHECK(!lab_json_write(path, json, &error));
    CHECK_INT(error.kind, LAB_SYSTEM);
    CHECK(strstr(error.text, path) && strstr(error.text, "No such file"));
    json_decref(json);
    free(path);
    remove_scratch();
}

TEST(folders_are_made_with_those_above_them) {
    make_scratch();
    char *path = lab_path(folder, "a/b/c");
    lab_error error = {0};
    CHECK(path && lab_make_folder(path, &error));
    CHECK(path && lab_make_folder(path, &error));
    char *file = lab_path(folder, "plain");
    REQUIRE(file && replace_file(file, write_text, ""));
    CHECK(!lab_make_folder(file, &error));
    CHECK(strstr(error.text, "Not a directory"));
    char *below = lab_path(file, "x");
    lab_error second = {0};
    CHECK(below && !lab_make_folder(below, &second));
    free(below);
    free(file);
    free(path);
    remove_scratch();
}

TEST(json_comes_back_as_it_was_and_says_where_it_is_broken) {
    make_scratch();
    char *path = lab_path(folder, "numbers.json");
    lab_error error = {0};
    double values[] = {0.1, 1e-300, INFINITY, 3};
    json_t *json = lab_json_numbers(values, 4);
    REQUIRE(path && lab_json_write(path, json, &error));
    json_decref(json);
    json = lab_json_read(path, &error);
    REQUIRE(json != NULL);
    CHECK(json_real_value(json_array_get(json, 0)) == 0.1);
    CHECK(json_real_value(json_array_get(json, 1)) == 1e-300);
    CHECK(json_is_null(json_array_get(json, 2)));
    json_decref(json);
    REQUIRE(replace_file(path, write_text, "{\n\"a\": }\n"));
    CHECK(lab_json_read(path, &error) == NULL);
    CHECK_INT(error.kind, LAB_INPUT);
    CHECK(strstr(error.text, ":2: "));
    free(path);
    remove_scratch();
}

TEST(a_log_is_cut_after_the_last_step_that_counts) {
    make_scratch();
    char *path = lab_path(folder, "log.jsonl");
    lab_error error = {0};
    json_t *last_kept = NULL;
    REQUIRE(path && lab_json_log_cut(path, "step", 5, &last_kept, &error));
    CHECK(last_kept == NULL);
    REQUIRE(replace_file(path, write_text, "{\"step\":1}\n{\"step\":5}\n{\"step\":6}\n{\"step\":"));
    CHECK(lab_json_log_cut(path, "step", 5, &last_kept, &error));
    CHECK_INT(json_integer_value(json_object_get(last_kept, "step")), 5);
    json_decref(last_kept);
    CHECK(holds(path, "{\"step\":1}\n{\"step\":5}\n"));
    free(path);
    remove_scratch();
}

static bool refused(const char *path, size_t limit, const char *why) {
    size_t size;
    lab_error error = {.kind = LAB_NO_ERROR};
    char *text = lab_read_text(path, limit, &size, &error);
    bool is_refused = !text && CHECK_INT(error.kind, LAB_INPUT) && strstr(error.text, why);
    CHECK_MSG(is_refused, "%s: %s", path, error.text);
    free(text);
    return is_refused;
}

TEST(text_with_a_nul_byte_is_refused) {
    make_scratch();
    char *path = lab_path(folder, "text");
    REQUIRE(path && replace_file_bytes(path, "abc\0def", 7));
    CHECK(refused(path, 100, "not a text file (NUL byte at offset 3)"));
    CHECK(refused("/dev/zero", (size_t)1 << 40, "not a text file (NUL byte at offset 0)"));
    size_t size = 0;
    char *bytes = lab_read_file(path, 100, &size, NULL);
    CHECK_INT(size, 7); /* which is no matter where bytes are read */
    free(bytes);
    free(path);
    remove_scratch();
}

TEST(what_has_no_end_is_read_up_to_the_limit) {
    make_scratch();
    char *path = lab_path(folder, "text");
    size_t size = 0;
    lab_error error = {.kind = LAB_NO_ERROR};
    REQUIRE(path && replace_file(path, write_text, "12345"));
    CHECK(refused(path, 4, "too large (5 bytes)"));
    CHECK(lab_read_file("/dev/zero", 1000000, &size, &error) == NULL);
    CHECK(strstr(error.text, "/dev/zero: too large (more than 1000000 bytes)"));
    char *text = lab_read_text(path, 5, &size, NULL);
    CHECK(text && size == 5 && strcmp(text, "12345") == 0);
    free(text);
    text = lab_read_text("/dev/null", 5, &size, NULL);
    CHECK(text && size == 0 && text[0] == '\0');
    free(text);
    free(path);
    remove_scratch();
}

TEST(a_pipe_is_read_to_its_end) {
    int ends[2];
    char path[40];
    REQUIRE(pipe(ends) == 0);
    CHECK_INT(write(ends[1], "through a pipe", 14), 14);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    size_t size = 0;
    char *text = lab_read_text(path, 100, &size, NULL);
    CHECK(text && size == 14 && strcmp(text, "through a pipe") == 0);
    free(text);
    close(ends[0]);
}

TEST(csv_quotes_what_needs_it) {
    make_scratch();
    char *path = lab_path(folder, "a.csv");
    FILE *file = path ? fopen(path, "w") : NULL;
    REQUIRE(file != NULL);
    lab_csv csv = {.file = file};
    lab_csv_text(&csv, "plain");
    lab_csv_text(&csv, "a,b \"c\"");
    lab_csv_number(&csv, 0.5);
    lab_csv_number(&csv, NAN);
    lab_csv_end_line(&csv);
    lab_csv_number(&csv, 3);
    lab_csv_end_line(&csv);
    fclose(file);
    CHECK(holds(path, "plain,\"a,b \"\"c\"\"\",0.5,\n3\n"));
    free(path);
    remove_scratch();
}

TEST(bytes_are_written_as_they_are) {
    make_scratch();
    char *path = lab_path(folder, "bytes");
    REQUIRE(path != NULL);
    CHECK(replace_file_bytes(path, "one two", 3));
    CHECK(holds(path, "one"));
    CHECK(replace_file_bytes(path, "", 0));
    CHECK(holds(path, ""));
    free(path);
    remove_scratch();
}

TEST(a_manifest_tells_what_made_a_result) {
    make_scratch();
    lab_error error = {0};
    lab_manifest manifest = lab_manifest_begin("train", json_pack("{s:i}", "steps", 7), NULL);
    CHECK(lab_manifest_write(&manifest, folder, false, &error));
    CHECK(lab_manifest_write(&manifest, folder, true, &error));
    lab_manifest_end(&manifest);
    char *path = lab_path(folder, "manifest.json");
    json_t *json = path ? lab_json_read(path, &error) : NULL;
    REQUIRE(json != NULL);
    CHECK_INT(json_integer_value(json_object_get(json_object_get(json, "options"), "steps")), 7);
    CHECK(json_is_true(json_object_get(json, "complete")));
    const char *const keys[] = {"command", "begun", "ended", "seconds", "versions", "machine"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        CHECK_MSG(json_object_get(json, keys[i]) != NULL, "%s is missing", keys[i]);
    json_decref(json);
    free(path);
    remove_scratch();
}

static void leave(const char *name, int *descriptor) {
    char *path = lab_path(folder, "%s", name);
    REQUIRE(path);
    *descriptor = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(*descriptor >= 0);
    free(path);
}

static bool is_left(const char *name) {
    char *path = lab_path(folder, "%s", name);
    bool is = path && lab_file_exists(path);
    free(path);
    return is;
}

TEST(temporary_files_of_killed_processes_are_removed_before_a_file_is_written) {
    /* A process that is gone, one that lives, and files that only look like it. */
    char gone[32], held[32], alive[32];
    int descriptors[8];
    make_scratch();
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    REQUIRE(waitpid(child, NULL, 0) == child);
    snprintf(gone, sizeof gone, "a.%ld-0.tmp", (long)child);
    snprintf(held, sizeof held, "a.%ld-1.tmp", (long)child);
    snprintf(alive, sizeof alive, "a.%ld-0.tmp", (long)getpid());
    char other[40], longer[40];
    snprintf(other, sizeof other, "ab.%ld-0.tmp", (long)child);
    snprintf(longer, sizeof longer, "a.b.%ld-0.tmp", (long)child);
    const char *const names[] = {gone, held, alive, other, longer, "a.tmp", "a.x-0.tmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        leave(names[i], &descriptors[i]);
    CHECK(flock(descriptors[1], LOCK_EX) == 0);
    char *path = lab_path(folder, "a");
    REQUIRE(path);
    CHECK(can_replace_file(path));
    CHECK(!is_left(gone));
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        CHECK_MSG(is_left(names[i]), "%s was removed", names[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        close(descriptors[i]);
    free(path);
    remove_scratch();
}

TEST(two_names_of_one_file_are_recognised_also_before_it_exists) {
    make_scratch();
    char *one = lab_path(folder, "a"), *other = lab_path(folder, "./a"),
         *second = lab_path(folder, "b"), *nowhere = lab_path(folder, "none/a");
    REQUIRE(one && other && second && nowhere);
    CHECK(lab_is_same_file(one, other));
    CHECK(!lab_is_same_file(one, second));
    CHECK(!lab_is_same_file(one, nowhere) && !lab_is_same_file(nowhere, one));
    CHECK(lab_is_same_file("a-file-that-is-not-there", "./a-file-that-is-not-there"));
    REQUIRE(replace_file(one, write_text, "x"));
    CHECK(lab_is_same_file(one, other));
    CHECK(!lab_is_same_file(one, second));
    REQUIRE(one && second && symlink(one, second) == 0);
    CHECK(lab_is_same_file(second, other));
    free(one);
    free(other);
    free(second);
    free(nowhere);
    remove_scratch();
}
