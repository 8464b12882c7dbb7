/*
 * GGUF files, versions 2 and 3, little-endian: the metadata and the weights of
 * language models as used by llama.cpp. Reading is here, writing in write.h.
 * Nothing in a file is trusted before it has been checked: an opened file has
 * valid counts, sizes, types, names and offsets; any other is refused with a
 * sentence that names the key or tensor and its offset.
 *
 * A file is mapped, not read, so that opening a large model costs nothing; if
 * another program truncates it meanwhile, this one ends (SIGBUS).
 */
#ifndef WHET_LAB_GGUF_H
#define WHET_LAB_GGUF_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types of elements of tensors, by their numbers in files. Those with a name here can be converted
 * to floats; of others (see gguf_type_name) only the size is known. */
typedef enum gguf_type {
    GGUF_F32 = 0,
    GGUF_F16 = 1,
    GGUF_Q4_0 = 2,
    GGUF_Q4_1 = 3,
    GGUF_Q5_0 = 6,
    GGUF_Q5_1 = 7,
    GGUF_Q8_0 = 8,
    GGUF_Q2_K = 10,
    GGUF_Q3_K = 11,
    GGUF_Q4_K = 12,
    GGUF_Q5_K = 13,
    GGUF_Q6_K = 14,
    GGUF_IQ2_XXS = 16,
    GGUF_IQ2_XS = 17,
    GGUF_IQ3_XXS = 18,
    GGUF_IQ1_S = 19,
    GGUF_IQ4_NL = 20,
    GGUF_IQ3_S = 21,
    GGUF_IQ2_S = 22,
    GGUF_IQ4_XS = 23,
    GGUF_IQ1_M = 29,
    GGUF_BF16 = 30
} gguf_type;

/* Kinds of metadata, by their numbers in files. */
typedef enum gguf_kind {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_FLOAT = 6,
    GGUF_BOOL = 7,
    GGUF_TEXT = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_DOUBLE = 12
} gguf_kind;

enum { GGUF_DIMS_MAX = 4, GGUF_NAME_MAX = 63, GGUF_KEY_MAX = 65535, GGUF_ALIGNMENT_DEFAULT = 32 };

/* Bytes in the file, without a terminating zero. */
typedef struct gguf_text {
    const char *bytes;
    size_t length;
} gguf_text;

/* One entry of the metadata. */
typedef struct gguf_value {
    gguf_text key; /* printable ASCII */
    gguf_kind kind;
    gguf_kind element;    /* of an array; never an array itself */
    uint64_t count;       /* of an array; 1 otherwise */
    const uint8_t *bytes; /* the value, or the array's elements, as they are in the file */
    size_t size;          /* of those */
} gguf_value;

/* One tensor. Elements of a row are contiguous: `dims[0]` is the fastest. */
typedef struct gguf_tensor {
    gguf_text name; /* printable ASCII */
    uint32_t n_dims;
    uint64_t dims[GGUF_DIMS_MAX]; /* 1 beyond n_dims; never 0 */
    gguf_type type;
    uint64_t rows;        /* dims[1] * dims[2] * dims[3] */
    size_t row_bytes;     /* of dims[0] elements */
    const uint8_t *bytes; /* all rows, contiguous */
} gguf_tensor;

typedef struct gguf_file {
    uint32_t version;
    uint64_t n_values;
    uint64_t n_tensors;
    gguf_value *values;   /* in the order of the file */
    gguf_tensor *tensors; /* likewise */
    size_t alignment;
    size_t data_start; /* offset of the tensors in the file */
    size_t size;
    /* Private to the reader. */
    const uint8_t *bytes;
    size_t *values_by_key; /* indices, sorted */
    size_t *tensors_by_name;
    void *map; /* NULL for bytes in memory */
} gguf_file;

/* Opens and checks a whole file; tensors are checked but not read. NULL and an error if it is
 * invalid. */
gguf_file *gguf_open(const char *path, lab_error *error);

/* The same for bytes in memory, which stay the caller's and must outlive the result; `name` is for
 * messages. */
gguf_file *gguf_open_memory(const void *bytes, size_t size, const char *name, lab_error *error);

/* NULL is fine. */
void gguf_close(gguf_file *file);

/* ---- metadata ---- */

/* The entry of a key; NULL if there is none. */
const gguf_value *gguf_find(const gguf_file *file, const char *key);

/*
 * Values of a key. Each returns false and an error that names the key if it is
 * missing or of another kind. Integers may be of any width as long as the value
 * fits; floats may be doubles in the file.
 */
bool gguf_get_text(const gguf_file *file, const char *key, gguf_text *text, lab_error *error);
bool gguf_get_u64(const gguf_file *file, const char *key, uint64_t *value, lab_error *error);
bool gguf_get_u32(const gguf_file *file, const char *key, uint32_t *value, lab_error *error);
bool gguf_get_i64(const gguf_file *file, const char *key, int64_t *value, lab_error *error);
bool gguf_get_double(const gguf_file *file, const char *key, double *value, lab_error *error);
bool gguf_get_bool(const gguf_file *file, const char *key, bool *value, lab_error *error);

/* Arrays, copied into memory that the caller frees; NULL and an error otherwise. Empty arrays are
 * not NULL. Texts point into the file. */
gguf_text *gguf_get_texts(const gguf_file *file, const char *key, size_t *count, lab_error *error);
float *gguf_get_floats(const gguf_file *file, const char *key, size_t *count, lab_error *error);
int32_t *gguf_get_integers(const gguf_file *file, const char *key, size_t *count, lab_error *error);

/* Whether a text is this one. */
bool gguf_text_is(gguf_text text, const char *wanted);

/* ---- tensors ---- */

/* A tensor by name; NULL if there is none. */
const gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name);

/* The same for a required tensor of this shape (1 for missing dimensions) whose type can be
 * converted to floats; NULL and an error otherwise. */
const gguf_tensor *gguf_get_tensor(const gguf_file *file, const char *name, uint64_t columns,
                                   uint64_t rows, lab_error *error);

/* Row `row` < tensor->rows as tensor->dims[0] floats. False, with nothing written, if the type
 * cannot be converted to floats (gguf_can_dequantise). */
bool gguf_dequantise(const gguf_tensor *tensor, uint64_t row, float *out);
bool gguf_can_dequantise(gguf_type type);

/* "q4_k"; NULL for an unknown number. */
const char *gguf_type_name(gguf_type type);

/* Bytes of a row of `elements` elements; false if the type is unknown, the row is not made of whole
 * blocks or the size overflows. */
bool gguf_row_bytes(gguf_type type, uint64_t elements, size_t *bytes);

#endif
