/* Models as checkpoints. */
#include "lm/model.h"

#include "nn/checkpoint.h"
#include "nn/layers.h"

#include <stdlib.h>
#include <string.h>

bool lm_model_create(const lm_config *config, lm_model *model, lab_error *error) {
    *model = (lm_model){.config = *config};
    if (!lm_layout_of(config, &model->layout) || model->layout.count > SIZE_MAX / 8)
        return lab_fail(error, LAB_INPUT, "the model is too large for memory");
    model->weights = nn_floats(model->layout.count);
    if (!model->weights)
        return lab_fail_memory(error);
    return true;
}

/* Weights alone, or with the two moments of training. */
static bool count_fits(const nn_checkpoint *read, const lm_layout *layout) {
    size_t copies = json_object_get(read->description, "training") ? 3 : 1;
    return layout->count <= SIZE_MAX / copies && read->count == copies * layout->count;
}

static bool take(const char *path, const nn_checkpoint *read, lm_model *model, lab_error *error) {
    const char *name = json_string_value(json_object_get(read->description, "model"));
    lm_config config;
    lm_layout layout;
    if (!name || strcmp(name, LM_MODEL_NAME) != 0)
        return lab_fail(error, LAB_INPUT, "%s: not a language model checkpoint", path);
    if (!lm_config_from_json(json_object_get(read->description, "shape"), path, &config, error))
        return false;
    if (!lm_layout_of(&config, &layout) || !count_fits(read, &layout))
        return lab_fail(error, LAB_INPUT,
                        "%s: damaged checkpoint: number of weights does not match its model", path);
    if (!lm_model_create(&config, model, error))
        return false;
    memcpy(model->weights, read->values, layout.count * sizeof(float));
    model->step = read->step;
    model->description = json_incref(read->description);
    return true;
}

bool lm_model_load(const char *path, lm_model *model, lab_error *error) {
    nn_checkpoint read;
    *model = (lm_model){.weights = NULL};
    if (!nn_checkpoint_read(path, &read, error))
        return false;
    bool is_taken = take(path, &read, model, error);
    nn_checkpoint_free(&read);
    if (!is_taken)
        lm_model_free(model);
    return is_taken;
}

bool lm_model_save(const char *path, const lm_model *model, json_t *tokens, lab_error *error) {
    json_t *description = json_pack("{s:s, s:o, s:o}", "model", LM_MODEL_NAME, "tokens", tokens,
                                    "shape", lm_config_to_json(&model->config));
    const nn_span span = {model->weights, model->layout.count};
    bool is_saved = nn_checkpoint_write(path, description, model->step, &span, 1, error);
    json_decref(description);
    return is_saved;
}

void lm_model_free(lm_model *model) {
    free(model->weights);
    json_decref(model->description);
    *model = (lm_model){.weights = NULL};
}
