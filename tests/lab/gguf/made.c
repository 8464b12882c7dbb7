#include "made.h"

#include "support/check.h"
#include "support/guarded.h"

#include <stdlib.h>
#include <string.h>

void put_bytes(made_file *file, const void *data, size_t size) {
    if (file->size + size > MADE_MAX) {
        abort();
    }
    memcpy(file->data + file->size, data, size);
    file->size += size;
}

void put_u32(made_file *file, uint32_t value) { put_bytes(file, &value, sizeof value); }

void put_u64(made_file *file, uint64_t value) { put_bytes(file, &value, sizeof value); }

void put_text(made_file *file, const char *text) {
    put_u64(file, strlen(text));
    put_bytes(file, text, strlen(text));
}

void put_head(made_file *file, uint32_t version, uint64_t n_tensors, uint64_t n_values) {
    file->size = 0;
    put_bytes(file, "GGUF", 4);
    put_u32(file, version);
    put_u64(file, n_tensors);
    put_u64(file, n_values);
}

void put_key(made_file *file, const char *key, uint32_t kind) {
    put_text(file, key);
    put_u32(file, kind);
}

void put_tensor(made_file *file, const char *name, uint64_t columns, uint64_t rows, uint32_t type,
                uint64_t place) {
    put_text(file, name);
    put_u32(file, 2);
    put_u64(file, columns);
    put_u64(file, rows);
    put_u32(file, type);
    put_u64(file, place);
}

void put_padding(made_file *file, size_t unit) {
    while (file->size % unit != 0) {
        put_bytes(file, "", 1);
    }
}

static void put_small_values(made_file *file) {
    put_key(file, "a.u8", GGUF_U8);
    put_bytes(file, "\xff", 1);
    put_key(file, "a.i8", GGUF_I8);
    put_bytes(file, "\xff", 1);
    put_key(file, "a.u16", GGUF_U16);
    put_bytes(file, "\x01\x80", 2);
    put_key(file, "a.i16", GGUF_I16);
    put_bytes(file, "\x01\x80", 2);
    put_key(file, "a.u32", GGUF_U32);
    put_u32(file, 0xfffffffeu);
    put_key(file, "a.i32", GGUF_I32);
    put_u32(file, 0xfffffffeu);
    put_key(file, "a.u64", GGUF_U64);
    put_u64(file, UINT64_MAX);
    put_key(file, "a.i64", GGUF_I64);
    put_u64(file, UINT64_C(1) << 63);
    put_key(file, "a.bool", GGUF_BOOL);
    put_bytes(file, "\x01", 1);
}

static void put_large_values(made_file *file) {
    static const float single = 0.5f, singles[] = {1.0f, -2.5f};
    static const double twice = 1e100;
    put_key(file, "a.float", GGUF_FLOAT);
    put_bytes(file, &single, sizeof single);
    put_key(file, "a.double", GGUF_DOUBLE);
    put_bytes(file, &twice, sizeof twice);
    put_key(file, "a.text", GGUF_TEXT);
    put_text(file, "h\xc3\xa9llo");
    put_key(file, "a.texts", GGUF_ARRAY);
    put_u32(file, GGUF_TEXT);
    put_u64(file, 3);
    put_text(file, "one");
    put_text(file, "");
    put_text(file, "three");
    put_key(file, "a.floats", GGUF_ARRAY);
    put_u32(file, GGUF_FLOAT);
    put_u64(file, 2);
    put_bytes(file, singles, sizeof singles);
    put_key(file, "a.integers", GGUF_ARRAY);
    put_u32(file, GGUF_I16);
    put_u64(file, 2);
    put_bytes(file, "\xfe\xff\x07\x00", 4);
    put_key(file, "a.nothing", GGUF_ARRAY);
    put_u32(file, GGUF_I32);
    put_u64(file, 0);
}

void put_good_file(made_file *file) {
    put_head(file, 3, 2, 16);
    put_small_values(file);
    put_large_values(file);
    put_tensor(file, "first.weight", 3, 2, GGUF_F32, 0);
    put_tensor(file, "second.weight", 32, 1, GGUF_Q8_0, 32);
    put_padding(file, 32);
    for (int i = 0; i < 6; i++) {
        float value = (float)i;
        put_bytes(file, &value, sizeof value);
    }
    put_padding(file, 32);
    put_bytes(file, "\x00\x3c", 2); // a scale of 1
    for (int i = 0; i < 32; i++) {
        int8_t value = (int8_t)(i - 16);
        put_bytes(file, &value, 1);
    }
}

gguf_file *open_made(const made_file *file, lab_error *error) {
    uint8_t *copy = guarded_new(file->size);
    memcpy(copy, file->data, file->size);
    gguf_file *opened = gguf_open_memory(copy, file->size, "made.gguf", error);
    if (!opened) {
        guarded_free(copy);
    }
    return opened;
}

void close_made(gguf_file *file) {
    void *copy = file ? (void *)file->bytes : NULL;
    gguf_close(file);
    guarded_free(copy);
}

bool is_refused(const made_file *file, const char *words) {
    lab_error error = {0};
    gguf_file *opened = open_made(file, &error);
    bool is_right = !opened && error.kind == LAB_INPUT && strstr(error.text, words);
    check_message(is_right, __FILE__, __LINE__, words, "%s", opened ? "it was taken" : error.text);
    close_made(opened);
    return is_right;
}
