/* A settings file as the plug-in reads it, for a model whose layers and heads are known. */
#include "lm/policy_file.h"

#include "base/files.h"
#include "llama/policy_config.h"

#include <stdio.h>
#include <stdlib.h>

/* Layers, or heads of a layer. */
typedef struct places {
    const char *key, *noun;
    size_t count;
} places;

/* Whether the model has all places of a rule. */
static bool are_there(const char *path, size_t rule, const index_set *set, places there,
                      lab_error *error) {
    for (size_t i = 0; i < set->count; i++) {
        unsigned first = set->ranges[i].first, last = set->ranges[i].last;
        char missing[32];
        if (last < there.count)
            continue;
        first = first < there.count ? (unsigned)there.count : first;
        snprintf(missing, sizeof missing, first < last ? "s %u-%u" : " %u", first, last);
        return lab_fail(error, LAB_INPUT,
                        "%s: \"%s\" of rule %zu: the model has no %s%s, only 0 to %zu", path,
                        there.key, rule + 1, there.noun, missing, there.count - 1);
    }
    return true;
}

static bool read_config(const char *path, policy_config *config, lab_error *error) {
    size_t size;
    message why = {""};
    char *text = lab_read_file(path, CONFIG_BYTES_MAX, &size, error);
    if (!text)
        return false;
    bool good = policy_config_parse(config, text, size, &why) ||
                lab_fail(error, LAB_INPUT, "%s:%s", path, why.text);
    free(text);
    return good;
}

bool lm_policy_file_read(const char *path, size_t layers, size_t heads, whet_policy *policies,
                         lab_error *error) {
    policy_config config = policy_config_start();
    bool good = read_config(path, &config, error);
    for (size_t i = 0; good && i < config.rule_count; i++)
        good = are_there(path, i, &config.rules[i].layers, (places){"layers", "layer", layers},
                         error) &&
               are_there(path, i, &config.rules[i].heads, (places){"heads", "head", heads}, error);
    for (size_t i = 0; good && i < layers * heads; i++)
        policies[i] = *policy_config_find(&config, (unsigned)(i / heads), (unsigned)(i % heads));
    policy_config_free(&config);
    return good;
}
