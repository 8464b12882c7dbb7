/*
 * The measurements behind `whet demo`. The head is the kind that max retrieval
 * trains: its logit is proportional to an item's priority, and the item of
 * highest priority is the one to attend to. Priorities are drawn uniformly, so
 * the gap at the top shrinks as 1/n while the slope stays what training made it.
 * For each n several sets are drawn, and for each policy the weight on the
 * largest item is averaged over them. The same seed gives the same sets.
 */
#include "demo.h"

#include "whet.h"

#include <math.h>
#include <stdlib.h>

enum {
    VALUES_A_SIZE = 1 << 17, /* sets are drawn until they hold this many values, */
    SETS_MIN = 16,           /* but not fewer */
    SETS_MAX = 512,          /* and not more than this */
    DECADES_MIN = 2,
    DECADES_MAX = 5
};

/* splitmix64: small, and good enough to draw priorities. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/*
 * Fills in the logits of one set and returns the place of the largest. A set of
 * n items is the beginning of the set of 2n: the same input, grown.
 */
static size_t draw_set(float *logits, size_t n, uint64_t seed, size_t set) {
    uint64_t state = seed;
    state = next_random(&state) ^ set;
    size_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        double priority = (double)(next_random(&state) >> 11) * 0x1p-53;
        logits[i] = (float)(DEMO_SLOPE * priority);
        if (logits[i] > logits[largest])
            largest = i;
    }
    return largest;
}

static size_t sets_of_size(size_t n) {
    size_t sets = VALUES_A_SIZE / n;
    return sets < SETS_MIN ? SETS_MIN : sets > SETS_MAX ? SETS_MAX : sets;
}

/* One set at a time, and what a policy makes of it. */
typedef struct demo_set {
    float *logits;
    float *weights;
    size_t n;
    size_t largest; /* where the largest logit is */
} demo_set;

/* Adds the weight on the largest item, and the entropy of softmax if wanted. */
static whet_status add_set(const demo_set *set, const whet_policy *policy, double *weight,
                           double *entropy) {
    whet_stats stats = whet_stats_empty();
    whet_rows rows = {
        .size = sizeof rows,
        .rows = 1,
        .n = set->n,
        .in = set->logits,
        .out = set->weights,
        .stats = &stats,
    };
    whet_status status = whet_softmax(&rows, policy, NULL);
    *weight += (double)set->weights[set->largest];
    if (entropy)
        *entropy += stats.entropy;
    return status;
}

static whet_status measure_size(demo_result *result, size_t k, uint64_t seed, demo_set *set) {
    size_t sets = sets_of_size(set->n);
    const policy_list *policies = result->policies;
    double entropy = 0, plain = 0;
    for (size_t repeat = 0; repeat < sets; repeat++) {
        set->largest = draw_set(set->logits, set->n, seed, repeat);
        whet_status status = add_set(set, NULL, &plain, &entropy);
        for (size_t i = 0; status == WHET_OK && i < policies->count; i++)
            status = add_set(set, &policies->policies[i], &result->weight[i][k], NULL);
        if (status != WHET_OK)
            return status;
    }
    result->sizes[k] = set->n;
    result->sets[k] = sets;
    result->entropy[k] = entropy / (double)sets;
    result->plain[k] = plain / (double)sets;
    for (size_t i = 0; i < policies->count; i++)
        result->weight[i][k] /= (double)sets;
    return WHET_OK;
}

static int decades_needed(const demo_result *result) {
    double smallest = 1;
    for (size_t i = 0; i < result->policies->count; i++)
        for (size_t k = 0; k < DEMO_SIZES; k++)
            smallest = fmin(smallest, result->weight[i][k]);
    int decades = DECADES_MIN;
    while (decades < DECADES_MAX && smallest < pow(10, -decades))
        decades++;
    return decades;
}

whet_status measure_demo(demo_result *result, uint64_t seed) {
    demo_set set = {
        .logits = malloc(DEMO_LARGEST * sizeof *set.logits),
        .weights = malloc(DEMO_LARGEST * sizeof *set.weights),
    };
    whet_status status = set.logits && set.weights ? WHET_OK : WHET_ERROR_MEMORY;
    for (size_t k = 0; status == WHET_OK && k < DEMO_SIZES; k++) {
        set.n = (size_t)DEMO_SMALLEST << k;
        status = measure_size(result, k, seed, &set);
    }
    result->decades = decades_needed(result);
    free(set.weights);
    free(set.logits);
    return status;
}
