/*
 * The library's own part of a plan: which path a problem takes, and what its policies
 * need. Each path divides its work itself (whet_plan_prefill, whet_plan_decode,
 * whet_plan_backward).
 */
#ifndef WHET_ATTENTION_PLAN_H
#define WHET_ATTENTION_PLAN_H

#include "isa/kernels.h"
#include "whet.h"
#include <stdbool.h>

enum { PATH_PREFILL = 0, PATH_DECODE = 1, PATH_BACKWARD = 2 };

/* Kept in whet_plan.internal. */
typedef struct plan_shape {
    const kernels *kernels;
    uint64_t path;
    uint64_t heads_per_kv;   /* query heads to a key head */
    uint64_t row_count;      /* heads_per_kv * queries */
    uint64_t slices;         /* batch * kv_heads */
    uint64_t fused;          /* every row's beta is known in advance: one pass is enough */
    uint64_t counted;        /* the number of unmasked keys is needed */
    uint64_t mapped;         /* some policy is not a temperature */
    uint64_t summed;         /* prefill: Z and S are needed before the output is computed */
    uint64_t searched;       /* prefill: all logits of a row are looked at before its output: for a
                                map's threshold, or for blocks to leave out */
    uint64_t by_row;         /* prefill: some map has no kernel for panels */
    uint64_t backwards;      /* prefill: outputs are summed from the last key to the first */
    uint64_t panels;         /* prefill: panels to a task; backward: panels to a set */
    uint64_t kept;           /* prefill: logits are kept rather than computed twice */
    uint64_t chunks;         /* decode, backward: tasks to a slice */
    uint64_t heads_per_task; /* decode: key heads to a task, */
    uint64_t chunk_keys;     /* and keys */
    uint64_t extremes;       /* min and argmax are requested */
    uint64_t at_once;        /* decode: slices of one chunk, which a task takes through all steps */
    uint64_t has_sets;       /* decode: queries are divided by the keys that the mask shows them */
    uint64_t invariant;      /* WHET_INVARIANT: see invariant.h */
    uint64_t row_maxima;     /* with max_logits: where in the workspace rows note theirs */
    const void *part;        /* backward: a backward_part, or NULL */
} plan_shape;

_Static_assert(sizeof(plan_shape) <= sizeof(((whet_plan *)0)->internal), "plan too small");

/* Refuses a plan that is missing or of another size than this library's. */
whet_status whet_check_plan(const whet_plan *plan);

/* Says that a plan would need more memory than there can be. */
whet_status whet_refuse_workspace(const whet_attention *a, const char *owner);

plan_shape whet_shape_of(const whet_plan *plan);

/*
 * Plans attention over a part of a longer context: the description's keys are that part, and
 * chunks have a given number of keys, so that they are the same wherever the context is cut
 * between two of them. Always the path of decode; its user merges what the parts' phases 0 and 2
 * leave, in place of phases 1 and 3. So skip must be 0. NULL: the whole context.
 */
typedef struct key_part {
    size_t all_keys, chunk_keys;
} key_part;

whet_status whet_plan_part(const whet_attention *attention, const key_part *part, whet_plan *plan);

/* Kernels, rows and slices of a description that has been checked. */
whet_status whet_shape_slices(const whet_attention *a, plan_shape *shape);

/* Whether the forward pass takes the path of decode. */
bool whet_is_decode(const whet_attention *a, const plan_shape *shape);

/* Completes a plan: its own part is the shape. */
void whet_plan_set_shape(whet_plan *plan, const plan_shape *shape);

#endif
