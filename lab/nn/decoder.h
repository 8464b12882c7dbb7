/*
 * The layers of a decoder as pairs of functions, forward and backward; the ones
 * that are a single loop (rmsnorm, gated, cross-entropy) are in kernels.h.
 * Weights are [out][in] here, as in llama2.c and GGUF. "Tokens" are rows: the
 * positions of all sequences of a batch, one sequence after the other.
 */
#ifndef WHET_LAB_DECODER_H
#define WHET_LAB_DECODER_H

#include "nn/layers.h"
#include "nn/rope.h"
#include "whet.h"

/* y[tokens][out] = x[tokens][in] weight^T, added to where `add`. */
void nn_linear_forward(const nn_engine *engine, size_t tokens, size_t in, size_t out,
                       const float *weight, const float *x, float *y, bool add);

/* grad_x[tokens][in] = grad_y weight (set), and grad_weight += grad_y^T x; each may be NULL. */
void nn_linear_backward(const nn_engine *engine, size_t tokens, size_t in, size_t out,
                        const float *weight, const float *x, const float *grad_y, float *grad_x,
                        float *grad_weight);

/* x[i] = table[ids[i]], and its gradient: grad_table[ids[i]] += grad_x[i]; rows of `width`. */
void nn_embedding_forward(const float *table, const uint32_t *ids, size_t count, size_t width,
                          float *x);
void nn_embedding_backward(const nn_engine *engine, const uint32_t *ids, size_t count, size_t width,
                           const float *grad_x, float *grad_table);

/* Rotates the first `heads` heads of every token, `stride` floats apart; `length` tokens from
 * position 0 on in each of `rows` sequences. `table` is rope->sine, or rope->back. */
void nn_rotate(const nn_engine *engine, const nn_rope *rope, const float *table, size_t rows,
               size_t length, size_t heads, size_t head_dim, size_t stride, float *x);

/* RMSNorm of `heads` contiguous heads of every token, `stride` floats apart. The scales are
 * [tokens][scale_stride], from forward to backward; gradients are added to. */
typedef struct nn_head_norm {
    size_t tokens, heads, head_dim, stride, scale_stride;
    const float *gain; /* [head_dim] */
    float epsilon;
} nn_head_norm;
void nn_head_norm_forward(const nn_engine *engine, const nn_head_norm *norm, const float *x,
                          float *y, float *scale);
void nn_head_norm_backward(const nn_engine *engine, const nn_head_norm *norm, const float *x,
                           const float *scale, const float *grad_y, float *grad_x,
                           float *grad_gain);

/* Replaces x by cap tanh(x / cap), and backward multiplies by its slope, from its value. */
void nn_cap_forward(float cap, size_t count, float *x);
void nn_cap_backward(float cap, size_t count, const float *value, float *grad);

/*
 * Causal attention of `rows` sequences of `length` tokens. A token's queries,
 * keys and values are contiguous: qkv[token][heads + 2 key_heads] [head_dim];
 * out[token][heads][head_dim].
 */
typedef struct nn_attention {
    size_t rows, length, heads, key_heads, head_dim;
    const whet_policy *policies; /* one for all heads, or one for each */
    size_t policy_count;
    float scale, softcap; /* as in whet_attention, and 0 means the same */
    size_t window;
    const uint16_t *mask;      /* f16, added to the logits of all heads; or NULL */
    size_t mask_stride;        /* elements from one query to the next */
    const float *alibi_slopes; /* [heads], or NULL */
    const float *sinks;        /* [heads], or NULL */
    const float *betas;        /* [rows][heads][length], or NULL: in place of the policies' */
    const float *qkv;
    whet_stats *stats; /* [rows][heads][length], from forward to backward */
} nn_attention;

/* What the backward pass sets; all but qkv may be NULL. */
typedef struct nn_attention_gradients {
    float *qkv;
    whet_policy_gradient *policies; /* [policy_count] */
    float *sinks;                   /* [heads] */
    float *betas;                   /* [rows][heads][length] */
} nn_attention_gradients;

/* Scratch memory of attention, grown when needed and kept between calls. */
typedef struct nn_scratch {
    void *memory;
    size_t size;
} nn_scratch;
void nn_scratch_free(nn_scratch *scratch);

/* Allocates what forward and backward passes of this shape need, so that they do not grow it.
 * `out` and `parts` as below; without `parts` there is no backward pass. False when memory runs out
 * or the shape is invalid. */
bool nn_attention_reserve(const nn_attention *attention, float *out, float *parts,
                          nn_scratch *scratch);

/* WHET_NOT_FINITE if a value was not finite, WHET_ERROR_MEMORY if memory ran out. */
whet_status nn_attention_forward(const nn_attention *attention, nn_scratch *scratch, float *out);

/* `parts` is scratch of the size of the gradient of qkv, for its three separate parts. */
whet_status nn_attention_backward(const nn_attention *attention, nn_scratch *scratch,
                                  const float *grad_out, float *parts,
                                  const nn_attention_gradients *gradients);

#endif
