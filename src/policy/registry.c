/*
 * The list of policies. A new policy is a descriptor in its own file and a line or two
 * here; everything that takes policies by name then offers it. Where one name is a
 * special case of another (adaptive of poly, sparsemax of entmax) it comes before it,
 * since a policy is printed by the first name that can express it.
 */
#include "policy/registry.h"
#include "base/last_error.h"

#include <string.h>

static const policy_entry *const entries[] = {
    &whet_entry_softmax,  &whet_entry_fixed,    &whet_entry_adaptive,  &whet_entry_adaptive_hold,
    &whet_entry_poly,     &whet_entry_exp,      &whet_entry_target,    &whet_entry_ssmax,
    &whet_entry_length,   &whet_entry_linear,   &whet_entry_hinge,     &whet_entry_llama4,
    &whet_entry_topk,     &whet_entry_hardmax,  &whet_entry_sparsemax, &whet_entry_entmax15,
    &whet_entry_entmax,   &whet_entry_softmax1, &whet_entry_sigmoid,   &whet_entry_stick_breaking,
    &whet_entry_softpick,
};

/* By kind; maps other than softmax count from FIRST_MAP. */
#define FIRST_MAP 64
static const temperature_descriptor *const temperatures[] = {
    &whet_temperature_plain,  &whet_temperature_fixed,  &whet_temperature_poly,
    &whet_temperature_exp,    &whet_temperature_target, &whet_temperature_ssmax,
    &whet_temperature_length, &whet_temperature_linear, &whet_temperature_custom,
    &whet_temperature_llama4, &whet_temperature_hinge,
};
static const map_descriptor *const maps[] = {
    &whet_map_topk,    &whet_map_hardmax,        &whet_map_entmax,   &whet_map_softmax1,
    &whet_map_sigmoid, &whet_map_stick_breaking, &whet_map_softpick,
};

const policy_parameter whet_policy_strength = {.name = "strength",
                                               .rule = "strength must be finite and >= 0",
                                               .offset = offsetof(whet_policy, strength),
                                               .gradient = offsetof(whet_policy_gradient, strength),
                                               .low = 0,
                                               .high = INFINITY,
                                               .flags = PARAMETER_HIGH_OPEN | PARAMETER_OPTION};

const policy_entry *whet_policy_entry_at(size_t i) {
    return i < COUNT_OF(entries) ? entries[i] : NULL;
}

const whet_policy_info *whet_policy_table(size_t i) {
    return i < COUNT_OF(entries) ? &entries[i]->info : NULL;
}

const temperature_descriptor *whet_temperature_of(const whet_policy *policy) {
    if (!policy)
        return &whet_temperature_plain;
    return policy->temperature < COUNT_OF(temperatures) ? temperatures[policy->temperature] : NULL;
}

const map_descriptor *whet_map_of(const whet_policy *policy) {
    if (!policy || policy->map == whet_map_softmax.kind)
        return &whet_map_softmax;
    bool exists = policy->map >= FIRST_MAP && policy->map - FIRST_MAP < COUNT_OF(maps);
    return exists ? maps[policy->map - FIRST_MAP] : NULL;
}

int whet_policy_is_temperature(const whet_policy *policy) {
    return whet_map_of(policy) == &whet_map_softmax;
}

double whet_parameter_get(const whet_policy *policy, const policy_parameter *parameter) {
    double value;
    memcpy(&value, (const char *)policy + parameter->offset, sizeof value);
    return value;
}

void whet_parameter_set(whet_policy *policy, const policy_parameter *parameter, double value) {
    memcpy((char *)policy + parameter->offset, &value, sizeof value);
}

whet_policy whet_policy_without_map(whet_policy policy) {
    return whet_policy_compose(policy, whet_policy_softmax());
}

whet_policy whet_policy_without_temperature(whet_policy policy) {
    return whet_policy_compose(whet_policy_softmax(), policy);
}

whet_policy whet_policy_compose(whet_policy temperature, whet_policy map) {
    whet_policy policy = temperature;
    policy.map = map.map;
    memcpy(policy.map_value, map.map_value, sizeof policy.map_value);
    return policy;
}

whet_policy whet_policy_with_strength(whet_policy policy, double strength) {
    policy.strength = strength;
    return policy;
}

/* ---- parameters ---- */

/* Keeps a parameter if there is space; counts it in any case. */
static void list_one(whet_parameter parameter, whet_parameter *list, size_t capacity,
                     size_t *count) {
    if (*count < capacity)
        list[*count] = parameter;
    ++*count;
}

static void list_coefficients(const whet_policy *policy, const policy_parameter *p,
                              whet_parameter *list, size_t capacity, size_t *count) {
    static const char *const names[] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"};
    for (unsigned i = 0; i <= policy->degree && i <= WHET_POLY_DEGREE_MAX; i++) {
        unsigned power = policy->degree - i;
        list_one((whet_parameter){names[power < COUNT_OF(names) ? power : 0],
                                  p->offset + i * sizeof(double), p->gradient + i * sizeof(double),
                                  power, (p->flags & PARAMETER_LEARNABLE) != 0},
                 list, capacity, count);
    }
}

static void list_all(const whet_policy *policy, const policy_parameter *parameters, size_t number,
                     whet_parameter *list, size_t capacity, size_t *count) {
    for (size_t i = 0; i < number; i++) {
        const policy_parameter *p = &parameters[i];
        if (p->flags & PARAMETER_LIST)
            list_coefficients(policy, p, list, capacity, count);
        else
            list_one((whet_parameter){p->name, p->offset, p->gradient, 0,
                                      (p->flags & PARAMETER_LEARNABLE) != 0},
                     list, capacity, count);
    }
}

size_t whet_policy_parameters(const whet_policy *policy, whet_parameter *parameters,
                              size_t capacity) {
    size_t count = 0;
    const temperature_descriptor *t = whet_temperature_of(policy);
    const map_descriptor *m = whet_map_of(policy);
    if (!policy || !t || !m) {
        whet_refuse(WHET_ERROR_POLICY, "%s",
                    !policy ? "policy is NULL"
                    : !t    ? "temperature is not a kind of policy"
                            : "map is not a kind of policy");
        return 0;
    }
    if (!parameters)
        capacity = 0;
    list_all(policy, t->parameters, t->parameter_count, parameters, capacity, &count);
    list_all(policy, &whet_policy_strength, 1, parameters, capacity, &count);
    list_all(policy, m->parameters, m->parameter_count, parameters, capacity, &count);
    return count;
}
