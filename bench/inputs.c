/*
 * Random inputs, cheap enough to fill hundreds of megabytes: the number of
 * ones among 64 random bits is close to normal far into the tails, and a
 * uniform fraction makes it continuous.
 */
#include "inputs.h"

#include "quantise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static void *allocate_pages(void *context, size_t bytes) {
    (void)context;
    return aligned_alloc(PAGE, bytes);
}

static void release_pages(void *context, void *memory) {
    (void)context;
    free(memory);
}

static const inputs_source system_source = {.allocate = allocate_pages, .release = release_pages};
static inputs_source used_source = {.allocate = allocate_pages, .release = release_pages};

void bench_inputs_use(const inputs_source *source) {
    used_source = source ? *source : system_source;
}

void *bench_inputs_allocate(size_t bytes) {
    size_t rounded = bytes ? (bytes + PAGE - 1) / PAGE * PAGE : PAGE;
    void *memory = rounded < bytes ? NULL : used_source.allocate(used_source.context, rounded);
    if (memory)
        memset(memory, 0, rounded);
    return memory;
}

void bench_inputs_release(void *memory) {
    if (memory)
        used_source.release(used_source.context, memory);
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Counts the ones among 64 bits in pairs, fours and bytes: without an instruction for it the
 * compiler's own is a function call. */
static int count_ones(uint64_t bits) {
    bits -= bits >> 1 & 0x5555555555555555u;
    bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (int)(bits * 0x0101010101010101u >> 56);
}

/* The count of ones has variance 16, the fraction 1/12; the fraction comes from the same bits mixed
 * again. */
static float next_bell(uint64_t *state, float factor) {
    uint64_t bits = next_random(state);
    float fraction = 0x1p-24f * (float)(int)(bits * 0x9e3779b97f4a7c15u >> 40);
    return ((float)(count_ones(bits) - 32) + (fraction - 0.5f)) * factor;
}

static float bell_factor(double deviation) { return (float)(deviation / sqrt(16 + 1.0 / 12)); }

void bench_inputs_fill(float *values, size_t count, double deviation, uint64_t seed) {
    const float factor = bell_factor(deviation);
    for (size_t i = 0; i < count; i++)
        values[i] = next_bell(&seed, factor);
}

void bench_inputs_fill_queries(float *values, size_t count, size_t dim, uint64_t seed) {
    bench_inputs_fill(values, count * dim, 1, seed);
    for (size_t i = 0; i < count; i++) {
        float *query = values + i * dim;
        double square = 0;
        for (size_t j = 0; j < dim; j++)
            square += (double)query[j] * query[j];
        float factor = (float)sqrt((double)dim / square);
        for (size_t j = 0; j < dim; j++)
            query[j] *= factor;
    }
}

void bench_inputs_fill_f16(uint16_t *values, size_t count, double deviation, uint64_t seed) {
    const float factor = bell_factor(deviation);
    for (size_t i = 0; i < count; i++)
        values[i] = quantise_f16(next_bell(&seed, factor));
}

void bench_inputs_fill_quantised(void *blocks, size_t count, whet_type type, double deviation,
                                 uint64_t seed) {
    const float factor = bell_factor(deviation);
    float values[QUANTISE_BLOCK];
    for (size_t i = 0; i < count; i += QUANTISE_BLOCK) {
        for (size_t j = 0; j < QUANTISE_BLOCK; j++)
            values[j] = next_bell(&seed, factor);
        quantise_row(values, QUANTISE_BLOCK, type, (char *)blocks + whet_type_row_bytes(type, i));
    }
}

double bench_inputs_deviation(size_t n) {
    double most = log((double)n);
    double entropy = fmin(3, 0.7 * most);
    return sqrt(2 * (most - entropy));
}
