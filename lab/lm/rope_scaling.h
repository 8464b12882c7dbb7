/* RoPE scalings of models by name, and in JSON. */
#ifndef WHET_LAB_LM_ROPE_SCALING_H
#define WHET_LAB_LM_ROPE_SCALING_H

#include "lm/config.h"

/*
 * Stretches a model's positions: "linear:2", "ntk:2" (a larger base, as NTK-aware scaling has it),
 * "yarn:4", or "none" for positions as trained. Replaces a scaling that the model has; the context
 * becomes the factor times the one it was trained on. The error is about the option --rope.
 */
bool lm_rope_scale(lm_config *config, const char *text, lab_error *error);

/* The context that a model was trained on, before its scaling. */
double lm_trained_context(const lm_config *config);

/* Whether a config's scaling makes sense. */
bool lm_rope_check(const lm_config *config, lab_error *error);

/* "linear" or "yarn", as in GGUF; false for another name. */
const char *lm_rope_kind_name(nn_rope_kind kind);
bool lm_rope_kind_parse(const char *name, nn_rope_kind *kind);

/* The member "rope_scaling" of a shape, which only a scaled model has. */
bool lm_rope_to_json(const nn_rope_scaling *scaling, json_t *shape);
bool lm_rope_from_json(json_t *shape, nn_rope_scaling *scaling);

#endif
