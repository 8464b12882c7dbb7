/*
 * Checks of a description by the plans of forward and backward: shapes, types, strides
 * and memory ranges. They also fill in defaults. After this nothing can be out of range,
 * and tasks check nothing. A refusal names the member that is wrong (see
 * base/last_error.h).
 */
#ifndef WHET_ATTENTION_CHECK_H
#define WHET_ATTENTION_CHECK_H

#include "attention/geometry.h"
#include "base/checked.h"

/* A tensor's size along each axis, in elements. */
typedef struct extent {
    size_t batch, heads, positions, dim;
} extent;

/* A member as the caller writes it: whet_gradients has its description of the forward pass in
 * `attention`, so that its owner is "attention."; that of whet_attention itself is "". */
typedef struct member {
    const char *owner, *name;
} member;

/* For "%s%s" in a sentence. */
#define MEMBER(m) (m).owner, (m).name

/* Everything but the tensors; policies, too. */
whet_status whet_fill_description(whet_attention *a, const char *owner);

/* Each gives the memory that is covered, nothing for what is not there. */
whet_status whet_check_input(whet_tensor *tensor, member name, extent size, bool is_cache,
                             memory_range *range);
whet_status whet_check_output(whet_tensor_out *out, member name, extent size, memory_range *range);
whet_status whet_check_mask(whet_attention *a, const char *owner, memory_range *range);
whet_status whet_check_stats(whet_attention *a, const char *owner, memory_range *range);
whet_status whet_check_bias(const whet_attention *a, const char *owner, memory_range *range);

/* `count` contiguous elements of an optional array. */
whet_status whet_check_elements(const void *data, member name, size_t count, size_t element,
                                memory_range *range);

/* One float for each row, [batch][head][query], of an optional array. */
whet_status whet_check_row_floats(const whet_attention *a, const float *data, member name,
                                  memory_range *range);

/* Refuses an optional array whose address does not suit its elements. */
whet_status whet_check_aligned(const void *data, member name, size_t alignment);

/* Refuses a `reserved` member that is not zero. */
whet_status whet_check_reserved(uint32_t reserved, member name);

/* Ranges of everything that is read or written, with their names. */
enum { RANGES_MAX = 20 };
typedef struct range_list {
    struct {
        memory_range range;
        member name;
    } of[RANGES_MAX];
    size_t count;
} range_list;

/* Where the range of the next member goes, empty so far. */
memory_range *whet_list_range(range_list *list, member name);

/* Refuses an output that touches an input or another output. */
whet_status whet_check_overlaps(const range_list *inputs, const range_list *outputs);

/* The tensors of the forward pass; no output may overlap an input or another output. */
whet_status whet_check_tensors(whet_attention *a);

#endif
