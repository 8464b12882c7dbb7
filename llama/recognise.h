/*
 * What llama.cpp's graphs tell of themselves: which nodes are attention, of which layer, and where
 * the positions of tokens are.
 */
#ifndef WHET_LLAMA_RECOGNISE_H
#define WHET_LLAMA_RECOGNISE_H

#include "llama/host.h"

#define LLAMA_LAYER_MAX 65535

/* The layer whose attention a node is, or -1 for all other nodes. */
int recognise_attention(const host *h, const host_tensor *node);

/* The positions of a graph's tokens, at least so many; NULL where it does not tell. */
const int32_t *recognise_positions(const host *h, host_graph *graph, int nodes, size_t tokens);

#endif
