/*
 * The shape of a decoder-only Transformer: `layers` blocks, each
 *
 *     x += attention(rmsnorm(x));  x += mlp(rmsnorm(x))
 *
 * with rotary positions, key heads that several query heads share and a gated
 * MLP: the family of llama. What Qwen and Gemma add to it are choices: biases,
 * more norms, soft caps and layers with a window. The policy that a model was
 * trained with is part of it, since its parameters may be learned with
 * everything else.
 */
#ifndef WHET_LAB_LM_CONFIG_H
#define WHET_LAB_LM_CONFIG_H

#include "base/json.h"
#include "nn/rope.h"
#include "whet.h"

#include <stddef.h>
#include <stdint.h>

enum {
    LM_LAYERS_MAX = 1024,
    LM_WIDTH_MAX = 65536,
    LM_HEADS_MAX = 1024,
    LM_HEAD_DIM_MAX = 576,
    LM_HIDDEN_MAX = 1 << 20,
    LM_CONTEXT_MAX = 1 << 24,
    LM_VOCABULARY_MAX = 1 << 20,
    LM_POLICY_SIZE = 256,
    LM_LEARNED_SIZE = 64
};

/* mlp(x) = down (curve(gate x) * (up x)), elementwise in the middle. */
typedef enum lm_gate {
    LM_SWIGLU, /* curve(z) = z / (1 + exp(-z)) */
    LM_GEGLU   /* gelu in its tanh form */
} lm_gate;

/* How positions enter the model. */
typedef enum lm_positions {
    LM_ROPE,         /* q and k are rotated, see rope_dims */
    LM_NO_POSITIONS, /* not at all: the causal mask is the only hint */
    LM_ALIBI,        /* logits fall with the distance: head h of H by slope 2^(-8 (h + 1) / H) */
    LM_MIX           /* the first half of all heads by slopes 1, 1/2, 1/3 ..., the others have no
                        positions: the NAPE of ASEntmax's authors */
} lm_positions;

/* Whether the parameters of the policy (a polynomial's coefficients) are learned. */
typedef enum lm_learn {
    LM_LEARN_NOTHING,
    LM_LEARN_LAYER, /* one set for each layer */
    LM_LEARN_HEAD   /* one for each query head of each layer */
} lm_learn;

typedef struct lm_config {
    uint32_t layers;
    uint32_t width;      /* of a token between layers */
    uint32_t heads;      /* query heads */
    uint32_t key_heads;  /* divides heads */
    uint32_t head_dim;   /* of queries, keys and values; heads * head_dim need not be width */
    uint32_t hidden;     /* of the MLP */
    uint32_t context;    /* the longest sequence in tokens */
    uint32_t vocabulary; /* tokens */
    bool tied;           /* the embedding is also the output matrix */
    lm_gate gate;
    lm_positions positions;
    uint32_t rope_dims; /* rotated elements of a head, from the first on, in pairs (0,1), (2,3) ...
                           as in llama's GGUF files; even, at most head_dim */
    double rope_base;   /* pair i is rotated by position * base^(-2 i / rope_dims) */
    nn_rope_scaling rope_scaling;
    double norm_epsilon;
    bool has_biases;         /* of q, k and v */
    bool has_head_norms;     /* rmsnorm of each head of q and k, before they are rotated */
    bool has_post_norms;     /* rmsnorm of what attention and MLP return, before it is added */
    double attention_scale;  /* of q . k; 0: 1 / sqrt(head_dim) */
    double attention_cap;    /* replaces a logit x of attention by cap tanh(x / cap); 0: none */
    double output_cap;       /* the same for the logits of tokens */
    uint32_t window;         /* tokens that windowed layers see; 0: there are none */
    uint32_t window_period;  /* layers window_period - 1, 2 window_period - 1 ... see all */
    double window_rope_base; /* of windowed layers, without scaling; 0: they rotate as others */
    lm_learn learn;
    char learned[LM_LEARNED_SIZE]; /* names of the parameters to learn: "s,b,g"; "": the usual */
    bool has_sinks;                /* an additional logit for each head, learned */
    bool has_query_betas;          /* beta by two projections of each token, see query_beta.h */
    char policy[LM_POLICY_SIZE];   /* in every head: what it was trained with, and starts from */
} lm_config;

/* A model of a few hundred thousand parameters for CLRS-Text: the default of `whet lm train`. */
lm_config lm_config_default(void);

/* Whether it is valid; the error names the option. */
bool lm_config_check(const lm_config *config, lab_error *error);

/* The slope of ALiBi of a query head; 0 without. */
double lm_alibi_slope(const lm_config *config, size_t head);

/* Whether some heads have slopes. */
static inline bool lm_has_slopes(const lm_config *config) {
    return config->positions == LM_ALIBI || config->positions == LM_MIX;
}

/* Whether a layer sees only the last `window` tokens. */
static inline bool lm_is_windowed(const lm_config *config, size_t layer) {
    return config->window > 0 && (layer + 1) % config->window_period != 0;
}

/* Whether windowed layers rotate by angles of their own. */
static inline bool lm_has_window_rope(const lm_config *config) {
    return config->window > 0 && config->window_rope_base > 0 && config->positions == LM_ROPE;
}

/* As one JSON object, and back. From JSON: false and an error that names `path` where something is
 * missing or invalid. */
json_t *lm_config_to_json(const lm_config *config);
bool lm_config_from_json(json_t *json, const char *path, lm_config *config, lab_error *error);

/* The names, in the order of the values and ended by NULL; and values by name. */
extern const char *const lm_gate_names[], *const lm_positions_names[], *const lm_learn_names[];
bool lm_gate_parse(const char *name, lm_gate *gate);
bool lm_positions_parse(const char *name, lm_positions *positions);
bool lm_learn_parse(const char *name, lm_learn *learn);

/* More than any policy has. */
#define LM_POLICY_PARAMETERS_MAX 24

/* Describes the policy's parameters that a model learns, and returns how many there are: those
 * that config->learned names or, if it names none, the usual: the coefficients of a polynomial
 * (adaptive is one), s and b of ssmax, a and h of hinge. */
size_t lm_policy_parameters(const lm_config *config, const whet_policy *policy,
                            whet_parameter *learnable);

#endif
