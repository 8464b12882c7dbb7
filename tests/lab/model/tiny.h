// Tiny language models with random weights, complete enough for llama.cpp to load and run them:
// every byte is a token.
#ifndef WHET_TESTS_LAB_MODEL_TINY_H
#define WHET_TESTS_LAB_MODEL_TINY_H

#include "gguf/gguf.h"

typedef struct tiny_model {
    const char *architecture; // "llama" ...
    uint32_t layers, heads, kv_heads, head_dim, width;
    uint32_t context;
    double gain; // of query and key weights
    bool has_biases;
    bool is_fused;   // queries, keys and values in one tensor
    double soft_cap; // 0: none
    double yarn;     // the factor of its context; 0: none
    bool is_old;     // and that by the name it had in 2023
    gguf_type type;  // of matrices
    uint64_t seed;
} tiny_model;

// A model of two layers, four heads on two.
tiny_model tiny_usual(const char *architecture);

// Writes it; a failed check and false otherwise.
bool tiny_write(const tiny_model *model, const char *path);

#endif
