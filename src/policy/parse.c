/*
 * Policies from names. Reading is strict, every byte must belong to something, and a
 * refusal quotes the part that is wrong and says what is expected in its place. The order
 * is: characters, the '+' between a temperature and a map, for each the entry of the
 * table, then one part after the other between colons, and finally the values of the
 * parameters (whet_policy_check). Any bytes may come in; they are quoted only once they
 * are known to be harmless.
 */
#include "policy/validate.h"
#include "policy/number.h"
#include "policy/registry.h"
#include "policy/suggest.h"

#include <string.h>

/* Text that is part of a name and so is not terminated. */
typedef struct span {
    const char *text;
    size_t length;
} span;

#define SPAN(part) (int)(part).length, (part).text

static span span_until(const char *text, const char *stops) {
    return (span){text, strcspn(text, stops)};
}

static bool span_is(span part, const char *text) {
    return strlen(text) == part.length && memcmp(part.text, text, part.length) == 0;
}

static const char *nearest_name(span word) {
    nearest_word nearest = {.word = word.text, .length = word.length};
    for (size_t i = 0; whet_policy_entry_at(i); i++) {
        whet_nearest_consider(&nearest, whet_policy_entry_at(i)->name);
    }
    return nearest.found;
}

typedef struct name_parser {
    const char *name; /* of one part, up to `length`: a temperature or a map */
    size_t length;
    const policy_entry *entry;
    const policy_parameter *parameters; /* that may be given; none to an alias */
    size_t parameter_count;
    whet_policy policy;
    size_t given_parameters;              /* how many were given so far */
    bool is_given[POLICY_PARAMETERS_MAX]; /* options among them */
    bool any_option, strength_is_given;
    char *message;
    size_t message_size;
} name_parser;

#define REFUSE(parser, ...)                                                                        \
    whet_policy_refuse((parser)->message, (parser)->message_size, __VA_ARGS__)

/* "... expected fixed:B[:strength=s]", after what is wrong with a part. */
static whet_status refuse_part(name_parser *parser, span part, const char *complaint) {
    return REFUSE(parser, "'%.*s' %s: expected %s%s", SPAN(part), complaint,
                  parser->entry->info.syntax, parser->entry->temperature ? "[:strength=s]" : "");
}

static whet_status refuse_unknown(name_parser *parser, span word) {
    const char *nearest = nearest_name(word);
    if (nearest) {
        return REFUSE(parser, "unknown policy '%.*s'; did you mean '%s'?", SPAN(word), nearest);
    }
    return REFUSE(parser, "unknown policy '%.*s'", SPAN(word));
}

static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(":=/.+-_", c));
}

/* Refuses what cannot be part of any name, so that messages can quote the rest unchanged. */
static whet_status check_characters(name_parser *parser) {
    size_t length = strlen(parser->name);
    if (length == 0) {
        return REFUSE(parser, "the name is empty: a policy is expected, such as 'adaptive'");
    }
    if (length > POLICY_NAME_LENGTH_MAX) {
        return REFUSE(parser, "policy name too long (%zu characters; at most %d)", length,
                      POLICY_NAME_LENGTH_MAX);
    }
    for (const char *c = parser->name; *c; c++) {
        if (is_name_character(*c)) {
            continue;
        }
        if (*c < ' ' || *c > '~') {
            return REFUSE(parser, "byte 0x%02x does not belong in the name of a policy",
                          (unsigned)(unsigned char)*c);
        }
        return REFUSE(parser,
                      "'%c' does not belong in the name of a policy (no commas, semicolons or "
                      "blanks are expected)",
                      *c);
    }
    return WHET_OK;
}

/* The entry with the longest name that the part begins with, up to a ':' or its end. */
static const policy_entry *find_entry(const char *text, size_t text_length) {
    const policy_entry *found = NULL;
    for (size_t i = 0; whet_policy_entry_at(i); i++) {
        const policy_entry *entry = whet_policy_entry_at(i);
        size_t length = strlen(entry->name);
        bool begins = length <= text_length && strncmp(text, entry->name, length) == 0 &&
                      (length == text_length || text[length] == ':');
        if (begins && (!found || length > strlen(found->name)))
            found = entry;
    }
    return found;
}

static whet_status read_number(name_parser *parser, span part, double *value) {
    switch (whet_policy_number_parse(part.text, part.length, value)) {
    case NUMBER_OK:
        return WHET_OK;
    case NUMBER_TOO_LARGE:
        return refuse_part(parser, part, "is too large a number");
    default:
        return refuse_part(parser, part, "is not a decimal number");
    }
}

/* c4/c3/...: the coefficients of a polynomial, the highest power first. */
static whet_status read_list(name_parser *parser, span list) {
    unsigned count = 0;
    const char *end = list.text + list.length;
    for (const char *next = list.text;; next++) {
        span part = span_until(next, "/:");
        if (part.text + part.length > end)
            part.length = (size_t)(end - part.text);
        if (count > WHET_POLY_DEGREE_MAX)
            return refuse_part(parser, part,
                               "is one coefficient too many, the degree is at most 8");
        whet_status status = read_number(parser, part, &parser->policy.value[count++]);
        next += part.length;
        if (status != WHET_OK || next == end) {
            parser->policy.degree = count - 1;
            return status;
        }
    }
}

/* Parameters that are no options come first. */
static size_t positional_count(const name_parser *parser) {
    size_t count = 0;
    while (count < parser->parameter_count && !(parser->parameters[count].flags & PARAMETER_OPTION))
        count++;
    return count;
}

static whet_status read_positional(name_parser *parser, span part) {
    if (parser->any_option)
        return refuse_part(parser, part, "comes after an option");
    if (parser->given_parameters == positional_count(parser)) {
        size_t length_so_far = (size_t)(part.text - parser->name) + part.length;
        const char *nearest = nearest_name((span){parser->name, length_so_far});
        if (nearest && strcmp(nearest, parser->entry->name) != 0)
            return REFUSE(parser, "'%.*s' does not belong here; did you mean '%s'?", SPAN(part),
                          nearest);
        return refuse_part(parser, part, "does not belong here");
    }
    const policy_parameter *p = &parser->parameters[parser->given_parameters++];
    if (p->flags & PARAMETER_LIST)
        return read_list(parser, part);
    double value = 0;
    whet_status status = read_number(parser, part, &value);
    whet_parameter_set(&parser->policy, p, value);
    return status;
}

/* The option of that name, and where it is noted as given. */
static const policy_parameter *find_option(name_parser *parser, span word, bool **given) {
    if (parser->entry->temperature && span_is(word, whet_policy_strength.name)) {
        *given = &parser->strength_is_given;
        return &whet_policy_strength;
    }
    for (size_t i = 0; i < parser->parameter_count; i++) {
        const policy_parameter *p = &parser->parameters[i];
        if ((p->flags & PARAMETER_OPTION) && span_is(word, p->name)) {
            *given = &parser->is_given[i];
            return p;
        }
    }
    return NULL;
}

/* Whether some other policy has an option of that name. */
static bool is_option_elsewhere(span word) {
    bool found = span_is(word, whet_policy_strength.name);
    for (size_t i = 0; whet_policy_entry_at(i); i++) {
        const temperature_descriptor *t = whet_policy_entry_at(i)->temperature;
        for (size_t j = 0; t && j < t->parameter_count; j++)
            found = found || ((t->parameters[j].flags & PARAMETER_OPTION) &&
                              span_is(word, t->parameters[j].name));
    }
    return found;
}

static const char *nearest_option(const name_parser *parser, span word) {
    nearest_word nearest = {.word = word.text, .length = word.length};
    for (size_t i = 0; i < parser->parameter_count; i++)
        if (parser->parameters[i].flags & PARAMETER_OPTION)
            whet_nearest_consider(&nearest, parser->parameters[i].name);
    if (parser->entry->temperature)
        whet_nearest_consider(&nearest, whet_policy_strength.name);
    return nearest.found;
}

static whet_status refuse_option(name_parser *parser, span word) {
    if (is_option_elsewhere(word))
        return refuse_part(parser, word, "is not an option here");
    const char *nearest = nearest_option(parser, word);
    if (nearest)
        return REFUSE(parser, "unknown option '%.*s'; did you mean '%s'?", SPAN(word), nearest);
    return refuse_part(parser, word, "is not an option");
}

static whet_status read_option(name_parser *parser, span word, span number) {
    bool *given = NULL;
    const policy_parameter *option = find_option(parser, word, &given);
    if (!option)
        return refuse_option(parser, word);
    if (*given)
        return refuse_part(parser, word, "is given twice");
    *given = parser->any_option = true;
    double value = 0;
    whet_status status = read_number(parser, number, &value);
    whet_parameter_set(&parser->policy, option, value);
    return status;
}

static whet_status read_part(name_parser *parser, span part) {
    const char *equals = memchr(part.text, '=', part.length);
    if (!equals)
        return read_positional(parser, part);
    size_t word_length = (size_t)(equals - part.text);
    span word = {part.text, word_length};
    span number = {equals + 1, part.length - word_length - 1};
    return read_option(parser, word, number);
}

static size_t needed_parameters(const name_parser *parser) {
    size_t count = positional_count(parser);
    while (count > 0 && (parser->parameters[count - 1].flags & PARAMETER_OPTIONAL))
        count--;
    return count;
}

static void take_entry(name_parser *parser, const policy_entry *entry) {
    static const policy_parameter none;
    const temperature_descriptor *t = entry->temperature;
    parser->entry = entry;
    parser->policy = entry->preset();
    parser->parameters = entry->is_alias ? &none : t ? t->parameters : entry->map->parameters;
    parser->parameter_count = entry->is_alias ? 0
                              : t             ? t->parameter_count
                                              : entry->map->parameter_count;
}

/* One part of a name, a temperature or a map. */
static whet_status read_name(name_parser *parser) {
    whet_status status = WHET_OK;
    const char *end = parser->name + parser->length;
    const policy_entry *entry = find_entry(parser->name, parser->length);
    if (!entry) {
        span word = span_until(parser->name, ":");
        return refuse_unknown(
            parser,
            (span){word.text, word.text + word.length > end ? parser->length : word.length});
    }
    take_entry(parser, entry);
    const char *next = parser->name + strlen(entry->name);
    while (status == WHET_OK && next < end) {
        span part = span_until(next + 1, ":");
        if (part.text + part.length > end)
            part.length = (size_t)(end - part.text);
        status = read_part(parser, part);
        next = part.text + part.length;
    }
    if (status == WHET_OK && parser->given_parameters < needed_parameters(parser)) {
        span whole = {parser->name, parser->length};
        return refuse_part(parser, whole, "lacks a number");
    }
    return status;
}

/* ---- compositions ---- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Where the temperature ends and the map begins: a '+' that no number has, or NULL. */
static const char *find_plus(const char *name) {
    const char *plus = strchr(name, '+');
    while (plus && !(plus > name && (is_letter(plus[1]) || plus[1] == '\0')))
        plus = strchr(plus + 1, '+');
    return plus;
}

static bool is_plain_name(const name_parser *parser) {
    return parser->entry->temperature == &whet_temperature_plain;
}

/* TEMPERATURE+MAP: both have been read. */
static whet_status compose(name_parser *temperature, name_parser *map, whet_policy *policy) {
    span first = {temperature->name, temperature->length}, second = {map->name, map->length};
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): read_name has set it */
    if (!temperature->entry->temperature)
        return REFUSE(temperature,
                      "'%.*s' is a map: expected a temperature before '+' and a map after it",
                      SPAN(first));
    if (map->entry->temperature && (!is_plain_name(map) || map->any_option))
        return REFUSE(map,
                      "'%.*s' is a temperature: expected a temperature before '+' and a map "
                      "after it",
                      SPAN(second));
    *policy = whet_policy_compose(temperature->policy, map->policy);
    return WHET_OK;
}

static whet_status read_policy(name_parser *parser, whet_policy *policy) {
    whet_status status = check_characters(parser);
    const char *plus = status == WHET_OK ? find_plus(parser->name) : NULL;
    if (status != WHET_OK)
        return status;
    parser->length = plus ? (size_t)(plus - parser->name) : strlen(parser->name);
    status = read_name(parser);
    *policy = parser->policy;
    if (status != WHET_OK || !plus)
        return status;
    name_parser map = {.name = plus + 1,
                       .length = strlen(plus + 1),
                       .message = parser->message,
                       .message_size = parser->message_size};
    if (map.length == 0)
        return REFUSE(parser, "'%s' lacks a map after '+', such as 'adaptive+entmax15'",
                      parser->name);
    if (find_plus(map.name))
        return REFUSE(parser, "'%s' has more than one '+': expected a temperature and a map",
                      parser->name);
    status = read_name(&map);
    return status == WHET_OK ? compose(parser, &map, policy) : status;
}

whet_status whet_policy_parse(const char *name, whet_policy *policy, char *message,
                              size_t message_size) {
    if (!name || !policy) {
        whet_policy_refuse(message, message_size, "%s is NULL", name ? "policy" : "name");
        return WHET_ERROR_ARGUMENT;
    }
    name_parser parser = {.name = name, .message = message, .message_size = message_size};
    whet_policy read;
    whet_status status = read_policy(&parser, &read);
    if (status == WHET_OK)
        status = whet_policy_check(&read, message, message_size);
    if (status == WHET_OK)
        *policy = read;
    return status;
}
