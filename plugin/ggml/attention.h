/*
 * FLASH_ATTN_EXT, or what a host composes instead (pattern.h): queries [head_dim, queries, heads,
 * batch], keys and values likewise with their own number of heads, a mask [keys, queries, divisor
 * of heads, divisor of batch], sinks [heads]; the result is [value_dim, heads, queries, batch], or
 * [value_dim, queries, heads, batch] where it is composed. attention.c describes it to libwhet in
 * place and chooses one of two ways to compute it.
 */
#ifndef WHET_PLUGIN_ATTENTION_H
#define WHET_PLUGIN_ATTENTION_H

#include "operation.h"

/* attention_team.c: one plan, whose tasks the host's threads share. */
void attention_team_compute(host_tensor *result, int thread, int threads, void *context);

/* attention_heads.c: a plan for each head, with its own mask; one head per thread. */
void attention_heads_compute(host_tensor *result, int thread, int threads, void *context);

/*
 * Composed attention may have its result in memory that the host also uses for an input. Then it is
 * computed in memory of the plug-in's: so many bytes, 0 if none are needed; attention_place says
 * where, and attention_fetch_result, called once all is computed, copies the result.
 */
size_t attention_place_bytes(const operation *o);
void attention_place(operation *o, void *memory);
void attention_fetch_result(const operation *o);

/* For recordings, which need the largest logit of the keys: where a sink is the largest logit of a
 * row, that of the keys is unknown, and `max` becomes NaN. */
void attention_forget_sinks(const whet_attention *a);

#endif
