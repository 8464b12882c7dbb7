/* Examples whose queries and keys are dealt to the ranks: see spread.h. */
#include "mpi/spread.h"

#include "support/check.h"

#include <string.h>

size_t spread_position(const whet_mpi_share *share, size_t local) {
    return local < share->count[0] ? share->start[0] + local
                                   : share->start[1] + local - share->count[0];
}

void *spread_copy(example *e, const void *data, const ptrdiff_t stride[3], size_t batch,
                  size_t heads, size_t row_bytes, const whet_mpi_share *share) {
    char *copy = example_memory(e, batch * heads * share->positions * row_bytes), *to = copy;
    for (size_t row = 0; row < batch * heads; row++)
        for (size_t i = 0; i < share->positions; i++, to += row_bytes)
            memcpy(to,
                   (const char *)data + (ptrdiff_t)(row / heads) * stride[0] +
                       (ptrdiff_t)(row % heads) * stride[1] +
                       (ptrdiff_t)spread_position(share, i) * stride[2],
                   row_bytes);
    return copy;
}

static whet_tensor copy_tensor(example *e, const example_tensor *t, const whet_mpi_share *share) {
    size_t bytes = whet_type_row_bytes(t->type, t->extent[3]);
    return (whet_tensor){
        .data = spread_copy(e, t->base, t->stride, t->extent[0], t->extent[1], bytes, share),
        .type = t->type};
}

whet_attention spread_part(example *e, const whet_mpi_share *queries, const whet_mpi_share *keys) {
    whet_attention a = e->attention;
    size_t batch = e->q.extent[0], all = e->q.extent[2];
    a.q = copy_tensor(e, &e->q, queries);
    a.k = copy_tensor(e, &e->k, keys);
    a.v = copy_tensor(e, &e->v, keys);
    if (a.bias.data) {
        ptrdiff_t *s = a.bias.stride;
        ptrdiff_t stride[3] = {s[0], s[1], s[2] ? s[2] : (ptrdiff_t)sizeof(float)};
        a.bias.data = spread_copy(e, a.bias.data, stride, s[0] ? batch : 1, s[1] ? a.heads : 1,
                                  sizeof(float), keys);
        ptrdiff_t row = (ptrdiff_t)(keys->positions * sizeof(float));
        s[0] = s[0] ? row * (ptrdiff_t)(s[1] ? a.heads : 1) : 0;
        s[1] = s[1] ? row : 0;
        s[2] = 0;
    }
    if (a.mask.data && a.mask.stride[2]) { /* one mask for all heads and batches */
        size_t row = whet_type_row_bytes(a.mask.type, e->attention.keys);
        a.mask.data = spread_copy(e, a.mask.data, a.mask.stride, 1, 1, row, queries);
        a.mask.stride[2] = (ptrdiff_t)row;
    }
    ptrdiff_t one = sizeof(float);
    if (a.betas)
        a.betas = spread_copy(
            e, a.betas, (ptrdiff_t[]){(ptrdiff_t)(a.heads * all) * one, (ptrdiff_t)all * one, one},
            batch, a.heads, sizeof(float), queries);
    return a;
}
