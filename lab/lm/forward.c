/* Forward: the layers one after the other, then the losses. */
#include "lm/workspace.h"

#include <string.h>

static const float *layer_weights(const lm_network *network, size_t layer) {
    return network->weights + lm_layer_at(&network->layout, layer);
}

static void gather(const lm_piece *piece, size_t width, const float *from, float *to) {
    for (size_t i = 0; i < piece->targets; i++)
        memcpy(to + i * width, from + piece->at[i] * width, width * sizeof(float));
}

/* sum = x + y W^T or, where results are normalised, x + rmsnorm(y W^T), whose y W^T goes to
 * `result`. */
static void add_result(const lm_network *network, lm_workspace *workspace, size_t rows, size_t in,
                       const float *y, const float *matrix, const float *gain, float *result,
                       const float *x, float *sum) {
    const nn_engine *engine = network->engine;
    const lm_config *config = &network->config;
    size_t width = config->width;
    memcpy(sum, x, rows * width * sizeof(float));
    if (!config->has_post_norms) {
        nn_linear_forward(engine, rows, in, width, matrix, y, sum, true);
        return;
    }
    nn_linear_forward(engine, rows, in, width, matrix, y, result, false);
    engine->kernels->rmsnorm_forward(result, gain, rows, width, (float)config->norm_epsilon,
                                     workspace->normed, workspace->scale);
    engine->kernels->add(sum, workspace->normed, rows * width);
}

/* Queries and keys through the norms of their heads; values as they are. */
static void normalise_heads(const lm_network *network, const lm_sizes *sizes, size_t layer,
                            lm_kept *kept) {
    nn_head_norm queries = lm_head_norm_of(network, sizes, layer, false);
    nn_head_norm keys = lm_head_norm_of(network, sizes, layer, true);
    memcpy(kept->qkv, kept->raw_qkv, sizes->tokens * sizes->joint * sizeof(float));
    nn_head_norm_forward(network->engine, &queries, kept->raw_qkv, kept->qkv, kept->head_scale);
    nn_head_norm_forward(network->engine, &keys, kept->raw_qkv + sizes->queries,
                         kept->qkv + sizes->queries, kept->head_scale + queries.heads);
}

/* Projects normalised tokens to the betas of their queries. */
static void project_betas(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
                          size_t layer) {
    const nn_engine *engine = network->engine;
    const lm_layout *at = &network->layout;
    const float *weights = layer_weights(network, layer);
    lm_kept *kept = &workspace->kept[layer];
    size_t tokens = piece->rows * piece->length, outputs = 2 * (size_t)network->config.heads;
    nn_linear_forward(engine, tokens, network->config.width, outputs, weights + at->beta,
                      workspace->normed, kept->raw_betas, false);
    engine->kernels->bias_forward(kept->raw_betas, weights + at->beta_bias, tokens, outputs);
    lm_query_betas betas = lm_query_betas_of(network, piece, workspace, layer);
    lm_query_betas_forward(&betas, kept->betas);
}

/* x + attention(rmsnorm(x)), into `middle`. */
static whet_status mix(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
                       size_t layer, float *middle) {
    const nn_engine *engine = network->engine;
    const lm_config *config = &network->config;
    const lm_layout *at = &network->layout;
    const float *weights = layer_weights(network, layer);
    lm_sizes sizes = lm_sizes_of(config, piece);
    lm_kept *kept = &workspace->kept[layer];
    engine->kernels->rmsnorm_forward(kept->x, weights + at->attention_norm, sizes.tokens,
                                     sizes.width, (float)config->norm_epsilon, workspace->normed,
                                     workspace->scale);
    float *qkv = config->has_head_norms ? kept->raw_qkv : kept->qkv;
    nn_linear_forward(engine, sizes.tokens, sizes.width, sizes.joint, weights + at->query,
                      workspace->normed, qkv, false);
    if (config->has_query_betas)
        project_betas(network, piece, workspace, layer);
    if (config->has_biases)
        engine->kernels->bias_forward(qkv, weights + at->query_bias, sizes.tokens, sizes.joint);
    if (config->has_head_norms)
        normalise_heads(network, &sizes, layer, kept);
    const nn_rope *rope = lm_rope_of(network, layer);
    nn_rotate(engine, rope, rope->sine, piece->rows, piece->length,
              config->heads + config->key_heads, config->head_dim, sizes.joint, kept->qkv);
    nn_attention attention = lm_attention_of(network, piece, workspace, layer);
    whet_status status = nn_attention_forward(&attention, &workspace->scratch, kept->mixed);
    if (status != WHET_OK)
        return status;
    add_result(network, workspace, sizes.tokens, sizes.queries, kept->mixed, weights + at->output,
               weights + at->attention_post_norm, kept->attended, kept->x, middle);
    return WHET_OK;
}

/* gate and up of rmsnorm(middle), into `z`. */
static void open_gate(const lm_network *network, lm_workspace *workspace, size_t layer,
                      size_t rows) {
    const nn_engine *engine = network->engine;
    const lm_config *config = &network->config;
    const lm_layout *at = &network->layout;
    const float *weights = layer_weights(network, layer);
    lm_kept *kept = &workspace->kept[layer];
    engine->kernels->rmsnorm_forward(kept->middle, weights + at->mlp_norm, rows, config->width,
                                     (float)config->norm_epsilon, workspace->normed,
                                     workspace->scale);
    nn_linear_forward(engine, rows, config->width, 2 * (size_t)config->hidden, weights + at->gate,
                      workspace->normed, kept->z, false);
}

/* middle + mlp(rmsnorm(middle)), into `next`. */
static void think(const lm_network *network, lm_workspace *workspace, size_t layer, size_t rows,
                  float *next) {
    const nn_engine *engine = network->engine;
    const lm_config *config = &network->config;
    const lm_layout *at = &network->layout;
    const float *weights = layer_weights(network, layer);
    lm_kept *kept = &workspace->kept[layer];
    open_gate(network, workspace, layer, rows);
    engine->kernels->gated_forward(config->gate == LM_GEGLU ? NN_GELU : NN_SILU, kept->z, rows,
                                   config->hidden, workspace->hidden);
    add_result(network, workspace, rows, config->hidden, workspace->hidden, weights + at->down,
               weights + at->mlp_post_norm, kept->thought, kept->middle, next);
}

whet_status lm_layer_again(const lm_network *network, const lm_piece *piece,
                           lm_workspace *workspace, size_t layer) {
    whet_status status = mix(network, piece, workspace, layer, workspace->kept[layer].middle);
    size_t tokens = piece->rows * piece->length;
    if (status == WHET_OK && network->config.has_post_norms)
        think(network, workspace, layer, tokens, workspace->kept[layer + 1].x);
    else if (status == WHET_OK)
        open_gate(network, workspace, layer, tokens);
    return status;
}

whet_status lm_forward(const lm_network *network, const lm_piece *piece, lm_workspace *workspace) {
    const lm_config *config = &network->config;
    lm_sizes sizes = lm_sizes_of(config, piece);
    nn_embedding_forward(network->weights + network->layout.embedding, piece->tokens, sizes.tokens,
                         sizes.width, workspace->kept[0].x);
    for (size_t layer = 0; layer < config->layers; layer++) {
        lm_kept *kept = &workspace->kept[layer];
        bool is_last = layer + 1 == config->layers;
        float *middle = is_last ? workspace->grad : kept->middle;
        whet_status status = mix(network, piece, workspace, layer, middle);
        if (status != WHET_OK)
            return status;
        if (is_last)
            gather(piece, sizes.width, middle, kept->middle);
        think(network, workspace, layer, lm_mlp_rows(config, &sizes, layer),
              is_last ? workspace->last : workspace->kept[layer + 1].x);
    }
    return WHET_OK;
}

static void add_losses(const lm_piece *piece, size_t first, size_t rows, const float *losses,
                       lm_outcome *outcome) {
    for (size_t i = 0; i < rows; i++) {
        outcome->loss += (double)piece->weights[first + i] * losses[i];
        outcome->weight += piece->weights[first + i];
        outcome->answer_loss += piece->is_answer[first + i] ? (double)losses[i] : 0;
    }
}

/* A few targets at a time, from `first` on. */
static void lose_rows(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
                      size_t first, size_t rows, bool is_frozen, float *gradient,
                      lm_outcome *outcome) {
    const nn_engine *engine = network->engine;
    const lm_layout *at = &network->layout;
    size_t width = network->config.width, vocabulary = network->config.vocabulary;
    const float *head = network->weights + at->head, *x = workspace->last + first * width;
    float *normed = workspace->normed, *grad = workspace->grad_targets + first * width;
    engine->kernels->rmsnorm_forward(x, network->weights + at->final_norm, rows, width,
                                     (float)network->config.norm_epsilon, normed, workspace->scale);
    nn_linear_forward(engine, rows, width, vocabulary, head, normed, workspace->logits, false);
    float cap = (float)network->config.output_cap;
    if (cap > 0) {
        nn_cap_forward(cap, rows * vocabulary, workspace->logits);
        memcpy(workspace->capped, workspace->logits, rows * vocabulary * sizeof(float));
    }
    engine->kernels->cross_entropy(workspace->logits, piece->labels + first, piece->weights + first,
                                   rows, vocabulary, workspace->losses, workspace->right + first);
    add_losses(piece, first, rows, workspace->losses, outcome);
    if (piece->losses)
        memcpy(piece->losses + first, workspace->losses, rows * sizeof(float));
    if (!gradient && !is_frozen)
        return;
    if (cap > 0)
        nn_cap_backward(cap, rows * vocabulary, workspace->capped, workspace->logits);
    nn_linear_backward(engine, rows, width, vocabulary, head, normed, workspace->logits,
                       workspace->grad_normed, gradient ? gradient + at->head : NULL);
    memset(grad, 0, rows * width * sizeof(float));
    engine->kernels->rmsnorm_backward(x, network->weights + at->final_norm, workspace->scale,
                                      workspace->grad_normed, rows, width, grad,
                                      gradient ? gradient + at->final_norm : workspace->grad_gain);
}

void lm_losses(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
               bool is_frozen, float *gradient, lm_outcome *outcome) {
    for (size_t first = 0; first < piece->targets; first += LM_LOGIT_ROWS) {
        size_t left = piece->targets - first;
        lose_rows(network, piece, workspace, first, left < LM_LOGIT_ROWS ? left : LM_LOGIT_ROWS,
                  is_frozen, gradient, outcome);
    }
}
