/* Checkpoints, written through a buffer and read with every length checked. */
#include "nn/checkpoint.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static const char magic[8] = {'W', 'H', 'E', 'T', 'C', 'K', 'P', 'T'};

enum {
    VERSION = 1,
    HEAD_SIZE = sizeof magic + 2 * sizeof(uint32_t),
    NUMBERS_SIZE = 2 * sizeof(uint64_t),
    CHECKSUM_SIZE = sizeof(uint64_t),
    FILE_SIZE_MAX = 1 << 30
};

static uint64_t checksum(const unsigned char *bytes, size_t count) {
    uint64_t sum = 0xCBF29CE484222325u;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 0x100000001B3u;
    return sum;
}

typedef struct image {
    unsigned char *bytes;
    size_t size;
} image;

static void append(image *to, const void *bytes, size_t count) {
    memcpy(to->bytes + to->size, bytes, count);
    to->size += count;
}

static void write_image(FILE *file, const void *context) {
    const image *made = context;
    fwrite(made->bytes, 1, made->size, file);
}

static bool make_image(image *made, const char *text, uint64_t step, const nn_span *spans,
                       size_t span_count) {
    uint32_t version = VERSION, length = (uint32_t)strlen(text);
    uint64_t count = 0;
    for (size_t i = 0; i < span_count; i++)
        count += spans[i].count;
    *made = (image){.size = 0};
    made->bytes = malloc(HEAD_SIZE + length + NUMBERS_SIZE + count * sizeof(float) + CHECKSUM_SIZE);
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
    uint64_t sum = checksum(made->bytes, made->size);
    append(made, &sum, sizeof sum);
    return true;
}

bool nn_checkpoint_write(const char *path, const json_t *description, uint64_t step,
                         const nn_span *spans, size_t span_count, lab_error *error) {
    char *text = description ? json_dumps(description, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    image made = {0};
    bool is_made = text && make_image(&made, text, step, spans, span_count);
    bool is_written =
        is_made ? replace_file(path, write_image, &made) || lab_fail_file(error, "write", path)
                : lab_fail_memory(error);
    free(made.bytes);
    free(text);
    return is_written;
}

static bool refuse(const char *path, const char *why, lab_error *error) {
    return lab_fail(error, LAB_INPUT, "%s: %s", path, why);
}

static bool take_values(const unsigned char *from, size_t room, nn_checkpoint *into) {
    uint64_t count;
    memcpy(&into->step, from, sizeof into->step);
    memcpy(&count, from + sizeof into->step, sizeof count);
    if (count > room / sizeof(float) || count * sizeof(float) != room - NUMBERS_SIZE)
        return false;
    into->count = (size_t)count;
    into->values = malloc(into->count * sizeof(float) + 1);
    if (into->values)
        memcpy(into->values, from + NUMBERS_SIZE, into->count * sizeof(float));
    return true;
}

static bool take_image(const char *path, const unsigned char *bytes, size_t size,
                       nn_checkpoint *into, lab_error *error) {
    if (size < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return refuse(path, "not a checkpoint of whet", error);
    if (size < HEAD_SIZE + NUMBERS_SIZE + CHECKSUM_SIZE)
        return refuse(path, "a checkpoint cut short", error);
    uint32_t version, length;
    memcpy(&version, bytes + sizeof magic, sizeof version);
    memcpy(&length, bytes + sizeof magic + sizeof version, sizeof length);
    if (version != VERSION)
        return refuse(path, "a checkpoint of another version of whet", error);
    uint64_t sum;
    size_t body = size - CHECKSUM_SIZE;
    memcpy(&sum, bytes + body, sizeof sum);
    if (sum != checksum(bytes, body) || length > body - HEAD_SIZE - NUMBERS_SIZE)
        return refuse(path, "a damaged checkpoint: its checksum is wrong", error);
    json_error_t reason;
    into->description =
        lab_json_parse((const char *)bytes + HEAD_SIZE, length, JSON_REJECT_DUPLICATES, &reason);
    if (!into->description && reason.line == LAB_JSON_MEMORY)
        return lab_fail_memory(error);
    if (!json_is_object(into->description) ||
        !take_values(bytes + HEAD_SIZE + length, body - HEAD_SIZE - length, into))
        return refuse(path, "a damaged checkpoint: its parts do not fit", error);
    return into->values || lab_fail_memory(error);
}

bool nn_checkpoint_read(const char *path, nn_checkpoint *checkpoint, lab_error *error) {
    *checkpoint = (nn_checkpoint){.step = 0};
    size_t size;
    char *bytes = lab_read_file(path, FILE_SIZE_MAX, &size, error);
    if (!bytes)
        return false;
    bool is_read = take_image(path, (const unsigned char *)bytes, size, checkpoint, error);
    free(bytes);
    if (!is_read)
        nn_checkpoint_free(checkpoint);
    return is_read;
}

const char *nn_checkpoint_difference(json_t *ours, json_t *theirs, const char *except) {
    const char *key;
    json_t *value;
    json_object_foreach(ours, key, value) {
        bool matters = !except || strcmp(key, except) != 0;
        if (matters && !json_equal(value, json_object_get(theirs, key)))
            return key;
    }
    return NULL;
}

void nn_checkpoint_free(nn_checkpoint *checkpoint) {
    json_decref(checkpoint->description);
    free(checkpoint->values);
    *checkpoint = (nn_checkpoint){.step = 0};
}
