/*
 * All weights of a model are in one array of floats. A matrix is row-major [rows = outputs][cols =
 * inputs], as in llama2.c and GGUF, so that y = W x; tensors have their names in GGUF. In order:
 *
 *     token_embd.weight            [vocabulary][width]
 *     for each layer l:
 *       blk.l.attn_norm.weight     [1][width]
 *       blk.l.attn_q.weight        [heads * head_dim][width]
 *       blk.l.attn_k.weight        [key_heads * head_dim][width]
 *       blk.l.attn_v.weight        [key_heads * head_dim][width]
 *       blk.l.attn_output.weight   [width][heads * head_dim]
 *       blk.l.ffn_norm.weight      [1][width]
 *       blk.l.ffn_gate.weight      [hidden][width]
 *       blk.l.ffn_up.weight        [hidden][width]
 *       blk.l.ffn_down.weight      [width][hidden]
 *       blk.l.attn_q.bias          [1][heads * head_dim], with biases
 *       blk.l.attn_k.bias          [1][key_heads * head_dim], likewise
 *       blk.l.attn_v.bias          [1][key_heads * head_dim], likewise
 *       blk.l.attn_q_norm.weight   [1][head_dim], with norms of heads
 *       blk.l.attn_k_norm.weight   [1][head_dim], likewise
 *       blk.l.post_attention_norm.weight   [1][width], with norms of results
 *       blk.l.post_ffw_norm.weight         [1][width], likewise
 *       blk.l.attn_policy.weight   [1 or heads][parameters], where a policy is learned: a
 *                                  polynomial's coefficients in H / 4, highest power first
 *       blk.l.attn_sinks.weight    [1][heads], with sinks
 *       blk.l.attn_beta.weight     [2 heads][width], with betas of queries: b, then g
 *       blk.l.attn_beta.bias       [1][2 heads], likewise
 *     output_norm.weight           [1][width]
 *     output.weight                [vocabulary][width], unless tied
 *
 * They are contiguous: q, k and v are one matrix for a product, and so are gate and up; the three
 * biases are one vector. Entropies
 * over a few hundred tokens are about 4, so that in H / 4 one learning rate suits all
 * coefficients.
 */
#ifndef WHET_LAB_LM_WEIGHTS_H
#define WHET_LAB_LM_WEIGHTS_H

#include <math.h>
#include "lm/config.h"

/* Where things begin. Those of a layer are relative to that layer. */
typedef struct lm_layout {
    size_t embedding;
    size_t first_layer, layer_size;
    size_t attention_norm, query, key, value, output, mlp_norm, gate, up, down;
    /* Empty where a model has none. */
    size_t query_bias, key_bias, value_bias, query_norm, key_norm;
    size_t attention_post_norm, mlp_post_norm;
    size_t policy;
    size_t policy_rows, policy_parameters; /* 0 where nothing is learned */
    size_t sinks, beta, beta_bias;
    size_t final_norm;
    size_t head;  /* the output matrix; the embedding where tied */
    size_t count; /* all floats */
} lm_layout;

/* False (without an error text) if the sizes overflow. For a checked config. */
bool lm_layout_of(const lm_config *config, lm_layout *layout);

static inline size_t lm_layer_at(const lm_layout *layout, size_t layer) {
    return layout->first_layer + layer * layout->layer_size;
}

enum { LM_TENSOR_NAME_SIZE = 64, LM_POLICY_UNIT = 4 };

/* The factor by which a parameter is multiplied when stored: coefficients of powers of H are those
 * of powers of H / LM_POLICY_UNIT. */
static inline double lm_policy_unit(const whet_parameter *parameter) {
    return pow(LM_POLICY_UNIT, parameter->entropy_power);
}

typedef struct lm_tensor {
    char name[LM_TENSOR_NAME_SIZE];
    size_t offset;
    size_t rows, cols;
} lm_tensor;

/* Tensors in the order above. */
size_t lm_tensor_count(const lm_config *config);
lm_tensor lm_tensor_at(const lm_config *config, const lm_layout *layout, size_t index);

/* Initial weights: the same for the same config and seed, whatever is drawn elsewhere. */
void lm_initialise(const lm_config *config, const lm_layout *layout, uint64_t seed, float *weights);

/* Moves learned parameters that left the range of their policy back to its edge. */
void lm_keep_policies_valid(const lm_config *config, const lm_layout *layout, float *weights);

/*
 * The policies of one layer: *count is 1 (one for all heads) or heads, `policies` has `heads`
 * elements. `base`, unless NULL, replaces the one in the config (learned parameters are ignored
 * then). False if the parameters are invalid.
 */
bool lm_layer_policies(const lm_config *config, const lm_layout *layout, const float *weights,
                       size_t layer, const whet_policy *base, whet_policy *policies, size_t *count);

#endif
