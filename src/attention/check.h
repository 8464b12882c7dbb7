/*
 * What the plans of forward and backward check of a description: shapes, types,
 * strides and where tensors lie. Defaults are filled in on the way. After this
 * nothing can be out of range, so that tasks need not check anything.
 */
#ifndef WHET_ATTENTION_CHECK_H
#define WHET_ATTENTION_CHECK_H

#include "attention/geometry.h"
#include "base/checked.h"

/* A tensor's size along each axis, in elements. */
typedef struct extent {
    size_t batch, heads, positions, dim;
} extent;

/* Everything but the tensors; policies, too. */
whet_status whet_fill_description(whet_attention *a);

/* Each gives the memory that is covered, nothing for what is not there. */
whet_status whet_check_input(whet_tensor *tensor, extent size, bool is_cache, memory_range *range);
whet_status whet_check_output(whet_tensor_out *out, extent size, memory_range *range);
whet_status whet_check_mask(whet_attention *a, memory_range *range);
whet_status whet_check_stats(whet_attention *a, memory_range *range);
whet_status whet_check_bias(const whet_attention *a, memory_range *range);
whet_status whet_check_betas(const whet_attention *a, memory_range *range);

/* The tensors of the forward pass, none of whose outputs may touch an input or another output. */
whet_status whet_check_tensors(whet_attention *a);

#endif
