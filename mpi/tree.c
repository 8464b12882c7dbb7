/* Pieces and the tree over them: see tree.h. */
#include "tree.h"

#define PIECES_WANTED 64  /* of a short context */
#define PIECE_LEAST 32    /* positions, */
#define PIECE_ENOUGH 1024 /* from where on there are rather more pieces than larger ones */

static size_t divide_up(size_t n, size_t by) { return n / by + (n % by != 0); }

piece_map whet_mpi_pieces(size_t positions) {
    piece_map map = {.positions = positions, .piece = PIECE_LEAST, .count = 1};
    while (map.piece < PIECE_ENOUGH && divide_up(positions, map.piece) > PIECES_WANTED)
        map.piece *= 2;
    while (divide_up(positions, map.piece) > PIECES_MAX)
        map.piece *= 2;
    if (positions > 0)
        map.count = divide_up(positions, map.piece);
    return map;
}

span whet_mpi_pieces_of(const piece_map *map, size_t index, size_t parts) {
    return (span){map->count * index / parts, map->count * (index + 1) / parts};
}

span whet_mpi_positions_of(const piece_map *map, span pieces) {
    span all = {pieces.begin * map->piece, pieces.end * map->piece};
    if (all.begin > map->positions)
        all.begin = map->positions;
    if (all.end > map->positions)
        all.end = map->positions;
    return all;
}

span whet_mpi_node_pieces(const piece_map *map, tree_node node) {
    size_t begin = node.index << node.level, end = (node.index + 1) << node.level;
    return (span){begin, end < map->count ? end : map->count};
}

/* A node without a right sibling is as good as its parent. */
static tree_node promote(const piece_map *map, tree_node node) {
    while (node.index > 0 && node.index % 2 == 0 && (node.index + 1) << node.level >= map->count) {
        node.level++;
        node.index /= 2;
    }
    return node;
}

static void merge_nothing(void *context, tree_node left, size_t into) {
    (void)context;
    (void)left;
    (void)into;
}

void whet_mpi_forest_push(forest *f, tree_node node, merge_slots merge, void *context) {
    f->node[f->count++] = promote(f->map, node);
    f->peak = f->count > f->peak ? f->count : f->peak;
    while (f->count > 1) {
        tree_node left = f->node[f->count - 2], right = f->node[f->count - 1];
        if (left.level != right.level || left.index % 2 != 0 || right.index != left.index + 1)
            return;
        merge(context, left, f->count - 2);
        f->count--;
        f->node[f->count - 1] = promote(f->map, (tree_node){left.level + 1, left.index / 2});
    }
}

forest whet_mpi_forest_of(const piece_map *map, span pieces) {
    forest f = {.map = map};
    for (size_t piece = pieces.begin; piece < pieces.end; piece++)
        whet_mpi_forest_push(&f, (tree_node){0, piece}, merge_nothing, NULL);
    return f;
}
