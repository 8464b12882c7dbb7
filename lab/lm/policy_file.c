/* Rules in order: the last one that names a head decides. */
#include "lm/policy_file.h"

#include "base/json.h"
#include "base/number_range.h"

#include <string.h>

typedef struct file_reader {
    const char *path;
    size_t layers, heads;
    whet_policy *policies;
    lab_error *error;
} file_reader;

static bool refuse(const file_reader *r, const char *what, const char *value) {
    return lab_fail(r->error, LAB_INPUT, "%s: %s: '%s'", r->path, what, value);
}

/* Members must be known and of their type. */
static bool has_known_members(const file_reader *r, json_t *object, const char *const *known) {
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return lab_fail(r->error, LAB_INPUT, "%s: not an object with a policy or rules", r->path);
    json_object_foreach(object, key, value) {
        bool is_known = strcmp(key, "about") == 0;
        for (size_t i = 0; known[i]; i++)
            is_known = is_known || strcmp(known[i], key) == 0;
        if (!is_known)
            return refuse(r, "unknown member", key);
        bool is_text = strcmp(key, "about") == 0 || strcmp(key, "rules") == 0 ||
                       strcmp(key, "strength") == 0 || json_is_string(value);
        if (!is_text)
            return refuse(r, "not a string", key);
    }
    return true;
}

/* The policy of an object with its strength; softmax where it names none. */
static bool policy_of(const file_reader *r, const json_t *object, whet_policy *policy) {
    const char *name = json_string_value(json_object_get(object, "policy"));
    const json_t *strength = json_object_get(object, "strength");
    char reason[200] = "";
    if (whet_policy_parse(name ? name : "softmax", policy, reason, sizeof reason) != WHET_OK)
        return refuse(r, "policy", reason);
    if (!strength)
        return true;
    double value = json_number_value(strength);
    if (!json_is_number(strength) || !(value >= 0 && value <= 1))
        return lab_fail(r->error, LAB_INPUT, "%s: a strength is a number from 0 to 1", r->path);
    policy->strength = value;
    return true;
}

/* Whether a list such as "0-3,7" has a number; false and an error if it is none or goes beyond the
 * model. Without a list every number is in it. */
static bool list_has(const file_reader *r, const char *list, size_t count, size_t number,
                     bool *is_in) {
    number_range range;
    const char *at = list;
    *is_in = !list;
    while (at && (at == list || *at)) {
        if (!take_number_range(&at, "-", UINT16_MAX, &range))
            return refuse(r, "not a list such as 0-3,7", list);
        if (range.last >= count)
            return refuse(r, "the model has no such layer or head", list);
        *is_in = *is_in || (number >= range.first && number <= range.last);
    }
    return true;
}

static bool apply(const file_reader *r, json_t *rule) {
    static const char *const known[] = {"layers", "heads", "policy", "strength", NULL};
    whet_policy policy;
    bool in_layers, in_heads;
    if (!has_known_members(r, rule, known) || !policy_of(r, rule, &policy))
        return false;
    const char *layers = json_string_value(json_object_get(rule, "layers"));
    const char *heads = json_string_value(json_object_get(rule, "heads"));
    for (size_t i = 0; i < r->layers * r->heads; i++) {
        if (!list_has(r, layers, r->layers, i / r->heads, &in_layers) ||
            !list_has(r, heads, r->heads, i % r->heads, &in_heads))
            return false;
        if (in_layers && in_heads)
            r->policies[i] = policy;
    }
    return true;
}

static bool read_rules(const file_reader *r, json_t *file) {
    static const char *const known[] = {"policy", "strength", "rules", NULL};
    whet_policy policy;
    size_t i;
    json_t *rule;
    if (!has_known_members(r, file, known) || !policy_of(r, file, &policy))
        return false;
    for (size_t head = 0; head < r->layers * r->heads; head++)
        r->policies[head] = policy;
    json_t *rules = json_object_get(file, "rules");
    if (rules && !json_is_array(rules))
        return lab_fail(r->error, LAB_INPUT, "%s: \"rules\" is not a list", r->path);
    json_array_foreach(rules, i, rule) if (!apply(r, rule)) return false;
    return true;
}

bool lm_policy_file_read(const char *path, size_t layers, size_t heads, whet_policy *policies,
                         lab_error *error) {
    const file_reader r = {path, layers, heads, policies, error};
    json_t *file = lab_json_read(path, error);
    bool good = file && read_rules(&r, file);
    json_decref(file);
    return good;
}
