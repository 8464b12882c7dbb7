/*
 * Attention of queries that are spread over ranks like the keys (spread.h), row by row: for
 * temperatures that search and maps that are no exponentials of all logits.
 *
 * A round for statistics, a round for each step of the searches (search.h), and one for values, as
 * many as the row needs that needs most on any rank. Logits are computed again in each. A block is
 * divided into parts of a few queries and up to 1,024 keys, which libwhet computes as chunks of its
 * decode path (attention/plan.h), so that the memory for logits does not grow with the pieces. What
 * ordered maps take of a stick is computed as if it were whole, and shortened when blocks merge.
 */
#ifndef WHET_MPI_PREFILL_ROWS_H
#define WHET_MPI_PREFILL_ROWS_H

#include "search.h"
#include "spread.h"

typedef enum prefill_pass { PASS_STATS, PASS_BETAS, PASS_MAPS, PASS_VALUES } prefill_pass;

/* What a block comes to with the last pass; an ordered map leaves `rest` of the stick. */
typedef struct row_values {
    double z, s, first, entropy, largest, rest;
    double out[]; /* [value_dim] */
} row_values;

typedef struct row_plan {
    spread s;
    prefill_pass pass;
    size_t numbers;     /* doubles to a row in any pass */
    decode_row *states; /* of this rank's rows, [batch][kv_head][query][head of the key head] */
    row_search *search;
    int64_t *positions;       /* [batch][local query] */
    int64_t *block_positions; /* of a part of a block */
    float *block_betas;
    whet_stats *block_stats;
    float *block_out;
    double *part_numbers; /* [row][numbers] of a part of a block */
} row_plan;

/* Completes a plan whose description is in place (whet_mpi_plan_spread). */
whet_status whet_mpi_plan_rows(row_plan *p);

#endif
