/*
 * libllama, the library of llama.cpp, loaded at run time without its headers. Few of its structs
 * are accessed, and only where the values that the library itself fills in prove that their layout
 * is a supported one; any other version is refused.
 *
 * Structs that its functions take and return by value are passed as blocks of bytes that are
 * larger than in any version. By the calling conventions of x86-64 and 64-bit ARM, a struct of
 * more than 16 bytes is returned in memory of the caller and passed on the stack or by reference,
 * so the callee finds its own struct at the start of the block.
 */
#ifndef WHET_LLAMA_LIBLLAMA_H
#define WHET_LLAMA_LIBLLAMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- its functions, by their names in the library ---- */

enum { LIBLLAMA_BLOCK_BYTES = 1024, LIBLLAMA_LOG_ERROR = 4 };

typedef struct libllama_block {
    _Alignas(8) unsigned char bytes[LIBLLAMA_BLOCK_BYTES];
} libllama_block;

typedef struct libllama_chat_message {
    const char *role;
    const char *content;
} libllama_chat_message;

typedef struct libllama_functions {
    void (*ggml_backend_load_all_from_path)(const char *folder);
    void *(*ggml_backend_load)(const char *path);
    void (*llama_log_set)(void (*log)(int level, const char *text, void *user), void *user);
    void (*llama_backend_init)(void);
    libllama_block (*llama_model_default_params)(void);
    libllama_block (*llama_context_default_params)(void);
    void *(*llama_model_load_from_file)(const char *path, libllama_block params);
    void (*llama_model_free)(void *model);
    void *(*llama_init_from_model)(void *model, libllama_block params);
    void (*llama_free)(void *context);
    const void *(*llama_model_get_vocab)(const void *model);
    int32_t (*llama_model_n_ctx_train)(const void *model);
    int32_t (*llama_model_n_layer)(const void *model);
    int32_t (*llama_model_n_head)(const void *model);
    int (*llama_model_rope_type)(const void *model); /* -1: it has no rotary positions */
    const char *(*llama_model_chat_template)(const void *model, const char *name);
    int32_t (*llama_vocab_n_tokens)(const void *vocab);
    bool (*llama_vocab_is_eog)(const void *vocab, int32_t token);
    bool (*llama_vocab_get_add_bos)(const void *vocab);
    int32_t (*llama_vocab_bos)(const void *vocab);
    int32_t (*llama_tokenize)(const void *vocab, const char *text, int32_t length, int32_t *tokens,
                              int32_t capacity, bool add_special, bool parse_special);
    int32_t (*llama_token_to_piece)(const void *vocab, int32_t token, char *text, int32_t capacity,
                                    int32_t skip, bool special);
    int32_t (*llama_chat_apply_template)(const char *template,
                                         const libllama_chat_message *messages, size_t count,
                                         bool add_answer, char *text, int32_t capacity);
    libllama_block (*llama_batch_get_one)(int32_t *tokens, int32_t count);
    int32_t (*llama_decode)(void *context, libllama_block batch);
    float *(*llama_get_logits_ith)(void *context, int32_t i);
    void *(*llama_get_memory)(const void *context);
    void (*llama_memory_clear)(void *memory, bool with_data);
} libllama_functions;

typedef struct libllama {
    libllama_functions call;
    char version[64];  /* as the library reports it; versions of 2025 do not: "" */
    size_t threads_at; /* index of the numbers of threads in a context's parameters */
    /* Indices of the kind of RoPE scaling, of its numbers, and of the types of the cache; 0 where
     * the layout between them is not a supported one. That of flash attention is 0, too, in
     * versions where it is off by default. */
    size_t rope_kind_at, rope_numbers_at, cache_types_at, flash_at;
} libllama;

/* Supported versions, for messages. */
#define LIBLLAMA_KNOWN_VERSIONS "June 2025 to 2026"

typedef enum libllama_status {
    LIBLLAMA_OK,
    LIBLLAMA_NOT_LOADED,      /* detail: why */
    LIBLLAMA_LACKS_FUNCTION,  /* detail: its name */
    LIBLLAMA_UNKNOWN_VERSION, /* unsupported layout; detail: its version, or "" */
} libllama_status;

/* Loads the library permanently, since backends that it loads expect it to stay. `detail`, of
 * `detail_bytes`, explains a failure. */
libllama_status libllama_open(libllama *l, const char *path, char *detail, size_t detail_bytes);

/* ---- its structs ---- */

/* Defaults, except that all layers run on the CPU, whose backend has the plug-in. */
libllama_block libllama_model_params(const libllama *l);

/* Numbered as in the library. */
typedef enum libllama_rope_kind {
    LIBLLAMA_ROPE_NONE = 0,
    LIBLLAMA_ROPE_LINEAR = 1,
    LIBLLAMA_ROPE_YARN = 2
} libllama_rope_kind;

/* How rotary positions are stretched, whatever the model's file says. */
typedef struct libllama_rope {
    libllama_rope_kind kind;
    double base;       /* NTK-aware scaling is a larger one */
    double factor;     /* of the context; 1 for none */
    double fast, slow; /* YaRN: rotations within the original context */
    uint32_t original; /* YaRN: the context before scaling, in tokens */
} libllama_rope;

/* A context. Zero, except for the first three, is the library's default. */
typedef struct libllama_context_options {
    uint32_t context; /* tokens that it has space for */
    uint32_t batch;   /* of which are computed at a time */
    uint32_t threads;
    const libllama_rope *rope; /* NULL: as the model's file says */
    /* Keys and values are kept as f32, not f16. Without flash attention, for which llama.cpp would
     * convert them. */
    bool has_f32_cache;
} libllama_context_options;

/* False if the options need members whose place in this version is not known. */
bool libllama_context_params(const libllama *l, const libllama_context_options *options,
                             libllama_block *params);

/* `count` tokens; wanted[i] selects the i-th for logits and must stay valid until they are
 * computed. */
libllama_block libllama_batch(const libllama *l, int32_t *tokens, size_t count,
                              const int8_t *wanted);

#endif
