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
    nn_linear_forward(engine, sizes.tokens, sizes.width, sizes.joint, weights + at->query,
                      workspace->normed, kept->qkv, false);
    nn_rotate(engine, &network->rope, network->rope.sine, piece->rows, piece->length,
              config->heads + config->key_heads, config->head_dim, sizes.joint, kept->qkv);
    nn_attention attention = lm_attention_of(network, piece, workspace, layer);
    whet_status status = nn_attention_forward(&attention, &workspace->scratch, kept->mixed);
    if (status != WHET_OK)
        return status;
    memcpy(middle, kept->x, sizes.tokens * sizes.width * sizeof(float));
    nn_linear_forward(engine, sizes.tokens, sizes.queries, sizes.width, weights + at->output,
                      kept->mixed, middle, true);
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
    memcpy(next, kept->middle, rows * config->width * sizeof(float));
    nn_linear_forward(engine, rows, config->hidden, config->width, weights + at->down,
                      workspace->hidden, next, true);
}

whet_status lm_layer_again(const lm_network *network, const lm_piece *piece,
                           lm_workspace *workspace, size_t layer) {
    whet_status status = mix(network, piece, workspace, layer, workspace->kept[layer].middle);
    if (status == WHET_OK)
        open_gate(network, workspace, layer, piece->rows * piece->length);
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
    engine->kernels->cross_entropy(workspace->logits, piece->labels + first, piece->weights + first,
                                   rows, vocabulary, workspace->losses, workspace->right + first);
    add_losses(piece, first, rows, workspace->losses, outcome);
    if (!gradient && !is_frozen)
        return;
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
