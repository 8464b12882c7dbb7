/*
 * FLASH_ATTN_EXT: queries [head_dim, queries, heads, batch], keys and values likewise with heads of
 * their own, a mask [keys, queries, a part of heads, a part of batch], sinks [heads]; the result is
 * [value_dim, heads, queries, batch]. attention.c describes it to libwhet as it is in memory, and
 * chooses one of the two ways to compute it.
 */
#ifndef WHET_PLUGIN_ATTENTION_H
#define WHET_PLUGIN_ATTENTION_H

#include "operation.h"

/* attention_team.c: one plan, whose tasks the host's threads share. */
void attention_team_compute(host_tensor *result, int thread, int threads, void *context);

/* attention_heads.c: a plan for each head, with a mask of its own: a head to a thread. */
void attention_heads_compute(host_tensor *result, int thread, int threads, void *context);

/* For a recording, which wants the largest logit of the keys: where a sink is the largest of a row,
 * that of the keys is not known, and `max` becomes NaN. */
void attention_forget_sinks(const whet_attention *a);

#endif
