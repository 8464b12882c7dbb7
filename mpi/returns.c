/* Gradients of keys on their way to their owners: see returns.h. */
#include "returns.h"
#include "base/checked.h"
#include <stdlib.h>
#include <string.h>

static size_t piece_floats(const returns *r, size_t key_piece) {
    span keys = whet_mpi_positions_of(&r->s->keys, (span){key_piece, key_piece + 1});
    return span_size(keys) * r->floats;
}

static whet_mpi_share keys_of(const returns *r, int rank) {
    whet_mpi_share share = {0};
    whet_mpi_share_of(r->s->keys.positions, r->s->r.layout, rank, r->s->base.c.size, &share);
    return share;
}

/* The rank `steps` after this one, or before it where that is negative. */
static int neighbour(const returns *r, int steps) {
    int size = r->s->base.c.size;
    return (r->s->base.c.rank + steps + size) % size;
}

/* ---- which nodes a rank sends ---- */

static bag nodes_of(const returns *r, int rank, size_t key_piece) {
    return whet_mpi_nodes_of(r->s, rank, r->queries[key_piece]);
}

/* Floats of the message from one rank to the owner of keys. */
static size_t message_floats(const returns *r, int from, int owner) {
    whet_mpi_share share = keys_of(r, owner);
    size_t floats = 0;
    for (int part = 0; part < 2; part++) {
        span own = whet_mpi_pieces_in(r->s, &share, part);
        for (size_t piece = own.begin; piece < own.end; piece++)
            floats += nodes_of(r, from, piece).count * piece_floats(r, piece);
    }
    return floats;
}

/* ---- merging ---- */

typedef struct float_merge {
    float *contents;
    size_t count; /* floats of a slot */
} float_merge;

static void merge_floats(void *context, size_t left, size_t right) {
    const float_merge *m = context;
    float *to = m->contents + left * m->count;
    const float *from = m->contents + right * m->count;
    for (size_t i = 0; i < m->count; i++)
        to[i] += from[i];
}

/* Adds the nodes of a rank to one of this rank's pieces; returns how many floats those are. */
static size_t take_nodes(returns *r, key_sums *own, int from, const float *nodes) {
    size_t count = piece_floats(r, own->index);
    bag sent = nodes_of(r, from, own->index);
    float_merge m = {own->contents, count};
    for (size_t i = 0; i < sent.count; i++) {
        size_t slot = whet_mpi_bag_slot(&own->waiting);
        if (nodes)
            memcpy(own->contents + slot * count, nodes + i * count, count * sizeof(float));
        whet_mpi_bag_add(&own->waiting, sent.node[i], slot, nodes ? merge_floats : NULL, &m);
    }
    return sent.count * count;
}

/* ---- memory ---- */

static void empty_bags(returns *r) {
    for (size_t i = 0; i < r->own_count; i++)
        r->own[i].waiting = whet_mpi_bag(&r->s->queries, r->queries[r->own[i].index]);
}

static bool list_own(returns *r) {
    whet_mpi_share share = keys_of(r, r->s->base.c.rank);
    r->own = calloc(r->s->keys.count + 1, sizeof *r->own);
    for (int part = 0; r->own && part < 2; part++) {
        span own = whet_mpi_pieces_in(r->s, &share, part);
        for (size_t piece = own.begin; piece < own.end; piece++)
            r->own[r->own_count++].index = piece;
    }
    return r->own != NULL;
}

/* Which pieces of queries see a piece of keys: these are contiguous, since limits do not fall from
 * one query to the next. */
static bool find_queries(returns *r) {
    const spread *s = r->s;
    r->queries = calloc(s->keys.count + 1, sizeof *r->queries);
    for (size_t i = 0; r->queries && i < s->queries.count; i++) {
        span seen =
            whet_mpi_visible_pieces(s, whet_mpi_positions_of(&s->queries, (span){i, i + 1}));
        for (size_t piece = seen.begin; piece < seen.end; piece++) {
            if (span_size(r->queries[piece]) == 0)
                r->queries[piece].begin = i;
            r->queries[piece].end = i + 1;
        }
    }
    return r->queries != NULL;
}

static float *allocate(size_t slots, size_t floats, bool *fits) {
    size_t bytes = 0;
    *fits = *fits && size_multiply(slots, floats, &bytes) &&
            size_multiply(bytes, sizeof(float), &bytes);
    float *result = *fits ? malloc(bytes > 0 ? bytes : 1) : NULL;
    *fits = *fits && result;
    return result;
}

/* Plays the arrival of everything, to learn how many sums wait at a time. */
static bool allocate_own(returns *r) {
    bool fits = true;
    empty_bags(r);
    for (int step = 0; step < r->s->base.c.size; step++)
        for (size_t i = 0; i < r->own_count; i++)
            take_nodes(r, &r->own[i], neighbour(r, -step), NULL);
    for (size_t i = 0; i < r->own_count; i++) {
        key_sums *own = &r->own[i];
        own->slots = own->waiting.peak;
        fits = fits && own->slots < BAG_MAX;
        own->contents = allocate(own->slots, piece_floats(r, own->index), &fits);
    }
    return fits;
}

static bool allocate_messages(returns *r) {
    size_t sent = 0, received = 0, rank = (size_t)r->s->base.c.rank;
    bool fits = true;
    for (int step = 0; step < r->s->base.c.size; step++) {
        size_t out = message_floats(r, (int)rank, neighbour(r, step));
        size_t in = message_floats(r, neighbour(r, -step), (int)rank);
        sent = out > sent ? out : sent;
        received = in > received ? in : received;
    }
    for (size_t piece = 0; piece < r->s->keys.count; piece++) {
        bag b = nodes_of(r, (int)rank, piece);
        r->local_slots = b.peak > r->local_slots ? b.peak : r->local_slots;
    }
    r->local_contents = allocate(r->local_slots, piece_floats(r, 0), &fits);
    r->sent[0] = allocate(1, sent, &fits);
    r->sent[1] = allocate(1, sent, &fits);
    r->received = allocate(1, received, &fits);
    return fits && r->local_slots < BAG_MAX && message_fits(sent * sizeof(float)) &&
           message_fits(received * sizeof(float));
}

bool whet_mpi_returns_init(returns *r, spread *s, size_t floats) {
    *r = (returns){.s = s, .floats = floats};
    return find_queries(r) && list_own(r) && allocate_own(r) && allocate_messages(r);
}

void whet_mpi_returns_free(returns *r) {
    for (size_t i = 0; r->own && i < r->own_count; i++)
        free(r->own[i].contents);
    free(r->own);
    free(r->queries);
    free(r->local_contents);
    free(r->sent[0]);
    free(r->sent[1]);
    free(r->received);
}

/* ---- beside a round ---- */

void whet_mpi_returns_start(returns *r) {
    empty_bags(r);
    r->step = r->arriving = 0;
    r->filled = 0;
}

void whet_mpi_returns_open(returns *r, size_t key_piece) {
    r->key_piece = key_piece;
    r->local = whet_mpi_bag(&r->s->queries, r->queries[key_piece]);
}

float *whet_mpi_returns_slot(returns *r, size_t *slot) {
    *slot = whet_mpi_bag_slot(&r->local);
    return r->local_contents + *slot * piece_floats(r, r->key_piece);
}

void whet_mpi_returns_add(returns *r, size_t piece, size_t slot) {
    float_merge m = {r->local_contents, piece_floats(r, r->key_piece)};
    whet_mpi_bag_add(&r->local, (tree_node){0, piece}, slot, merge_floats, &m);
}

void whet_mpi_returns_close(returns *r) {
    size_t count = piece_floats(r, r->key_piece);
    for (size_t i = 0; i < r->local.count; i++, r->filled += count)
        memcpy(r->sent[0] + r->filled, r->local_contents + r->local.slot[i] * count,
               count * sizeof(float));
}

/* Adds the sums of a step to this rank's pieces. */
static void take_message(returns *r, int step, const float *message) {
    for (size_t i = 0; i < r->own_count; i++)
        message += take_nodes(r, &r->own[i], neighbour(r, -step), message);
}

static void end_transfer(returns *r) {
    if (r->arriving == 0)
        return;
    whet_mpi_wait(&r->t);
    take_message(r, r->arriving, r->received);
    r->arriving = 0;
}

/* The sums of this step go to their owner; those of the step before must have arrived. */
void whet_mpi_returns_pass(returns *r) {
    communicator *c = &r->s->base.c;
    end_transfer(r);
    if (r->step == 0) {
        take_message(r, 0, r->sent[0]);
    } else {
        int to = neighbour(r, r->step), from = neighbour(r, -r->step);
        whet_mpi_begin(c, &r->t);
        whet_mpi_receive(c, &r->t, r->received, message_floats(r, from, c->rank) * sizeof(float),
                         from);
        whet_mpi_send(c, &r->t, r->sent[0], r->filled * sizeof(float), to);
        r->arriving = r->step;
        float *busy = r->sent[0];
        r->sent[0] = r->sent[1];
        r->sent[1] = busy;
    }
    r->filled = 0;
    r->step++;
}

void whet_mpi_returns_finish(returns *r) { end_transfer(r); }

const float *whet_mpi_returns_of(const returns *r, size_t i) {
    const key_sums *own = &r->own[i];
    if (own->waiting.count == 0)
        return NULL;
    return own->contents + own->waiting.slot[0] * piece_floats(r, own->index);
}
