/* JSON through jansson, with files written atomically. */
#include "base/json.h"

#include "base/atomic_file.h"
#include "base/checksum.h"
#include "base/files.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_SIZE_MAX = 1 << 28 };

json_t *lab_json_text(const char *text) {
    json_t *json = json_string(text);
    char *plain = json ? NULL : strdup(text);
    for (char *at = plain; at && *at; at++)
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    json = plain ? json_string(plain) : json;
    free(plain);
    return json;
}

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

static int add_to_checksum(const char *text, size_t size, void *sum) {
    *(uint64_t *)sum = lab_checksum(*(uint64_t *)sum, text, size);
    return 0;
}

json_t *lab_json_checksum(const json_t *value) {
    uint64_t sum = lab_checksum_start;
    char text[24];
    size_t flags = JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    if (!value || json_dump_callback(value, add_to_checksum, &sum, flags) != 0)
        return NULL;
    snprintf(text, sizeof text, "%016llx", (unsigned long long)sum);
    return json_string(text);
}

/*
 * jansson 2.14 writes beyond its buffer when growing it fails while a text is
 * parsed. So parsing is left by longjmp at the first failed allocation, and
 * everything it had allocated is freed from a list.
 */
typedef struct reading {
    jmp_buf *way_out; /* NULL: nothing is being parsed */
    void **blocks;
    size_t count, capacity;
} reading;

static _Thread_local reading current;
static _Thread_local unsigned failures; /* of jansson's allocations in this thread */

static bool note_block(void *block) {
    if (current.count == current.capacity) {
        size_t capacity = current.capacity ? 2 * current.capacity : 256;
        void **blocks = realloc((void *)current.blocks, capacity * sizeof *blocks);
        if (!blocks)
            return false;
        current.blocks = blocks;
        current.capacity = capacity;
    }
    current.blocks[current.count++] = block;
    return true;
}

static void *watched_malloc(size_t size) {
    void *block = malloc(size);
    if (block && (!current.way_out || note_block(block)))
        return block;
    free(block);
    failures++;
    if (current.way_out)
        longjmp(*current.way_out, 1);
    return NULL;
}

static void watched_free(void *block) {
    for (size_t i = current.way_out ? current.count : 0; i-- > 0;)
        if (current.blocks[i] == block) {
            current.blocks[i] = current.blocks[--current.count];
            break;
        }
    free(block);
}

static void end_reading(bool keeps_blocks) {
    for (size_t i = 0; !keeps_blocks && i < current.count; i++)
        free(current.blocks[i]);
    free((void *)current.blocks);
    current = (reading){.way_out = NULL};
}

static void watch(void) { json_set_alloc_funcs(watched_malloc, watched_free); }

unsigned lab_json_mark(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    return failures;
}

json_t *lab_json_whole(json_t *json, unsigned mark) {
    if (failures == mark)
        return json;
    json_decref(json);
    return NULL;
}

json_t *lab_json_parse(const char *text, size_t size, size_t flags, json_error_t *reason) {
    jmp_buf way_out;
    (void)lab_json_mark();
    if (setjmp(way_out) != 0) {
        end_reading(false);
        *reason = (json_error_t){.line = LAB_JSON_MEMORY};
        return NULL;
    }
    current = (reading){.way_out = &way_out};
    json_t *json = json_loadb(text, size, flags, reason);
    end_reading(true);
    return json;
}

void lab_json_take_count(const json_t *object, const char *key, uint64_t *value) {
    const json_t *member = json_object_get(object, key);
    if (json_is_integer(member) && json_integer_value(member) >= 0)
        *value = (uint64_t)json_integer_value(member);
}

json_t *lab_json_read(const char *path, lab_error *error) {
    size_t size;
    char *text = lab_read_text(path, JSON_SIZE_MAX, &size, error);
    if (!text)
        return NULL;
    json_error_t reason;
    json_t *json = lab_json_parse(text, size, JSON_REJECT_DUPLICATES, &reason);
    free(text);
    if (!json && reason.line == LAB_JSON_MEMORY)
        lab_fail_memory(error);
    else if (!json)
        lab_fail(error, LAB_INPUT, "%s:%d: not JSON: %s", path, reason.line, reason.text);
    return json;
}

typedef struct json_writer {
    const json_t *json;
} json_writer;

static bool write_json(FILE *file, void *context) {
    const json_writer *writer = context;
    errno = 0;
    if (json_dumpf(writer->json, file, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) == 0)
        return fputc('\n', file) != EOF;
    errno = errno ? errno : ENOMEM; /* jansson does not pass it on */
    return false;
}

bool lab_json_write(const char *path, const json_t *json, lab_error *error) {
    json_writer writer = {json};
    if (!json)
        return lab_fail_memory(error);
    return replace_file_unless(path, write_json, &writer) || lab_fail_file(error, "write", path);
}

bool lab_json_log(FILE *log, json_t *line) {
    if (!line)
        return false;
    bool is_written = json_dumpf(line, log, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 &&
                      fputc('\n', log) != EOF && fflush(log) == 0;
    json_decref(line);
    return is_written;
}

/* A line that is kept, a new reference; NULL for others, with *is_unknown set if memory ran out. */
static json_t *kept_line(const char *line, size_t length, const char *key, uint64_t last,
                         bool *is_unknown) {
    json_error_t reason;
    json_t *json = lab_json_parse(line, length, 0, &reason);
    const json_t *value = json_object_get(json, key);
    *is_unknown = !json && reason.line == LAB_JSON_MEMORY;
    if (json_is_integer(value) && (uint64_t)json_integer_value(value) <= last)
        return json;
    json_decref(json);
    return NULL;
}

bool lab_json_log_cut(const char *path, const char *key, uint64_t last, json_t **last_kept,
                      lab_error *error) {
    *last_kept = NULL;
    if (!lab_file_exists(path))
        return true;
    size_t size;
    char *text = lab_read_file(path, JSON_SIZE_MAX, &size, error);
    if (!text)
        return false;
    size_t kept = 0;
    bool is_unknown = false;
    for (const char *end; (end = memchr(text + kept, '\n', size - kept)) != NULL;) {
        size_t next = (size_t)(end - text) + 1;
        json_t *line = kept_line(text + kept, next - kept, key, last, &is_unknown);
        if (!line)
            break;
        json_decref(*last_kept);
        *last_kept = line;
        kept = next;
    }
    bool is_done = is_unknown     ? lab_fail_memory(error)
                   : kept == size ? true
                                  : replace_file_bytes(path, text, kept) ||
                                        lab_fail_file(error, "write", path);
    free(text);
    if (!is_done) {
        json_decref(*last_kept);
        *last_kept = NULL;
    }
    return is_done;
}
