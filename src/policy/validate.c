/* Checks every number of a policy against the limits of its descriptors. */
#include "policy/validate.h"
#include "base/last_error.h"
#include "policy/number.h"
#include "policy/registry.h"

#include <stdarg.h>
#include <stdio.h>

whet_status whet_policy_refuse(char *message, size_t message_size, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    whet_refuse_list(format, arguments);
    if (message && message_size > 0)
        vsnprintf(message, message_size, format, again);
    va_end(again);
    va_end(arguments);
    return WHET_ERROR_POLICY;
}

/* The first rule that a policy breaks, and the number that breaks it. */
typedef struct violation {
    const char *rule; /* NULL: none */
    double number;
} violation;

static bool is_within(const policy_parameter *p, double x) {
    if (isnan(x))
        return p->flags & PARAMETER_NAN;
    bool above = p->flags & PARAMETER_LOW_OPEN ? x > p->low : x >= p->low;
    bool below = p->flags & PARAMETER_HIGH_OPEN ? x < p->high : x <= p->high;
    return above && below && (!(p->flags & PARAMETER_WHOLE) || floor(x) == x);
}

static violation check_list(const whet_policy *policy, const policy_parameter *p) {
    if (policy->degree > WHET_POLY_DEGREE_MAX)
        return (violation){"poly needs a degree of at most 8", policy->degree};
    for (unsigned i = 0; i <= policy->degree; i++)
        if (!is_within(p, policy->value[i]))
            return (violation){p->rule, policy->value[i]};
    return (violation){NULL, 0};
}

static violation check_parameters(const whet_policy *policy, const policy_parameter *parameters,
                                  size_t count) {
    violation found = {NULL, 0};
    for (size_t i = 0; i < count && !found.rule; i++) {
        const policy_parameter *p = &parameters[i];
        double x = whet_parameter_get(policy, p);
        if (p->flags & PARAMETER_LIST)
            found = check_list(policy, p);
        else if (!is_within(p, x))
            found = (violation){p->rule, x};
    }
    return found;
}

static bool bytes_are_zero(const unsigned char *bytes, size_t count) {
    unsigned char any = 0;
    for (size_t i = 0; i < count; i++)
        any |= bytes[i];
    return any == 0;
}

static bool has_parameter_at(const temperature_descriptor *t, size_t offset) {
    bool found = false;
    for (size_t i = 0; i < t->parameter_count; i++)
        found = found || t->parameters[i].offset == offset;
    return found;
}

/* The first member that is set and that the policy does not have; NULL if there is none. Limits
 * that the temperature does not have are none, which an all-zero struct does not say. */
static const char *find_stray(const whet_policy *policy, const temperature_descriptor *t) {
    if (policy->reserved)
        return "reserved";
    if (!bytes_are_zero(policy->reserved_bytes, sizeof policy->reserved_bytes))
        return "reserved_bytes";
    if (policy->threshold != -INFINITY && !has_parameter_at(t, offsetof(whet_policy, threshold)))
        return "threshold";
    if (policy->floor != -INFINITY && !has_parameter_at(t, offsetof(whet_policy, floor)))
        return "floor";
    if (policy->hold != INFINITY && !has_parameter_at(t, offsetof(whet_policy, hold)))
        return "hold";
    return NULL;
}

whet_status whet_policy_check(const whet_policy *policy, char *message, size_t message_size) {
    if (!policy)
        return whet_policy_refuse(message, message_size, "policy is NULL");
    const temperature_descriptor *t = whet_temperature_of(policy);
    const map_descriptor *m = whet_map_of(policy);
    if (!t || !m)
        return whet_policy_refuse(message, message_size, "%s %lu is not a kind of policy",
                                  t ? "map" : "temperature",
                                  (unsigned long)(t ? policy->map : policy->temperature));
    if (bytes_are_zero((const unsigned char *)policy, sizeof *policy))
        return whet_policy_refuse(message, message_size,
                                  "policy is zero-initialised; create it with a whet_policy_... "
                                  "function");
    const char *stray = find_stray(policy, t);
    if (stray)
        return whet_policy_refuse(message, message_size,
                                  "%s is set, which this policy does not have; create policies "
                                  "with the whet_policy_... functions",
                                  stray);
    if ((t->needs & NEEDS_STATS) && !policy->function)
        return whet_policy_refuse(message, message_size,
                                  "function is NULL, which a custom policy needs");
    violation found = check_parameters(policy, t->parameters, t->parameter_count);
    if (!found.rule)
        found = check_parameters(policy, m->parameters, m->parameter_count);
    if (!found.rule)
        found = check_parameters(policy, &whet_policy_strength, 1);
    if (found.rule) {
        char number[POLICY_NUMBER_SIZE];
        whet_policy_number_print(found.number, number);
        return whet_policy_refuse(message, message_size, "%s, not %s", found.rule, number);
    }
    if ((t->needs & NEEDS_SEARCH) && !(m->traits & MAP_SUMS_TO_ONE))
        return whet_policy_refuse(message, message_size,
                                  "target needs a map whose coefficients sum to one: the result "
                                  "of this one has no entropy");
    if (message && message_size > 0)
        message[0] = '\0';
    return WHET_OK;
}
