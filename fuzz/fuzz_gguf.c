/*
 * Any bytes as a GGUF file. A refusal has a message in printable words; what is
 * taken has everything inside the file, in its order and found by its name, and
 * every value and every row can be read.
 */
#include "input.h"

#include "gguf/gguf.h"

enum { ROW_MAX = 4096 };

static void check_inside(const gguf_file *file, const void *bytes, uint64_t size) {
    uintptr_t begin = (uintptr_t)file->bytes, at = (uintptr_t)bytes;
    FUZZ_CHECK(at >= begin && at - begin <= file->size && size <= file->size - (at - begin));
}

/* A name as a C string, to look it up; to be freed. */
static char *copy_name(gguf_text name) {
    char *copy = fuzz_allocate(name.length + 1);
    memcpy(copy, name.bytes, name.length);
    copy[name.length] = '\0';
    return copy;
}

/* Reads it as everything it might be; what it is not leaves a message. */
static void read_value(const gguf_file *file, const char *key) {
    lab_error errors[9] = {0};
    uint64_t u64;
    uint32_t u32;
    int64_t i64;
    double number;
    bool truth;
    gguf_text text;
    size_t count;
    bool is_read[9] = {gguf_get_u64(file, key, &u64, &errors[0]),
                       gguf_get_u32(file, key, &u32, &errors[1]),
                       gguf_get_i64(file, key, &i64, &errors[2]),
                       gguf_get_double(file, key, &number, &errors[3]),
                       gguf_get_bool(file, key, &truth, &errors[4]),
                       gguf_get_text(file, key, &text, &errors[5])};
    gguf_text *texts = gguf_get_texts(file, key, &count, &errors[6]);
    float *floats = gguf_get_floats(file, key, &count, &errors[7]);
    int32_t *integers = gguf_get_integers(file, key, &count, &errors[8]);
    is_read[6] = texts;
    is_read[7] = floats;
    is_read[8] = integers;
    for (int i = 0; i < 9; i++)
        FUZZ_CHECK(is_read[i] == (errors[i].kind == LAB_NO_ERROR));
    if (is_read[5])
        check_inside(file, text.bytes, text.length);
    free(texts);
    free(floats);
    free(integers);
}

static void check_values(const gguf_file *file) {
    for (uint64_t i = 0; i < file->n_values; i++) {
        const gguf_value *value = &file->values[i];
        check_inside(file, value->key.bytes, value->key.length);
        check_inside(file, value->bytes, value->size);
        char *key = copy_name(value->key);
        FUZZ_CHECK(gguf_find(file, key) == value);
        read_value(file, key);
        free(key);
    }
}

static void check_tensors(const gguf_file *file) {
    float *row = fuzz_allocate(ROW_MAX * sizeof *row);
    for (uint64_t i = 0; i < file->n_tensors; i++) {
        const gguf_tensor *tensor = &file->tensors[i];
        check_inside(file, tensor->bytes, tensor->row_bytes * tensor->rows);
        char *name = copy_name(tensor->name);
        FUZZ_CHECK(gguf_find_tensor(file, name) == tensor);
        for (uint64_t r = 0; tensor->dims[0] <= ROW_MAX && r < tensor->rows && r < 64; r++)
            FUZZ_CHECK(gguf_dequantise(tensor, r, row) == gguf_can_dequantise(tensor->type));
        free(name);
    }
    free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_error error = {0};
    uint8_t *copy = fuzz_copy(data, size);
    gguf_file *file = gguf_open_memory(copy, size, "input", &error);
    if (!file) {
        FUZZ_CHECK(error.kind == LAB_INPUT && error.text[0] != '\0');
        for (const char *c = error.text; *c; c++)
            FUZZ_CHECK(*c >= ' ' && *c <= '~');
    } else {
        FUZZ_CHECK(error.kind == LAB_NO_ERROR);
        check_values(file);
        check_tensors(file);
    }
    gguf_close(file);
    free(copy);
    return 0;
}
