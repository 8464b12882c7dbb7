/*
 * Whole models with random weights, for an unmodified llama.cpp: of architectures whose attention
 * differs.
 */
#ifndef WHET_TESTS_PLUGIN_TINY_H
#define WHET_TESTS_PLUGIN_TINY_H

#include <llama.h>
#include <stdbool.h>
#include <stddef.h>

enum { TINY_WORDS = 96, TINY_CONTEXT = 256 };

/*
 *     llama       grouped heads
 *     gemma2      a soft cap, and a window in every other layer
 *     gpt-oss     sinks, and a window in every other layer
 *     deepseek2   multi-head latent attention: keys of 576 that four heads share, of which the
 *                 first 512 are the values
 *     mpt         ALiBi
 *
 * NULL: it cannot be written or loaded.
 */
struct llama_model *tiny_load(const char *architecture);

/* All logits of tokens [first, first + count) of all sequences. */
bool tiny_decode(struct llama_context *context, int first, int count, int sequences, float *to);

/* Of a to b, relative. */
double tiny_distance(const float *a, const float *b, size_t n);

#endif
