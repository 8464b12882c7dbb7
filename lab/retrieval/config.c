/* Choices of a run: defaults, limits, and their form in checkpoints. */
#include "retrieval/config.h"

#include "base/choices.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char model_name[] = "max-retrieval";
const char *const retrieval_l2_names[] = {"decoupled", "loss", "loss-half", "none", NULL};
const char *const retrieval_precision_names[] = {"f32", "bf16", "bf16-products", NULL};

retrieval_config retrieval_config_default(void) {
    return (retrieval_config){.depth = 1,
                              .width = 128,
                              .classes = 10,
                              .key_sees_class = true,
                              .learn_scale = false,
                              .scale = 1,
                              .size_min = 5,
                              .size_max = 16,
                              .batch = 128,
                              .steps = 100000,
                              .rate = 1e-3,
                              .rate_end = 1e-3,
                              .l2 = RETRIEVAL_L2_DECOUPLED,
                              .lambda = 1e-3,
                              .precision = RETRIEVAL_BF16_PRODUCTS,
                              .policy = "softmax",
                              .nearest = 1,
                              .leak = 0};
}

static bool policy_is_good(const char *name, lab_error *error) {
    whet_policy policy;
    char reason[256] = "";
    if (whet_policy_parse(name, &policy, reason, sizeof reason) == WHET_OK)
        return true;
    return lab_fail(error, LAB_INPUT, "--policy '%s': %s", name, reason);
}

/* The penalty depends on small differences between classes, which rounded products do not
 * resolve. */
static bool penalty_is_possible(const retrieval_config *config, lab_error *error) {
    return config->leak == 0 || config->precision != RETRIEVAL_BF16_PRODUCTS ||
           lab_fail(error, LAB_INPUT, "--leak needs --rounding f32 or bf16");
}

bool retrieval_config_check(const retrieval_config *config, lab_error *error) {
    if (config->size_min > config->size_max)
        return lab_fail(error, LAB_INPUT, "--sizes: %u is larger than %u", config->size_min,
                        config->size_max);
    return lab_in_range("depth", config->depth, 1, RETRIEVAL_DEPTH_MAX, error) &&
           lab_in_range("width", config->width, 1, RETRIEVAL_WIDTH_MAX, error) &&
           lab_in_range("classes", config->classes, 2, RETRIEVAL_CLASSES_MAX, error) &&
           lab_in_range("sizes", config->size_min, 1, RETRIEVAL_SIZE_MAX, error) &&
           lab_in_range("sizes", config->size_max, 1, RETRIEVAL_SIZE_MAX, error) &&
           lab_in_range("batch", config->batch, 1, RETRIEVAL_BATCH_MAX, error) &&
           lab_in_range("steps", (double)config->steps, 0, LAB_STEPS_MAX, error) &&
           lab_in_range("rate", config->rate, 0, 10, error) &&
           lab_in_range("rate-end", config->rate_end, 0, 10, error) &&
           lab_in_range("scale", config->scale, -1e6, 1e6, error) &&
           lab_in_range("lambda", config->lambda, 0, 1e3, error) &&
           lab_in_range("nearest", config->nearest, 1e-7, 1, error) &&
           lab_in_range("leak", config->leak, 0, 1e6, error) &&
           penalty_is_possible(config, error) && policy_is_good(config->policy, error);
}

const char *retrieval_precision_name(retrieval_precision precision) {
    return retrieval_precision_names[precision];
}

bool retrieval_l2_parse(const char *name, retrieval_l2 *l2) {
    size_t found;
    if (!lab_find_name(retrieval_l2_names, name, &found))
        return false;
    *l2 = (retrieval_l2)found;
    return true;
}

bool retrieval_precision_parse(const char *name, retrieval_precision *precision) {
    size_t found;
    if (!lab_find_name(retrieval_precision_names, name, &found))
        return false;
    *precision = (retrieval_precision)found;
    return true;
}

json_t *retrieval_config_to_json(const retrieval_config *config, uint64_t seed) {
    return json_pack(
        "{s:s, s:I, s:i, s:i, s:i, s:b, s:b, s:f, s:[i,i], s:i, s:I, s:f, s:f, s:s, s:f, s:s, "
        "s:s, s:f, s:f}",
        "model", model_name, "seed", (json_int_t)seed, "depth", (int)config->depth, "width",
        (int)config->width, "classes", (int)config->classes, "key_sees_class",
        (int)config->key_sees_class, "learn_scale", (int)config->learn_scale, "scale",
        config->scale, "sizes", (int)config->size_min, (int)config->size_max, "batch",
        (int)config->batch, "steps", (json_int_t)config->steps, "rate", config->rate, "rate_end",
        config->rate_end, "l2", retrieval_l2_names[config->l2], "lambda", config->lambda,
        "precision", retrieval_precision_name(config->precision), "policy", config->policy,
        "nearest", config->nearest, "leak", config->leak);
}

static bool unpack(json_t *json, retrieval_config *config, uint64_t *seed) {
    const char *model, *l2, *precision, *policy;
    int depth, width, classes, key_sees_class, learn_scale, size_min, size_max, batch;
    json_int_t steps, own_seed;
    if (json_unpack(json,
                    "{s:s, s:I, s:i, s:i, s:i, s:b, s:b, s:F, s:[i,i], s:i, s:I, s:F, s:F, s:s, "
                    "s:F, s:s, s:s, s:F, s:F}",
                    "model", &model, "seed", &own_seed, "depth", &depth, "width", &width, "classes",
                    &classes, "key_sees_class", &key_sees_class, "learn_scale", &learn_scale,
                    "scale", &config->scale, "sizes", &size_min, &size_max, "batch", &batch,
                    "steps", &steps, "rate", &config->rate, "rate_end", &config->rate_end, "l2",
                    &l2, "lambda", &config->lambda, "precision", &precision, "policy", &policy,
                    "nearest", &config->nearest, "leak", &config->leak) != 0 ||
        strcmp(model, model_name) != 0 || !retrieval_l2_parse(l2, &config->l2) ||
        !retrieval_precision_parse(precision, &config->precision) ||
        strlen(policy) >= sizeof config->policy || steps < 0)
        return false;
    config->depth = lab_small(depth);
    config->width = lab_small(width);
    config->classes = lab_small(classes);
    config->key_sees_class = key_sees_class != 0;
    config->learn_scale = learn_scale != 0;
    config->size_min = lab_small(size_min);
    config->size_max = lab_small(size_max);
    config->batch = lab_small(batch);
    config->steps = (uint64_t)steps;
    *seed = (uint64_t)own_seed;
    snprintf(config->policy, sizeof config->policy, "%s", policy);
    return true;
}

bool retrieval_config_from_json(json_t *json, const char *path, retrieval_config *config,
                                uint64_t *seed, lab_error *error) {
    lab_error reason = {.kind = LAB_NO_ERROR};
    unsigned mark = lab_json_mark();
    *config = retrieval_config_default();
    bool is_unpacked = unpack(json, config, seed);
    if (lab_json_mark() != mark)
        return lab_fail_memory(error);
    if (!is_unpacked)
        return lab_fail(error, LAB_INPUT, "%s: not a checkpoint of a max-retrieval head", path);
    return retrieval_config_check(config, &reason) ||
           lab_fail(error, LAB_INPUT, "%s: damaged checkpoint: %s", path, reason.text);
}
