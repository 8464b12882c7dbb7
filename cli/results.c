/* Results for machines, to files or to standard output. */
#include "results.h"

#include "commands.h"
#include "lab_options.h"
#include "messages.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/json.h"

#include <errno.h>
#include <string.h>

/* A name twice is one file, also where its folder is missing. */
static bool is_one_file(const char *path, const char *other) {
    return strcmp(path, other) == 0 || lab_is_same_file(path, other);
}

/* Whether each file could be written, and none would take the place of another. */
static int check_files(const char *const *paths, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!paths[i] || is_standard_output(paths[i]))
            continue;
        for (size_t j = 0; j < i; j++)
            if (paths[j] && is_one_file(paths[i], paths[j])) {
                complain("%s: two results cannot go to the same file", paths[i]);
                return STATUS_MISUSE;
            }
        if (!can_replace_file(paths[i])) {
            complain("%s: cannot write: %s", paths[i], strerror(errno));
            return STATUS_FAILED;
        }
    }
    return STATUS_OK;
}

int refuse_to_overwrite(const char *input, const char *const *paths, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (paths[i] && !is_standard_output(paths[i]) && lab_is_same_file(paths[i], input)) {
            complain("%s: is an input and would be overwritten; choose another output file",
                     paths[i]);
            return STATUS_MISUSE;
        }
    return STATUS_OK;
}

int reserve_output(const char *const *paths, size_t count) {
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++)
        wanted += paths[i] && is_standard_output(paths[i]);
    if (wanted > 1) {
        complain("only one result can go to '-', standard output");
        return STATUS_MISUSE;
    }
    int status = check_files(paths, count);
    if (status != STATUS_OK)
        return status;
    if (wanted == 0 || reserve_standard_output())
        return STATUS_OK;
    complain("standard output: cannot write: %s", strerror(errno));
    return STATUS_FAILED;
}

int keep_json(const char *path, json_t *json) {
    lab_error error = {.kind = LAB_NO_ERROR};
    bool is_written = lab_json_write(path, json, &error);
    json_decref(json);
    return is_written ? STATUS_OK : report_lab_error(&error);
}

int keep_table(const char *path, void (*write)(FILE *file, const void *context),
               const void *context) {
    lab_error error = {.kind = LAB_NO_ERROR};
    if (replace_file(path, write, context))
        return STATUS_OK;
    lab_fail_file(&error, "write", path);
    return report_lab_error(&error);
}
