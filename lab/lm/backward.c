/* Backward: the layers from the last to the first. `grad` is the gradient of the residual stream,
 * to which each layer adds its own contribution. */
#include "lm/workspace.h"

#include <math.h>
#include <string.h>

/* Where in the gradient; nowhere if weights are frozen. */
static float *gradient_at(float *gradient, size_t offset) {
    return gradient ? gradient + offset : NULL;
}

/* The kernel always adds to a gradient of the gain. */
static float *gain_gradient(float *own, size_t offset, lm_workspace *workspace) {
    return own ? own + offset : workspace->grad_gain;
}

/* rmsnorm once more, for what its output was multiplied with. */
static void norm_again(const lm_network *network, const float *x, const float *gain, size_t rows,
                       lm_workspace *workspace) {
    network->engine->kernels->rmsnorm_forward(x, gain, rows, network->config.width,
                                              (float)network->config.norm_epsilon,
                                              workspace->normed, workspace->scale);
}

/* The gradient of what a matrix returned, from that of the sum it was added to: the same, or
 * through the norm in between (into grad_normed). */
static const float *result_gradient(const lm_network *network, lm_workspace *workspace,
                                    const float *result, size_t gain, size_t layer, size_t rows,
                                    const float *grad, float *own) {
    size_t width = network->config.width;
    if (!network->config.has_post_norms)
        return grad;
    const float *gains = network->weights + lm_layer_at(&network->layout, layer) + gain;
    norm_again(network, result, gains, rows, workspace);
    memset(workspace->grad_normed, 0, rows * width * sizeof(float));
    network->engine->kernels->rmsnorm_backward(result, gains, workspace->scale, grad, rows, width,
                                               workspace->grad_normed,
                                               gain_gradient(own, gain, workspace));
    return workspace->grad_normed;
}

static void think_back(const lm_network *network, lm_workspace *workspace, size_t layer,
                       size_t rows, float *grad, float *gradient) {
    const nn_engine *engine = network->engine;
    const lm_config *config = &network->config;
    const lm_layout *at = &network->layout;
    size_t offset = lm_layer_at(at, layer), width = config->width, hidden = config->hidden;
    const float *weights = network->weights + offset;
    float *own = gradient_at(gradient, offset);
    lm_kept *kept = &workspace->kept[layer];
    const float *grad_result = result_gradient(network, workspace, kept->thought, at->mlp_post_norm,
                                               layer, rows, grad, own);
    nn_linear_backward(engine, rows, hidden, width, weights + at->down, NULL, grad_result,
                       workspace->hidden, NULL);
    engine->kernels->gated_backward(config->gate == LM_GEGLU ? NN_GELU : NN_SILU, kept->z, rows,
                                    hidden, workspace->hidden);
    nn_linear_backward(engine, rows, hidden, width, weights + at->down, workspace->hidden,
                       grad_result, NULL, gradient_at(own, at->down));
    norm_again(network, kept->middle, weights + at->mlp_norm, rows, workspace);
    nn_linear_backward(engine, rows, width, 2 * hidden, weights + at->gate, workspace->normed,
                       kept->z, workspace->grad_normed, gradient_at(own, at->gate));
    engine->kernels->rmsnorm_backward(kept->middle, weights + at->mlp_norm, workspace->scale,
                                      workspace->grad_normed, rows, width, grad,
                                      gain_gradient(own, at->mlp_norm, workspace));
}

/* In H / LM_POLICY_UNIT, as they are stored. */
static void add_policies(const lm_network *network, const whet_policy_gradient *policies,
                         float *gradient) {
    const lm_layout *at = &network->layout;
    whet_parameter learnable[LM_POLICY_PARAMETERS_MAX];
    size_t count = lm_policy_parameters(&network->config, &network->policies[0], learnable);
    for (size_t row = 0; row < at->policy_rows; row++)
        for (size_t i = 0; i < count; i++) {
            double by_value;
            memcpy(&by_value, (const char *)&policies[row] + learnable[i].gradient_offset,
                   sizeof by_value);
            gradient[row * count + i] += (float)(by_value / lm_policy_unit(&learnable[i]));
        }
}

/* From the gradient of normalised queries and keys to that of what was normalised. */
static void heads_back(const lm_network *network, const lm_sizes *sizes, lm_workspace *workspace,
                       size_t layer, float *own) {
    const lm_layout *at = &network->layout;
    const lm_kept *kept = &workspace->kept[layer];
    nn_head_norm queries = lm_head_norm_of(network, sizes, layer, false);
    nn_head_norm keys = lm_head_norm_of(network, sizes, layer, true);
    size_t rotated = sizes->queries + keys.heads * keys.head_dim;
    float *grad = workspace->grad_qkv, *arrived = workspace->parts;
    memcpy(arrived, grad, sizes->tokens * sizes->joint * sizeof(float));
    for (size_t i = 0; i < sizes->tokens; i++)
        memset(grad + i * sizes->joint, 0, rotated * sizeof(float));
    nn_head_norm_backward(network->engine, &queries, kept->raw_qkv, kept->head_scale, arrived, grad,
                          gain_gradient(own, at->query_norm, workspace));
    nn_head_norm_backward(network->engine, &keys, kept->raw_qkv + sizes->queries,
                          kept->head_scale + queries.heads, arrived + sizes->queries,
                          grad + sizes->queries, gain_gradient(own, at->key_norm, workspace));
}

/* From the gradient of the betas of queries to that of their projection, and adds what it means for
 * normalised tokens, which are in `normed`, to grad_normed. */
static void betas_back(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
                       size_t layer, float *own) {
    const nn_engine *engine = network->engine;
    const lm_layout *at = &network->layout;
    size_t tokens = piece->rows * piece->length, outputs = 2 * (size_t)network->config.heads;
    const float *weights = network->weights + lm_layer_at(at, layer);
    lm_query_betas betas = lm_query_betas_of(network, piece, workspace, layer);
    lm_query_betas_backward(&betas, workspace->grad_betas, workspace->grad_raw_betas);
    if (own)
        engine->kernels->bias_backward(workspace->grad_raw_betas, tokens, outputs,
                                       own + at->beta_bias);
    nn_linear_backward(engine, tokens, network->config.width, outputs, weights + at->beta,
                       workspace->normed, workspace->grad_raw_betas, NULL,
                       gradient_at(own, at->beta));
    nn_product_of(engine,
                  (nn_product){.m = tokens, .n = network->config.width, .k = outputs, .add = true},
                  workspace->grad_raw_betas, weights + at->beta, workspace->grad_normed);
}

static whet_status mix_back(const lm_network *network, const lm_piece *piece,
                            lm_workspace *workspace, size_t layer, float *grad, float *gradient,
                            whet_policy_gradient *policies) {
    const nn_engine *engine = network->engine;
    const lm_config *config = &network->config;
    const lm_layout *at = &network->layout;
    lm_sizes sizes = lm_sizes_of(config, piece);
    const float *weights = network->weights + lm_layer_at(at, layer);
    float *own = gradient_at(gradient, lm_layer_at(at, layer));
    lm_kept *kept = &workspace->kept[layer];
    const float *grad_result =
        result_gradient(network, workspace, kept->attended, at->attention_post_norm, layer,
                        sizes.tokens, grad, own);
    nn_linear_backward(engine, sizes.tokens, sizes.queries, sizes.width, weights + at->output,
                       kept->mixed, grad_result, workspace->grad_mixed,
                       gradient_at(own, at->output));
    nn_attention attention = lm_attention_of(network, piece, workspace, layer);
    const nn_attention_gradients wanted = {
        .qkv = workspace->grad_qkv,
        .policies = at->policy_rows || policies ? workspace->grad_policies : NULL,
        .sinks = config->has_sinks ? workspace->grad_sinks : NULL,
        .betas = config->has_query_betas ? workspace->grad_betas : NULL};
    whet_status status = nn_attention_backward(&attention, &workspace->scratch,
                                               workspace->grad_mixed, workspace->parts, &wanted);
    if (status != WHET_OK)
        return status;
    if (own && config->has_sinks)
        engine->kernels->add(own + at->sinks, workspace->grad_sinks, config->heads);
    if (own)
        add_policies(network, workspace->grad_policies, own + at->policy);
    if (policies)
        memcpy(policies + layer * config->heads, workspace->grad_policies,
               network->policy_count * sizeof *policies);
    const nn_rope *rope = lm_rope_of(network, layer);
    nn_rotate(engine, rope, rope->back, piece->rows, piece->length,
              config->heads + config->key_heads, config->head_dim, sizes.joint,
              workspace->grad_qkv);
    if (config->has_head_norms)
        heads_back(network, &sizes, workspace, layer, own);
    if (config->has_biases && own)
        engine->kernels->bias_backward(workspace->grad_qkv, sizes.tokens, sizes.joint,
                                       own + at->query_bias);
    norm_again(network, kept->x, weights + at->attention_norm, sizes.tokens, workspace);
    nn_linear_backward(engine, sizes.tokens, sizes.width, sizes.joint, weights + at->query,
                       workspace->normed, workspace->grad_qkv, workspace->grad_normed,
                       gradient_at(own, at->query));
    if (config->has_query_betas)
        betas_back(network, piece, workspace, layer, own);
    engine->kernels->rmsnorm_backward(kept->x, weights + at->attention_norm, workspace->scale,
                                      workspace->grad_normed, sizes.tokens, sizes.width, grad,
                                      gain_gradient(own, at->attention_norm, workspace));
    return WHET_OK;
}

static void scatter(const lm_piece *piece, const lm_sizes *sizes, const float *from, float *to) {
    size_t width = sizes->width;
    memset(to, 0, sizes->tokens * width * sizeof(float));
    for (size_t i = 0; i < piece->targets; i++)
        memcpy(to + piece->at[i] * width, from + i * width, width * sizeof(float));
}

whet_status lm_backward(const lm_network *network, const lm_piece *piece, lm_workspace *workspace,
                        float *gradient, whet_policy_gradient *policies) {
    const lm_config *config = &network->config;
    lm_sizes sizes = lm_sizes_of(config, piece);
    for (size_t layer = config->layers; layer-- > 0;) {
        bool is_last = layer + 1 == config->layers;
        whet_status status = WHET_OK;
        if (workspace->activations == LM_KEEPS_INPUTS && !is_last)
            status = lm_layer_again(network, piece, workspace, layer);
        if (status != WHET_OK)
            return status;
        think_back(network, workspace, layer, lm_mlp_rows(config, &sizes, layer),
                   is_last ? workspace->grad_targets : workspace->grad, gradient);
        if (is_last)
            scatter(piece, &sizes, workspace->grad_targets, workspace->grad);
        status = mix_back(network, piece, workspace, layer, workspace->grad, gradient, policies);
        if (status != WHET_OK)
            return status;
    }
    if (gradient)
        nn_embedding_backward(network->engine, piece->tokens, sizes.tokens, sizes.width,
                              workspace->grad, gradient + network->layout.embedding);
    return WHET_OK;
}
