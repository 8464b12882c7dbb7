/*
 * CLRS-Text: thirty textbook algorithms, run on random instances and written
 * out as a question and an answer, with or without the trace of the run. The
 * same algorithm, length, seed, index, decimals and hints give, byte for byte,
 * the text of google-deepmind/clrs. docs/CLRS_TEXT.md explains the format.
 *
 *     clrs_request request = clrs_request_default("bfs", 16);
 *     clrs_sampler *sampler;
 *     if (clrs_sampler_create(&request, &sampler) == CLRS_OK) {
 *         clrs_sample sample;
 *         while (enough is not enough && clrs_sampler_next(sampler, &sample) == CLRS_OK)
 *             train on sample.question and sample.answer;
 *         clrs_sampler_destroy(sampler);
 *     }
 *
 * A sampler belongs to one thread at a time; any number of them may be used concurrently. Texts
 * are written directly into memory that a sampler keeps between samples: after its longest sample
 * nothing more is allocated.
 */
#ifndef WHET_LAB_CLRS_CLRS_H
#define WHET_LAB_CLRS_CLRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CLRS_ALGORITHM_COUNT = 30,
    CLRS_LENGTH_MAX = 1 << 24,
    CLRS_TRACE_LENGTH_MAX = 4096, /* with hints, whose text grows like the square or the cube */
    CLRS_DECIMALS_MAX = 19,       /* the powers of ten that fit 64 bits */
    CLRS_DECIMALS_DEFAULT = 3,
    CLRS_MESSAGE_SIZE = 200
};

/* The largest index of a sample: all before one must be drawn to reach it. */
#define CLRS_INDEX_MAX UINT32_MAX

typedef enum clrs_status {
    CLRS_OK,
    CLRS_ERROR_ALGORITHM, /* unknown name */
    CLRS_ERROR_LENGTH,    /* too short for the algorithm, or too long for anything */
    CLRS_ERROR_SEED,      /* 2^32 or more */
    CLRS_ERROR_DECIMALS,  /* below 0 or above CLRS_DECIMALS_MAX */
    CLRS_ERROR_INDEX,     /* beyond CLRS_INDEX_MAX */
    CLRS_ERROR_HULL,      /* a thousand consecutive sets of points had three on a line */
    CLRS_ERROR_ENDLESS,   /* the reference does not terminate on this sample */
    CLRS_ERROR_MEMORY
} clrs_status;

/* The order of equal keys, where numpy's argsort depends on the machine. */
typedef enum clrs_ties {
    CLRS_TIES_SCALAR, /* numpy before 1.25, or without SIMD sorting */
    CLRS_TIES_SIMD    /* numpy 2 with AVX2 or AVX-512 */
} clrs_ties;

/* The lengths of the reference's own data sets. */
typedef enum clrs_split { CLRS_SPLIT_TRAIN, CLRS_SPLIT_VAL } clrs_split;

typedef struct clrs_algorithm {
    const char *name;
    int shortest;      /* smallest valid length */
    int train_longest; /* of the training lengths 4 5 10 11 12 15 19 23 28 31 */
    int val_longest;   /* of the evaluation lengths 4, 5, 6 ... */
} clrs_algorithm;

/* In alphabetical order; NULL from CLRS_ALGORITHM_COUNT on. */
const clrs_algorithm *clrs_algorithm_at(size_t index);

/* NULL if the name is unknown. */
const clrs_algorithm *clrs_algorithm_find(const char *name);

/* The index-th default length of a split, 0 beyond the last. */
int clrs_default_length(const clrs_algorithm *algorithm, clrs_split split, size_t index);

/* The index-th default seed of a split, -1 beyond the last. */
int64_t clrs_default_seed(clrs_split split, size_t index);

/* Samples for each length and seed of a split. */
uint64_t clrs_default_count(clrs_split split);

typedef struct clrs_request {
    const char *algorithm;
    int64_t length;
    uint64_t seed;
    int64_t decimals; /* numbers are truncated to this; 0: all their digits */
    bool hints;       /* with the trace, except for segments_intersect, which has none */
    clrs_ties ties;
} clrs_request;

/* Seed 0, 3 decimals, no hints, scalar ties. */
clrs_request clrs_request_default(const char *algorithm, int64_t length);

/* CLRS_OK, or an error, described in a message of at most CLRS_MESSAGE_SIZE bytes; the message may
 * be NULL. */
clrs_status clrs_request_check(const clrs_request *request, char *message);

/* A short description. */
const char *clrs_status_text(clrs_status status);

/* Texts end in a zero and are valid until the sampler's next sample. */
typedef struct clrs_sample {
    const clrs_algorithm *algorithm;
    int length;
    uint32_t seed;
    uint64_t index; /* among the samples of this algorithm, length and seed */
    bool hints;
    const char *question, *answer;
    size_t question_length, answer_length;
} clrs_sample;

typedef struct clrs_sampler clrs_sampler;

/* On failure *sampler is NULL. */
clrs_status clrs_sampler_create(const clrs_request *request, clrs_sampler **sampler);
void clrs_sampler_destroy(clrs_sampler *sampler); /* NULL is fine */

/* After a failure the sampler can only be destroyed. */
clrs_status clrs_sampler_next(clrs_sampler *sampler, clrs_sample *sample);

/*
 * Goes to a sample by its index, so that a run can be resumed. Skipped
 * instances are drawn, but neither solved nor written; going back restarts at
 * the seed.
 */
clrs_status clrs_sampler_seek(clrs_sampler *sampler, uint64_t index);

/* Several samplers with one seed, chosen at random as by Python's random.choice. */
typedef struct clrs_mix clrs_mix;

/* The requests' seeds are overridden by the mix's. On failure *mix is NULL, and *failed (which may
 * be NULL) is the index of the invalid request. */
clrs_status clrs_mix_create(const clrs_request *requests, size_t count, uint64_t seed,
                            clrs_mix **mix, size_t *failed);
void clrs_mix_destroy(clrs_mix *mix);
clrs_status clrs_mix_next(clrs_mix *mix, clrs_sample *sample);

#endif
