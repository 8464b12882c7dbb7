#include "digest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t noise_bits(uint64_t seed, uint64_t i) {
    uint64_t z = seed * 0xd1342543de82ef95u + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// The sum of four uniform numbers: no function of libm, whose last bit differs between machines.
float noise(uint64_t seed, uint64_t i) {
    uint64_t bits = noise_bits(seed, i);
    int sum = (int)(bits & 0xffff) + (int)(bits >> 16 & 0xffff) + (int)(bits >> 32 & 0xffff) +
              (int)(bits >> 48);
    return (float)(sum - 131070) * (1.7320508f / 65536);
}

// Blocks of 32 elements: bytes, the deviation of random elements without the scale, and their mean
// where there is a minimum to set against it.
struct blocks {
    size_t bytes;
    float deviation, mean;
    bool has_minimum;
};

static const struct kind {
    const char *name;
    struct blocks blocks;
} kinds[] = {
    [WHET_F32] = {.name = "f32"},
    [WHET_F16] = {.name = "f16"},
    [WHET_BF16] = {.name = "bf16"},
    [WHET_Q8_0] = {"q8_0", {34, 74, 0, false}},
    [WHET_Q4_0] = {"q4_0", {18, 4.6f, 0, false}},
#if DIGEST_HAS_ROW_EXTRAS
    [WHET_Q4_1] = {"q4_1", {20, 4.6f, 7.5f, true}},
    [WHET_Q5_0] = {"q5_0", {22, 9.2f, 0, false}},
    [WHET_Q5_1] = {"q5_1", {24, 9.2f, 15.5f, true}},
    [WHET_IQ4_NL] = {"iq4_nl", {18, 69, 0, false}},
#endif
};

static const struct kind *kind_of(whet_type type) {
    static const struct kind custom = {.name = "custom"};
    return type == WHET_CUSTOM ? &custom : &kinds[type];
}

size_t element_bytes(whet_type type) { return type == WHET_F32 ? 4 : type == WHET_CUSTOM ? 1 : 2; }

const char *type_name(whet_type type) { return kind_of(type)->name; }

bool is_quantised(whet_type type) { return kind_of(type)->blocks.bytes > 0; }

// Truncates; numbers too small for a normal f16 become zero, too large ones infinite.
static uint16_t f16_bits(uint32_t bits) {
    uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xff, fraction = bits & 0x7fffff;
    if (exponent == 255) {
        return (uint16_t)(sign | 0x7c00 | (fraction ? 0x200 : 0));
    }
    if (exponent < 113) {
        return (uint16_t)sign;
    }
    if (exponent > 142) {
        return (uint16_t)(sign | 0x7c00);
    }
    return (uint16_t)(sign | (exponent - 112) << 10 | fraction >> 13);
}

void store(void *elements, whet_type type, size_t i, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == WHET_F32) {
        ((uint32_t *)elements)[i] = bits;
    } else {
        ((uint16_t *)elements)[i] = type == WHET_F16 ? f16_bits(bits) : (uint16_t)(bits >> 16);
    }
}

size_t row_bytes(whet_type type, size_t n) {
    return is_quantised(type) ? n / 32 * kind_of(type)->blocks.bytes : n * element_bytes(type);
}

void fill_row(void *row, whet_type type, size_t n, uint64_t seed, float deviation, float mean) {
    if (type == WHET_F32 || type == WHET_F16 || type == WHET_BF16) {
        for (size_t i = 0; i < n; i++) {
            store(row, type, i, mean + deviation * noise(seed, i));
        }
        return;
    }
    size_t bytes = row_bytes(type, n);
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)row)[i] = (uint8_t)noise_bits(seed, i);
    }
    if (type == WHET_CUSTOM) {
        return;
    }
    const struct blocks *blocks = &kind_of(type)->blocks;
    for (size_t i = 0; i < bytes; i += blocks->bytes) {
        float scale = (1 + 0.2f * noise(~seed, i)) * deviation / blocks->deviation;
        uint16_t halves[2];
        store(halves, WHET_F16, 0, scale);
        store(halves, WHET_F16, 1, -scale * blocks->mean);
        memcpy((char *)row + i, halves, blocks->has_minimum ? 2 * sizeof *halves : sizeof *halves);
    }
}

void *allocate(size_t bytes) {
    bytes = (bytes / 64 + 1) * 64;
    void *memory = aligned_alloc(64, bytes);
    if (!memory) {
        fprintf(stderr, "digest: out of memory\n");
        exit(1);
    }
    return memset(memory, 0xa5, bytes);
}

static const char *const variants[] = {
    "softmax",
    "fixed:0.5",
    "fixed:3",
    "adaptive",
    "adaptive:hold",
    "adaptive:strength=0.5",
    "poly:0.3/1",
    "poly:-0.1/0.6/0.8",
    "poly:0.3/1:threshold=1.5",
    "poly:-0.5/2:floor=0.25",
    "poly:0.3/1:hold=3",
    "poly:0.02/-0.1/0.5/1:threshold=0.5:floor=1.2:hold=4:strength=0.7",
    "poly:1e-5/-1e-4/1e-3/-0.01/0.02/0.01/0.1/0.2/1",
    "exp:2.5",
    "exp:1:strength=0.1",
    "target:0.7",
    "target:2:cap=4",
    "target:0.1:cap=1.5",
    "ssmax:0.4",
    "ssmax:0.3:0.2",
    "length:64",
    "linear:100",
    "topk:1",
    "topk:7",
    "topk:300",
    "hardmax",
    "sparsemax",
    "entmax15",
    "entmax:1.25",
    "entmax:1.8",
    "softmax1",
    "sigmoid",
    "sigmoid:1.5",
    "stick-breaking",
#if DIGEST_HAS_ROW_EXTRAS
    "adaptive+entmax15",
    "ssmax:0.3:0.2+softmax1",
    "length:64+topk:7",
    "fixed:3+sigmoid",
    "exp:2.5:strength=0.2+stick-breaking",
    "target:0.7+sparsemax",
    "poly:0.3/1:hold=3+entmax:1.25",
    "adaptive+hardmax",
#endif
};

static double custom_beta(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    double slope = *(const double *)context;
    *dbeta_dentropy = slope;
    return 1 + slope * stats->entropy;
}

static struct named_policy *policies;
static size_t policy_count;

const struct named_policy *policy_named(const char *name) {
    size_t count;
    const struct named_policy *all = all_policies(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return &all[i];
        }
    }
    fprintf(stderr, "digest: no policy %s in the list\n", name);
    exit(1);
}

static void append(const char *name) {
    struct named_policy *new = &policies[policy_count];
    char why[200];
    for (size_t i = 0; i < policy_count; i++) {
        if (strcmp(policies[i].name, name) == 0) {
            return;
        }
    }
    if (whet_policy_parse(name, &new->policy, why, sizeof why) != WHET_OK) {
        fprintf(stderr, "digest: policy %s: %s\n", name, why);
        return;
    }
    snprintf(new->name, sizeof new->name, "%s", name);
    policy_count++;
}

const struct named_policy *all_policies(size_t *count) {
    static double slope = 0.25;
    if (!policies) {
        size_t entries = 0;
        while (whet_policy_table(entries)) {
            entries++;
        }
        policies = allocate((entries + COUNT(variants) + 1) * sizeof *policies);
        for (size_t i = 0; i < entries; i++) {
            append(whet_policy_table(i)->example);
        }
        for (size_t i = 0; i < COUNT(variants); i++) {
            append(variants[i]);
        }
        policies[policy_count].policy = whet_policy_custom(custom_beta, &slope);
        snprintf(policies[policy_count++].name, sizeof policies->name, "custom");
    }
    *count = policy_count;
    return policies;
}
