/* Checkpoints, written through a buffer and read piece by piece: nothing is allocated for a length
 * that the file does not have. */
#include "nn/checkpoint.h"

#include "base/atomic_file.h"
#include "base/checksum.h"
#include "base/files.h"
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = {'W', 'H', 'E', 'T', 'C', 'K', 'P', 'T'};

enum {
    VERSION = 1,
    HEAD_SIZE = sizeof magic + 2 * sizeof(uint32_t),
    NUMBERS_SIZE = 2 * sizeof(uint64_t),
    CHECKSUM_SIZE = sizeof(uint64_t)
};

/* More than any memory; no more is allocated than the file really has. */
static const size_t file_size_max =
    SIZE_MAX / 2 < (UINT64_C(1) << 40) ? SIZE_MAX / 2 : (size_t)(UINT64_C(1) << 40);

typedef struct image {
    unsigned char *bytes;
    size_t size;
} image;

static void append(image *to, const void *bytes, size_t count) {
    memcpy(to->bytes + to->size, bytes, count);
    to->size += count;
}

/* Size of the file in bytes; false if it would be too large to be read again. */
static bool image_size(const nn_span *spans, size_t span_count, size_t text_length, uint64_t *count,
                       size_t *size) {
    size_t numbers = 0;
    for (size_t i = 0; i < span_count; i++)
        if (__builtin_add_overflow(numbers, spans[i].count, &numbers))
            return false;
    *count = numbers;
    return text_length <= UINT32_MAX && !__builtin_mul_overflow(numbers, sizeof(float), size) &&
           !__builtin_add_overflow(*size, HEAD_SIZE + NUMBERS_SIZE + CHECKSUM_SIZE, size) &&
           !__builtin_add_overflow(*size, text_length, size) && *size <= file_size_max;
}

static bool make_image(image *made, const char *text, uint64_t step, const nn_span *spans,
                       size_t span_count) {
    uint32_t version = VERSION, length = (uint32_t)strlen(text);
    uint64_t count;
    size_t size;
    *made = (image){.size = 0};
    if (!image_size(spans, span_count, strlen(text), &count, &size))
        return false;
    made->bytes = malloc(size);
    if (!made->bytes)
        return false;
    append(made, magic, sizeof magic);
    append(made, &version, sizeof version);
    append(made, &length, sizeof length);
    append(made, text, length);
    append(made, &step, sizeof step);
    append(made, &count, sizeof count);
    for (size_t i = 0; i < span_count; i++)
        append(made, spans[i].values, spans[i].count * sizeof(float));
    uint64_t sum = lab_checksum(lab_checksum_start, made->bytes, made->size);
    append(made, &sum, sizeof sum);
    return true;
}

bool nn_checkpoint_write(const char *path, const json_t *description, uint64_t step,
                         const nn_span *spans, size_t span_count, lab_error *error) {
    unsigned mark = lab_json_mark();
    char *text = description ? json_dumps(description, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    image made = {0};
    bool is_made =
        text && lab_json_mark() == mark && make_image(&made, text, step, spans, span_count);
    bool is_written = is_made ? replace_file_bytes(path, made.bytes, made.size) ||
                                    lab_fail_file(error, "write", path)
                              : lab_fail_memory(error);
    free(made.bytes);
    free(text);
    return is_written;
}

static bool refuse(const char *path, const char *why, lab_error *error) {
    return lab_fail(error, LAB_INPUT, "%s: %s", path, why);
}

/* A file that is being read. */
typedef struct reading {
    const char *path;
    FILE *file;
    size_t left; /* bytes, without the checksum */
    uint64_t sum;
    lab_error *error;
} reading;

static bool take(reading *from, void *into, size_t count) {
    errno = 0;
    if (fread(into, 1, count, from->file) != count) {
        errno = errno ? errno : EIO;
        return lab_fail_file(from->error, "read", from->path);
    }
    from->left -= count;
    from->sum = lab_checksum(from->sum, into, count);
    return true;
}

static bool take_head(reading *from, size_t size, uint32_t *length) {
    char mark[sizeof magic];
    uint32_t version;
    if (size < sizeof mark || !take(from, mark, sizeof mark) ||
        memcmp(mark, magic, sizeof magic) != 0)
        return refuse(from->path, "not a whet checkpoint", from->error);
    if (size < HEAD_SIZE + NUMBERS_SIZE + CHECKSUM_SIZE)
        return refuse(from->path, "damaged checkpoint: cut short", from->error);
    if (!take(from, &version, sizeof version) || !take(from, length, sizeof *length))
        return false;
    if (version != VERSION)
        return refuse(from->path, "a checkpoint of another whet version", from->error);
    return *length <= from->left - NUMBERS_SIZE ||
           refuse(from->path, "damaged checkpoint: sizes do not match", from->error);
}

static bool take_values(reading *from, nn_checkpoint *into) {
    uint64_t count, sum;
    if (!take(from, &into->step, sizeof into->step) || !take(from, &count, sizeof count))
        return false;
    if (count != from->left / sizeof(float) || from->left % sizeof(float) != 0)
        return refuse(from->path, "damaged checkpoint: sizes do not match", from->error);
    into->count = (size_t)count;
    into->values = malloc(from->left + 1);
    if (!into->values)
        return lab_fail_memory(from->error);
    if (!take(from, into->values, from->left))
        return false;
    uint64_t expected = from->sum;
    return take(from, &sum, sizeof sum) &&
           (sum == expected ||
            refuse(from->path, "damaged checkpoint: wrong checksum", from->error));
}

static bool parse_description(const reading *from, const char *text, size_t length,
                              nn_checkpoint *into) {
    json_error_t reason;
    into->description = lab_json_parse(text, length, JSON_REJECT_DUPLICATES, &reason);
    if (!into->description && reason.line == LAB_JSON_MEMORY)
        return lab_fail_memory(from->error);
    return json_is_object(into->description) ||
           refuse(from->path, "damaged checkpoint: no description", from->error);
}

static bool take_all(reading *from, size_t size, nn_checkpoint *into) {
    uint32_t length = 0;
    from->left = size > CHECKSUM_SIZE ? size - CHECKSUM_SIZE : size;
    if (!take_head(from, size, &length))
        return false;
    char *text = malloc((size_t)length + 1);
    if (!text)
        return lab_fail_memory(from->error);
    bool is_read = take(from, text, length) && take_values(from, into) &&
                   parse_description(from, text, length, into);
    free(text);
    return is_read;
}

bool nn_checkpoint_read(const char *path, nn_checkpoint *checkpoint, lab_error *error) {
    *checkpoint = (nn_checkpoint){.step = 0};
    size_t size;
    reading from = {.path = path, .sum = lab_checksum_start, .error = error};
    from.file = lab_open_file(path, file_size_max, &size, error);
    if (!from.file)
        return false;
    bool is_read = take_all(&from, size, checkpoint);
    fclose(from.file);
    if (!is_read)
        nn_checkpoint_free(checkpoint);
    return is_read;
}

/* ---- differences, for messages ---- */

enum { VALUE_SIZE = 96, CHOICE_SIZE = 160 };

/* As it would be given on the command line: 0.001, 4-8 or minimum,bfs. */
static void spell_value(const json_t *value, char text[VALUE_SIZE]) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(value) && used < VALUE_SIZE; i++) {
        char item[VALUE_SIZE];
        const json_t *element = json_array_get(value, i);
        spell_value(element, item);
        const char *between = i == 0 ? "" : json_is_integer(element) ? "-" : ",";
        used += (size_t)snprintf(text + used, VALUE_SIZE - used, "%s%s", between, item);
    }
    if (json_is_string(value))
        snprintf(text, VALUE_SIZE, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, VALUE_SIZE, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, VALUE_SIZE, "%.15g", json_real_value(value));
}

/* "with --rate 0.001", "without --untied" */
static void spell_choice(const char *key, const json_t *value, const nn_option_name *names,
                         char text[CHOICE_SIZE]) {
    char option[48], spelt[VALUE_SIZE];
    bool is_set = value && !json_is_false(value);
    snprintf(option, sizeof option, "%s", key);
    for (char *dash = option; (dash = strchr(dash, '_')) != NULL;)
        *dash = '-';
    for (; names->key; names++)
        if (strcmp(names->key, key) == 0) {
            snprintf(option, sizeof option, "%s", names->option);
            is_set = is_set != names->is_negated;
        }
    spell_value(value, spelt);
    snprintf(text, CHOICE_SIZE, "%s --%s%s%s", is_set ? "with" : "without", option,
             *spelt ? " " : "", spelt);
}

bool nn_checkpoint_agrees(json_t *ours, json_t *theirs, const char *except,
                          const nn_option_name *names, const char *path, lab_error *error) {
    const char *key;
    json_t *value;
    json_object_foreach(ours, key, value) {
        const json_t *other = json_object_get(theirs, key);
        bool matters = !except || strcmp(key, except) != 0;
        if (!matters || json_equal(value, other))
            continue;
        char wanted[CHOICE_SIZE], found[CHOICE_SIZE];
        spell_choice(key, value, names, wanted);
        spell_choice(key, other, names, found);
        return lab_fail(error, LAB_INPUT, "%s: is of a run %s and cannot be resumed %s", path,
                        found, wanted);
    }
    return true;
}

void nn_checkpoint_free(nn_checkpoint *checkpoint) {
    json_decref(checkpoint->description);
    free(checkpoint->values);
    *checkpoint = (nn_checkpoint){.step = 0};
}
