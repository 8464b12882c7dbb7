/*
 * The state of a sampler, shared by instances, algorithms and trace: the random stream, the
 * current instance, working memory and the two texts.
 */
#ifndef WHET_LAB_CLRS_RUN_H
#define WHET_LAB_CLRS_RUN_H

#include "clrs/clrs.h"
#include "clrs/floats.h"
#include "clrs/mersenne.h"
#include "clrs/text.h"

typedef struct clrs_run clrs_run;

/* How an input is printed, and which part of the instance it is. */
typedef enum clrs_input_kind {
    CLRS_INPUT_NONE,
    CLRS_INPUT_FIRST,       /* the first sequence */
    CLRS_INPUT_KEYS,        /* the same, the values being used for printing the trace, too */
    CLRS_INPUT_SECOND,      /* the second sequence */
    CLRS_INPUT_NUMBERS,     /* whole numbers */
    CLRS_INPUT_MARKS,       /* which of two strings a letter belongs to */
    CLRS_INPUT_TARGET,      /* a single number */
    CLRS_INPUT_SOURCE,      /* a node */
    CLRS_INPUT_EDGES,       /* 0 1 */
    CLRS_INPUT_FLOAT_EDGES, /* 0.0 1.0 */
    CLRS_INPUT_WEIGHTS
} clrs_input_kind;

typedef struct clrs_input {
    const char *name;
    clrs_input_kind kind;
} clrs_input;

/* One line of the table of algorithms. */
typedef struct clrs_entry {
    clrs_algorithm public;
    bool (*draw)(clrs_run *run); /* false: no such instance was found */
    void (*solve)(clrs_run *run);
    clrs_input inputs[2];
    const char *names;       /* of the outputs */
    const char *trace_names; /* the same with hints; NULL where there are none */
    int vectors, squares;    /* working memory, see clrs_vector and clrs_square */
} clrs_entry;

const clrs_entry *clrs_entry_find(const char *name);

/* The trace's last step. */
typedef struct clrs_trace {
    uint64_t steps;
    size_t step_start; /* of the last step in the answer, its separator included */
    size_t value_start, value_length;
    int *values; /* a copy of what was printed */
} clrs_trace;

struct clrs_run {
    const clrs_entry *entry;
    int n;
    int decimals;
    bool asked_for_hints; /* also where the request ignores it, for algorithms without a trace */
    bool hints;
    clrs_ties ties;
    clrs_random random;
    clrs_floats floats;

    /* The instance. */
    int entries; /* of the sequences, as printed */
    double *first, *second;
    int *numbers, *marks;
    int split; /* letters in the first of two strings */
    double target;
    int source;
    uint8_t *edges;  /* [n][n] */
    double *weights; /* [n][n], 0 where there is no edge */

    bool endless; /* set by an algorithm that would not terminate */
    clrs_text question, answer;
    clrs_trace trace;
    char *key_texts; /* [n][CLRS_FLOAT_SIZE], where the keys are needed for the trace */
    int *key_lengths;

    char *memory;
    size_t memory_size, memory_used;
    size_t vector_bytes, square_bytes;
};

/* Working memory, always sufficient: the table of algorithms gives its size. It is not cleared, and
 * is valid until the next sample. A vector holds n + 1 numbers of any type, a square (n + 1)^2
 * ints, or as many doubles if two of them are requested. */
void *clrs_vectors(clrs_run *run, int count);
void *clrs_squares(clrs_run *run, int count);

static inline void *clrs_vector(clrs_run *run) { return clrs_vectors(run, 1); }
static inline void *clrs_square(clrs_run *run) { return clrs_squares(run, 1); }

/* Vectors of 0 1 2 ..., and of zeros. */
int *clrs_identity(clrs_run *run);
int *clrs_zeros(clrs_run *run);

/* The indices that sort the keys, with the requested order of ties. */
void clrs_argsort(const double *keys, int *order, int count, clrs_ties ties);

/* The first of them alone; order is scratch. */
int clrs_argsort_first(const double *keys, int *order, int count, clrs_ties ties);

#endif
