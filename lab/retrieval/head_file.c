/* Records of heads; see head_file.h. Nothing is read past the bytes that are there. */
#include "retrieval/head_file.h"

#include "base/atomic_file.h"
#include "base/checksum.h"

#include <stdlib.h>
#include <string.h>

static const char magic[RETRIEVAL_HEAD_MAGIC_SIZE] = {'W', 'H', 'E', 'T', 'H', 'E', 'A', 'D'};

enum { VERSION = 1, BLOCK = 16 };

bool retrieval_is_head_file(const void *bytes, size_t size) {
    return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

/* ---- writing ---- */

/* A file under way. */
typedef struct writing {
    FILE *file;
    uint64_t sum;
} writing;

static void put(writing *to, const void *bytes, size_t count) {
    to->sum = lab_checksum(to->sum, bytes, count);
    fwrite(bytes, 1, count, to->file);
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static bool block_is_short(const float *block) {
    uint32_t low = 0;
    for (size_t i = 0; i < BLOCK; i++)
        low |= bits_of(block[i]) & 0xFFFFu;
    return low == 0;
}

static void put_map(writing *to, const float *values, size_t blocks) {
    for (size_t first = 0; first < blocks; first += 8) {
        unsigned char map = 0;
        for (size_t i = 0; i < 8 && first + i < blocks; i++)
            map |= (unsigned char)(block_is_short(values + (first + i) * BLOCK) << i);
        put(to, &map, 1);
    }
}

static void put_block(writing *to, const float *block) {
    uint16_t upper[BLOCK];
    if (!block_is_short(block)) {
        put(to, block, BLOCK * sizeof *block);
        return;
    }
    for (size_t i = 0; i < BLOCK; i++)
        upper[i] = (uint16_t)(bits_of(block[i]) >> 16);
    put(to, upper, sizeof upper);
}

/* The head as it multiplies, in `place`. */
static void put_head(FILE *file, const retrieval_head *head, const char *text, float *place) {
    const nn_engine engine = {.kernels = nn_kernels_for_this_machine()};
    retrieval_model own = retrieval_head_model(head, &engine);
    const float *values = retrieval_as_multiplied(&own, place).parameters;
    uint32_t version = VERSION, length = (uint32_t)strlen(text);
    uint64_t count = own.layout.count;
    writing to = {.file = file, .sum = lab_checksum_start};
    put(&to, magic, sizeof magic);
    put(&to, &version, sizeof version);
    put(&to, &length, sizeof length);
    put(&to, text, length);
    put(&to, &head->step, sizeof head->step);
    put(&to, &count, sizeof count);
    put_map(&to, values, own.layout.count / BLOCK);
    for (size_t at = 0; at < own.layout.count; at += BLOCK)
        put_block(&to, values + at);
    uint64_t sum = to.sum;
    put(&to, &sum, sizeof sum);
}

static bool write_heads(FILE *file, void *context) {
    const retrieval_heads *heads = context;
    bool is_good = true;
    for (size_t i = 0; is_good && i < heads->count; i++) {
        const retrieval_head *head = &heads->list[i];
        json_t *description = retrieval_config_to_json(&head->config, head->seed);
        char *text = description ? json_dumps(description, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        float *place = nn_floats(retrieval_layout_of(&head->config).count);
        is_good = text && place;
        if (is_good)
            put_head(file, head, text, place);
        free(place);
        free(text);
        json_decref(description);
    }
    return is_good;
}

bool retrieval_heads_write(const char *path, const retrieval_heads *heads, lab_error *error) {
    retrieval_heads copy = *heads;
    return replace_file_unless(path, write_heads, &copy) || lab_fail_file(error, "write", path);
}

/* ---- reading ---- */

/* The rest of a file in memory. */
typedef struct reading {
    const char *name;
    const unsigned char *at;
    size_t left;
    lab_error *error;
} reading;

static bool refuse(const reading *from, const char *why) {
    return lab_fail(from->error, LAB_INPUT, "%s: %s", from->name, why);
}

static bool take(reading *from, void *into, size_t count) {
    if (count > from->left)
        return refuse(from, "a file of heads cut short");
    memcpy(into, from->at, count);
    from->at += count;
    from->left -= count;
    return true;
}

static bool take_description(reading *from, retrieval_head *head) {
    char mark[sizeof magic];
    uint32_t version = 0, length = 0;
    if (!take(from, mark, sizeof mark) || memcmp(mark, magic, sizeof magic) != 0)
        return refuse(from, "not a file of heads");
    if (!take(from, &version, sizeof version) || !take(from, &length, sizeof length))
        return false;
    if (version != VERSION)
        return refuse(from, "a file of heads of another version of whet");
    if (length > from->left)
        return refuse(from, "a file of heads cut short");
    json_error_t reason;
    json_t *description =
        lab_json_parse((const char *)from->at, length, JSON_REJECT_DUPLICATES, &reason);
    from->at += length;
    from->left -= length;
    if (!description)
        return reason.line == LAB_JSON_MEMORY
                   ? lab_fail_memory(from->error)
                   : refuse(from, "a damaged file of heads: it has no description");
    bool is_good = retrieval_config_from_json(description, from->name, &head->config, &head->seed,
                                              from->error);
    json_decref(description);
    return is_good;
}

static bool take_block(reading *from, bool is_short, float *block) {
    uint16_t upper[BLOCK];
    if (!is_short)
        return take(from, block, BLOCK * sizeof *block);
    if (!take(from, upper, sizeof upper))
        return false;
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t bits = (uint32_t)upper[i] << 16;
        memcpy(&block[i], &bits, sizeof bits);
    }
    return true;
}

static bool take_floats(reading *from, retrieval_head *head) {
    uint64_t count = 0;
    size_t own = retrieval_layout_of(&head->config).count;
    if (!take(from, &head->step, sizeof head->step) || !take(from, &count, sizeof count))
        return false;
    if (count != own)
        return refuse(from, "a damaged file of heads: not as many numbers as its model has");
    size_t blocks = own / BLOCK, map_size = (blocks + 7) / 8;
    const unsigned char *map = from->at;
    if (map_size > from->left || own > from->left)
        return refuse(from, "a file of heads cut short");
    from->at += map_size;
    from->left -= map_size;
    head->parameters = nn_floats(own);
    if (!head->parameters)
        return lab_fail_memory(from->error);
    for (size_t b = 0; b < blocks; b++)
        if (!take_block(from, map[b / 8] >> b % 8 & 1, head->parameters + b * BLOCK))
            return false;
    return true;
}

static bool take_head(reading *from, retrieval_head *head) {
    const unsigned char *start = from->at;
    uint64_t sum = 0;
    *head = (retrieval_head){.seed = 0};
    if (!take_description(from, head) || !take_floats(from, head))
        return false;
    uint64_t expected = lab_checksum(lab_checksum_start, start, (size_t)(from->at - start));
    return take(from, &sum, sizeof sum) &&
           (sum == expected || refuse(from, "a damaged file of heads: its checksum is wrong"));
}

bool retrieval_heads_read(const char *name, const void *bytes, size_t size, retrieval_heads *heads,
                          lab_error *error) {
    reading from = {.name = name, .at = bytes, .left = size, .error = error};
    bool is_good = true;
    *heads = (retrieval_heads){.count = 0};
    do {
        retrieval_head *list = realloc(heads->list, (heads->count + 1) * sizeof *list);
        if (!list) {
            is_good = lab_fail_memory(error);
            break;
        }
        heads->list = list;
        is_good = take_head(&from, &list[heads->count++]);
    } while (is_good && from.left > 0);
    if (!is_good)
        retrieval_heads_free(heads);
    return is_good;
}
