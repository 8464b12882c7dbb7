/*
 * The decoding problem of the benchmark at any length: its inputs, its
 * description, and its measurement on one thread.
 */
#ifndef WHET_BENCH_DECODE_H
#define WHET_BENCH_DECODE_H

#include "machine_limits.h"
#include "suite.h"

typedef struct decode_inputs {
    size_t keys;
    size_t heads;   /* query heads: DECODE_HEADS, or fewer */
    whet_type type; /* of keys and values: f16, f32 or quantised */
    float *q, *out;
    void *k, *v;
} decode_inputs;

/* Query heads of the usual case, and of the one with a key head for every query head. */
enum { DECODE_HEADS = 8, DECODE_KV_HEADS = 2 };

/* Allocates and fills keys and values; false when memory runs out. */
bool bench_decode_open(decode_inputs *opened, size_t keys, whet_type type,
                       const whet_executor *executor);
void bench_decode_close(decode_inputs *opened);

/* The problem, with the spread of logits that bench_inputs_deviation gives. */
whet_attention bench_decode_describe(const decode_inputs *of);

/* Bytes of keys and values together. */
double bench_decode_bytes(const decode_inputs *of);

/* A section for such cases. */
report_section *bench_decode_section(suite *with, const char *name);

/* Measures one length, plain and adaptive against reading, and fills the case, which has its label.
 */
bool bench_decode_case(suite *with, report_section *section, const decode_inputs *in,
                       report_case *to);

#endif
