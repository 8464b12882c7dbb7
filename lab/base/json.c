/* JSON through jansson, with files written atomically. */
#include "base/json.h"

#include "base/atomic_file.h"
#include "base/files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_SIZE_MAX = 1 << 28 };

json_t *lab_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *lab_json_numbers(const double *values, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++)
        if (json_array_append_new(array, lab_json_number(values[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

json_t *lab_json_read(const char *path, lab_error *error) {
    size_t size;
    char *text = lab_read_file(path, JSON_SIZE_MAX, &size, error);
    if (!text)
        return NULL;
    json_error_t reason;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &reason);
    free(text);
    if (!json)
        lab_fail(error, LAB_INPUT, "%s is not JSON: line %d: %s", path, reason.line, reason.text);
    return json;
}

static void write_json(FILE *file, const void *context) {
    const json_t *json = context;
    json_dumpf(json, file, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    fputc('\n', file);
}

bool lab_json_write(const char *path, const json_t *json, lab_error *error) {
    if (!json)
        return lab_fail_memory(error);
    return replace_file(path, write_json, json) || lab_fail_file(error, "write", path);
}

bool lab_json_log(FILE *log, json_t *line) {
    if (!line)
        return false;
    bool is_written = json_dumpf(line, log, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 &&
                      fputc('\n', log) != EOF && fflush(log) == 0;
    json_decref(line);
    return is_written;
}

typedef struct text_span {
    const char *text;
    size_t length;
} text_span;

static void write_span(FILE *file, const void *context) {
    const text_span *span = context;
    fwrite(span->text, 1, span->length, file);
}

static bool is_kept(const char *line, size_t length, const char *key, uint64_t last) {
    json_t *json = json_loadb(line, length, 0, NULL);
    const json_t *value = json_object_get(json, key);
    bool kept = json_is_integer(value) && (uint64_t)json_integer_value(value) <= last;
    json_decref(json);
    return kept;
}

bool lab_json_log_cut(const char *path, const char *key, uint64_t last, lab_error *error) {
    if (!lab_file_exists(path))
        return true;
    size_t size;
    char *text = lab_read_file(path, JSON_SIZE_MAX, &size, error);
    if (!text)
        return false;
    size_t kept = 0;
    for (const char *end; (end = memchr(text + kept, '\n', size - kept)) != NULL;) {
        size_t next = (size_t)(end - text) + 1;
        if (!is_kept(text + kept, next - kept, key, last))
            break;
        kept = next;
    }
    text_span span = {text, kept};
    bool is_done = kept == size || replace_file(path, write_span, &span) ||
                   lab_fail_file(error, "write", path);
    free(text);
    return is_done;
}
