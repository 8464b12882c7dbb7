/* Sums over all pieces of queries: see totals.h. */
#include "totals.h"
#include "base/checked.h"
#include <stdlib.h>
#include <string.h>

static void merge_doubles(void *context, size_t left, size_t right) {
    const totals *t = context;
    for (size_t i = 0; i < t->count; i++)
        t->contents[left * t->count + i] += t->contents[right * t->count + i];
}

static void add_node(totals *t, tree_node node, const double *numbers) {
    size_t slot = whet_mpi_bag_slot(&t->waiting);
    double *to = t->contents ? t->contents + slot * t->count : NULL;
    if (to && numbers)
        memcpy(to, numbers, t->count * sizeof *to);
    else if (to)
        memset(to, 0, t->count * sizeof *to);
    whet_mpi_bag_add(&t->waiting, node, slot, to ? merge_doubles : NULL, t);
}

static span all_pieces(const totals *t) { return (span){0, t->s->queries.count}; }

/* The nodes of a rank `steps` before this one. */
static bag nodes_before(const totals *t, int steps) {
    int size = t->s->base.c.size;
    return whet_mpi_nodes_of(t->s, (t->s->base.c.rank - steps + size) % size, all_pieces(t));
}

bool whet_mpi_totals_init(totals *t, spread *s, size_t count) {
    *t = (totals){.s = s, .count = count};
    size_t most = 1, bytes, each;
    t->waiting = whet_mpi_bag(&s->queries, all_pieces(t));
    for (size_t i = 0; i < s->piece_count; i++)
        add_node(t, (tree_node){0, s->pieces[i].positions.begin / s->queries.piece}, NULL);
    for (int step = 0; step < s->base.c.size; step++) {
        bag nodes = nodes_before(t, step);
        most = nodes.count > most ? nodes.count : most;
        for (size_t i = 0; step > 0 && i < nodes.count; i++)
            add_node(t, nodes.node[i], NULL);
    }
    if (t->waiting.peak >= BAG_MAX || !size_multiply(count, sizeof(double), &each) ||
        !size_multiply(each, t->waiting.peak + 2 * most + 1, &bytes))
        return false;
    t->contents = calloc(1, bytes > 0 ? bytes : 1);
    if (!t->contents)
        return false;
    t->sent = t->contents + (t->waiting.peak + 1) * count;
    t->received = t->sent + most * count;
    return true;
}

void whet_mpi_totals_free(totals *t) { free(t->contents); }

const double *whet_mpi_add_up(totals *t, piece_numbers numbers, const void *context) {
    communicator *c = &t->s->base.c;
    t->waiting = whet_mpi_bag(&t->s->queries, all_pieces(t));
    for (size_t i = 0; i < t->s->piece_count; i++)
        add_node(t, (tree_node){0, t->s->pieces[i].positions.begin / t->s->queries.piece},
                 numbers(context, i));
    bag own = t->waiting;
    for (size_t i = 0; i < own.count; i++)
        memcpy(t->sent + i * t->count, t->contents + own.slot[i] * t->count,
               t->count * sizeof(double));
    for (int step = 1; step < c->size; step++) {
        bag nodes = nodes_before(t, step);
        whet_mpi_swap(c, t->sent, own.count * t->count * sizeof(double), (c->rank + step) % c->size,
                      t->received, nodes.count * t->count * sizeof(double),
                      (c->rank - step + c->size) % c->size);
        for (size_t i = 0; i < nodes.count; i++)
            add_node(t, nodes.node[i], t->received + i * t->count);
    }
    if (t->waiting.count == 0) { /* no queries at all */
        memset(t->contents, 0, t->count * sizeof(double));
        return t->contents;
    }
    return t->contents + t->waiting.slot[0] * t->count;
}
