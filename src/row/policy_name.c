/*
 * Names of policies. A policy is written by the first entry of the table that
 * can express it, with only those parameters that differ from the entry's
 * defaults, so that the name reads back as the same policy.
 */
#include "row/policy_table.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Like snprintf, a piece at a time: counts everything, keeps what fits. */
typedef struct name_writer {
    char *text;
    size_t size;
    size_t length;
} name_writer;

static void write_text(name_writer *writer, const char *text) {
    for (; *text; text++, writer->length++) {
        if (writer->length + 1 < writer->size) {
            writer->text[writer->length] = *text;
        }
    }
}

/* No limit at all has no name; the lowest number there is amounts to the same. */
static void write_number(name_writer *writer, double value) {
    char number[POLICY_NUMBER_SIZE];
    whet_policy_number_print(value == -INFINITY ? -DBL_MAX : value, number);
    write_text(writer, number);
}

static bool same_number(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* Whether the entry can express the policy: all that it cannot set must be at its default. */
static bool entry_expresses(const policy_entry *entry, const whet_policy *policy) {
    whet_policy reach = entry->preset();
    unsigned settable = entry->accepted;
    if (entry->is_list) {
        settable = WHET_POLY_DEGREE_MAX + 1;
        reach.degree = policy->degree;
    }
    memcpy(reach.value, policy->value, settable * sizeof(double));
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        if (entry->options & OPTION_BIT(i)) {
            whet_policy_option_set(&reach, i, whet_policy_option_get(policy, i));
        }
    }
    bool same = reach.kind == policy->kind && reach.degree == policy->degree &&
                same_number(reach.strength, policy->strength) &&
                same_number(reach.threshold, policy->threshold) &&
                same_number(reach.floor, policy->floor) && same_number(reach.hold, policy->hold);
    for (unsigned i = 0; i <= WHET_POLY_DEGREE_MAX; i++) {
        same = same && same_number(reach.value[i], policy->value[i]);
    }
    return same;
}

/* How many numbers to write: optional ones at the end are left out where they are the default. */
static unsigned numbers_to_write(const policy_entry *entry, const whet_policy *policy) {
    if (entry->is_list) {
        return policy->degree + 1;
    }
    whet_policy preset = entry->preset();
    unsigned count = entry->accepted;
    while (count > entry->needed &&
           same_number(policy->value[count - 1], preset.value[count - 1])) {
        count--;
    }
    return count;
}

static void write_numbers(name_writer *writer, const policy_entry *entry,
                          const whet_policy *policy) {
    unsigned count = numbers_to_write(entry, policy);
    for (unsigned i = 0; i < count && i <= WHET_POLY_DEGREE_MAX; i++) {
        write_text(writer, entry->is_list && i > 0 ? "/" : ":");
        write_number(writer, policy->value[i]);
    }
}

static void write_options(name_writer *writer, const policy_entry *entry,
                          const whet_policy *policy) {
    whet_policy preset = entry->preset();
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        double value = whet_policy_option_get(policy, i);
        if ((entry->options & OPTION_BIT(i)) &&
            !same_number(value, whet_policy_option_get(&preset, i))) {
            write_text(writer, ":");
            write_text(writer, whet_policy_option_names[i]);
            write_text(writer, "=");
            write_number(writer, value);
        }
    }
}

static const policy_entry *entry_of(const whet_policy *policy) {
    for (size_t i = 0; whet_policy_entry_at(i); i++) {
        if (entry_expresses(whet_policy_entry_at(i), policy)) {
            return whet_policy_entry_at(i);
        }
    }
    return NULL;
}

size_t whet_policy_name(const whet_policy *policy, char *name, size_t name_size) {
    name_writer writer = {.size = name ? name_size : 0};
    writer.text = name;
    const policy_entry *entry = policy ? entry_of(policy) : NULL;
    if (entry) {
        write_text(&writer, entry->name);
        write_numbers(&writer, entry, policy);
        write_options(&writer, entry, policy);
    } else if (!policy) {
        write_text(&writer, "softmax");
    } else {
        write_text(&writer, policy->kind == WHET_POLICY_CUSTOM ? "custom" : "invalid");
    }
    if (writer.size > 0) {
        size_t last = writer.size - 1;
        writer.text[writer.length < last ? writer.length : last] = '\0';
    }
    return writer.length;
}
