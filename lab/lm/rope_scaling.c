/* RoPE scalings by name; see rope_scaling.h. */
#include "lm/rope_scaling.h"

#include "base/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FACTOR_MAX 1024

static const char *const kind_names[] = {"none", "linear", "yarn", NULL};

const char *lm_rope_kind_name(nn_rope_kind kind) { return kind_names[kind]; }

bool lm_rope_kind_parse(const char *name, nn_rope_kind *kind) {
    size_t found;
    bool is_known = lab_find_name(kind_names, name, &found);
    if (is_known)
        *kind = (nn_rope_kind)found;
    return is_known;
}

bool lm_rope_check(const lm_config *config, lab_error *error) {
    const nn_rope_scaling *s = &config->rope_scaling;
    if (s->kind == NN_ROPE_PLAIN)
        return true;
    if (!lab_in_range("rope", s->factor, 1.0 / FACTOR_MAX, FACTOR_MAX, error) ||
        !lab_in_range("rope: the context before scaling", s->original, 1, LM_CONTEXT_MAX, error) ||
        !lab_in_range("rope: the attention factor", s->attention, 1e-3, 1e3, error))
        return false;
    bool is_ramp = s->slow > 0 && s->slow < s->fast && s->fast <= 1e6 && config->rope_base > 1;
    return s->kind != NN_ROPE_YARN || is_ramp ||
           lab_fail(error, LAB_INPUT, "--rope: YaRN needs 0 < slow < fast and a base above 1");
}

/* The number after "name:"; false for anything else. */
static bool take_factor(const char *text, const char *name, double *factor) {
    size_t length = strlen(name);
    char *end;
    if (strncmp(text, name, length) != 0 || text[length] != ':')
        return false;
    const char *number = text + length + 1;
    if (number[0] < '0' || number[0] > '9' || number[1] == 'x' || number[1] == 'X')
        return false;
    *factor = strtod(number, &end);
    return *end == '\0' && *factor >= 1 && *factor <= FACTOR_MAX;
}

static double ntk_base(const lm_config *config, double factor) {
    double dims = config->rope_dims;
    return config->rope_base * pow(factor, dims / (dims - 2));
}

double lm_trained_context(const lm_config *config) {
    const nn_rope_scaling *scaling = &config->rope_scaling;
    return scaling->kind == NN_ROPE_PLAIN ? config->context : scaling->original;
}

bool lm_rope_scale(lm_config *config, const char *text, lab_error *error) {
    double original = lm_trained_context(config), factor = 1;
    nn_rope_scaling scaling = {.kind = NN_ROPE_PLAIN};
    if (config->positions != LM_ROPE || config->rope_dims <= 2)
        return lab_fail(error, LAB_INPUT, "--rope: the model has no rotary positions to scale");
    if (take_factor(text, "linear", &factor))
        scaling = nn_rope_scaling_of(NN_ROPE_LINEAR, factor, original);
    else if (take_factor(text, "yarn", &factor))
        scaling = nn_rope_scaling_of(NN_ROPE_YARN, factor, original);
    else if (take_factor(text, "ntk", &factor))
        config->rope_base = ntk_base(config, factor);
    else if (strcmp(text, "none") != 0)
        return lab_fail(error, LAB_INPUT,
                        "--rope: '%.40s' is not one of none, linear:F, ntk:F or yarn:F with F "
                        "from 1 to %d",
                        text, FACTOR_MAX);
    config->rope_scaling = scaling;
    config->context = (uint32_t)fmin(LM_CONTEXT_MAX, floor(original * factor));
    return lm_rope_check(config, error);
}

bool lm_rope_to_json(const nn_rope_scaling *s, json_t *shape) {
    return s->kind == NN_ROPE_PLAIN ||
           json_object_set_new(shape, "rope_scaling",
                               json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "kind",
                                         kind_names[s->kind], "factor", s->factor, "original",
                                         s->original, "attention", s->attention, "fast", s->fast,
                                         "slow", s->slow)) == 0;
}

bool lm_rope_from_json(json_t *shape, nn_rope_scaling *s) {
    const char *kind;
    json_t *member = json_object_get(shape, "rope_scaling");
    *s = (nn_rope_scaling){.kind = NN_ROPE_PLAIN};
    return !member || (json_unpack(member, "{s:s, s:F, s:F, s:F, s:F, s:F}", "kind", &kind,
                                   "factor", &s->factor, "original", &s->original, "attention",
                                   &s->attention, "fast", &s->fast, "slow", &s->slow) == 0 &&
                       lm_rope_kind_parse(kind, &s->kind));
}
