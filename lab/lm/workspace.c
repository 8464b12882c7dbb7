/* Workspaces: one allocation for each array, counted. */
#include "lm/workspace.h"

#include <stdlib.h>

/* Aligned memory for count * each elements of four bytes, added to the byte count, which is
 * SIZE_MAX after an overflow; NULL then, and if only counting. */
static void *take(lm_workspace *workspace, size_t count, size_t each, size_t element) {
    size_t size, rounded;
    if (__builtin_mul_overflow(count, each, &size) ||
        __builtin_mul_overflow(size, element, &size) ||
        __builtin_add_overflow(size, 63, &rounded) ||
        __builtin_add_overflow(workspace->bytes, rounded / 64 * 64, &size)) {
        workspace->bytes = SIZE_MAX;
        return NULL;
    }
    rounded = rounded / 64 * 64;
    workspace->bytes = size;
    return workspace->is_counted ? NULL : aligned_alloc(64, rounded ? rounded : 64);
}

static float *floats(lm_workspace *workspace, size_t count, size_t each) {
    return take(workspace, count, each, sizeof(float));
}

static bool take_layer(lm_workspace *workspace, const lm_config *config, const lm_sizes *sizes,
                       lm_kept *kept) {
    kept->x = floats(workspace, sizes->tokens, sizes->width);
    kept->qkv = floats(workspace, sizes->tokens, sizes->joint);
    kept->mixed = floats(workspace, sizes->tokens, sizes->queries);
    kept->stats = take(workspace, sizes->tokens, config->heads, sizeof(whet_stats));
    kept->middle = floats(workspace, sizes->tokens, sizes->width);
    kept->z = floats(workspace, sizes->tokens, 2 * sizes->hidden);
    size_t with_head_norms = config->has_head_norms ? sizes->tokens : 0;
    size_t with_post_norms = config->has_post_norms ? sizes->tokens : 0;
    kept->raw_qkv = floats(workspace, with_head_norms, sizes->joint);
    kept->head_scale =
        floats(workspace, with_head_norms, (size_t)config->heads + config->key_heads);
    kept->attended = floats(workspace, with_post_norms, sizes->width);
    kept->thought = floats(workspace, with_post_norms, sizes->width);
    size_t with_betas = config->has_query_betas ? sizes->tokens : 0;
    kept->raw_betas = floats(workspace, with_betas, 2 * (size_t)config->heads);
    kept->betas = floats(workspace, with_betas, config->heads);
    return kept->x && kept->qkv && kept->mixed && kept->stats && kept->middle && kept->z &&
           kept->raw_qkv && kept->head_scale && kept->attended && kept->thought &&
           kept->raw_betas && kept->betas;
}

static bool take_kept(lm_workspace *workspace, const lm_config *config, const lm_sizes *sizes) {
    workspace->kept = calloc(config->layers, sizeof *workspace->kept);
    for (size_t layer = 0; workspace->kept && layer < config->layers; layer++) {
        lm_kept *kept = &workspace->kept[layer];
        if (layer == 0 || workspace->activations == LM_KEEPS_ALL) {
            if (!take_layer(workspace, config, sizes, kept))
                return false;
            continue;
        }
        *kept = workspace->kept[0];
        if (workspace->activations == LM_KEEPS_NOTHING)
            continue;
        kept->x = floats(workspace, sizes->tokens, sizes->width);
        if (!kept->x)
            return false;
    }
    return workspace->kept != NULL;
}

static bool take_scratch(lm_workspace *workspace, const lm_config *config, const lm_sizes *sizes) {
    size_t tokens = sizes->tokens;
    size_t backward_tokens = workspace->activations == LM_KEEPS_NOTHING ? 0 : tokens;
    workspace->last = floats(workspace, tokens, sizes->width);
    workspace->normed = floats(workspace, tokens, sizes->width);
    workspace->scale = floats(workspace, tokens, 1);
    workspace->hidden = floats(workspace, tokens, sizes->hidden);
    workspace->logits = floats(workspace, LM_LOGIT_ROWS, config->vocabulary);
    workspace->capped =
        floats(workspace, config->output_cap > 0 ? LM_LOGIT_ROWS : 0, config->vocabulary);
    workspace->losses = floats(workspace, LM_LOGIT_ROWS, 1);
    workspace->right = take(workspace, tokens, 1, 1);
    workspace->grad = floats(workspace, tokens, sizes->width);
    workspace->grad_targets = floats(workspace, backward_tokens, sizes->width);
    workspace->grad_gain = floats(workspace, 1, lm_gain_size(config));
    workspace->grad_normed = floats(workspace, backward_tokens, sizes->width);
    workspace->grad_mixed = floats(workspace, backward_tokens, sizes->queries);
    workspace->grad_qkv = floats(workspace, backward_tokens, sizes->joint);
    workspace->parts = floats(workspace, backward_tokens, sizes->joint);
    workspace->grad_policies = take(workspace, config->heads, 1, sizeof *workspace->grad_policies);
    workspace->grad_sinks = floats(workspace, 1, config->heads);
    size_t with_betas = config->has_query_betas ? backward_tokens : 0;
    workspace->grad_betas = floats(workspace, with_betas, config->heads);
    workspace->grad_raw_betas = floats(workspace, with_betas, 2 * (size_t)config->heads);
    return workspace->last && workspace->normed && workspace->scale && workspace->hidden &&
           workspace->logits && workspace->capped && workspace->losses && workspace->right &&
           workspace->grad && workspace->grad_targets && workspace->grad_gain &&
           workspace->grad_normed && workspace->grad_mixed && workspace->grad_qkv &&
           workspace->parts && workspace->grad_policies && workspace->grad_sinks &&
           workspace->grad_betas && workspace->grad_raw_betas;
}

/* Attention needs the most for one long sequence or for many short ones. */
static bool reserve(lm_workspace *workspace, const lm_network *network, size_t tokens_max) {
    enum { SHORT = 64 };
    size_t longest = tokens_max < network->config.context ? tokens_max : network->config.context;
    size_t length = longest < SHORT ? longest : SHORT;
    lm_piece one = {.rows = 1, .length = longest};
    lm_piece many = {.rows = tokens_max / length, .length = length};
    nn_attention of_one = lm_attention_of(network, &one, workspace, 0);
    nn_attention of_many = lm_attention_of(network, &many, workspace, 0);
    float *out = workspace->kept[0].mixed;
    float *parts = workspace->activations == LM_KEEPS_NOTHING ? NULL : workspace->parts;
    return nn_attention_reserve(&of_one, out, parts, &workspace->scratch) &&
           nn_attention_reserve(&of_many, out, parts, &workspace->scratch);
}

static lm_sizes sizes_for(const lm_config *config, size_t tokens_max) {
    lm_piece largest = {.rows = 1, .length = tokens_max, .targets = tokens_max};
    return lm_sizes_of(config, &largest);
}

size_t lm_workspace_estimate(const lm_config *config, size_t tokens_max) {
    lm_workspace layer = {.is_counted = true}, scratch = {.is_counted = true};
    lm_sizes sizes = sizes_for(config, tokens_max);
    lm_kept kept;
    size_t bytes;
    take_layer(&layer, config, &sizes, &kept);
    take_scratch(&scratch, config, &sizes);
    if (layer.bytes == SIZE_MAX || __builtin_mul_overflow(layer.bytes, config->layers, &bytes) ||
        __builtin_add_overflow(bytes, scratch.bytes, &bytes))
        return SIZE_MAX;
    return bytes;
}

static lm_workspace *create(const lm_network *network, size_t tokens_max,
                            lm_activations activations) {
    lm_workspace *workspace = calloc(1, sizeof *workspace);
    lm_sizes sizes = sizes_for(&network->config, tokens_max);
    if (!workspace)
        return NULL;
    workspace->layers = network->config.layers;
    workspace->activations = activations;
    if (!take_kept(workspace, &network->config, &sizes) ||
        !take_scratch(workspace, &network->config, &sizes) ||
        !reserve(workspace, network, tokens_max)) {
        lm_workspace_destroy(workspace);
        return NULL;
    }
    return workspace;
}

lm_workspace *lm_workspace_create(const lm_network *network, size_t tokens_max) {
    return create(network, tokens_max, LM_KEEPS_ALL);
}

lm_workspace *lm_workspace_create_lean(const lm_network *network, size_t tokens_max) {
    return create(network, tokens_max, LM_KEEPS_INPUTS);
}

lm_workspace *lm_workspace_create_forward(const lm_network *network, size_t tokens_max) {
    return create(network, tokens_max, LM_KEEPS_NOTHING);
}

static void free_kept(lm_workspace *workspace) {
    for (lm_kept *kept = workspace->kept; kept && kept < workspace->kept + workspace->layers;
         kept++) {
        bool is_first = kept == workspace->kept;
        if (is_first || workspace->activations != LM_KEEPS_NOTHING)
            free(kept->x);
        if (!is_first && workspace->activations != LM_KEEPS_ALL)
            continue;
        free(kept->qkv);
        free(kept->raw_qkv);
        free(kept->head_scale);
        free(kept->attended);
        free(kept->thought);
        free(kept->raw_betas);
        free(kept->betas);
        free(kept->mixed);
        free(kept->stats);
        free(kept->middle);
        free(kept->z);
    }
    free(workspace->kept);
}

void lm_workspace_destroy(lm_workspace *workspace) {
    if (!workspace)
        return;
    free_kept(workspace);
    free(workspace->last);
    free(workspace->normed);
    free(workspace->scale);
    free(workspace->hidden);
    free(workspace->logits);
    free(workspace->capped);
    free(workspace->losses);
    free(workspace->right);
    free(workspace->grad);
    free(workspace->grad_targets);
    free(workspace->grad_gain);
    free(workspace->grad_normed);
    free(workspace->grad_mixed);
    free(workspace->grad_qkv);
    free(workspace->parts);
    free(workspace->grad_policies);
    free(workspace->grad_sinks);
    free(workspace->grad_betas);
    free(workspace->grad_raw_betas);
    nn_scratch_free(&workspace->scratch);
    free(workspace);
}

size_t lm_workspace_bytes(const lm_workspace *workspace) {
    return workspace->bytes + workspace->scratch.size;
}
