/* Rows and numbers of evaluations; see results.h. */
#include "report/results.h"
#include <math.h>
#include <string.h>

static void note_size(results_axes *axes, double n) {
    for (size_t i = 0; i < axes->size_count; i++)
        if (axes->sizes[i] == n)
            return;
    if (axes->size_count < RESULTS_SIZES_MAX)
        axes->sizes[axes->size_count++] = n;
}

static void note_policy(results_axes *axes, const char *policy) {
    for (size_t i = 0; i < axes->policy_count; i++)
        if (strcmp(axes->policies[i], policy) == 0)
            return;
    if (axes->policy_count < RESULTS_POLICIES_MAX)
        axes->policies[axes->policy_count++] = policy;
}

results_axes results_axes_of(const json_t *evaluation) {
    results_axes axes = {.size_count = 0};
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(evaluation, "rows"), i, row) {
        const char *policy = json_string_value(json_object_get(row, "policy"));
        if (!policy)
            continue;
        note_size(&axes, json_number_value(json_object_get(row, "n")));
        note_policy(&axes, policy);
    }
    return axes;
}

const json_t *results_row(const json_t *evaluation, const char *policy, double n) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(evaluation, "rows"), i, row) {
        const char *name = json_string_value(json_object_get(row, "policy"));
        if (name && strcmp(name, policy) == 0 && json_number_value(json_object_get(row, "n")) == n)
            return row;
    }
    return NULL;
}

double results_value(const json_t *row, const char *measure, const char *part) {
    const json_t *number = json_object_get(json_object_get(row, measure), part);
    return json_is_number(number) ? json_number_value(number) : (double)NAN;
}
