/*
 * Results of pieces that arrive in any order, merged in that of the tree: a node waits until its
 * sibling is there. Pieces outside of a range take no part, as keys that no query of a block sees.
 * For a given order of arrival it is known beforehand how many nodes wait at a time at most, and
 * so how much memory they take.
 */
#ifndef WHET_MPI_BAG_H
#define WHET_MPI_BAG_H

#include "tree.h"

#define BAG_MAX 64

typedef struct bag {
    const piece_map *map;
    span pieces;  /* those that take part */
    size_t count; /* of nodes that wait, one of them in the end */
    size_t peak;
    tree_node node[BAG_MAX];
    unsigned char slot[BAG_MAX]; /* where what belongs to each of them is */
    unsigned char taken[BAG_MAX];
} bag;

bag whet_mpi_bag(const piece_map *map, span pieces);

/* A free slot, for the results of a node that whet_mpi_bag_add is about to get. */
size_t whet_mpi_bag_slot(bag *b);

/* Adds a node: a piece, or several that have been merged. `merge` adds the right one of two
 * siblings to the left one; NULL counts only. */
typedef void (*merge_pair)(void *context, size_t left_slot, size_t right_slot);
void whet_mpi_bag_add(bag *b, tree_node node, size_t slot, merge_pair merge, void *context);

#endif
