/*
 * Writing GGUF files. Metadata is encoded at once, in one growing buffer;
 * tensors are recorded, and converted block by block while the file is written,
 * so that a model is never in memory twice. Tensors follow in the order of
 * their table, each at a multiple of 32 bytes, as llama.cpp requires.
 */
#include "gguf/write.h"
#include "gguf/types.h"

#include "base/atomic_file.h"
#include "base/checked.h"
#include "base/grow.h"
#include "isa/half.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 3, QUANT = 32 };

static const char alignment_key[] = "general.alignment";

typedef struct growing {
    uint8_t *bytes;
    size_t size;
    size_t capacity;
} growing;

typedef struct planned_tensor {
    char name[GGUF_NAME_MAX + 1];
    uint32_t n_dims;
    uint64_t dims[GGUF_DIMS_MAX];
    gguf_type type;
    size_t elements;
    size_t bytes;
    const float *values;
} planned_tensor;

struct gguf_writer {
    growing values; /* the metadata as it will be in the file */
    uint64_t n_values;
    char **keys; /* to find duplicates */
    planned_tensor *tensors;
    size_t n_tensors;
    lab_error error; /* the first thing that went wrong */
};

gguf_writer *gguf_writer_start(void) { return calloc(1, sizeof(gguf_writer)); }

void gguf_writer_cancel(gguf_writer *writer) {
    if (!writer)
        return;
    for (uint64_t i = 0; i < writer->n_values; i++)
        free(writer->keys[i]);
    free(writer->keys);
    free(writer->tensors);
    free(writer->values.bytes);
    free(writer);
}

static bool is_fine(const gguf_writer *writer) {
    return writer && writer->error.kind == LAB_NO_ERROR;
}

static void add(gguf_writer *writer, const void *bytes, size_t size) {
    growing *values = &writer->values;
    size_t needed;
    if (!is_fine(writer) || size == 0)
        return;
    uint8_t *moved = size_add(values->size, size, &needed)
                         ? lab_grow(values->bytes, 1, needed, &values->capacity)
                         : NULL;
    if (!moved) {
        lab_fail_memory(&writer->error);
        return;
    }
    values->bytes = moved;
    memcpy(values->bytes + values->size, bytes, size);
    values->size = needed;
}

static void add_u32(gguf_writer *writer, uint32_t value) { add(writer, &value, sizeof value); }

static void add_u64(gguf_writer *writer, uint64_t value) { add(writer, &value, sizeof value); }

static void add_text(gguf_writer *writer, const char *text, size_t length) {
    add_u64(writer, length);
    add(writer, text, length);
}

/* Whether a name is valid, as in the reader. */
static bool check_name(gguf_writer *writer, const char *what, const char *name, size_t limit) {
    size_t length = strlen(name);
    bool is_printable = length > 0 && length <= limit;
    for (size_t i = 0; is_printable && i < length; i++)
        is_printable = name[i] > ' ' && name[i] <= '~';
    return is_printable ||
           lab_fail(&writer->error, LAB_INPUT, "\"%.64s\" is not a valid name of a %s", name, what);
}

/* Grows an array by one element; the new array, or NULL with the old one unchanged. */
static void *one_more(gguf_writer *writer, void *old, size_t count, size_t each) {
    /* The capacity is doubled at powers of two. */
    if ((count & (count - 1)) != 0)
        return old;
    void *moved = realloc(old, (count ? 2 * count : 1) * each);
    if (!moved)
        lab_fail_memory(&writer->error);
    return moved;
}

/* The key and kind before a value; false if the writer has failed. */
static bool begin_value(gguf_writer *writer, const char *key, gguf_kind kind) {
    if (!is_fine(writer) || !check_name(writer, "key", key, GGUF_KEY_MAX))
        return false;
    if (strcmp(key, alignment_key) == 0)
        return lab_fail(&writer->error, LAB_INPUT, "%s is chosen by the writer itself",
                        alignment_key);
    for (uint64_t i = 0; i < writer->n_values; i++)
        if (strcmp(writer->keys[i], key) == 0)
            return lab_fail(&writer->error, LAB_INPUT, "key \"%.64s\" occurs twice", key);
    char **keys = one_more(writer, writer->keys, (size_t)writer->n_values, sizeof *keys);
    if (!keys)
        return false;
    writer->keys = keys;
    size_t size = strlen(key) + 1;
    char *copy = malloc(size);
    if (!copy)
        return lab_fail_memory(&writer->error);
    memcpy(copy, key, size);
    writer->keys[writer->n_values++] = copy;
    add_text(writer, key, size - 1);
    add_u32(writer, (uint32_t)kind);
    return is_fine(writer);
}

static bool begin_array(gguf_writer *writer, const char *key, gguf_kind element, size_t count) {
    if (!begin_value(writer, key, GGUF_ARRAY))
        return false;
    add_u32(writer, (uint32_t)element);
    add_u64(writer, count);
    return true;
}

static void put_plain(gguf_writer *writer, const char *key, gguf_kind kind, const void *value,
                      size_t size) {
    if (begin_value(writer, key, kind))
        add(writer, value, size);
}

void gguf_put_text(gguf_writer *writer, const char *key, const char *text) {
    if (begin_value(writer, key, GGUF_TEXT))
        add_text(writer, text, strlen(text));
}

void gguf_put_u32(gguf_writer *writer, const char *key, uint32_t value) {
    put_plain(writer, key, GGUF_U32, &value, sizeof value);
}

void gguf_put_float(gguf_writer *writer, const char *key, float value) {
    put_plain(writer, key, GGUF_FLOAT, &value, sizeof value);
}

void gguf_put_bool(gguf_writer *writer, const char *key, bool value) {
    uint8_t byte = value ? 1 : 0;
    put_plain(writer, key, GGUF_BOOL, &byte, sizeof byte);
}

void gguf_put_texts(gguf_writer *writer, const char *key, const char *const *texts, size_t count) {
    if (!begin_array(writer, key, GGUF_TEXT, count))
        return;
    for (size_t i = 0; i < count; i++)
        add_text(writer, texts[i], strlen(texts[i]));
}

void gguf_put_floats(gguf_writer *writer, const char *key, const float *values, size_t count) {
    if (begin_array(writer, key, GGUF_FLOAT, count))
        add(writer, values, count * sizeof *values);
}

void gguf_put_integers(gguf_writer *writer, const char *key, const int32_t *values, size_t count) {
    if (begin_array(writer, key, GGUF_I32, count))
        add(writer, values, count * sizeof *values);
}

/* ---- tensors ---- */

/* Sizes, or an error. */
static bool measure(gguf_writer *writer, planned_tensor *tensor) {
    size_t row_bytes, rows = 1;
    for (int i = 1; i < GGUF_DIMS_MAX; i++)
        if (!size_multiply(rows, tensor->dims[i], &rows))
            rows = 0;
    if (tensor->dims[0] == 0 || rows == 0 ||
        !gguf_row_bytes(tensor->type, tensor->dims[0], &row_bytes) ||
        !size_multiply(rows, row_bytes, &tensor->bytes) ||
        !size_multiply(rows, tensor->dims[0], &tensor->elements))
        return lab_fail(&writer->error, LAB_INPUT, "tensor \"%s\" cannot have this shape and type",
                        tensor->name);
    return true;
}

static planned_tensor *plan(gguf_writer *writer, const char *name, uint32_t n_dims,
                            const uint64_t *dims, gguf_type type) {
    if (!is_fine(writer) || !check_name(writer, "tensor", name, GGUF_NAME_MAX))
        return NULL;
    for (size_t i = 0; i < writer->n_tensors; i++)
        if (strcmp(writer->tensors[i].name, name) == 0) {
            lab_fail(&writer->error, LAB_INPUT, "tensor \"%s\" occurs twice", name);
            return NULL;
        }
    planned_tensor tensor = {.n_dims = n_dims, .dims = {1, 1, 1, 1}, .type = type};
    memcpy(tensor.name, name, strlen(name) + 1);
    if (n_dims == 0 || n_dims > GGUF_DIMS_MAX) {
        lab_fail(&writer->error, LAB_INPUT, "tensor \"%s\" has %u dimensions", name, n_dims);
        return NULL;
    }
    memcpy(tensor.dims, dims, n_dims * sizeof *dims);
    if (!measure(writer, &tensor))
        return NULL;
    planned_tensor *tensors = one_more(writer, writer->tensors, writer->n_tensors, sizeof *tensors);
    if (!tensors)
        return NULL;
    writer->tensors = tensors;
    tensors[writer->n_tensors] = tensor;
    return &tensors[writer->n_tensors++];
}

void gguf_put_tensor(gguf_writer *writer, const char *name, uint32_t n_dims, const uint64_t *dims,
                     gguf_type type, const float *values) {
    if (is_fine(writer) && type != GGUF_F32 && type != GGUF_F16 && type != GGUF_BF16 &&
        type != GGUF_Q8_0)
        lab_fail(&writer->error, LAB_INPUT, "tensor \"%.64s\" cannot be written as %s", name,
                 gguf_type_name(type) ? gguf_type_name(type) : "an unknown type");
    planned_tensor *tensor = plan(writer, name, n_dims, dims, type);
    if (tensor)
        tensor->values = values;
}

/* ---- the file ---- */

static bool is_too_large(uint16_t half) { return (half & 0x7c00u) == 0x7c00u; }

/* 32 floats as a block of q8_0; false where the scale does not fit. */
static bool write_q8_0(FILE *file, const float *values) {
    float largest = 0;
    for (int i = 0; i < QUANT; i++) {
        if (!isfinite(values[i]))
            return false;
        largest = fmaxf(largest, fabsf(values[i]));
    }
    float scale = largest / 127.0f, inverse = scale > 0 ? 1.0f / scale : 0.0f;
    uint16_t half = float_to_half(scale);
    int8_t block[QUANT];
    if (!isfinite(inverse))
        inverse = 0; /* subnormal scales, which f16 rounds to zero anyway */
    for (int i = 0; i < QUANT; i++)
        block[i] = (int8_t)roundf(values[i] * inverse);
    fwrite(&half, sizeof half, 1, file);
    fwrite(block, 1, sizeof block, file);
    return !is_too_large(half);
}

static bool write_halves(FILE *file, const float *values, size_t count, gguf_type type) {
    for (size_t i = 0; i < count; i++) {
        uint16_t half = type == GGUF_F16 ? float_to_half(values[i]) : float_to_brain(values[i]);
        fwrite(&half, sizeof half, 1, file);
        if (isfinite(values[i]) && type == GGUF_F16 && is_too_large(half))
            return false;
    }
    return true;
}

static bool write_elements(FILE *file, const planned_tensor *tensor) {
    if (tensor->type == GGUF_F32) {
        fwrite(tensor->values, sizeof(float), tensor->elements, file);
        return true;
    }
    if (tensor->type != GGUF_Q8_0)
        return write_halves(file, tensor->values, tensor->elements, tensor->type);
    for (size_t i = 0; i < tensor->elements; i += QUANT)
        if (!write_q8_0(file, tensor->values + i))
            return false;
    return true;
}

static void write_u32(FILE *file, uint32_t value) { fwrite(&value, sizeof value, 1, file); }

static void write_u64(FILE *file, uint64_t value) { fwrite(&value, sizeof value, 1, file); }

/* Pads after `size` bytes to the next multiple of 32. */
static void write_padding(FILE *file, uint64_t size) {
    static const uint8_t zeros[GGUF_ALIGNMENT_DEFAULT];
    uint64_t beyond = size % GGUF_ALIGNMENT_DEFAULT;
    if (beyond != 0)
        fwrite(zeros, 1, GGUF_ALIGNMENT_DEFAULT - (size_t)beyond, file);
}

/* Returns the size of the table in bytes. */
static uint64_t write_table(FILE *file, const gguf_writer *writer) {
    uint64_t place = 0, size = 0;
    for (size_t i = 0; i < writer->n_tensors; i++) {
        const planned_tensor *tensor = &writer->tensors[i];
        size_t length = strlen(tensor->name);
        write_u64(file, length);
        fwrite(tensor->name, 1, length, file);
        write_u32(file, tensor->n_dims);
        fwrite(tensor->dims, sizeof *tensor->dims, tensor->n_dims, file);
        write_u32(file, (uint32_t)tensor->type);
        write_u64(file, place);
        size += 8 + length + 4 + 8 * (uint64_t)tensor->n_dims + 4 + 8;
        place += (tensor->bytes + GGUF_ALIGNMENT_DEFAULT - 1) / GGUF_ALIGNMENT_DEFAULT *
                 GGUF_ALIGNMENT_DEFAULT;
    }
    return size;
}

static bool write_file(FILE *file, void *context) {
    gguf_writer *writer = context;
    fwrite("GGUF", 1, 4, file);
    write_u32(file, VERSION);
    write_u64(file, writer->n_tensors);
    write_u64(file, writer->n_values);
    if (writer->values.size > 0)
        fwrite(writer->values.bytes, 1, writer->values.size, file);
    write_padding(file, 24 + writer->values.size + write_table(file, writer));
    for (size_t i = 0; i < writer->n_tensors && !ferror(file); i++) {
        const planned_tensor *tensor = &writer->tensors[i];
        if (!write_elements(file, tensor)) {
            errno = ERANGE;
            return lab_fail(&writer->error, LAB_INPUT,
                            "tensor \"%s\" has a value that does not fit in %s", tensor->name,
                            gguf_type_name(tensor->type));
        }
        write_padding(file, tensor->bytes);
    }
    return true;
}

bool gguf_writer_finish(gguf_writer *writer, const char *path, lab_error *error) {
    if (!writer)
        return lab_fail_memory(error);
    bool is_written = is_fine(writer) && replace_file_unless(path, write_file, writer);
    if (!is_fine(writer))
        lab_fail(error, writer->error.kind, "%s", writer->error.text);
    else if (!is_written)
        lab_fail_file(error, "write", path);
    gguf_writer_cancel(writer);
    return is_written;
}
