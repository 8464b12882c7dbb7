/*
 * Writing GGUF files (version 3) that llama.cpp loads. A writer collects
 * metadata and tensors in the order they are given; gguf_writer_finish writes
 * everything to a file atomically. The first failure is kept and reported
 * there, so that nothing needs to be checked in between.
 */
#ifndef WHET_LAB_GGUF_WRITE_H
#define WHET_LAB_GGUF_WRITE_H

#include "gguf/gguf.h"

typedef struct gguf_writer gguf_writer;

/* NULL when memory runs out, which all functions here accept and finish reports. */
gguf_writer *gguf_writer_start(void);

/* Metadata, copied. A duplicate key is an error. */
void gguf_put_text(gguf_writer *writer, const char *key, const char *text);
void gguf_put_u32(gguf_writer *writer, const char *key, uint32_t value);
void gguf_put_float(gguf_writer *writer, const char *key, float value);
void gguf_put_bool(gguf_writer *writer, const char *key, bool value);
void gguf_put_texts(gguf_writer *writer, const char *key, const char *const *texts, size_t count);
void gguf_put_floats(gguf_writer *writer, const char *key, const float *values, size_t count);
void gguf_put_integers(gguf_writer *writer, const char *key, const int32_t *values, size_t count);

/*
 * A tensor from floats, written as f32, f16, bf16 or q8_0 (rounded to the
 * nearest; a q8_0 block's scale is its largest magnitude / 127). dims[0] is the
 * fastest. The floats are not copied: they must stay valid until the writer is
 * finished. A value that the type cannot hold is an error.
 */
void gguf_put_tensor(gguf_writer *writer, const char *name, uint32_t n_dims, const uint64_t *dims,
                     gguf_type type, const float *values);

/* Writes the file and frees the writer in any case. */
bool gguf_writer_finish(gguf_writer *writer, const char *path, lab_error *error);

/* Frees a writer that is not to be finished. */
void gguf_writer_cancel(gguf_writer *writer);

#endif
