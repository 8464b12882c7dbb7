// whet_attention_forward.
#include "attention.h"

#include <string.h>

// Shapes that share lines, and the path they are expected to take.
struct shapes {
    const char *path, *size;
    enum layout layout;
    size_t count;
    struct shape shape[6];
};

// For every policy with every mask and type.
static const struct shapes small[] = {
    {"attention.prefill",
     "keys3-193",
     CONTIGUOUS,
     4,
     {{1, 1, 1, 40, 3, 8, 8},
      {1, 1, 1, 40, 193, 32, 32},
      {1, 2, 1, 40, 33, 64, 64},
      {1, 1, 1, 130, 31, 1, 1}}},
    {"attention.decode",
     "keys1-500",
     CONTIGUOUS,
     4,
     {{1, 2, 2, 1, 1, 8, 8},
      {1, 1, 1, 1, 193, 32, 64},
      {2, 4, 2, 1, 500, 64, 64},
      {1, 2, 2, 5, 33, 80, 80}}},
};

// For every policy, without a mask.
static const struct shapes large[] = {
    {"attention.prefill.sizes",
     "keys1-1100",
     CONTIGUOUS,
     6,
     {{1, 1, 1, 40, 1, 64, 64},
      {1, 1, 1, 130, 191, 128, 32},
      {2, 1, 1, 40, 192, 80, 80},
      {1, 1, 1, 40, 500, 64, 128},
      {1, 1, 1, 40, 1100, 8, 8},
      {1, 8, 2, 40, 33, 1, 5}}},
    {"attention.decode.sizes",
     "keys3-2500",
     CONTIGUOUS,
     6,
     {{1, 1, 1, 1, 3, 1, 1},
      {1, 8, 1, 1, 192, 128, 128},
      {1, 4, 1, 5, 191, 64, 64},
      {1, 1, 1, 1, 2500, 64, 64},
      {2, 2, 2, 1, 1100, 80, 8},
      {1, 8, 2, 1, 1100, 32, 32}}},
    {"attention.decode.interleaved",
     "keys31-1100",
     INTERLEAVED,
     4,
     {{1, 8, 8, 1, 1100, 64, 64},
      {1, 8, 4, 1, 500, 32, 32},
      {2, 8, 2, 5, 193, 64, 32},
      {1, 3, 3, 1, 31, 80, 80}}},
    {"attention.prefill.interleaved",
     "keys193-500",
     INTERLEAVED,
     2,
     {{1, 4, 2, 20, 193, 64, 64}, {1, 2, 2, 40, 500, 8, 8}}},
    {"attention.apart",
     "keys33-193",
     APART,
     3,
     {{1, 2, 1, 40, 193, 32, 32}, {1, 4, 4, 1, 193, 64, 64}, {1, 1, 1, 5, 33, 8, 8}}},
};

static const struct types plain = {WHET_F32, WHET_F32, WHET_F32, WHET_F32};
static const struct types others[] = {
    {WHET_F16, WHET_F16, WHET_F16, WHET_F16},       {WHET_BF16, WHET_BF16, WHET_BF16, WHET_BF16},
    {WHET_F32, WHET_F16, WHET_F16, WHET_F32},       {WHET_F16, WHET_BF16, WHET_F32, WHET_BF16},
    {WHET_BF16, WHET_F32, WHET_BF16, WHET_F16},     {WHET_F32, WHET_Q8_0, WHET_Q8_0, WHET_F32},
    {WHET_F32, WHET_Q4_0, WHET_Q4_0, WHET_F32},     {WHET_F16, WHET_Q8_0, WHET_F16, WHET_F16},
    {WHET_BF16, WHET_F16, WHET_Q4_0, WHET_BF16},    {WHET_F16, WHET_Q4_0, WHET_Q8_0, WHET_F32},
    {WHET_F32, WHET_CUSTOM, WHET_CUSTOM, WHET_F32}, {WHET_F32, WHET_F32, WHET_CUSTOM, WHET_F16},
    {WHET_F16, WHET_CUSTOM, WHET_Q8_0, WHET_BF16},
#if DIGEST_HAS_ROW_EXTRAS
    {WHET_F32, WHET_Q4_1, WHET_Q5_1, WHET_F32},     {WHET_F32, WHET_Q5_0, WHET_IQ4_NL, WHET_F32},
    {WHET_F16, WHET_Q5_1, WHET_Q5_0, WHET_F16},     {WHET_F32, WHET_IQ4_NL, WHET_Q4_1, WHET_F32},
#endif
};

static void forward(struct example *example, bool with_stats) {
    uint64_t bad_row = UINT64_MAX;
    whet_attention *attention = &example->attention;
    memset(example->out, 0xa5, example->out_elements * element_bytes(attention->out.type));
    attention->stats = with_stats ? example->stats : NULL;
    if (group_add_status(whet_attention_forward(attention, NULL, &bad_row), bad_row)) {
        group_add_elements(with_stats ? "out_with_stats" : "out", example->out, attention->out.type,
                           example->out_elements);
        if (with_stats) {
            group_add_stats(example->stats, example->rows);
        }
    }
}

// Results may need one pass less than statistics: both are computed.
static void forward_group(const struct shapes *shapes, const struct named_policy *policy,
                          const struct types *types, enum mask_kind mask) {
    if (!group_begin(shapes->path, policy->name, types_name(types), mask_kind_names[mask],
                     shapes->size)) {
        return;
    }
    for (size_t i = 0; i < shapes->count; i++) {
        if (types_fit(types, &shapes->shape[i])) {
            struct example example;
            example_make(&example, &shapes->shape[i], types, policy, mask, shapes->layout);
            forward(&example, false);
            forward(&example, true);
            example_free(&example);
        }
    }
    group_end();
}

static void digest_policy(const struct named_policy *policy) {
    for (size_t s = 0; s < COUNT(small); s++) {
        for (int mask = 0; mask < mask_kind_count; mask++) {
            forward_group(&small[s], policy, &plain, (enum mask_kind)mask);
        }
        for (size_t t = 0; t < COUNT(others); t++) {
            forward_group(&small[s], policy, &others[t], NO_MASK);
        }
    }
    for (size_t s = 0; s < COUNT(large); s++) {
        forward_group(&large[s], policy, &plain, NO_MASK);
    }
}

void digest_attention(void) {
    // One with a beta known in advance, one without, and the maps that have their own loops.
    static const char *const with_everything[] = {"softmax", "adaptive", "topk:7", "entmax15",
                                                  "sigmoid"};
    size_t policy_count;
    const struct named_policy *policies = all_policies(&policy_count);
    for (size_t p = 0; p < policy_count; p++) {
        digest_policy(&policies[p]);
    }
    digest_policy(&mixed_policies);
    for (size_t p = 0; p < COUNT(with_everything); p++) {
        const struct named_policy *policy = policy_named(with_everything[p]);
        for (size_t t = 0; t < COUNT(others); t++) {
            for (int mask = NO_MASK + 1; mask < mask_kind_count; mask++) {
                forward_group(&small[0], policy, &others[t], (enum mask_kind)mask);
                forward_group(&small[1], policy, &others[t], (enum mask_kind)mask);
            }
            for (size_t s = 0; p < 2 && s < COUNT(large); s++) {
                forward_group(&large[s], policy, &others[t], NO_MASK);
            }
        }
    }
    digest_attention_backward();
}
