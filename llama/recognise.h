/*
 * Recognises the parts of llama.cpp's graphs: which nodes are attention, of which layer, and where
 * the positions of tokens are.
 */
#ifndef WHET_LLAMA_RECOGNISE_H
#define WHET_LLAMA_RECOGNISE_H

#include "llama/host.h"

#define LLAMA_LAYER_MAX 65535

/* The layer of an attention node; -1 for all other nodes. */
int recognise_attention(const host *h, const host_tensor *node);

/* The positions of a graph's tokens, at least `tokens` of them; NULL if the graph has none. */
const int32_t *recognise_positions(const host *h, host_graph *graph, int nodes, size_t tokens);

#endif
