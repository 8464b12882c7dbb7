/*
 * The trace of an algorithm: record() after each step, output() once at the
 * end. Both take a state, the traced variable in the form in which it is
 * printed. Without hints recording costs one comparison.
 */
#ifndef WHET_LAB_CLRS_TRACE_H
#define WHET_LAB_CLRS_TRACE_H

#include "clrs/run.h"

typedef enum clrs_state_kind {
    CLRS_STATE_INDEX,  /* 3 */
    CLRS_STATE_PAIR,   /* (0, 3), or 0, 3 without hints */
    CLRS_STATE_VECTOR, /* [0 1 2] */
    CLRS_STATE_LIST,   /* [0 1 2], 2: a vector of links followed by the list's head */
    CLRS_STATE_MATRIX, /* [[0 1], [2 3]] */
    CLRS_STATE_ORDER   /* keys in the order of a vector of positions */
} clrs_state_kind;

typedef struct clrs_state {
    clrs_state_kind kind;
    int size;          /* of the vector or the matrix */
    const int *values; /* or NULL: a and b */
    int a, b;
} clrs_state;

static inline clrs_state index_state(int index) {
    return (clrs_state){.kind = CLRS_STATE_INDEX, .a = index};
}

static inline clrs_state pair_state(int a, int b) {
    return (clrs_state){.kind = CLRS_STATE_PAIR, .a = a, .b = b};
}

static inline clrs_state vector_state(const int *values, int size) {
    return (clrs_state){.kind = CLRS_STATE_VECTOR, .values = values, .size = size};
}

static inline clrs_state list_state(const int *links, int size) {
    return (clrs_state){.kind = CLRS_STATE_LIST, .values = links, .size = size};
}

static inline clrs_state matrix_state(const int *values, int size) {
    return (clrs_state){.kind = CLRS_STATE_MATRIX, .values = values, .size = size};
}

static inline clrs_state order_state(const int *positions, int size) {
    return (clrs_state){.kind = CLRS_STATE_ORDER, .values = positions, .size = size};
}

void clrs_trace_step(clrs_run *run, clrs_state state);

static inline void record(clrs_run *run, clrs_state state) {
    if (run->hints)
        clrs_trace_step(run, state);
}

void clrs_trace_output(clrs_run *run, clrs_state state);

static inline void output(clrs_run *run, clrs_state state) { clrs_trace_output(run, state); }

/* Prepares a new sample; the trace's memory is taken from the working memory. */
void clrs_trace_begin(clrs_run *run);

#endif
