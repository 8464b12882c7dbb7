/* The manifest of a run as one JSON object. */
#define _POSIX_C_SOURCE 200809L

#include "base/manifest.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/machine.h"
#include "whet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static json_t *versions(const char *blas) {
    return json_pack("{s:s, s:s, s:s, s:s}", "whet", whet_version(), "compiler", lab_compiler(),
                     "jansson", jansson_version_str(), "blas", blas ? blas : "none");
}

static json_t *machine(void) {
    char cpu[128];
    lab_cpu_name(cpu, sizeof cpu);
    struct utsname system;
    bool is_known = uname(&system) == 0;
    return json_pack("{s:s, s:i, s:s, s:s, s:s}", "cpu", cpu, "processors", (int)lab_processors(),
                     "isa", whet_isa(), "system", is_known ? system.sysname : "unknown", "release",
                     is_known ? system.release : "unknown");
}

lab_manifest lab_manifest_begin(const char *command, json_t *options, const char *blas) {
    char time[LAB_TIME_SIZE];
    unsigned mark = lab_json_mark();
    json_t *json =
        json_pack("{s:s, s:s, s:o, s:o, s:o}", "command", command, "begun", lab_time_of_day(time),
                  "options", options, "versions", versions(blas), "machine", machine());
    return (lab_manifest){.json = lab_json_whole(json, mark), .began = lab_now()};
}

bool lab_manifest_write(lab_manifest *manifest, const char *folder, bool is_complete,
                        lab_error *error) {
    char time[LAB_TIME_SIZE];
    char *path = lab_path(folder, "manifest.json");
    if (!path || !manifest->json) {
        free(path);
        return lab_fail_memory(error);
    }
    json_t *json = manifest->json;
    bool is_noted =
        json_object_set_new(json, "ended", json_string(lab_time_of_day(time))) == 0 &&
        json_object_set_new(json, "seconds", json_real(lab_now() - manifest->began)) == 0 &&
        json_object_set_new(json, "complete", json_boolean(is_complete)) == 0;
    bool is_written = is_noted ? lab_json_write(path, json, error) : lab_fail_memory(error);
    free(path);
    return is_written;
}

bool lab_manifest_options(const char *folder, const char *command, json_t **options,
                          lab_error *error) {
    *options = NULL;
    char *path = lab_path(folder, "manifest.json");
    if (!path)
        return lab_fail_memory(error);
    bool is_there = lab_file_exists(path);
    json_t *json = is_there ? lab_json_read(path, error) : NULL;
    free(path);
    const char *of = json_string_value(json_object_get(json, "command"));
    if (of && strcmp(of, command) == 0)
        *options = json_incref(json_object_get(json, "options"));
    bool is_read = !is_there || json;
    json_decref(json);
    return is_read;
}

void lab_manifest_end(lab_manifest *manifest) {
    json_decref(manifest->json);
    manifest->json = NULL;
}
