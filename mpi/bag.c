/* Results that arrive in any order: see bag.h. */
#include "bag.h"

bag whet_mpi_bag(const piece_map *map, span pieces) { return (bag){.map = map, .pieces = pieces}; }

size_t whet_mpi_bag_slot(bag *b) {
    size_t slot = 0;
    while (slot + 1 < BAG_MAX && b->taken[slot])
        slot++;
    b->taken[slot] = 1;
    if (slot + 1 > b->peak)
        b->peak = slot + 1;
    return slot;
}

static tree_node sibling_of(tree_node node) {
    return (tree_node){node.level, node.index % 2 ? node.index - 1 : node.index + 1};
}

static bool takes_part(const bag *b, tree_node node) {
    size_t begin = node.index << node.level, end = (node.index + 1) << node.level;
    return begin < b->pieces.end && end > b->pieces.begin;
}

static bool is_root(const bag *b, tree_node node) {
    return node.index << node.level <= b->pieces.begin &&
           (node.index + 1) << node.level >= b->pieces.end;
}

static size_t find(const bag *b, tree_node node) {
    size_t i = 0;
    while (i < b->count && (b->node[i].level != node.level || b->node[i].index != node.index))
        i++;
    return i;
}

static void take_out(bag *b, size_t i) {
    b->count--;
    b->node[i] = b->node[b->count];
    b->slot[i] = b->slot[b->count];
}

void whet_mpi_bag_add(bag *b, tree_node node, size_t slot, merge_pair merge, void *context) {
    while (!is_root(b, node)) {
        tree_node sibling = sibling_of(node);
        if (takes_part(b, sibling)) {
            size_t i = find(b, sibling);
            if (i == b->count)
                break;
            size_t other = b->slot[i], left = node.index % 2 ? other : slot;
            size_t right = node.index % 2 ? slot : other;
            if (merge)
                merge(context, left, right);
            take_out(b, i);
            b->taken[right] = 0;
            slot = left;
        }
        node = (tree_node){node.level + 1, node.index / 2};
    }
    if (b->count < BAG_MAX) {
        b->node[b->count] = node;
        b->slot[b->count++] = (unsigned char)slot;
    }
}
