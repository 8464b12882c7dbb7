// GGUF files put together by hand, byte by byte, so that they can tell any lie.
#ifndef WHET_TESTS_LAB_GGUF_MADE_H
#define WHET_TESTS_LAB_GGUF_MADE_H

#include "gguf/gguf.h"

#include <stddef.h>
#include <stdint.h>

enum { MADE_MAX = 1 << 16 };

typedef struct made_file {
    uint8_t data[MADE_MAX];
    size_t size;
} made_file;

void put_bytes(made_file *file, const void *data, size_t size);
void put_u32(made_file *file, uint32_t value);
void put_u64(made_file *file, uint64_t value);
void put_text(made_file *file, const char *text);

// "GGUF", a version and two counts; starts the file anew.
void put_head(made_file *file, uint32_t version, uint64_t n_tensors, uint64_t n_values);

// A key and the number of a kind; the value is to follow.
void put_key(made_file *file, const char *key, uint32_t kind);

// An entry of the table of tensors, of two dimensions.
void put_tensor(made_file *file, const char *name, uint64_t columns, uint64_t rows, uint32_t type,
                uint64_t place);

// Zeros up to a multiple of `unit`.
void put_padding(made_file *file, size_t unit);

// A small file that is in order: one value of every kind, an array of each sort, two tensors.
void put_good_file(made_file *file);

// Opens a copy that ends where readable memory ends, so that a step too far is a crash.
// NULL and an error as gguf_open_memory has them; to be closed with close_made.
gguf_file *open_made(const made_file *file, lab_error *error);
void close_made(gguf_file *file);

// Whether opening fails with a message that has these words in it.
bool is_refused(const made_file *file, const char *words);

#endif
