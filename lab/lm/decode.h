/*
 * Inference: a model that reads tokens and keeps their keys and values. Several sequences
 * ("lanes") are decoded together, so that a step of all of them is a few matrix products instead
 * of many products with a vector. A prompt goes through attention's prefill in pieces, a single
 * token through its decode path; any policy may replace the one that a model was trained with.
 *
 * A decoder belongs to one thread at a time. Results of a lane depend, bit for bit, neither on
 * other lanes nor on the number of threads of its executor.
 */
#ifndef WHET_LAB_LM_DECODE_H
#define WHET_LAB_LM_DECODE_H

#include "lm/matrices.h"
#include "lm/tokens.h"
#include "nn/decoder.h"

typedef struct lm_decoder_options {
    const lm_matrices *matrices;   /* the model, which must outlive the decoder */
    const whet_executor *executor; /* NULL: the calling thread */
    const whet_policy *policy;     /* for all heads; NULL: the model's own */
    const whet_policy *policies;   /* [layers][heads] instead, or NULL */
    size_t lanes;                  /* at least 1 */
    size_t capacity;               /* tokens of a lane, at most the model's context */
    whet_type cache_type;          /* WHET_F32 or WHET_F16 */
    bool measures;                 /* entropies of single steps, see lm_decoder_entropies */
    /* Called after each attention of a single step, one query of all heads, with its statistics;
     * what the description points to is valid during the call. NULL: nobody watches. */
    void (*watch)(void *context, size_t layer, const whet_attention *attention);
    void *watch_context;
} lm_decoder_options;

typedef struct lm_decoder lm_decoder;

/* Bytes of a decoder's caches; SIZE_MAX on overflow. */
size_t lm_decoder_cache_bytes(const lm_decoder_options *options);

/* NULL and an error if the options are invalid or memory runs out. */
lm_decoder *lm_decoder_create(const lm_decoder_options *options, lab_error *error);
void lm_decoder_destroy(lm_decoder *decoder); /* NULL is fine */

/* The number of tokens that a lane has read, and clearing it. */
size_t lm_decoder_length(const lm_decoder *decoder, size_t lane);
void lm_decoder_reset(lm_decoder *decoder, size_t lane);

/* Reads at least one token in one lane; logits[vocabulary] are those after the last. Refuses tokens
 * outside the vocabulary and sequences longer than the capacity; LAB_STOPPED after a signal. */
bool lm_decoder_read(lm_decoder *decoder, size_t lane, const lm_token *tokens, size_t count,
                     float *logits, lab_error *error);

/* Reads one token in each of `count` different lanes; logits[count][vocabulary]. */
bool lm_decoder_step(lm_decoder *decoder, const size_t *lanes, const lm_token *tokens, size_t count,
                     float *logits, lab_error *error);

/* Of attention rows in single steps, summed by layer and head: entropy of softmax, and after the
 * policy (NaN for maps that need not sum to one). */
typedef struct lm_entropy {
    double before, after;
    uint64_t rows;
} lm_entropy;

/* [layers][heads], NULL unless entropies are measured. */
const lm_entropy *lm_decoder_entropies(const lm_decoder *decoder);

#endif
