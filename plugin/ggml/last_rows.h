/*
 * Details of the last row of every head, for recordings: its largest weights with their keys, and
 * how many logits are close to the largest (WHET_STATS_KEYS, WHET_STATS_GAPS). Flash attention
 * keeps no row, so its logits are computed once more from the query and the keys.
 */
#ifndef WHET_PLUGIN_LAST_ROWS_H
#define WHET_PLUGIN_LAST_ROWS_H

#include "operation.h"

/* A thread's memory for last_row_of_attention. */
size_t last_rows_bytes(const operation *o);

/* Whether anything is to be recorded of a head. */
bool last_row_is_wanted(const operation *o, size_t head);

/* After FLASH_ATTN_EXT was computed. */
void last_row_of_attention(operation *o, size_t item, size_t head, char *memory);

/* While SOFT_MAX is computed: from the logits of the last row, and then from its weights. */
void last_row_logits(operation *o, size_t item, size_t head, const float *logits);
void last_row_weights(operation *o, size_t item, size_t head, const float *weights);

#endif
