/*
 * FLASH_ATTN_EXT: queries [head_dim, queries, heads, batch], keys and values likewise with their
 * own number of heads, a mask [keys, queries, divisor of heads, divisor of batch], sinks [heads];
 * the result is [value_dim, heads, queries, batch]. attention.c describes it to libwhet in place
 * and chooses one of two ways to compute it.
 */
#ifndef WHET_PLUGIN_ATTENTION_H
#define WHET_PLUGIN_ATTENTION_H

#include "operation.h"

/* attention_team.c: one plan, whose tasks the host's threads share. */
void attention_team_compute(host_tensor *result, int thread, int threads, void *context);

/* attention_heads.c: a plan for each head, with its own mask; one head per thread. */
void attention_heads_compute(host_tensor *result, int thread, int threads, void *context);

/* For recordings, which need the largest logit of the keys: where a sink is the largest logit of a
 * row, that of the keys is unknown, and `max` becomes NaN. */
void attention_forget_sinks(const whet_attention *a);

#endif
