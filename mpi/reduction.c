/* Reductions in a fixed order: see reduction.h. */
#include "reduction.h"
#include "base/checked.h"
#include <stdlib.h>
#include <string.h>

/* ---- the pieces of this rank ---- */

typedef struct local_merge {
    reduction *r;
    const reduced *what;
    size_t row; /* or all of them */
} local_merge;

static size_t slot_bytes(const reduced *what) { return what->rows * what->row_bytes; }

static void merge_row(void *context, tree_node left, size_t into) {
    local_merge *m = context;
    const reduced *what = m->what;
    char *at = m->r->slots[0] + into * slot_bytes(what) + m->row * what->row_bytes;
    what->merge(what->context, left, m->row, at, at + slot_bytes(what));
}

/* All pieces of one row; every row takes the same slots. */
static void reduce_row(void *argument, size_t row, size_t worker) {
    local_merge m = *(local_merge *)argument;
    forest f = {.map = m.r->map};
    (void)worker;
    m.row = row;
    for (size_t piece = m.r->mine.begin; piece < m.r->mine.end; piece++) {
        char *at = m.r->slots[0] + f.count * slot_bytes(m.what) + row * m.what->row_bytes;
        m.what->leaf(m.what->context, piece, row, at);
        whet_mpi_forest_push(&f, (tree_node){0, piece}, merge_row, &m);
    }
}

/* ---- the exchange ---- */

/* The forest of a span and where it is: slots[0] unless it has just arrived. */
typedef struct holding {
    reduction *r;
    const reduced *what;
    span pieces;
} holding;

static void merge_all_rows(void *context, tree_node left, size_t into) {
    const holding *h = context;
    const reduced *what = h->what;
    for (size_t row = 0; row < what->rows; row++) {
        char *at = h->r->slots[1] + into * slot_bytes(what) + row * what->row_bytes;
        what->merge(what->context, left, row, at, at + slot_bytes(what));
    }
}

static size_t forest_bytes(const holding *h, span pieces) {
    return whet_mpi_forest_of(h->r->map, pieces).count * slot_bytes(h->what);
}

static void append(holding *h, forest *f, span pieces, const char *slots) {
    forest more = whet_mpi_forest_of(h->r->map, pieces);
    for (size_t i = 0; i < more.count; i++) {
        memcpy(h->r->slots[1] + f->count * slot_bytes(h->what), slots + i * slot_bytes(h->what),
               slot_bytes(h->what));
        whet_mpi_forest_push(f, more.node[i], merge_all_rows, h);
    }
}

/* Adds what has arrived, a span just before or after this one. */
static void join(holding *h, span other) {
    reduction *r = h->r;
    bool is_before = other.begin < h->pieces.begin || other.end <= h->pieces.begin;
    forest f = {.map = r->map};
    append(h, &f, is_before ? other : h->pieces, r->slots[is_before ? 2 : 0]);
    append(h, &f, is_before ? h->pieces : other, r->slots[is_before ? 0 : 2]);
    if (is_before)
        h->pieces.begin = other.begin;
    else
        h->pieces.end = other.end;
    char *merged = r->slots[1];
    r->slots[1] = r->slots[0];
    r->slots[0] = merged;
}

static span pieces_of_ranks(const reduction *r, int first, int last) {
    span low = whet_mpi_pieces_of(r->map, (size_t)first, (size_t)r->c->size);
    span high = whet_mpi_pieces_of(r->map, (size_t)last, (size_t)r->c->size);
    return (span){low.begin, high.end};
}

/* Ranks in groups whose number is a power of two: the first `pairs` groups are of two ranks. */
typedef struct groups {
    int count, pairs;
} groups;

static groups group_ranks(int size) {
    int count = 1;
    while (count <= size / 2)
        count *= 2;
    return (groups){count, size - count};
}

static int first_rank(groups g, int group) { return group < g.pairs ? 2 * group : group + g.pairs; }

static int last_rank(groups g, int group) {
    return group < g.pairs ? 2 * group + 1 : group + g.pairs;
}

static void exchange_groups(holding *h, groups g, int group) {
    reduction *r = h->r;
    for (int reach = 1; reach < g.count; reach *= 2) {
        int other = group ^ reach, first = other / reach * reach;
        span theirs = pieces_of_ranks(r, first_rank(g, first), last_rank(g, first + reach - 1));
        int partner = first_rank(g, other);
        whet_mpi_swap(r->c, r->slots[0], forest_bytes(h, h->pieces), partner, r->slots[2],
                      forest_bytes(h, theirs), partner);
        join(h, theirs);
    }
}

static void exchange(holding *h) {
    reduction *r = h->r;
    groups g = group_ranks(r->c->size);
    int rank = r->c->rank, group = rank < 2 * g.pairs ? rank / 2 : rank - g.pairs;
    bool is_paired = rank < 2 * g.pairs, is_second = is_paired && rank % 2 == 1;
    size_t result = slot_bytes(h->what);
    if (is_second) {
        whet_mpi_swap(r->c, r->slots[0], forest_bytes(h, h->pieces), rank - 1, NULL, 0,
                      MPI_PROC_NULL);
        whet_mpi_swap(r->c, NULL, 0, MPI_PROC_NULL, r->slots[0], result, rank - 1);
        return;
    }
    if (is_paired) {
        span theirs = pieces_of_ranks(r, rank + 1, rank + 1);
        whet_mpi_swap(r->c, NULL, 0, MPI_PROC_NULL, r->slots[2], forest_bytes(h, theirs), rank + 1);
        join(h, theirs);
    }
    exchange_groups(h, g, group);
    if (is_paired)
        whet_mpi_swap(r->c, r->slots[0], result, rank + 1, NULL, 0, MPI_PROC_NULL);
}

/* ---- memory ---- */

static void widen(const reduction *r, int first, int last, size_t *slots) {
    forest f = whet_mpi_forest_of(r->map, pieces_of_ranks(r, first, last));
    *slots = f.peak > *slots ? f.peak : *slots;
}

/* The slots of the largest forest that this rank holds or receives on the way. Two forests that
 * are joined never take more than both together. */
static size_t slots_needed(const reduction *r) {
    groups g = group_ranks(r->c->size);
    int rank = r->c->rank, group = rank < 2 * g.pairs ? rank / 2 : rank - g.pairs;
    size_t slots = 1;
    for (int reach = 1; reach <= g.count; reach *= 2) {
        int first = group / reach * reach, other = (first ^ reach) % g.count;
        widen(r, first_rank(g, first), last_rank(g, first + reach - 1), &slots);
        widen(r, first_rank(g, other), last_rank(g, other + (reach < g.count ? reach : 1) - 1),
              &slots);
    }
    widen(r, rank, rank, &slots);
    return 2 * slots < FOREST_MAX ? 2 * slots : FOREST_MAX;
}

bool whet_mpi_reduction_init(reduction *r, size_t bytes) {
    size_t slots = slots_needed(r), each, all;
    if (!size_multiply(bytes > 0 ? bytes : 1, slots, &each) ||
        !size_align(each, WHET_ALIGNMENT, &each) || !size_multiply(each, 3, &all) ||
        !message_fits(each))
        return false;
    r->memory = aligned_alloc(WHET_ALIGNMENT, all);
    for (size_t i = 0; r->memory && i < 3; i++)
        r->slots[i] = (char *)r->memory + i * each;
    return r->memory != NULL;
}

void whet_mpi_reduction_free(reduction *r) {
    free(r->memory);
    r->memory = NULL;
}

const void *whet_mpi_reduce(reduction *r, const reduced *what) {
    local_merge local = {r, what, 0};
    holding all = {r, what, r->mine};
    r->c->counts.reductions++;
    if (what->rows > 0)
        r->executor->parallel_for(r->executor->context, what->rows, reduce_row, &local);
    exchange(&all);
    return r->slots[0];
}
