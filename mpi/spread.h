/*
 * What plans share whose queries are spread over ranks like the keys. A rank keeps its queries;
 * keys, values and biases travel around (ring.h). The unit of work is a block, a piece of queries
 * and a piece of keys, which libwhet computes as attention of its own; what blocks contribute to
 * the rows of a piece is merged in the order of the tree (bag.h). So a block, and with it a row,
 * has the same bits on any rank.
 */
#ifndef WHET_MPI_SPREAD_H
#define WHET_MPI_SPREAD_H

#include "attention/geometry.h"
#include "bag.h"
#include "plan.h"
#include "ring.h"

/* A piece of queries of this rank. */
typedef struct query_piece {
    span positions;
    size_t local; /* its first among this rank's queries */
    span keys;    /* pieces of keys that any of them sees */
    bag waiting;
    size_t slots, slot_bytes;
    char *contents; /* of the slots */
} query_piece;

typedef struct spread {
    whet_mpi_plan base;
    whet_attention a; /* as described, defaults filled in, strides explicit; the queries are this
                         rank's */
    piece_map queries, keys;
    whet_mpi_share share; /* of queries */
    query_piece *pieces;
    size_t piece_count;
    ring r;
    whet_status failure; /* the worst that a block has returned */
    void *memory;        /* for the plan of a block */
    size_t memory_bytes;
} spread;

/* The tensors that travel: keys, then a bias, if there is one, then values. */
enum { RING_KEYS = 0 };
static inline size_t ring_values(const spread *p) { return p->r.tensors - 1; }

/* Rows of a piece, as [batch][head][query]. */
static inline size_t piece_rows(const spread *p, const query_piece *piece) {
    return p->a.batch * p->a.heads * span_size(piece->positions);
}

/* All rows of this rank. */
static inline size_t spread_rows(const spread *p) { return p->a.batch * p->a.heads * p->a.queries; }

static inline void *slot_at(const query_piece *piece, size_t slot) {
    return piece->contents + slot * piece->slot_bytes;
}

/* A row of a piece, counted as [batch][head][query]. */
typedef struct piece_row {
    size_t batch, head, query; /* the query among this rank's */
    int64_t token;
    size_t index; /* into this rank's arrays [batch][head][query] */
    const whet_policy *policy;
    float sink;
} piece_row;

piece_row whet_mpi_row_of(const spread *p, const query_piece *piece, size_t row);

/* ---- planning ---- */

/* Checks everything of the description but its tensors, and compares it with those of the other
 * ranks. Collective. */
whet_status whet_mpi_begin_spread(spread *p, const whet_executor *executor, whet_mpi_layout layout,
                                  const char *kind);

/* This rank's numbers of queries and keys, and no mask, which covers all keys: what libwhet can
 * check as attention of its own. */
whet_status whet_mpi_part_sizes(const communicator *c, whet_mpi_layout layout,
                                whet_attention *part);

/* Takes a description that has been checked on all ranks and finds this rank's part of it: shares,
 * pieces and what travels. */
whet_status whet_mpi_plan_spread(spread *p, whet_mpi_layout layout);

/* Memory for as many slots of a piece as are in use at a time. piece->slot_bytes is set. */
bool whet_mpi_allocate_slots(spread *p);

/* Memory for the plan of a block: of the largest one that `measure` is called with. It returns the
 * bytes of a block's plan, or the status of its refusal. */
typedef whet_status (*block_measure)(spread *p, const query_piece *piece, span keys, size_t *bytes);
whet_status whet_mpi_allocate_block(spread *p, block_measure measure);

void whet_mpi_free_spread(spread *p);

/* ---- rounds ---- */

/* A block as attention of its own: everything that is sliced by position. With planning alone,
 * keys and values are wherever there is memory. */
whet_attention whet_mpi_describe_block(const spread *p, const query_piece *piece, span keys,
                                       bool has_values, bool is_planning);

/* Calls a function for all blocks of a share with this rank's queries, key piece by key piece. */
typedef void (*block_function)(spread *p, query_piece *piece, size_t key_piece, void *context);
void whet_mpi_for_blocks(spread *p, whet_mpi_share share, block_function function, void *context);

/* The keys that queries may see, and the pieces of those: at least one, if there are keys. */
span whet_mpi_visible_keys(const spread *p, span queries);
span whet_mpi_visible_pieces(const spread *p, span queries);

static inline bool sees_piece(const query_piece *piece, size_t key_piece) {
    return key_piece >= piece->keys.begin && key_piece < piece->keys.end;
}

/* The pieces of keys in one of the two parts of a share. */
span whet_mpi_pieces_in(const spread *p, const whet_mpi_share *share, int part);

/* What a rank has of these pieces of queries once its own are merged, in the order of its queries:
 * every rank knows it of every other. */
bag whet_mpi_nodes_of(const spread *p, int rank, span queries);

/* Nothing has come of any piece of queries yet. */
void whet_mpi_empty_bags(spread *p);

/* Calls it for all blocks of this rank's queries, as the keys, and with `has_values` the values,
 * come by. */
void whet_mpi_run_round(spread *p, bool has_values, block_function function, void *context);

/* Runs the plan of a block; a refusal is noted. */
void whet_mpi_run_block(spread *p, const whet_plan *plan);

/* What all blocks of a piece come to, NULL if there is none. */
static inline void *piece_result(const query_piece *piece) {
    return piece->waiting.count == 0 ? NULL : slot_at(piece, piece->waiting.slot[0]);
}

/* The index of a row in [batch][head][query] of all ranks. */
uint64_t whet_mpi_row_everywhere(const spread *p, const query_piece *piece, const piece_row *row);

/* Whether it is so on any rank. Collective. */
bool whet_mpi_any(spread *p, bool mine);

/* The status of an execution that all ranks agree on, from the first bad row of this one, or
 * UINT64_MAX. Collective. */
whet_status whet_mpi_agree_on_rows(spread *p, uint64_t first_bad, uint64_t *first_bad_row);

#endif
