/* Queries that are spread over ranks like the keys: see spread.h. */
#include "spread.h"
#include "base/checked.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

piece_row whet_mpi_row_of(const spread *p, const query_piece *piece, size_t row) {
    const whet_attention *a = &p->a;
    size_t queries = span_size(piece->positions), i = row % queries;
    piece_row r = {.head = row / queries % a->heads,
                   .batch = row / queries / a->heads,
                   .query = piece->local + i};
    r.index = (r.batch * a->heads + r.head) * a->queries + r.query;
    r.token = a->positions ? a->positions[r.batch * a->queries + r.query]
                           : (int64_t)(piece->positions.begin + i) + a->offset;
    r.policy = a->policies + (a->policy_count > 1 ? r.head : 0);
    r.sink = a->sinks ? a->sinks[r.head] : -INFINITY;
    return r;
}

uint64_t whet_mpi_row_everywhere(const spread *p, const query_piece *piece, const piece_row *row) {
    uint64_t position = piece->positions.begin + (row->query - piece->local);
    return ((uint64_t)row->batch * p->a.heads + row->head) * p->queries.positions + position;
}

/* ---- blocks ---- */

static void describe_travelled(const spread *p, size_t tensor, size_t position, whet_tensor *t) {
    ptrdiff_t stride[3];
    t->data = whet_mpi_ring_at(&p->r, tensor, position, stride);
    memcpy(t->stride, (ptrdiff_t[]){stride[0], stride[1], stride[2], 0}, sizeof t->stride);
}

static void describe_keys(const spread *p, size_t position, whet_attention *b) {
    describe_travelled(p, RING_KEYS, position, &b->k);
    if (p->a.bias.data)
        b->bias.data = (const float *)(const void *)whet_mpi_ring_at(&p->r, RING_KEYS + 1, position,
                                                                     b->bias.stride);
}

/* For planning alone, where this rank need not have the keys: as if they were at the beginning of
 * what travels, which holds a piece. */
static void place_anywhere(const spread *p, whet_attention *b, bool has_values) {
    b->k = (whet_tensor){.data = p->r.buffer[0], .type = b->k.type};
    if (has_values)
        b->v = (whet_tensor){.data = p->r.buffer[0], .type = b->v.type};
    if (b->bias.data)
        b->bias = (whet_key_bias){.data = (const float *)(const void *)p->r.buffer[0]};
}

whet_attention whet_mpi_describe_block(const spread *p, const query_piece *piece, span keys,
                                       bool has_values, bool is_planning) {
    whet_attention b = p->a;
    b.queries = span_size(piece->positions);
    b.keys = span_size(keys);
    b.q.data = (const char *)b.q.data + (ptrdiff_t)piece->local * b.q.stride[2];
    if (is_planning) {
        place_anywhere(p, &b, has_values);
    } else {
        describe_keys(p, keys.begin, &b);
        if (has_values)
            describe_travelled(p, ring_values(p), keys.begin, &b.v);
    }
    if (b.mask.data)
        b.mask.data = (const char *)b.mask.data + (ptrdiff_t)piece->local * b.mask.stride[2] +
                      (ptrdiff_t)keys.begin * b.mask.stride[3];
    b.offset += (int64_t)piece->positions.begin - (int64_t)keys.begin;
    b.positions = NULL;
    b.stats_stride = 0;
    return b;
}

void whet_mpi_run_block(spread *p, const whet_plan *plan) {
    whet_status status = plan->phases > 0
                             ? whet_attention_execute(plan, &p->base.executor, p->memory, NULL)
                             : WHET_OK;
    p->failure = status > p->failure ? status : p->failure;
}

/* ---- rounds ---- */

span whet_mpi_pieces_in(const spread *p, const whet_mpi_share *share, int part) {
    size_t end = share->start[part] + share->count[part];
    if (share->count[part] == 0)
        return (span){0, 0};
    return (span){share->start[part] / p->keys.piece, (end - 1) / p->keys.piece + 1};
}

void whet_mpi_for_blocks(spread *p, whet_mpi_share share, block_function function, void *context) {
    for (int part = 0; part < 2; part++) {
        span own = whet_mpi_pieces_in(p, &share, part);
        for (size_t key_piece = own.begin; key_piece < own.end; key_piece++)
            for (size_t i = 0; i < p->piece_count; i++)
                if (sees_piece(&p->pieces[i], key_piece))
                    function(p, &p->pieces[i], key_piece, context);
    }
}

void whet_mpi_empty_bags(spread *p) {
    for (size_t i = 0; i < p->piece_count; i++)
        p->pieces[i].waiting = whet_mpi_bag(&p->keys, p->pieces[i].keys);
}

void whet_mpi_run_round(spread *p, bool has_values, block_function function, void *context) {
    whet_mpi_empty_bags(p);
    whet_mpi_ring_start(&p->r, has_values ? p->r.tensors : p->r.tensors - 1);
    do
        whet_mpi_for_blocks(p, whet_mpi_ring_share(&p->r), function, context);
    while (whet_mpi_ring_next(&p->r));
}

bag whet_mpi_nodes_of(const spread *p, int rank, span queries) {
    whet_mpi_share share = {0};
    bag b = whet_mpi_bag(&p->queries, queries);
    whet_mpi_share_of(p->queries.positions, p->r.layout, rank, p->base.c.size, &share);
    for (int part = 0; part < 2; part++) {
        size_t end = share.start[part] + share.count[part];
        for (size_t at = share.start[part]; at < end; at += p->queries.piece) {
            size_t piece = at / p->queries.piece;
            if (piece >= queries.begin && piece < queries.end)
                whet_mpi_bag_add(&b, (tree_node){0, piece}, whet_mpi_bag_slot(&b), NULL, NULL);
        }
    }
    return b;
}

bool whet_mpi_any(spread *p, bool mine) {
    int own = mine, any = 0;
    p->base.c.counts.reductions++;
    MPI_Allreduce(&own, &any, 1, MPI_INT, MPI_MAX, p->base.c.comm);
    return any;
}

whet_status whet_mpi_agree_on_rows(spread *p, uint64_t first_bad, uint64_t *first_bad_row) {
    /* signed numbers: the minimum of unsigned ones is wrong in MPICH 4.0 where they are large */
    long long sent[2] = {first_bad < LLONG_MAX ? LLONG_MAX - (long long)first_bad : 0,
                         (long long)p->failure};
    long long all[2];
    MPI_Allreduce(sent, all, 2, MPI_LONG_LONG, MPI_MAX, p->base.c.comm);
    if (all[1] > WHET_NOT_FINITE)
        return whet_mpi_refuse((whet_status)all[1], "a block of some rank was refused");
    if (all[0] == 0)
        return WHET_OK;
    if (first_bad_row)
        *first_bad_row = (uint64_t)(LLONG_MAX - all[0]);
    return WHET_NOT_FINITE;
}

/* ---- planning ---- */

whet_status whet_mpi_begin_spread(spread *p, const whet_executor *executor, whet_mpi_layout layout,
                                  const char *kind) {
    communicator *c = &p->base.c;
    whet_status status = whet_mpi_take_executor(executor, &p->base.executor);
    if (status == WHET_OK)
        status = whet_mpi_check_description(&p->a);
    status = whet_mpi_agree(c, status);
    if (status == WHET_OK)
        status = whet_mpi_agree_on_attention(c, kind, &p->a);
    const shared_number more[] = {{"layout", layout, 0},
                                  {"the presence of a bias", p->a.bias.data != NULL, 0}};
    return status == WHET_OK ? whet_mpi_agree_on(c, more, sizeof more / sizeof more[0]) : status;
}

whet_status whet_mpi_part_sizes(const communicator *c, whet_mpi_layout layout,
                                whet_attention *part) {
    whet_mpi_share queries, keys;
    whet_status status = whet_mpi_share_of(part->queries, layout, c->rank, c->size, &queries);
    if (status == WHET_OK)
        status = whet_mpi_share_of(part->keys, layout, c->rank, c->size, &keys);
    if (status != WHET_OK)
        return status;
    part->queries = queries.positions;
    part->keys = keys.positions;
    part->mask.data = NULL;
    return WHET_OK;
}

void whet_mpi_free_spread(spread *p) {
    for (size_t i = 0; p->pieces && i < p->piece_count; i++)
        free(p->pieces[i].contents);
    free(p->pieces);
    free(p->memory);
    whet_mpi_ring_free(&p->r);
}

span whet_mpi_visible_keys(const spread *p, span queries) {
    const whet_attention *a = &p->a;
    int64_t keys = (int64_t)p->keys.positions, low = 0, high = keys;
    int64_t first = (int64_t)queries.begin + a->offset, last = (int64_t)queries.end - 1 + a->offset;
    if (a->window && a->window < (size_t)INT32_MAX) {
        low = first - (int64_t)a->window + 1;
        high = last + (int64_t)a->window;
    }
    if ((a->flags & WHET_CAUSAL) && last + 1 < high)
        high = last + 1;
    low = low < 0 ? 0 : low;
    high = high > keys ? keys : high;
    return low < high ? (span){(size_t)low, (size_t)high} : (span){0, 0};
}

span whet_mpi_visible_pieces(const spread *p, span queries) {
    span keys = whet_mpi_visible_keys(p, queries);
    if (p->keys.positions == 0)
        return (span){0, 0};
    if (span_size(keys) > 0)
        return (span){keys.begin / p->keys.piece, (keys.end - 1) / p->keys.piece + 1};
    /* the nearest, so that limits do not fall from one piece to the next */
    bool is_before = (int64_t)queries.end + p->a.offset <= 0 ||
                     (int64_t)queries.begin + p->a.offset < (int64_t)p->keys.positions / 2;
    size_t piece = is_before ? 0 : p->keys.count - 1;
    return (span){piece, piece + 1};
}

static bool list_pieces(spread *p) {
    p->pieces = calloc(p->queries.count + 1, sizeof *p->pieces);
    size_t local = 0;
    for (int part = 0; p->pieces && part < 2; part++) {
        size_t end = p->share.start[part] + p->share.count[part];
        for (size_t at = p->share.start[part]; at < end;) {
            size_t stop = at + p->queries.piece < end ? at + p->queries.piece : end;
            query_piece *piece = &p->pieces[p->piece_count++];
            piece->positions = (span){at, stop};
            piece->local = local;
            piece->keys = whet_mpi_visible_pieces(p, piece->positions);
            local += stop - at;
            at = stop;
        }
    }
    return p->pieces != NULL;
}

static void count_block(spread *p, query_piece *piece, size_t key_piece, void *context) {
    (void)p;
    (void)context;
    whet_mpi_bag_add(&piece->waiting, (tree_node){0, key_piece}, whet_mpi_bag_slot(&piece->waiting),
                     NULL, NULL);
}

/* Plays the arrival of all shares to learn how many results of each piece wait at a time. */
bool whet_mpi_allocate_slots(spread *p) {
    whet_mpi_empty_bags(p);
    for (int step = 0; step < p->base.c.size; step++) {
        whet_mpi_share share = {0};
        whet_mpi_share_of(p->keys.positions, p->r.layout, (p->base.c.rank + step) % p->base.c.size,
                          p->base.c.size, &share);
        whet_mpi_for_blocks(p, share, count_block, NULL);
    }
    for (size_t i = 0; i < p->piece_count; i++) {
        query_piece *piece = &p->pieces[i];
        size_t bytes;
        piece->slots = piece->waiting.peak;
        if (piece->slots >= BAG_MAX || !size_multiply(piece->slots, piece->slot_bytes, &bytes))
            return false;
        piece->contents = malloc(bytes > 0 ? bytes : 1);
        if (!piece->contents)
            return false;
    }
    return true;
}

/* The sizes of pieces and of the last ones. */
whet_status whet_mpi_allocate_block(spread *p, block_measure measure) {
    for (size_t i = 0; i < p->piece_count; i++) {
        for (size_t j = 0; j < 2; j++) {
            size_t last = p->keys.count - j; /* the last piece, or one before it */
            span keys = whet_mpi_positions_of(&p->keys, (span){last - (last > 0), last});
            size_t bytes = 0;
            if (span_size(keys) == 0)
                continue;
            whet_status status = measure(p, &p->pieces[i], keys, &bytes);
            if (status != WHET_OK)
                return whet_mpi_pass_on(status);
            if (bytes > p->memory_bytes)
                p->memory_bytes = bytes;
        }
    }
    size_t bytes = 0;
    bool fits = size_align(p->memory_bytes, WHET_ALIGNMENT, &bytes) &&
                (p->memory = aligned_alloc(WHET_ALIGNMENT, bytes > 0 ? bytes : WHET_ALIGNMENT));
    return fits ? WHET_OK : whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for a block");
}

static void fill_strides(ptrdiff_t stride[4], size_t heads, size_t positions, size_t row_bytes) {
    if (stride[0] || stride[1] || stride[2] || stride[3])
        return;
    stride[2] = (ptrdiff_t)row_bytes;
    stride[1] = stride[2] * (ptrdiff_t)positions;
    stride[0] = stride[1] * (ptrdiff_t)heads;
}

static ring_tensor travelling(const whet_attention *a, const whet_tensor *t, size_t dim) {
    return (ring_tensor){.data = t->data,
                         .stride = {t->stride[0], t->stride[1], t->stride[2]},
                         .batch = a->batch,
                         .heads = a->kv_heads,
                         .bytes = whet_type_row_bytes(t->type, dim)};
}

/* What travels, and the memory for it. Rows of elements with gaps, or of a caller's type, have no
 * form in which they could. */
static whet_status plan_ring(spread *p, whet_mpi_layout layout, size_t local_keys) {
    whet_attention *a = &p->a;
    const struct {
        whet_tensor *tensor;
        const char *name;
        size_t dim;
    } inputs[] = {{&a->k, "k", a->head_dim}, {&a->v, "v", a->value_dim}};
    for (int i = 0; i < 2; i++) {
        whet_tensor *t = inputs[i].tensor;
        size_t bytes = whet_type_row_bytes(t->type, inputs[i].dim);
        size_t one = whet_type_row_bytes(t->type, 1);
        if (bytes == 0 || (one > 0 && t->stride[3] && t->stride[3] != (ptrdiff_t)one))
            return whet_mpi_refuse(WHET_ERROR_UNSUPPORTED,
                                   "%s: rows that travel must be contiguous and of a type of "
                                   "whet.h",
                                   inputs[i].name);
        fill_strides(t->stride, a->kv_heads, local_keys, bytes);
    }
    p->r.c = &p->base.c;
    p->r.positions = p->keys.positions;
    p->r.layout = layout;
    p->r.tensor[p->r.tensors++] = travelling(a, &a->k, a->head_dim);
    if (a->bias.data)
        p->r.tensor[p->r.tensors++] = (ring_tensor){
            .data = a->bias.data,
            .stride = {a->bias.stride[0], a->bias.stride[1],
                       a->bias.stride[2] ? a->bias.stride[2] : (ptrdiff_t)sizeof(float)},
            .batch = a->batch,
            .heads = a->heads,
            .bytes = sizeof(float)};
    p->r.tensor[p->r.tensors++] = travelling(a, &a->v, a->value_dim);
    return whet_mpi_ring_init(&p->r)
               ? WHET_OK
               : whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for the keys of another rank");
}

whet_status whet_mpi_plan_spread(spread *p, whet_mpi_layout layout) {
    whet_attention *a = &p->a;
    whet_mpi_share keys;
    whet_mpi_share_of(a->queries, layout, p->base.c.rank, p->base.c.size, &p->share);
    whet_mpi_share_of(a->keys, layout, p->base.c.rank, p->base.c.size, &keys);
    p->queries = whet_mpi_pieces(a->queries);
    p->keys = whet_mpi_pieces(a->keys);
    a->queries = p->share.positions;
    fill_strides(a->q.stride, a->heads, a->queries, whet_type_row_bytes(a->q.type, a->head_dim));
    fill_strides(a->out.stride, a->heads, a->queries,
                 whet_type_row_bytes(a->out.type, a->value_dim));
    if (a->out.stride[3] == 0)
        a->out.stride[3] = (ptrdiff_t)whet_type_row_bytes(a->out.type, 1);
    if (a->mask.data && a->mask.stride[3] == 0)
        a->mask.stride[3] = (ptrdiff_t)whet_type_row_bytes(a->mask.type, 1);
    if (a->stats_stride == 0)
        a->stats_stride = sizeof(whet_stats);
    whet_status status = plan_ring(p, layout, keys.positions);
    if (status != WHET_OK)
        return status;
    return list_pieces(p)
               ? WHET_OK
               : whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory for %zu queries", a->queries);
}
