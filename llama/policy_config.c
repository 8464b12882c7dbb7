/*
 * Policies by layer and head; see policy_config.h. policy_config_parse.c reads the file.
 */
#define _GNU_SOURCE /* for uselocale */
#include "llama/policy_config.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

policy_config policy_config_start(void) { return (policy_config){.policy = whet_policy_softmax()}; }

void policy_config_free(policy_config *config) {
    for (size_t i = 0; i < config->rule_count; i++) {
        free(config->rules[i].layers.ranges);
        free(config->rules[i].heads.ranges);
    }
    free(config->rules);
    *config = policy_config_start();
}

const whet_policy *policy_config_find(const policy_config *config, unsigned layer, unsigned head) {
    for (size_t i = config->rule_count; i > 0; i--) {
        const policy_rule *rule = &config->rules[i - 1];
        if (index_set_has(&rule->layers, layer) && index_set_has(&rule->heads, head))
            return &rule->policy;
    }
    return &config->policy;
}

bool policy_config_make(const char *name, whet_policy *policy, message *why) {
    return whet_policy_parse(name, policy, why->text, sizeof why->text) == WHET_OK;
}

bool policy_config_has_plain_temperature(const whet_policy *policy) {
    char name[16];
    whet_policy temperature = whet_policy_compose(*policy, whet_policy_softmax());
    temperature = whet_policy_with_strength(temperature, 1);
    whet_policy_name(&temperature, name, sizeof name);
    return strcmp(name, "softmax") == 0;
}

bool policy_config_set_strength(whet_policy *policy, double strength, message *why) {
    if (!(strength >= 0 && strength <= 1))
        return message_set(why, "out of range (0 to 1)");
    if (!whet_policy_is_temperature(policy) && policy_config_has_plain_temperature(policy))
        return message_set(why, "strength does not apply to a map without a temperature");
    if (policy->strength != 1)
        return message_set(why, "the policy already has a strength");
    *policy = whet_policy_with_strength(*policy, strength);
    return true;
}

bool policy_config_number(const char *text, double *number) {
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain)
        return false;
    locale_t before = uselocale(plain);
    char *end = NULL;
    *number = strtod(text, &end);
    uselocale(before);
    freelocale(plain);
    return isdigit((unsigned char)text[*text == '.']) && !strpbrk(text, "xX") && *end == 0 &&
           isfinite(*number);
}
