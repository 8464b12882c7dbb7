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

/*
 * spread.c: for a recording, the smallest logit is the negated largest one of the same attention
 * with a negated scale, which is computed for the recorded rows with next to no values. (A mask's
 * entries are 0 or -inf here; ALiBi's, which are not, are negated too.)
 */

/* That attention, of all rows of `a`, with statistics and output to be set. */
whet_attention spread_negated(const operation *o, const whet_attention *a);

/* The columns of its output. */
size_t spread_columns(const operation *o);

/* max e - min e of all recorded rows, from `stats` and `negated_stats`. */
void spread_fill(operation *o);

#endif
