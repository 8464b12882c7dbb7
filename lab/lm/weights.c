/* The layout of the weights, their names and initial values. */
#include "lm/weights.h"

#include "nn/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Records where a tensor begins and advances past it; false if sizes overflow. */
static bool place(size_t *end, size_t rows, size_t cols, size_t *offset) {
    size_t size;
    *offset = *end;
    return !__builtin_mul_overflow(rows, cols, &size) && !__builtin_add_overflow(*end, size, end);
}

static bool place_layer(const lm_config *config, lm_layout *layout) {
    size_t width = config->width, hidden = config->hidden, end = 0;
    size_t queries = (size_t)config->heads * config->head_dim;
    size_t keys = (size_t)config->key_heads * config->head_dim;
    size_t biases = config->has_biases, head_norms = config->has_head_norms;
    size_t post_norms = config->has_post_norms;
    size_t betas = config->has_query_betas ? config->heads : 0;
    bool fits =
        place(&end, 1, width, &layout->attention_norm) &&
        place(&end, queries, width, &layout->query) && place(&end, keys, width, &layout->key) &&
        place(&end, keys, width, &layout->value) && place(&end, width, queries, &layout->output) &&
        place(&end, 1, width, &layout->mlp_norm) && place(&end, hidden, width, &layout->gate) &&
        place(&end, hidden, width, &layout->up) && place(&end, width, hidden, &layout->down) &&
        place(&end, biases, queries, &layout->query_bias) &&
        place(&end, biases, keys, &layout->key_bias) &&
        place(&end, biases, keys, &layout->value_bias) &&
        place(&end, head_norms, config->head_dim, &layout->query_norm) &&
        place(&end, head_norms, config->head_dim, &layout->key_norm) &&
        place(&end, post_norms, width, &layout->attention_post_norm) &&
        place(&end, post_norms, width, &layout->mlp_post_norm) &&
        place(&end, layout->policy_rows, layout->policy_parameters, &layout->policy) &&
        place(&end, config->has_sinks, config->heads, &layout->sinks) &&
        place(&end, 2 * betas, width, &layout->beta) &&
        place(&end, config->has_query_betas, 2 * betas, &layout->beta_bias);
    layout->layer_size = end;
    return fits;
}

static void size_policies(const lm_config *config, lm_layout *layout) {
    whet_policy policy;
    layout->policy_rows = layout->policy_parameters = 0;
    if (config->learn == LM_LEARN_NOTHING ||
        whet_policy_parse(config->policy, &policy, NULL, 0) != WHET_OK)
        return;
    layout->policy_rows = config->learn == LM_LEARN_HEAD ? config->heads : 1;
    whet_parameter learnable[LM_POLICY_PARAMETERS_MAX];
    layout->policy_parameters = lm_policy_parameters(config, &policy, learnable);
}

bool lm_layout_of(const lm_config *config, lm_layout *layout) {
    size_t end = 0, rest;
    *layout = (lm_layout){.embedding = 0};
    size_policies(config, layout);
    bool fits = place_layer(config, layout) &&
                place(&end, config->vocabulary, config->width, &layout->embedding) &&
                place(&end, config->layers, layout->layer_size, &layout->first_layer) &&
                place(&end, 1, config->width, &layout->final_norm);
    layout->head = layout->embedding;
    if (fits && !config->tied)
        fits = place(&end, config->vocabulary, config->width, &layout->head);
    layout->count = end;
    return fits && !__builtin_mul_overflow(end, sizeof(float), &rest);
}

enum { LAYER_TENSORS = 9 };

static size_t tensors_of_layer(const lm_config *config) {
    return LAYER_TENSORS + 3 * (size_t)config->has_biases + 2 * (size_t)config->has_head_norms +
           2 * (size_t)config->has_post_norms + (config->learn != LM_LEARN_NOTHING) +
           config->has_sinks + 2 * (size_t)config->has_query_betas;
}

size_t lm_tensor_count(const lm_config *config) {
    return 2 + config->layers * tensors_of_layer(config) + !config->tied;
}

/* The tensor at `index` among those that a layer has; tensors without rows are not there. */
static lm_tensor tensor_of_layer(const lm_config *config, const lm_layout *layout, size_t layer,
                                 size_t index) {
    size_t width = config->width, hidden = config->hidden;
    size_t queries = (size_t)config->heads * config->head_dim;
    size_t keys = (size_t)config->key_heads * config->head_dim;
    size_t biases = config->has_biases, head_norms = config->has_head_norms;
    size_t post_norms = config->has_post_norms;
    size_t betas = config->has_query_betas ? 2 * (size_t)config->heads : 0;
    const struct {
        const char *name;
        size_t offset, rows, cols;
    } table[] = {
        {"attn_norm.weight", layout->attention_norm, 1, width},
        {"attn_q.weight", layout->query, queries, width},
        {"attn_k.weight", layout->key, keys, width},
        {"attn_v.weight", layout->value, keys, width},
        {"attn_output.weight", layout->output, width, queries},
        {"ffn_norm.weight", layout->mlp_norm, 1, width},
        {"ffn_gate.weight", layout->gate, hidden, width},
        {"ffn_up.weight", layout->up, hidden, width},
        {"ffn_down.weight", layout->down, width, hidden},
        {"attn_q.bias", layout->query_bias, biases, queries},
        {"attn_k.bias", layout->key_bias, biases, keys},
        {"attn_v.bias", layout->value_bias, biases, keys},
        {"attn_q_norm.weight", layout->query_norm, head_norms, config->head_dim},
        {"attn_k_norm.weight", layout->key_norm, head_norms, config->head_dim},
        {"post_attention_norm.weight", layout->attention_post_norm, post_norms, width},
        {"post_ffw_norm.weight", layout->mlp_post_norm, post_norms, width},
        {"attn_policy.weight", layout->policy, layout->policy_rows, layout->policy_parameters},
        {"attn_sinks.weight", layout->sinks, config->has_sinks, config->heads},
        {"attn_beta.weight", layout->beta, betas, width},
        {"attn_beta.bias", layout->beta_bias, config->has_query_betas, betas}};
    size_t at = 0;
    for (size_t left = index; left > 0 || table[at].rows == 0; at++)
        left -= table[at].rows > 0;
    lm_tensor tensor = {.offset = lm_layer_at(layout, layer) + table[at].offset,
                        .rows = table[at].rows,
                        .cols = table[at].cols};
    snprintf(tensor.name, sizeof tensor.name, "blk.%zu.%s", layer, table[at].name);
    return tensor;
}

lm_tensor lm_tensor_at(const lm_config *config, const lm_layout *layout, size_t index) {
    size_t in_layer = tensors_of_layer(config), in_layers = config->layers * in_layer;
    if (index == 0)
        return (lm_tensor){"token_embd.weight", layout->embedding, config->vocabulary,
                           config->width};
    if (index <= in_layers)
        return tensor_of_layer(config, layout, (index - 1) / in_layer, (index - 1) % in_layer);
    if (index == in_layers + 1)
        return (lm_tensor){"output_norm.weight", layout->final_norm, 1, config->width};
    return (lm_tensor){"output.weight", layout->head, config->vocabulary, config->width};
}

static void fill_policies(const lm_config *config, const lm_layout *layout, float *parameters) {
    whet_policy policy;
    if (whet_policy_parse(config->policy, &policy, NULL, 0) != WHET_OK)
        return;
    whet_parameter learnable[LM_POLICY_PARAMETERS_MAX];
    size_t count = lm_policy_parameters(config, &policy, learnable);
    for (size_t row = 0; row < layout->policy_rows; row++)
        for (size_t i = 0; i < count; i++) {
            double value;
            memcpy(&value, (const char *)&policy + learnable[i].offset, sizeof value);
            parameters[row * count + i] = (float)(value * lm_policy_unit(&learnable[i]));
        }
}

/* Outputs to the residual stream are initialised smaller in deeper models. */
static double deviation_of(const lm_config *config, const lm_tensor *tensor) {
    if (strstr(tensor->name, "attn_output") || strstr(tensor->name, "ffn_down"))
        return 1 / sqrt((double)tensor->cols * 2 * config->layers);
    bool is_embedding = strncmp(tensor->name, "token_embd", 10) == 0;
    return is_embedding && !config->tied ? 1 : 1 / sqrt((double)tensor->cols);
}

void lm_initialise(const lm_config *config, const lm_layout *layout, uint64_t seed,
                   float *weights) {
    for (size_t i = 0; i < lm_tensor_count(config); i++) {
        lm_tensor tensor = lm_tensor_at(config, layout, i);
        float *values = weights + tensor.offset;
        size_t count = tensor.rows * tensor.cols;
        lab_random random = lab_random_start(lab_seed_for(seed, tensor.name, 0));
        if (strstr(tensor.name, "attn_policy"))
            fill_policies(config, layout, values);
        else if (strstr(tensor.name, "_norm") || strstr(tensor.name, ".bias") ||
                 strstr(tensor.name, "attn_sinks"))
            for (size_t j = 0; j < count; j++)
                values[j] = strstr(tensor.name, "_norm") ? 1 : 0;
        else
            nn_truncated_normal(&random, values, count, deviation_of(config, &tensor));
    }
}

static void set_parameters(const lm_config *config, whet_policy *policy, const float *parameters,
                           size_t count) {
    whet_parameter learnable[LM_POLICY_PARAMETERS_MAX];
    size_t known = lm_policy_parameters(config, policy, learnable);
    for (size_t i = 0; i < count && i < known; i++) {
        double value = parameters[i] / lm_policy_unit(&learnable[i]);
        memcpy((char *)policy + learnable[i].offset, &value, sizeof value);
    }
}

/* Whether a policy is valid with one parameter replaced, as it is stored. */
static bool is_valid_with(const whet_policy *policy, const whet_parameter *parameter,
                          float stored) {
    whet_policy changed = *policy;
    double value = stored / lm_policy_unit(parameter);
    memcpy((char *)&changed + parameter->offset, &value, sizeof value);
    return whet_policy_check(&changed, NULL, 0) == WHET_OK;
}

/* The valid value nearest to `stored` on the way from the initial one: ranges are intervals. */
static float nearest_valid(const whet_policy *policy, const whet_parameter *parameter,
                           float initial, float stored) {
    enum { HALVINGS = 40 };
    float inside = initial, outside = stored;
    if (!isfinite(stored) || is_valid_with(policy, parameter, stored))
        return stored;
    for (int i = 0; i < HALVINGS; i++) {
        float middle = inside + (outside - inside) / 2;
        if (is_valid_with(policy, parameter, middle))
            inside = middle;
        else
            outside = middle;
    }
    return inside;
}

void lm_keep_policies_valid(const lm_config *config, const lm_layout *layout, float *weights) {
    whet_policy policy;
    whet_parameter learnable[LM_POLICY_PARAMETERS_MAX];
    if (layout->policy_rows == 0 || whet_policy_parse(config->policy, &policy, NULL, 0) != WHET_OK)
        return;
    size_t count = lm_policy_parameters(config, &policy, learnable);
    for (size_t layer = 0; layer < config->layers; layer++)
        for (size_t i = 0; i < layout->policy_rows * count; i++) {
            const whet_parameter *parameter = &learnable[i % count];
            float *stored = weights + lm_layer_at(layout, layer) + layout->policy + i;
            double initial;
            memcpy(&initial, (const char *)&policy + parameter->offset, sizeof initial);
            *stored = nearest_valid(&policy, parameter,
                                    (float)(initial * lm_policy_unit(parameter)), *stored);
        }
}

bool lm_layer_policies(const lm_config *config, const lm_layout *layout, const float *weights,
                       size_t layer, const whet_policy *base, whet_policy *policies,
                       size_t *count) {
    *count = 1;
    if (base) {
        policies[0] = *base;
        return whet_policy_check(base, NULL, 0) == WHET_OK;
    }
    if (whet_policy_parse(config->policy, &policies[0], NULL, 0) != WHET_OK)
        return false;
    const float *parameters = weights + lm_layer_at(layout, layer) + layout->policy;
    bool is_good = true;
    if (layout->policy_rows > 1)
        *count = layout->policy_rows;
    for (size_t row = 0; row < layout->policy_rows; row++) {
        policies[row] = policies[0];
        set_parameters(config, &policies[row], parameters + row * layout->policy_parameters,
                       layout->policy_parameters);
        is_good = is_good && whet_policy_check(&policies[row], NULL, 0) == WHET_OK;
    }
    return is_good;
}
