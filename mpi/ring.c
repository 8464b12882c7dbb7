/* Shares that travel around the ranks: see ring.h. */
#include "ring.h"
#include "base/checked.h"
#include <stdlib.h>
#include <string.h>

static whet_mpi_share share_of(const ring *r, int rank) {
    whet_mpi_share share = {0};
    whet_mpi_share_of(r->positions, r->layout, rank, r->c->size, &share);
    return share;
}

whet_mpi_share whet_mpi_ring_share(const ring *r) { return share_of(r, r->source); }

size_t whet_mpi_position_in(const whet_mpi_share *share, size_t position) {
    bool is_first = share->count[0] > 0 && position >= share->start[0] &&
                    position < share->start[0] + share->count[0];
    return is_first ? position - share->start[0] : share->count[0] + position - share->start[1];
}

/* Bytes of one position of a tensor, all batches and heads. */
static size_t position_bytes(const ring_tensor *t) { return t->batch * t->heads * t->bytes; }

static size_t share_bytes(const ring *r, size_t positions, size_t tensors) {
    size_t bytes = 0;
    for (size_t i = 0; i < tensors; i++)
        bytes += positions * position_bytes(&r->tensor[i]);
    return bytes;
}

static bool largest_share(const ring *r, size_t *bytes) {
    size_t positions = 0, each = 0, one, sum;
    for (int rank = 0; rank < r->c->size; rank++) {
        size_t own = share_of(r, rank).positions;
        positions = own > positions ? own : positions;
    }
    for (size_t i = 0; i < r->tensors; i++) {
        const ring_tensor *t = &r->tensor[i];
        if (!size_multiply(t->batch, t->heads, &one) || !size_multiply(one, t->bytes, &one) ||
            !size_add(each, one, &sum))
            return false;
        each = sum;
    }
    return size_multiply(each, positions, bytes) && size_align(*bytes, WHET_ALIGNMENT, bytes);
}

bool whet_mpi_ring_init(ring *r) {
    size_t bytes, both;
    if (!largest_share(r, &bytes) || !message_fits(bytes) || !size_multiply(bytes, 2, &both))
        return false;
    r->memory = aligned_alloc(WHET_ALIGNMENT, both > 0 ? both : WHET_ALIGNMENT);
    if (!r->memory)
        return false;
    r->buffer[0] = r->memory;
    r->buffer[1] = (char *)r->memory + bytes;
    return true;
}

void whet_mpi_ring_free(ring *r) {
    free(r->memory);
    r->memory = NULL;
}

static void pack(const ring_tensor *t, size_t positions, char *to) {

    for (size_t row = 0; row < t->batch * t->heads; row++) {
        const char *from = (const char *)t->data + (ptrdiff_t)(row / t->heads) * t->stride[0] +
                           (ptrdiff_t)(row % t->heads) * t->stride[1];
        for (size_t i = 0; i < positions; i++, to += t->bytes)
            memcpy(to, from + (ptrdiff_t)i * t->stride[2], t->bytes);
    }
}

/* Sends what is here to the rank before and receives what comes after it. */
static void begin_transfer(ring *r) {
    int size = r->c->size, rank = r->c->rank, next = (r->source + 1) % size;
    if (r->step + 1 == size)
        return;
    whet_mpi_begin(r->c, &r->t);
    whet_mpi_receive(r->c, &r->t, r->buffer[1],
                     share_bytes(r, share_of(r, next).positions, r->travelling), (rank + 1) % size);
    whet_mpi_send(r->c, &r->t, r->buffer[0],
                  share_bytes(r, share_of(r, r->source).positions, r->travelling),
                  (rank + size - 1) % size);
}

void whet_mpi_ring_start(ring *r, size_t travelling) {
    r->step = 0;
    r->source = r->c->rank;
    r->travelling = travelling;
    size_t own = share_of(r, r->source).positions;
    for (size_t i = 0; own > 0 && i < travelling; i++)
        pack(&r->tensor[i], own, r->buffer[0] + share_bytes(r, own, i));
    begin_transfer(r);
}

bool whet_mpi_ring_next(ring *r) {
    if (++r->step == r->c->size)
        return false;
    whet_mpi_wait(&r->t);
    char *arrived = r->buffer[1];
    r->buffer[1] = r->buffer[0];
    r->buffer[0] = arrived;
    r->source = (r->source + 1) % r->c->size;
    begin_transfer(r);
    return true;
}

const char *whet_mpi_ring_at(const ring *r, size_t tensor, size_t position, ptrdiff_t stride[3]) {
    const ring_tensor *t = &r->tensor[tensor];
    whet_mpi_share share = whet_mpi_ring_share(r);
    stride[2] = (ptrdiff_t)t->bytes;
    stride[1] = (ptrdiff_t)(share.positions * t->bytes);
    stride[0] = stride[1] * (ptrdiff_t)t->heads;
    return r->buffer[0] + share_bytes(r, share.positions, tensor) +
           whet_mpi_position_in(&share, position) * t->bytes;
}
