/*
 * Reading GGUF files. A cursor goes through the file once: header, metadata,
 * table of tensors. It accepts nothing that is not wholly inside the file;
 * counts are compared with the size of the rest of the file before memory is
 * allocated. Names are then sorted, which finds duplicates, and so are the
 * tensors' offsets, which finds overlaps.
 */
#define _POSIX_C_SOURCE 200809L

#include "gguf/gguf.h"
#include "gguf/types.h"

#include "base/checked.h"
#include "base/grouped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    VALUE_BYTES_MIN = 8 + 4 + 1,      /* an empty key, a kind, a byte */
    TENSOR_BYTES_MIN = 8 + 4 + 4 + 8, /* no name, no dimensions, a type, an offset */
    HEADER_BYTES = 4 + 4 + 8 + 8,     /* the magic, a version, two counts */
    VERSION_MIN = 2,
    VERSION_MAX = 3
};

/* Bytes of one element of a kind; 0 for strings, arrays and unknown kinds. */
static size_t kind_bytes(uint32_t kind) {
    static const uint8_t bytes[] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2,   [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_FLOAT] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_DOUBLE] = 8};
    return kind < sizeof bytes ? bytes[kind] : 0;
}

/* The position in the file, and the current entry for messages. */
typedef struct cursor {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    const char *file; /* its name */
    gguf_text item;   /* the current key or tensor; length 0 before the first */
    const char *what; /* "key" or "tensor" */
    lab_error *error;
} cursor;

/* "FILE: key "k" at byte N: complaint". Long keys are cut. */
__attribute__((format(printf, 2, 3))) static bool complain(cursor *reader, const char *format,
                                                           ...) {
    char complaint[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(complaint, sizeof complaint, format, arguments);
    va_end(arguments);
    int length = reader->item.length > 64 ? 64 : (int)reader->item.length;
    if (length == 0)
        return lab_fail(reader->error, LAB_INPUT, "%s: %s at byte %zu: %s", reader->file,
                        reader->what, reader->at, complaint);
    return lab_fail(reader->error, LAB_INPUT, "%s: %s \"%.*s\" at byte %zu: %s", reader->file,
                    reader->what, length, reader->item.bytes, reader->at, complaint);
}

/* The current key or tensor needs `count` more bytes from `at` on, but the file ends before. */
static bool fail_short(const cursor *reader, uint64_t at, uint64_t count) {
    char needed[NUMBER_SIZE], there[NUMBER_SIZE], item[80] = "";
    int length = reader->item.length > 64 ? 64 : (int)reader->item.length;
    if (length > 0)
        snprintf(item, sizeof item, " \"%.*s\"", length, reader->item.bytes);
    uint64_t end = at > UINT64_MAX - count ? UINT64_MAX : at + count;
    return lab_fail(reader->error, LAB_INPUT,
                    "%s: truncated file: %s%s needs data up to %s bytes, but there are %s",
                    reader->file, reader->what, item, grouped(end, needed),
                    grouped(reader->size, there));
}

/* The next `count` bytes; NULL and an error if the file ends before. */
static const uint8_t *take(cursor *reader, uint64_t count) {
    if (count > reader->size - reader->at) {
        fail_short(reader, reader->at, count);
        return NULL;
    }
    const uint8_t *bytes = reader->bytes + reader->at;
    reader->at += (size_t)count;
    return bytes;
}

static bool take_u32(cursor *reader, uint32_t *value) {
    const uint8_t *bytes = take(reader, sizeof *value);
    if (bytes)
        memcpy(value, bytes, sizeof *value);
    return bytes != NULL;
}

static bool take_u64(cursor *reader, uint64_t *value) {
    const uint8_t *bytes = take(reader, sizeof *value);
    if (bytes)
        memcpy(value, bytes, sizeof *value);
    return bytes != NULL;
}

static bool take_text(cursor *reader, gguf_text *text) {
    uint64_t length;
    if (!take_u64(reader, &length))
        return false;
    const uint8_t *bytes = take(reader, length);
    if (!bytes)
        return false;
    *text = (gguf_text){(const char *)bytes, (size_t)length};
    return true;
}

/* A key or a tensor's name: printable, and not too long. */
static bool take_name(cursor *reader, size_t limit, gguf_text *name) {
    if (!take_text(reader, name))
        return false;
    if (name->length == 0 || name->length > limit)
        return complain(reader, "a name of %zu bytes (1 to %zu are allowed)", name->length, limit);
    for (size_t i = 0; i < name->length; i++)
        if (name->bytes[i] <= ' ' || name->bytes[i] > '~')
            return complain(reader, "a name that is not printable ASCII");
    reader->item = *name;
    return true;
}

/* Elements of a kind other than array. */
static bool take_elements(cursor *reader, uint32_t kind, uint64_t count) {
    size_t each = kind_bytes(kind), total;
    if (kind == GGUF_TEXT) {
        gguf_text text;
        for (uint64_t i = 0; i < count; i++)
            if (!take_text(reader, &text))
                return false;
        return true;
    }
    if (each == 0)
        return kind == GGUF_ARRAY ? complain(reader, "an array of arrays, which is not supported")
                                  : complain(reader, "unknown kind of value %u", kind);
    if (!size_multiply((size_t)count, each, &total))
        return complain(reader, "an array of %llu elements", (unsigned long long)count);
    const uint8_t *bytes = take(reader, total);
    for (size_t i = 0; bytes && kind == GGUF_BOOL && i < total; i++)
        if (bytes[i] > 1)
            return complain(reader, "a boolean of %u", bytes[i]);
    return bytes != NULL;
}

static bool take_value(cursor *reader, gguf_value *value) {
    uint32_t kind, element;
    reader->item.length = 0;
    if (!take_name(reader, GGUF_KEY_MAX, &value->key) || !take_u32(reader, &kind))
        return false;
    element = kind;
    value->count = 1;
    if (kind == GGUF_ARRAY && (!take_u32(reader, &element) || !take_u64(reader, &value->count)))
        return false;
    size_t begin = reader->at;
    if (!take_elements(reader, element, value->count))
        return false;
    value->kind = (gguf_kind)kind;
    value->element = (gguf_kind)element;
    value->bytes = reader->bytes + begin;
    value->size = reader->at - begin;
    return true;
}

/* The sizes of the tensor's rows and of all of it. */
static bool measure_tensor(cursor *reader, gguf_tensor *tensor, uint32_t type, size_t *bytes) {
    tensor->type = (gguf_type)type;
    const gguf_type_facts *facts = gguf_type_of(tensor->type);
    if (!facts)
        return complain(reader, "unknown element type %u", type);
    tensor->rows = 1;
    for (int i = 0; i < GGUF_DIMS_MAX; i++) {
        if (tensor->dims[i] == 0)
            return complain(reader, "dimension %d is 0", i);
        if (i > 0 && __builtin_mul_overflow(tensor->rows, tensor->dims[i], &tensor->rows))
            return complain(reader, "the number of elements overflows");
    }
    if (tensor->dims[0] % facts->elements != 0)
        return complain(reader, "rows of %llu elements are not made of %s's blocks of %u",
                        (unsigned long long)tensor->dims[0], facts->name, facts->elements);
    if (!gguf_row_bytes(tensor->type, tensor->dims[0], &tensor->row_bytes) ||
        __builtin_mul_overflow(tensor->row_bytes, tensor->rows, bytes))
        return complain(reader, "the number of elements overflows");
    return true;
}

/* An entry of the table of tensors; `place` is the offset in the data, `bytes` the size. */
static bool take_tensor(cursor *reader, gguf_tensor *tensor, uint64_t *place, size_t *bytes) {
    uint32_t type;
    reader->item.length = 0;
    if (!take_name(reader, GGUF_NAME_MAX, &tensor->name) || !take_u32(reader, &tensor->n_dims))
        return false;
    if (tensor->n_dims > GGUF_DIMS_MAX)
        return complain(reader, "%u dimensions (at most %d are allowed)", tensor->n_dims,
                        GGUF_DIMS_MAX);
    for (uint32_t i = 0; i < GGUF_DIMS_MAX; i++) {
        tensor->dims[i] = 1;
        if (i < tensor->n_dims && !take_u64(reader, &tensor->dims[i]))
            return false;
    }
    return take_u32(reader, &type) && take_u64(reader, place) &&
           measure_tensor(reader, tensor, type, bytes);
}

/* ---- order ---- */

/* A name and its index, for sorting. */
typedef struct named {
    gguf_text name;
    size_t index;
} named;

static int compare_texts(gguf_text a, gguf_text b) {
    size_t shorter = a.length < b.length ? a.length : b.length;
    int order = memcmp(a.bytes, b.bytes, shorter);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_named(const void *a, const void *b) {
    return compare_texts(((const named *)a)->name, ((const named *)b)->name);
}

/* Sorts names and returns their indices; the first duplicate is an error. Frees `names`. */
static size_t *order_names(cursor *reader, named *names, size_t count) {
    size_t *order = malloc((count ? count : 1) * sizeof *order);
    if (!order) {
        lab_fail_memory(reader->error);
        free(names);
        return NULL;
    }
    if (count > 0)
        qsort(names, count, sizeof *names, compare_named);
    for (size_t i = 0; i < count; i++) {
        order[i] = names[i].index;
        if (i > 0 && compare_named(&names[i - 1], &names[i]) == 0) {
            reader->item = names[i].name;
            reader->at = (size_t)((const uint8_t *)names[i].name.bytes - reader->bytes);
            complain(reader, "duplicate name");
            free(order);
            order = NULL;
            break;
        }
    }
    free(names);
    return order;
}

static bool order_values(cursor *reader, gguf_file *file) {
    size_t count = (size_t)file->n_values;
    named *names = malloc((count ? count : 1) * sizeof *names);
    if (!names)
        return lab_fail_memory(reader->error);
    for (size_t i = 0; i < count; i++)
        names[i] = (named){file->values[i].key, i};
    file->values_by_key = order_names(reader, names, count);
    return file->values_by_key != NULL;
}

static bool order_tensors(cursor *reader, gguf_file *file) {
    size_t count = (size_t)file->n_tensors;
    named *names = malloc((count ? count : 1) * sizeof *names);
    if (!names)
        return lab_fail_memory(reader->error);
    for (size_t i = 0; i < count; i++)
        names[i] = (named){file->tensors[i].name, i};
    file->tensors_by_name = order_names(reader, names, count);
    return file->tensors_by_name != NULL;
}

/* The bytes of a tensor, for sorting. */
typedef struct extent {
    uint64_t begin;
    uint64_t end;
    size_t index;
} extent;

static int compare_extents(const void *a, const void *b) {
    uint64_t left = ((const extent *)a)->begin, right = ((const extent *)b)->begin;
    return (left > right) - (left < right);
}

static bool check_overlaps(cursor *reader, const gguf_file *file, extent *extents) {
    size_t count = (size_t)file->n_tensors;
    if (count > 0)
        qsort(extents, count, sizeof *extents, compare_extents);
    for (size_t i = 1; i < count; i++) {
        if (extents[i].begin >= extents[i - 1].end)
            continue;
        gguf_text other = file->tensors[extents[i - 1].index].name;
        reader->item = file->tensors[extents[i].index].name;
        reader->at = file->data_start + (size_t)extents[i].begin;
        return complain(reader, "overlaps \"%.*s\"", (int)other.length, other.bytes);
    }
    return true;
}

/* ---- the whole ---- */

static bool take_head(cursor *reader, gguf_file *file) {
    static const char other_way[] = "written on a big-endian machine, which is not supported";
    reader->what = "header";
    const uint8_t *magic = reader->size < 4 ? NULL : take(reader, 4);
    if (!magic || memcmp(magic, "GGUF", 4) != 0)
        return lab_fail(reader->error, LAB_INPUT, "%s: not a GGUF model", reader->file);
    if (reader->size < HEADER_BYTES)
        return lab_fail(reader->error, LAB_INPUT, "%s: truncated header (%zu of at least %d bytes)",
                        reader->file, reader->size, HEADER_BYTES);
    if (!take_u32(reader, &file->version))
        return false;
    if (file->version < VERSION_MIN || file->version > VERSION_MAX)
        return (file->version & 0xffffu) == 0 && file->version != 0
                   ? complain(reader, "%s", other_way)
                   : complain(reader, "version %u (2 and 3 are supported)", file->version);
    if (!take_u64(reader, &file->n_tensors) || !take_u64(reader, &file->n_values))
        return false;
    size_t left = reader->size - reader->at;
    if (file->n_values > left / VALUE_BYTES_MIN || file->n_tensors > left / TENSOR_BYTES_MIN)
        return complain(reader, "number of keys (%llu) or tensors (%llu) too large for the file",
                        (unsigned long long)file->n_values, (unsigned long long)file->n_tensors);
    return true;
}

static bool take_values(cursor *reader, gguf_file *file) {
    size_t count = (size_t)file->n_values;
    reader->what = "key";
    file->values = calloc(count ? count : 1, sizeof *file->values);
    if (!file->values)
        return lab_fail_memory(reader->error);
    for (size_t i = 0; i < count; i++)
        if (!take_value(reader, &file->values[i]))
            return false;
    return order_values(reader, file);
}

static bool choose_alignment(cursor *reader, gguf_file *file) {
    uint32_t alignment = GGUF_ALIGNMENT_DEFAULT;
    if (gguf_find(file, "general.alignment") &&
        !gguf_get_u32(file, "general.alignment", &alignment, reader->error))
        return false;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > 1u << 30)
        return lab_fail(reader->error, LAB_INPUT,
                        "%s: key \"general.alignment\" is %u, not a power of two", reader->file,
                        alignment);
    file->alignment = alignment;
    return true;
}

/* Sets the tensor's address, if it is inside the file. */
static bool place_tensor(cursor *reader, const gguf_file *file, gguf_tensor *tensor,
                         const extent *place) {
    reader->item = tensor->name;
    size_t data_bytes = file->size > file->data_start ? file->size - file->data_start : 0;
    if (place->begin % file->alignment != 0)
        return complain(reader, "its offset %llu is not a multiple of the alignment %zu",
                        (unsigned long long)place->begin, file->alignment);
    if (place->end > data_bytes)
        return fail_short(reader, file->data_start, place->end);
    tensor->bytes = reader->bytes + file->data_start + (size_t)place->begin;
    return true;
}

static bool take_table(cursor *reader, gguf_file *file, extent *extents) {
    size_t count = (size_t)file->n_tensors;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        extents[i].index = i;
        if (!take_tensor(reader, &file->tensors[i], &extents[i].begin, &bytes))
            return false;
        if (__builtin_add_overflow(extents[i].begin, (uint64_t)bytes, &extents[i].end))
            return complain(reader, "its offset %llu is beyond any file",
                            (unsigned long long)extents[i].begin);
    }
    /* Its aligned end may be beyond that of a file without tensors. */
    if (!size_align(reader->at, file->alignment, &file->data_start))
        return complain(reader, "the table of tensors is incomplete");
    for (size_t i = 0; i < count; i++)
        if (!place_tensor(reader, file, &file->tensors[i], &extents[i]))
            return false;
    return order_tensors(reader, file) && check_overlaps(reader, file, extents);
}

static bool take_tensors(cursor *reader, gguf_file *file) {
    size_t count = (size_t)file->n_tensors;
    reader->what = "tensor";
    reader->item.length = 0;
    file->tensors = calloc(count ? count : 1, sizeof *file->tensors);
    extent *extents = calloc(count ? count : 1, sizeof *extents);
    bool is_taken = file->tensors && extents ? take_table(reader, file, extents)
                                             : lab_fail_memory(reader->error);
    free(extents);
    return is_taken;
}

gguf_file *gguf_open_memory(const void *bytes, size_t size, const char *name, lab_error *error) {
    lab_error own = {0};
    gguf_file *file = calloc(1, sizeof *file);
    if (!file) {
        lab_fail_memory(error);
        return NULL;
    }
    file->bytes = bytes;
    file->size = size;
    cursor reader = {.bytes = bytes, .size = size, .file = name, .error = error ? error : &own};
    if (take_head(&reader, file) && take_values(&reader, file) && choose_alignment(&reader, file) &&
        take_tensors(&reader, file))
        return file;
    gguf_close(file);
    return NULL;
}

/* Maps an open file; false with errno set. */
static bool map_file(int descriptor, void **map, size_t *size) {
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return false;
    if (!S_ISREG(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
        return false;
    }
    *size = (size_t)status.st_size;
    if (*size == 0)
        return true; /* nothing to map; it will be refused as too short */
    void *mapped = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED)
        return false;
    *map = mapped;
    return true;
}

gguf_file *gguf_open(const char *path, lab_error *error) {
    void *map = NULL;
    size_t size = 0;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    bool is_mapped = descriptor >= 0 && map_file(descriptor, &map, &size);
    int reason = errno;
    if (descriptor >= 0)
        close(descriptor);
    if (!is_mapped && descriptor >= 0 && reason == EINVAL) {
        lab_fail(error, LAB_INPUT, "%s: not a regular file", path);
        return NULL;
    }
    if (!is_mapped) {
        lab_fail_read(error, path, reason);
        return NULL;
    }
    gguf_file *file = gguf_open_memory(map ? map : "", size, path, error);
    if (file)
        file->map = map;
    else if (map)
        munmap(map, size);
    return file;
}

void gguf_close(gguf_file *file) {
    if (!file)
        return;
    if (file->map)
        munmap(file->map, file->size);
    free(file->values);
    free(file->tensors);
    free(file->values_by_key);
    free(file->tensors_by_name);
    free(file);
}

/* ---- looking up ---- */

bool gguf_text_is(gguf_text text, const char *wanted) {
    return text.length == strlen(wanted) && memcmp(text.bytes, wanted, text.length) == 0;
}

/* The position of a name in `order`, where `name_of` gives the name of each index; `count` if it is
 * missing. */
static size_t find_name(const gguf_file *file, const size_t *order, size_t count,
                        gguf_text (*name_of)(const gguf_file *file, size_t index),
                        const char *wanted) {
    gguf_text text = {wanted, strlen(wanted)};
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int comparison = compare_texts(name_of(file, order[middle]), text);
        if (comparison == 0)
            return order[middle];
        if (comparison < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return count;
}

static gguf_text key_of(const gguf_file *file, size_t index) { return file->values[index].key; }

static gguf_text name_of(const gguf_file *file, size_t index) { return file->tensors[index].name; }

const gguf_value *gguf_find(const gguf_file *file, const char *key) {
    size_t count = (size_t)file->n_values;
    size_t index = find_name(file, file->values_by_key, count, key_of, key);
    return index < count ? &file->values[index] : NULL;
}

const gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name) {
    size_t count = (size_t)file->n_tensors;
    size_t index = find_name(file, file->tensors_by_name, count, name_of, name);
    return index < count ? &file->tensors[index] : NULL;
}

const gguf_tensor *gguf_get_tensor(const gguf_file *file, const char *name, uint64_t columns,
                                   uint64_t rows, lab_error *error) {
    const gguf_tensor *tensor = gguf_find_tensor(file, name);
    if (!tensor) {
        lab_fail(error, LAB_INPUT, "the model has no tensor \"%s\"", name);
        return NULL;
    }
    if (tensor->dims[0] != columns || tensor->dims[1] != rows || tensor->rows != rows) {
        lab_fail(error, LAB_INPUT, "tensor \"%s\" is %llu x %llu x %llu x %llu, not %llu x %llu",
                 name, (unsigned long long)tensor->dims[0], (unsigned long long)tensor->dims[1],
                 (unsigned long long)tensor->dims[2], (unsigned long long)tensor->dims[3],
                 (unsigned long long)columns, (unsigned long long)rows);
        return NULL;
    }
    if (!gguf_can_dequantise(tensor->type)) {
        lab_fail(error, LAB_INPUT, "tensor \"%s\" has the unsupported type %s", name,
                 gguf_type_name(tensor->type));
        return NULL;
    }
    return tensor;
}
