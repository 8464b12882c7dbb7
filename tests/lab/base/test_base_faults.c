// Files, JSON and manifests while memory runs out: a message, nothing lost, nothing left behind.
#define _POSIX_C_SOURCE 200809L

#include "support/faults.h"
#include "support/lab_faults.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/json.h"
#include "base/manifest.h"
#include "base/table.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[64], path[96], manifest_path[96];

static void make_scratch(void) {
    snprintf(folder, sizeof folder, "/tmp/whet-faults.XXXXXX");
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/result.json", folder);
    snprintf(manifest_path, sizeof manifest_path, "%s/manifest.json", folder);
}

static void remove_scratch(void) {
    unlink(path);
    unlink(manifest_path);
    CHECK_INT(rmdir(folder), 0); // and nothing else was in it
}

static void write_text(FILE *file, const void *context) { fputs(context, file); }

static bool replace_text(lab_error *error) {
    return replace_file(path, write_text, "new\n") || lab_fail_file(error, "write", path);
}

static bool holds(const char *expected) {
    size_t size;
    char *text = lab_read_file(path, 1 << 20, &size, NULL);
    bool same = text && strcmp(text, expected) == 0;
    free(text);
    return same;
}

static void check_text(bool is_done) { CHECK(holds(is_done ? "new\n" : "old\n")); }

TEST(a_file_is_replaced_or_left_alone) {
    make_scratch();
    REQUIRE(replace_file(path, write_text, "old\n"));
    lab_faults_try(replace_text, check_text);
    remove_scratch();
}

static bool write_object(lab_error *error) {
    const double values[] = {1, 2.5, -3};
    json_t *object = json_pack("{s:s, s:o, s:{s:i}}", "name", "a text", "numbers",
                               lab_json_numbers(values, 3), "inner", "count", 3);
    bool is_written = lab_json_write(path, object, error);
    json_decref(object);
    return is_written;
}

static void check_object(bool is_done) {
    CHECK(holds("old\n") == !is_done);
    if (!is_done)
        return;
    json_t *object = lab_json_read(path, NULL);
    CHECK_INT(json_array_size(json_object_get(object, "numbers")), 3);
    json_decref(object);
}

TEST(json_is_written_whole_or_not_at_all) {
    make_scratch();
    REQUIRE(replace_file(path, write_text, "old\n"));
    lab_faults_try(write_object, check_object);
    remove_scratch();
}

static bool read_object(lab_error *error) {
    json_t *object = lab_json_read(path, error);
    json_decref(object);
    return object != NULL;
}

TEST(json_that_cannot_be_read_for_want_of_memory_is_not_called_damaged) {
    make_scratch();
    lab_error error = {.kind = LAB_NO_ERROR};
    REQUIRE(write_object(&error));
    lab_faults_try(read_object, NULL);
    remove_scratch();
}

static bool write_log(lab_error *error) {
    FILE *log = fopen(path, "w");
    bool is_written = log && lab_json_log(log, json_pack("{s:i, s:f}", "step", 1, "loss", 0.5));
    if (log)
        fclose(log);
    return is_written || lab_fail_memory(error);
}

TEST(a_log_has_whole_lines) {
    make_scratch();
    lab_faults_try(write_log, NULL);
    remove_scratch();
}

static bool cut_log(lab_error *error) {
    json_t *last_kept;
    bool is_cut = lab_json_log_cut(path, "step", 2, &last_kept, error);
    CHECK(is_cut == (last_kept != NULL));
    json_decref(last_kept);
    return is_cut;
}

static void check_cut(bool is_done) {
    CHECK(holds(is_done ? "{\"step\":1}\n{\"step\":2}\n"
                        : "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n"));
}

TEST(a_log_is_cut_where_it_should_be_or_not_at_all) {
    make_scratch();
    REQUIRE(replace_file(path, write_text, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n"));
    lab_faults_try(cut_log, check_cut);
    remove_scratch();
}

static bool write_manifest(lab_error *error) {
    lab_manifest manifest =
        lab_manifest_begin("test", json_pack("{s:i, s:s}", "seeds", 3, "only", "x"), "no BLAS");
    bool is_written = lab_manifest_write(&manifest, folder, true, error);
    lab_manifest_end(&manifest);
    return is_written;
}

static void check_manifest(bool is_done) {
    if (!is_done)
        return;
    json_t *manifest = lab_json_read(manifest_path, NULL);
    CHECK_INT(json_object_size(manifest), 8);
    CHECK_INT(json_object_size(json_object_get(manifest, "options")), 2);
    json_decref(manifest);
}

TEST(a_manifest_has_everything_or_is_not_written) {
    make_scratch();
    lab_faults_try(write_manifest, check_manifest);
    remove_scratch();
}

static bool make_folders(lab_error *error) { return lab_make_folder(folder, error); }

TEST(folders_are_made) {
    make_scratch();
    lab_faults_try(make_folders, NULL);
    remove_scratch();
}

static bool print_table(lab_error *error) {
    FILE *nowhere = fopen("/dev/null", "w");
    lab_table table = lab_table_start(3);
    for (int i = 0; i < 100; i++)
        lab_table_add(&table, "%d", i);
    bool is_printed = lab_table_finish(&table, nowhere);
    fclose(nowhere);
    return is_printed || lab_fail_memory(error);
}

TEST(a_table_is_printed_whole_or_not_at_all) { lab_faults_try(print_table, NULL); }
