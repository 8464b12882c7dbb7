/* The shape of a model: defaults, limits, and its form in JSON. */
#include "lm/config.h"

#include "base/choices.h"
#include "lm/rope_scaling.h"
#include "lm/tokens.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const lm_gate_names[] = {"swiglu", "geglu", NULL};
const char *const lm_positions_names[] = {"rope", "none", "alibi", "mix", NULL};
const char *const lm_learn_names[] = {"nothing", "layer", "head", NULL};

lm_config lm_config_default(void) {
    return (lm_config){.layers = 4,
                       .width = 128,
                       .heads = 4,
                       .key_heads = 4,
                       .head_dim = 32,
                       .hidden = 384,
                       .context = 4096,
                       .vocabulary = LM_CLRS_VOCABULARY,
                       .tied = true,
                       .gate = LM_GEGLU,
                       .positions = LM_ROPE,
                       .rope_dims = 32,
                       .rope_base = 10000,
                       .norm_epsilon = 1e-5,
                       .learn = LM_LEARN_NOTHING,
                       .policy = "softmax"};
}

double lm_alibi_slope(const lm_config *config, size_t head) {
    if (config->positions == LM_ALIBI)
        return exp2(-8.0 * (double)(head + 1) / config->heads);
    return config->positions == LM_MIX && head < config->heads / 2 ? 1 / (double)(head + 1) : 0;
}

/* Whether a list "s,b,g" has a name. */
static bool lists(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

static size_t count_names(const char *list) {
    size_t count = *list != '\0';
    for (; *list; list++)
        count += *list == ',';
    return count;
}

size_t lm_policy_parameters(const lm_config *config, const whet_policy *policy,
                            whet_parameter *learnable) {
    whet_parameter all[LM_POLICY_PARAMETERS_MAX];
    size_t count = whet_policy_parameters(policy, all, LM_POLICY_PARAMETERS_MAX), found = 0;
    for (size_t i = 0; i < count && i < LM_POLICY_PARAMETERS_MAX; i++) {
        bool is_listed = lists(config->learned, all[i].name) && all[i].gradient_offset != SIZE_MAX;
        if (config->learned[0] ? is_listed : all[i].is_learnable != 0)
            learnable[found++] = all[i];
    }
    return found;
}

static bool policy_is_good(const lm_config *config, lab_error *error) {
    whet_policy policy;
    char reason[256] = "";
    if (whet_policy_parse(config->policy, &policy, reason, sizeof reason) != WHET_OK)
        return lab_fail(error, LAB_INPUT, "--policy '%s': %s", config->policy, reason);
    whet_parameter learnable[LM_POLICY_PARAMETERS_MAX];
    size_t count = lm_policy_parameters(config, &policy, learnable);
    if (config->learn != LM_LEARN_NOTHING && config->learned[0] &&
        count != count_names(config->learned))
        return lab_fail(error, LAB_INPUT,
                        "--learn-parameters: '%s' does not list parameters of '%s' that have "
                        "derivatives; 'whet policies' lists them",
                        config->learned, config->policy);
    if (config->learn != LM_LEARN_NOTHING && count == 0)
        return lab_fail(error, LAB_INPUT,
                        "--learn-policy: '%s' has no parameters that can be learned; adaptive, "
                        "poly, ssmax and hinge have",
                        config->policy);
    return true;
}

static bool heads_are_good(const lm_config *config, lab_error *error) {
    if (config->heads % config->key_heads != 0)
        return lab_fail(error, LAB_INPUT, "--num-key-heads: %u does not divide --num-heads %u",
                        config->key_heads, config->heads);
    if (config->positions == LM_ROPE &&
        (config->rope_dims % 2 != 0 || config->rope_dims > config->head_dim))
        return lab_fail(error, LAB_INPUT,
                        "--rope-dims: %u is not an even number up to --head-dim, %u",
                        config->rope_dims, config->head_dim);
    return true;
}

/* Betas of queries take the place of a policy's: the first parameter of one without a temperature
 * is the strength that every policy has. */
static bool betas_are_good(const lm_config *config, lab_error *error) {
    whet_policy policy;
    whet_parameter first;
    if (!config->has_query_betas)
        return true;
    if (whet_policy_parse(config->policy, &policy, NULL, 0) != WHET_OK ||
        whet_policy_parameters(&policy, &first, 1) == 0 || strcmp(first.name, "strength") != 0)
        return lab_fail(error, LAB_INPUT,
                        "--query-betas: '%s' has a temperature of its own; use softmax or a map",
                        config->policy);
    return config->window == 0 ||
           lab_fail(error, LAB_INPUT, "--query-betas cannot be combined with windows");
}

/* What llama itself does not have. The bases of windows and others have the same limits. */
static bool variants_are_good(const lm_config *config, lab_error *error) {
    return lab_in_range("attention-scale", config->attention_scale, 0, 1e3, error) &&
           lab_in_range("attention-cap", config->attention_cap, 0, 1e6, error) &&
           lab_in_range("output-cap", config->output_cap, 0, 1e6, error) &&
           lab_in_range("window", config->window, 0, LM_CONTEXT_MAX, error) &&
           lab_in_range("window-period", config->window_period, config->window > 0,
                        LM_LAYERS_MAX + 1, error) &&
           (config->window_rope_base == 0 ||
            lab_in_range("window-rope-base", config->window_rope_base, 1, 1e12, error));
}

bool lm_config_check(const lm_config *config, lab_error *error) {
    return lab_in_range("num-layers", config->layers, 1, LM_LAYERS_MAX, error) &&
           lab_in_range("width", config->width, 1, LM_WIDTH_MAX, error) &&
           lab_in_range("num-heads", config->heads, 1, LM_HEADS_MAX, error) &&
           lab_in_range("num-key-heads", config->key_heads, 1, LM_HEADS_MAX, error) &&
           lab_in_range("head-dim", config->head_dim, 1, LM_HEAD_DIM_MAX, error) &&
           lab_in_range("hidden", config->hidden, 1, LM_HIDDEN_MAX, error) &&
           lab_in_range("context", config->context, 1, LM_CONTEXT_MAX, error) &&
           lab_in_range("vocabulary", config->vocabulary, 2, LM_VOCABULARY_MAX, error) &&
           lab_in_range("rope-base", config->rope_base, 1, 1e12, error) &&
           lab_in_range("norm-epsilon", config->norm_epsilon, 0, 1, error) &&
           heads_are_good(config, error) && lm_rope_check(config, error) &&
           variants_are_good(config, error) && policy_is_good(config, error) &&
           betas_are_good(config, error);
}

bool lm_gate_parse(const char *name, lm_gate *gate) {
    size_t found;
    bool is_known = lab_find_name(lm_gate_names, name, &found);
    if (is_known)
        *gate = (lm_gate)found;
    return is_known;
}

bool lm_positions_parse(const char *name, lm_positions *positions) {
    size_t found;
    bool is_known = lab_find_name(lm_positions_names, name, &found);
    if (is_known)
        *positions = (lm_positions)found;
    return is_known;
}

bool lm_learn_parse(const char *name, lm_learn *learn) {
    size_t found;
    bool is_known = lab_find_name(lm_learn_names, name, &found);
    if (is_known)
        *learn = (lm_learn)found;
    return is_known;
}

/* Members that only models with them have. */
static bool put_variants(const lm_config *c, json_t *shape) {
    const struct {
        const char *name;
        bool is_set;
        json_t *value;
    } members[] = {
        {"biases", c->has_biases, json_true()},
        {"head_norms", c->has_head_norms, json_true()},
        {"post_norms", c->has_post_norms, json_true()},
        {"attention_scale", c->attention_scale != 0, json_real(c->attention_scale)},
        {"attention_cap", c->attention_cap != 0, json_real(c->attention_cap)},
        {"output_cap", c->output_cap != 0, json_real(c->output_cap)},
        {"window", c->window != 0, json_integer(c->window)},
        {"window_period", c->window != 0, json_integer(c->window_period)},
        {"window_rope_base", c->window_rope_base != 0, json_real(c->window_rope_base)},
        {"learned", c->learned[0] != '\0', json_string(c->learned)},
        {"sinks", c->has_sinks, json_true()},
        {"query_betas", c->has_query_betas, json_true()},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].is_set)
            good = json_object_set_new(shape, members[i].name, members[i].value) == 0 && good;
        else
            json_decref(members[i].value);
    return good;
}

static bool unpack_variants(json_t *json, lm_config *c) {
    int biases = 0, head_norms = 0, post_norms = 0, window = 0, period = 0, sinks = 0, betas = 0;
    const char *learned = "";
    if (json_unpack(json, "{s?b, s?b, s?b, s?F, s?F, s?F, s?i, s?i, s?F, s?s, s?b, s?b}", "biases",
                    &biases, "head_norms", &head_norms, "post_norms", &post_norms,
                    "attention_scale", &c->attention_scale, "attention_cap", &c->attention_cap,
                    "output_cap", &c->output_cap, "window", &window, "window_period", &period,
                    "window_rope_base", &c->window_rope_base, "learned", &learned, "sinks", &sinks,
                    "query_betas", &betas) != 0 ||
        strlen(learned) >= sizeof c->learned)
        return false;
    snprintf(c->learned, sizeof c->learned, "%s", learned);
    c->has_sinks = sinks != 0;
    c->has_query_betas = betas != 0;
    c->has_biases = biases != 0;
    c->has_head_norms = head_norms != 0;
    c->has_post_norms = post_norms != 0;
    c->window = lab_small(window);
    c->window_period = lab_small(period);
    return true;
}

json_t *lm_config_to_json(const lm_config *config) {
    json_t *shape = json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:s, s:s, s:i, s:f, s:f, s:s, s:s}",
        "layers", (int)config->layers, "width", (int)config->width, "heads", (int)config->heads,
        "key_heads", (int)config->key_heads, "head_dim", (int)config->head_dim, "hidden",
        (int)config->hidden, "context", (int)config->context, "vocabulary", (int)config->vocabulary,
        "tied", (int)config->tied, "gate", lm_gate_names[config->gate], "positions",
        lm_positions_names[config->positions], "rope_dims", (int)config->rope_dims, "rope_base",
        config->rope_base, "norm_epsilon", config->norm_epsilon, "learn_policy",
        lm_learn_names[config->learn], "policy", config->policy);
    if (shape && !(lm_rope_to_json(&config->rope_scaling, shape) && put_variants(config, shape))) {
        json_decref(shape);
        return NULL;
    }
    return shape;
}

static bool unpack_sizes(json_t *json, lm_config *config) {
    int layers, width, heads, key_heads, head_dim, hidden, context, vocabulary, rope_dims;
    if (json_unpack(json, "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "layers", &layers,
                    "width", &width, "heads", &heads, "key_heads", &key_heads, "head_dim",
                    &head_dim, "hidden", &hidden, "context", &context, "vocabulary", &vocabulary,
                    "rope_dims", &rope_dims) != 0)
        return false;
    config->layers = lab_small(layers);
    config->width = lab_small(width);
    config->heads = lab_small(heads);
    config->key_heads = lab_small(key_heads);
    config->head_dim = lab_small(head_dim);
    config->hidden = lab_small(hidden);
    config->context = lab_small(context);
    config->vocabulary = lab_small(vocabulary);
    config->rope_dims = lab_small(rope_dims);
    return true;
}

static bool unpack_choices(json_t *json, lm_config *config) {
    const char *gate, *positions, *learn, *policy;
    int tied;
    if (json_unpack(json, "{s:b, s:s, s:s, s:F, s:F, s:s, s:s}", "tied", &tied, "gate", &gate,
                    "positions", &positions, "rope_base", &config->rope_base, "norm_epsilon",
                    &config->norm_epsilon, "learn_policy", &learn, "policy", &policy) != 0 ||
        strlen(policy) >= sizeof config->policy)
        return false;
    config->tied = tied != 0;
    snprintf(config->policy, sizeof config->policy, "%s", policy);
    return lm_gate_parse(gate, &config->gate) &&
           lm_positions_parse(positions, &config->positions) &&
           lm_learn_parse(learn, &config->learn);
}

bool lm_config_from_json(json_t *json, const char *path, lm_config *config, lab_error *error) {
    lab_error reason = {.kind = LAB_NO_ERROR};
    unsigned mark = lab_json_mark();
    *config = lm_config_default();
    bool is_unpacked = unpack_sizes(json, config) && unpack_choices(json, config) &&
                       unpack_variants(json, config) &&
                       lm_rope_from_json(json, &config->rope_scaling);
    if (lab_json_mark() != mark)
        return lab_fail_memory(error);
    if (!is_unpacked)
        return lab_fail(error, LAB_INPUT, "%s: damaged checkpoint: no description of the model",
                        path);
    return lm_config_check(config, &reason) ||
           lab_fail(error, LAB_INPUT, "%s: damaged checkpoint: %s", path, reason.text);
}
