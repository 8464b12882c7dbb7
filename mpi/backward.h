/*
 * The backward pass of attention whose queries are spread over ranks like the keys (spread.h).
 *
 * In a first round keys and values travel, and every block gives the sums that its rows' gradients
 * are made of (attention/backward.h); they merge in the order of the tree. In a second round
 * the blocks compute gradients from the sums of whole rows: those of queries stay and merge like
 * the sums, those of keys, values and biases go back to their owners (returns.h). Logits, and the
 * gradients of weights, are computed in both rounds.
 *
 * Rows with other maps, or with gradients of statistics, are computed by themselves
 * (backward_rows.c). Rounds for their largest logits and for the steps of their searches come
 * first. Under ordered maps, the gradients of a piece of keys depend on the sums of those before
 * it and those after it, so these are kept for every piece that a row sees.
 */
#ifndef WHET_MPI_BACKWARD_H
#define WHET_MPI_BACKWARD_H

#include "attention/backward.h"
#include "returns.h"
#include "search.h"
#include "totals.h"

typedef enum backward_pass { PASS_PEAKS, PASS_SEARCH, PASS_SUMS, PASS_GRADIENTS } backward_pass;

typedef struct backward_plan {
    spread s;
    whet_gradients g;     /* as described, with the attention of s */
    whet_mpi_share share; /* of keys */
    size_t parameters;    /* doubles: those of policies, of sinks, of slopes */
    backward_sums *rows;  /* what rows come to, [batch][head][local query] */
    bool has_rows;        /* some rows are computed by themselves: */
    map_part_sums *maps;  /* what those come to, */
    decode_row *states;   /* their statistics */
    row_search *search;   /* and thresholds */
    ordered_ends **ends;  /* [piece][row][visible piece of keys], NULL without ordered maps */
    backward_pass pass;
    size_t numbers; /* doubles to a row in any pass but the last */
    float *betas;   /* gradients of betas, likewise */
    returns r;
    totals totals;
    /* one block: what it gets of its rows, [batch][head][query], */
    backward_sums *block_rows;
    double *block_numbers;
    whet_stats *block_stats;
    int64_t *block_positions;
    float *block_given_betas, *block_given[3]; /* gradients of logsumexp, entropy, entropy_after */
    /* and its gradients */
    float *block_q, *block_k, *block_v, *block_bias, *block_betas;
    float *block_sinks, *block_slopes;
    whet_policy_gradient *block_policies;
} backward_plan;

/* A block's rows while it is computed, as context of whet_mpi_visit_row. */
typedef struct row_visit {
    backward_plan *p;
    const query_piece *piece;
    size_t key_piece; /* among those that the piece sees */
} row_visit;

/* What the pass does with a row that is computed by itself: see attention/backward.h. */
bool whet_mpi_visit_row(void *context, part_row *row);

/* Whether a row is computed by itself. */
bool whet_mpi_is_by_row(const backward_plan *p, const piece_row *row);

/* Numbers of such a row: of no keys, and those of two blocks added. */
void whet_mpi_clear_numbers(const backward_plan *p, double *numbers);
void whet_mpi_merge_numbers(const backward_plan *p, const piece_row *row, double *into,
                            const double *from);

/* Between passes, once all blocks of a row have come together: its statistics, steps of its search
 * (both return whether it goes on), and its sums. */
bool whet_mpi_start_search(backward_plan *p, const piece_row *row, const double *numbers);
bool whet_mpi_step_search(backward_plan *p, const piece_row *row, const double *numbers);
void whet_mpi_keep_sums(backward_plan *p, const piece_row *row, const double *numbers);

/* Under ordered maps: what a piece of keys leaves of a row as if it were the whole row is noted,
 * and becomes, once all pieces are, the ends that the row has around each. */
ordered_ends *whet_mpi_ends_of(const backward_plan *p, const query_piece *piece, size_t row,
                               size_t key_piece);
void whet_mpi_note_ends(const backward_plan *p, const query_piece *piece, size_t row,
                        size_t key_piece, const double *numbers);
void whet_mpi_pass_ends(const backward_plan *p, const query_piece *piece, size_t row);

#endif
