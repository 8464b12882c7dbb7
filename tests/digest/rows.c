// whet_softmax, whet_entropy and whet_stats_merge.
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum variant {
    PLAIN,
    WITH_STATS,
    IN_PLACE,
    STRIDED,
    ENTROPY // without the probabilities
};

enum { gap = 3 }; // elements between rows of STRIDED

static struct {
    void *in, *out, *mask;
    whet_stats stats[rows_max];
} buffers;

// The path that the library is expected to take, to name a line by.
static const char *path_of(enum variant variant, whet_type in, whet_type out, enum row_mask mask,
                           const struct size_class *class) {
    static const char *const names[] = {[WITH_STATS] = "rows.stats",
                                        [IN_PLACE] = "rows.inplace",
                                        [STRIDED] = "rows.strided",
                                        [ENTROPY] = "rows.entropy"};
    if (variant != PLAIN) {
        return names[variant];
    }
    if (class == &size_classes[2]) {
        return "rows.long";
    }
    if (in != WHET_F32 || out != WHET_F32 || mask == MASK_F32 || mask == MASK_F16) {
        return "rows.staged";
    }
    return class == &size_classes[0] ? "rows.short" : "rows.pipelined";
}

static void softmax(const whet_policy *policy, enum variant variant, whet_type in, whet_type out,
                    enum row_mask mask, size_t rows, size_t n) {
    size_t stride = n + (variant == STRIDED ? gap : 0), bad_row = SIZE_MAX;
    bool with_stats = variant == WITH_STATS || variant == ENTROPY;
    memset(buffers.out, 0xa5, rows * stride * element_bytes(out));
    void *logits = variant == IN_PLACE ? buffers.out : buffers.in;
    fill_logits(logits, in, rows, n, stride, mask);
    whet_rows request = {
        .size = sizeof request,
        .rows = rows,
        .n = n,
        .in = logits,
        .in_stride = (ptrdiff_t)stride,
        .out = variant == ENTROPY ? NULL : buffers.out,
        .out_stride = (ptrdiff_t)stride,
        .mask = fill_mask(buffers.mask, mask, rows, n),
        .mask_stride = mask == MASK_F32 ? (ptrdiff_t)n : 0,
        .mask_type = mask == MASK_F16 ? WHET_F16 : WHET_F32,
        .stats = with_stats ? buffers.stats : NULL,
        .in_type = in,
        .out_type = out,
    };
    whet_status status = variant == ENTROPY ? whet_entropy(&request, policy, &bad_row)
                                            : whet_softmax(&request, policy, &bad_row);
    if (!group_add_status(status, bad_row)) {
        return;
    }
    if (variant != ENTROPY) {
        group_add_elements("out", buffers.out, out, rows * stride);
    }
    if (with_stats) {
        group_add_stats(buffers.stats, rows);
    }
}

static void softmax_group(const struct named_policy *policy, enum variant variant, whet_type in,
                          whet_type out, enum row_mask mask) {
    char types[32];
    snprintf(types, sizeof types, "%s.%s", type_name(in), type_name(out));
    for (size_t c = 0; c < COUNT(size_classes); c++) {
        const struct size_class *class = &size_classes[c];
        if (!group_begin(path_of(variant, in, out, mask, class), policy->name, types,
                         row_mask_names[mask], class->name)) {
            continue;
        }
        for (size_t i = 0; i < class->count; i++) {
            size_t n = class->sizes[i], rows = rows_of(n);
            softmax(&policy->policy, variant, in, out, mask, rows, n);
            if (variant == PLAIN && n <= 1000) { // groups that are not full
                softmax(&policy->policy, variant, in, out, mask, 1, n);
                softmax(&policy->policy, variant, in, out, mask, 6, n);
            }
        }
        group_end();
    }
}

// Statistics of three pieces of a row, merged.
static void merge_group(whet_type type) {
    if (!group_begin("rows.merge", "softmax", type_name(type), "none", "57-4096")) {
        return;
    }
    for (size_t i = 0; i < size_classes[1].count; i++) {
        size_t n = size_classes[1].sizes[i], ends[] = {0, n / 3, n / 2, n}, bad_row = 0;
        whet_stats whole = whet_stats_empty();
        fill_logits(buffers.in, type, 1, n, n, MASK_NONE);
        for (size_t piece = 0; piece < 3; piece++) {
            whet_stats stats;
            whet_rows request = {
                .size = sizeof request,
                .rows = 1,
                .n = ends[piece + 1] - ends[piece],
                .in = (char *)buffers.in + ends[piece] * element_bytes(type),
                .in_type = type,
                .stats = &stats,
            };
            if (group_add_status(whet_entropy(&request, NULL, &bad_row), bad_row)) {
                whet_stats_merge(&whole, &stats, &whole);
            }
        }
        group_add_stats(&whole, 1);
    }
    group_end();
}

void digest_rows(void) {
    static const whet_type types[] = {WHET_F32, WHET_F16, WHET_BF16};
    size_t policy_count;
    const struct named_policy *policies = all_policies(&policy_count);
    size_t elements = (size_t)rows_max * 1003 + 17 * 4099 + (size_t)3 * (n_max + gap);
    buffers.in = allocate(elements * sizeof(float));
    buffers.out = allocate(elements * sizeof(float));
    buffers.mask = allocate(elements * sizeof(float));
    for (size_t p = 0; p < policy_count; p++) {
        const struct named_policy *policy = &policies[p];
        for (enum row_mask mask = MASK_NONE; mask < row_mask_count; mask++) {
            softmax_group(policy, PLAIN, WHET_F32, WHET_F32, mask);
            softmax_group(policy, WITH_STATS, WHET_F32, WHET_F32, mask);
            softmax_group(policy, PLAIN, WHET_F16, WHET_BF16, mask);
        }
        for (size_t in = 0; in < COUNT(types); in++) {
            for (size_t out = 0; out < COUNT(types); out++) {
                bool done = (in == 0 && out == 0) || (in == 1 && out == 2);
                if (!done) {
                    softmax_group(policy, PLAIN, types[in], types[out], MASK_NONE);
                    softmax_group(policy, PLAIN, types[in], types[out], MASK_F32);
                }
            }
            if (in != 0) {
                softmax_group(policy, WITH_STATS, types[in], types[in], MASK_F16);
            }
            softmax_group(policy, IN_PLACE, types[in], types[in], MASK_NONE);
            softmax_group(policy, ENTROPY, types[in], types[in], MASK_NONE);
        }
        softmax_group(policy, STRIDED, WHET_F32, WHET_F32, MASK_NONE);
        softmax_group(policy, STRIDED, WHET_BF16, WHET_F16, MASK_F32);
        softmax_group(policy, ENTROPY, WHET_F32, WHET_F32, MASK_EMPTY);
    }
    for (size_t t = 0; t < COUNT(types); t++) {
        merge_group(types[t]);
    }
    free(buffers.in);
    free(buffers.out);
    free(buffers.mask);
}
