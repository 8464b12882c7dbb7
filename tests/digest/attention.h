// Descriptions of attention, for the forward and the backward pass.
#ifndef WHET_TESTS_DIGEST_ATTENTION_H
#define WHET_TESTS_DIGEST_ATTENTION_H

#include "digest.h"

struct shape {
    size_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
};

struct types {
    whet_type q, k, v, out;
};

enum layout {
    CONTIGUOUS,
    INTERLEAVED, // heads of a position are contiguous, as in a cache of llama.cpp
    APART        // a gap after every element
};

enum mask_kind {
    NO_MASK,
    ADDITIVE_F32, // for each head its own; a key that is masked for all holds NaN
    ADDITIVE_F16, // the same for all heads
    CAUSAL,
    WINDOW,
    ALIBI,
    SINKS,
    SOFTCAP,
    ALL_OF_THEM,
    EMPTY,     // some rows are masked altogether
    NOT_FINITE // in a query, a key and a value
};
enum { mask_kind_count = NOT_FINITE + 1, heads_max = 8 };
extern const char *const mask_kind_names[mask_kind_count];

// A description with everything it points to.
struct example {
    whet_attention attention;
    whet_policy policies[heads_max];
    void *q, *k, *v, *out, *mask;
    whet_stats *stats;
    size_t rows, out_elements;
};

// "mixed" in the place of a policy: another one for every head.
extern const struct named_policy mixed_policies;

bool types_fit(const struct types *types, const struct shape *shape);
void example_make(struct example *example, const struct shape *shape, const struct types *types,
                  const struct named_policy *policy, enum mask_kind mask, enum layout layout);
void example_free(struct example *example);

// "f32.q8_0.q8_0.f32"
const char *types_name(const struct types *types);

void digest_attention_backward(void);

#endif
