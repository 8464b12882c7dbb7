/*
 * What the plans of both ways check of a description: shapes, types, strides
 * and where tensors lie. The functions are in plan.c; they fill in defaults as
 * they go.
 */
#ifndef WHET_CHECKS_H
#define WHET_CHECKS_H

#include "attention/problem.h"
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

/* Kernels, rows and streams of a description that has been checked. */
whet_status whet_shape_streams(const whet_attention *a, plan_shape *shape);

#endif
