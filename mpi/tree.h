/*
 * How positions are divided into pieces and pieces among ranks, and the order in which what
 * pieces contribute is merged. The pieces of n positions depend on n alone, a rank owns whole
 * pieces, and two results are merged only where they are siblings in one binary tree over all
 * pieces: so a sum has the same bits however many ranks share it.
 *
 * Whoever holds the results of a span of pieces keeps them as a forest: the largest nodes of the
 * tree that are inside the range. A range determines its forest, so that a sender and a receiver
 * agree on the size of a message without asking. Nothing here calls MPI.
 */
#ifndef WHET_MPI_TREE_H
#define WHET_MPI_TREE_H

#include <stdbool.h>
#include <stddef.h>

/* More pieces than this would not spread the work better. */
#define PIECES_MAX 1024

/* Nodes of any forest: at most two of each level, and one that is about to be merged. */
#define FOREST_MAX 24

typedef struct piece_map {
    size_t positions;
    size_t piece; /* positions of each but the last */
    size_t count; /* at least one, which may be empty */
} piece_map;

piece_map whet_mpi_pieces(size_t positions);

/* Pieces, or positions, [begin, end). */
typedef struct span {
    size_t begin, end;
} span;

static inline size_t span_size(span r) { return r.end - r.begin; }

/* The pieces of part `index` of `parts` contiguous ones. */
span whet_mpi_pieces_of(const piece_map *map, size_t index, size_t parts);

/* The positions of a span of pieces. */
span whet_mpi_positions_of(const piece_map *map, span pieces);

/* Pieces [index << level, (index + 1) << level), as far as they exist. */
typedef struct tree_node {
    unsigned level;
    size_t index;
} tree_node;

/* The pieces of a node. */
span whet_mpi_node_pieces(const piece_map *map, tree_node node);

typedef struct forest {
    const piece_map *map;
    size_t count;
    size_t peak; /* slots it has taken while it was made */
    tree_node node[FOREST_MAX];
} forest;

/* The forest of a range. */
forest whet_mpi_forest_of(const piece_map *map, span pieces);

/* Merges what slot `into` + 1 holds into slot `into`. `left` is the node of that slot. */
typedef void (*merge_slots)(void *context, tree_node left, size_t into);

/* Adds a node after the last: the caller has put what belongs to it into slot forest->count. */
void whet_mpi_forest_push(forest *f, tree_node node, merge_slots merge, void *context);

#endif
