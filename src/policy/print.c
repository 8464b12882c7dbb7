/*
 * Names of policies. A part of a policy is written by the first name of the
 * table that can express it, with only those parameters that differ from the
 * defaults, so that the name reads back as the same policy. A policy with both a
 * temperature and a map is written TEMPERATURE+MAP.
 */
#include "policy/number.h"
#include "policy/registry.h"

#include <float.h>
#include <string.h>

/* Like snprintf, a piece at a time: counts everything, keeps what fits. */
typedef struct name_writer {
    char *text;
    size_t size;
    size_t length;
} name_writer;

static void write_text(name_writer *writer, const char *text) {
    for (; *text; text++, writer->length++)
        if (writer->length + 1 < writer->size)
            writer->text[writer->length] = *text;
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

/* What a name can set: the parameters of its part unless it is an alias, and strength. */
typedef struct settable {
    const policy_parameter *of[POLICY_PARAMETERS_MAX + 1];
    size_t count;
} settable;

static settable settable_by(const policy_entry *entry) {
    settable result = {.count = 0};
    const policy_parameter *own =
        entry->temperature ? entry->temperature->parameters : entry->map->parameters;
    size_t count =
        entry->temperature ? entry->temperature->parameter_count : entry->map->parameter_count;
    for (size_t i = 0; !entry->is_alias && i < count; i++)
        result.of[result.count++] = &own[i];
    if (entry->temperature)
        result.of[result.count++] = &whet_policy_strength;
    return result;
}

static bool same_policy(const whet_policy *a, const whet_policy *b) {
    bool same = a->temperature == b->temperature && a->map == b->map && a->degree == b->degree &&
                same_number(a->strength, b->strength) && same_number(a->threshold, b->threshold) &&
                same_number(a->floor, b->floor) && same_number(a->hold, b->hold);
    for (unsigned i = 0; i <= WHET_POLY_DEGREE_MAX; i++)
        same = same && same_number(a->value[i], b->value[i]);
    for (unsigned i = 0; i < COUNT_OF(a->map_value); i++)
        same = same && same_number(a->map_value[i], b->map_value[i]);
    return same;
}

/* Whether the entry can express the part: all that it cannot set must be at its default. */
static bool entry_expresses(const policy_entry *entry, const whet_policy *part) {
    whet_policy reach = entry->preset();
    settable set = settable_by(entry);
    for (size_t i = 0; i < set.count; i++) {
        if (set.of[i]->flags & PARAMETER_LIST) {
            reach.degree = part->degree;
            memcpy(reach.value, part->value, sizeof reach.value);
        } else {
            whet_parameter_set(&reach, set.of[i], whet_parameter_get(part, set.of[i]));
        }
    }
    return same_policy(&reach, part);
}

static bool is_default(const policy_entry *entry, const whet_policy *part,
                       const policy_parameter *p) {
    whet_policy preset = entry->preset();
    return same_number(whet_parameter_get(part, p), whet_parameter_get(&preset, p));
}

static void write_list(name_writer *writer, const whet_policy *part) {
    for (unsigned i = 0; i <= part->degree && i <= WHET_POLY_DEGREE_MAX; i++) {
        write_text(writer, i > 0 ? "/" : ":");
        write_number(writer, part->value[i]);
    }
}

/* How many positional parameters to write: optional ones at the end are omitted if they have the
 * default value. */
static size_t positional_to_write(const policy_entry *entry, const settable *set,
                                  const whet_policy *part) {
    size_t count = 0;
    while (count < set->count && !(set->of[count]->flags & PARAMETER_OPTION))
        count++;
    while (count > 0 && (set->of[count - 1]->flags & PARAMETER_OPTIONAL) &&
           is_default(entry, part, set->of[count - 1]))
        count--;
    return count;
}

static void write_parameters(name_writer *writer, const policy_entry *entry,
                             const whet_policy *part) {
    settable set = settable_by(entry);
    size_t positional = positional_to_write(entry, &set, part);
    for (size_t i = 0; i < set.count; i++) {
        const policy_parameter *p = set.of[i];
        bool is_option = p->flags & PARAMETER_OPTION;
        if (p->flags & PARAMETER_LIST) {
            write_list(writer, part);
        } else if (is_option ? !is_default(entry, part, p) : i < positional) {
            write_text(writer, ":");
            write_text(writer, is_option ? p->name : "");
            write_text(writer, is_option ? "=" : "");
            write_number(writer, whet_parameter_get(part, p));
        }
    }
}

static const policy_entry *entry_of(const whet_policy *part) {
    for (size_t i = 0; whet_policy_entry_at(i); i++)
        if (entry_expresses(whet_policy_entry_at(i), part))
            return whet_policy_entry_at(i);
    return NULL;
}

static void write_part(name_writer *writer, const whet_policy *part) {
    const policy_entry *entry = entry_of(part);
    if (entry) {
        write_text(writer, entry->name);
        write_parameters(writer, entry, part);
    } else {
        const temperature_descriptor *t = whet_temperature_of(part);
        write_text(writer, t && (t->needs & NEEDS_STATS) ? "custom" : "invalid");
    }
}

static void write_policy(name_writer *writer, const whet_policy *policy) {
    whet_policy map = whet_policy_without_temperature(*policy);
    whet_policy temperature = whet_policy_without_map(*policy);
    whet_policy plain = whet_policy_softmax();
    bool has_map = !same_policy(&map, &plain);
    if (!has_map || !same_policy(&temperature, &plain))
        write_part(writer, &temperature);
    if (has_map && writer->length > 0)
        write_text(writer, "+");
    if (has_map)
        write_part(writer, &map);
}

size_t whet_policy_name(const whet_policy *policy, char *name, size_t name_size) {
    name_writer writer = {.size = name ? name_size : 0};
    writer.text = name;
    if (policy)
        write_policy(&writer, policy);
    else
        write_text(&writer, "softmax");
    if (writer.size > 0) {
        size_t last = writer.size - 1;
        writer.text[writer.length < last ? writer.length : last] = '\0';
    }
    return writer.length;
}
