/* Networks: what is computed once for a model, and one pass over a piece. */
#include "lm/workspace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool lm_network_create(const nn_engine *engine, const lm_config *config, const float *weights,
                       lm_network *network, lab_error *error) {
    *network = (lm_network){.engine = engine, .config = *config, .weights = weights};
    if (!lm_layout_of(config, &network->layout))
        return lab_fail(error, LAB_INPUT, "the model is too large for memory");
    size_t dims = config->positions == LM_ROPE ? config->rope_dims : 0;
    network->policies = calloc((size_t)config->layers * config->heads, sizeof(whet_policy));
    network->slopes = lm_has_slopes(config) ? nn_floats(config->heads) : NULL;
    for (size_t head = 0; network->slopes && head < config->heads; head++)
        network->slopes[head] = (float)lm_alibi_slope(config, head);
    size_t window_dims = lm_has_window_rope(config) ? dims : 0;
    if (!network->policies || (lm_has_slopes(config) && !network->slopes) ||
        !nn_rope_create(config->context, dims, config->rope_base, &config->rope_scaling,
                        &network->rope) ||
        !nn_rope_create(config->context, window_dims, config->window_rope_base, NULL,
                        &network->window_rope)) {
        lm_network_destroy(network);
        return lab_fail_memory(error);
    }
    if (!lm_network_refresh(network)) {
        lm_network_destroy(network);
        return lab_fail(error, LAB_INPUT, "the learned parameters of a policy are out of range");
    }
    return true;
}

void lm_network_destroy(lm_network *network) {
    nn_rope_destroy(&network->rope);
    nn_rope_destroy(&network->window_rope);
    free(network->slopes);
    network->slopes = NULL;
    free(network->policies);
    network->policies = NULL;
}

bool lm_network_refresh(lm_network *network) {
    for (size_t layer = 0; layer < network->config.layers; layer++)
        if (!lm_layer_policies(&network->config, &network->layout, network->weights, layer, NULL,
                               network->policies + layer * network->config.heads,
                               &network->policy_count))
            return false;
    return true;
}

const nn_rope *lm_rope_of(const lm_network *network, size_t layer) {
    bool is_own = lm_has_window_rope(&network->config) && lm_is_windowed(&network->config, layer);
    return is_own ? &network->window_rope : &network->rope;
}

lm_sizes lm_sizes_of(const lm_config *config, const lm_piece *piece) {
    size_t head_dim = config->head_dim;
    return (lm_sizes){.tokens = piece->rows * piece->length,
                      .targets = piece->targets,
                      .width = config->width,
                      .queries = config->heads * head_dim,
                      .joint = (config->heads + 2 * (size_t)config->key_heads) * head_dim,
                      .hidden = config->hidden};
}

nn_head_norm lm_head_norm_of(const lm_network *network, const lm_sizes *sizes, size_t layer,
                             bool is_key) {
    const lm_config *config = &network->config;
    const lm_layout *at = &network->layout;
    return (nn_head_norm){.tokens = sizes->tokens,
                          .heads = is_key ? config->key_heads : config->heads,
                          .head_dim = config->head_dim,
                          .stride = sizes->joint,
                          .scale_stride = (size_t)config->heads + config->key_heads,
                          .gain = network->weights + lm_layer_at(at, layer) +
                                  (is_key ? at->key_norm : at->query_norm),
                          .epsilon = (float)config->norm_epsilon};
}

/* The narrower of a layer's own window and the one for all layers; 0: none. */
static size_t window_of(const lm_network *network, size_t layer) {
    const lm_config *config = &network->config;
    size_t own = lm_is_windowed(config, layer) ? config->window : 0;
    bool is_narrower = network->window > 0 && (own == 0 || network->window < own);
    return is_narrower ? network->window : own;
}

lm_query_betas lm_query_betas_of(const lm_network *network, const lm_piece *piece,
                                 const lm_workspace *workspace, size_t layer) {
    return (lm_query_betas){.config = &network->config,
                            .rows = piece->rows,
                            .length = piece->length,
                            .raw = workspace->kept[layer].raw_betas};
}

nn_attention lm_attention_of(const lm_network *network, const lm_piece *piece,
                             const lm_workspace *workspace, size_t layer) {
    const lm_config *config = &network->config;
    const float *sinks =
        network->weights + lm_layer_at(&network->layout, layer) + network->layout.sinks;
    return (nn_attention){.rows = piece->rows,
                          .length = piece->length,
                          .heads = config->heads,
                          .key_heads = config->key_heads,
                          .head_dim = config->head_dim,
                          .policies = network->policies + layer * config->heads,
                          .policy_count = network->policy_count,
                          .scale = (float)config->attention_scale,
                          .softcap = (float)config->attention_cap,
                          .window = window_of(network, layer),
                          .mask = network->mask,
                          .mask_stride = config->context,
                          .alibi_slopes = network->slopes,
                          .sinks = config->has_sinks ? sinks : NULL,
                          .betas = config->has_query_betas ? workspace->kept[layer].betas : NULL,
                          .qkv = workspace->kept[layer].qkv,
                          .stats = workspace->kept[layer].stats};
}

/* Counts correct rows; a row without targets counts as correct. */
static void count_right(const lm_piece *piece, const unsigned char *right, lm_outcome *outcome) {
    size_t i = 0;
    for (size_t row = 0; row < piece->rows; row++) {
        bool is_exact = true;
        for (; i < piece->targets && piece->at[i] / piece->length == row; i++) {
            if (!piece->is_answer[i])
                continue;
            outcome->answer_tokens++;
            outcome->right += right[i];
            is_exact = is_exact && right[i];
        }
        outcome->exact += is_exact;
        if (piece->exact)
            piece->exact[row] = is_exact;
    }
    outcome->sequences = piece->rows;
}

/* With the gradient of weights, of policies, or of nothing. */
static lm_outcome run(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
                      float *gradient, whet_policy_gradient *policies) {
    lm_outcome outcome = {.status = lm_forward(network, piece, workspace)};
    if (outcome.status != WHET_OK)
        return outcome;
    memset(workspace->grad_gain, 0, lm_gain_size(&network->config) * sizeof(float));
    lm_losses(network, piece, workspace, policies != NULL, gradient, &outcome);
    count_right(piece, workspace->right, &outcome);
    if (piece->right)
        memcpy(piece->right, workspace->right, piece->targets);
    if (!isfinite(outcome.loss))
        outcome.status = WHET_NOT_FINITE;
    else if (gradient || policies)
        outcome.status = lm_backward(network, piece, workspace, gradient, policies);
    return outcome;
}

lm_outcome lm_network_run(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
                          float *gradient) {
    return run(network, piece, workspace, gradient, NULL);
}

lm_outcome lm_network_run_frozen(const lm_network *network, const lm_piece *piece,
                                 lm_workspace *workspace, whet_policy_gradient *policies) {
    return run(network, piece, workspace, NULL, policies);
}
