/*
 * Policies from names. Reading is strict, every byte must belong to something,
 * and a refusal quotes the part that is wrong and says what is expected in its
 * place. The order is: characters, the entry of the table, then one part after
 * the other between colons, then the numbers themselves (whet_policy_check).
 * Any bytes may come in; they are quoted only once they are known to be
 * harmless.
 */
#include "row/policy_nearest.h"
#include "row/policy_table.h"

#include <string.h>

/* Text that is part of a name and so has no end of its own. */
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

static const char *nearest_option(span word, unsigned allowed_options) {
    nearest_word nearest = {.word = word.text, .length = word.length};
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        if (allowed_options & OPTION_BIT(i)) {
            whet_nearest_consider(&nearest, whet_policy_option_names[i]);
        }
    }
    return nearest.found;
}

typedef struct name_parser {
    const char *name;
    const policy_entry *entry;
    whet_policy policy;
    unsigned numbers; /* how many were given so far */
    unsigned options; /* a bit for each given so far */
    char *message;
    size_t message_size;
} name_parser;

#define REFUSE(parser, ...)                                                                        \
    whet_policy_refuse((parser)->message, (parser)->message_size, __VA_ARGS__)

/* "... expected fixed:B[:strength=s]", after what is wrong with a part. */
static whet_status refuse_part(name_parser *parser, span part, const char *complaint) {
    return REFUSE(parser, "'%.*s' %s: expected %s%s", SPAN(part), complaint,
                  parser->entry->info.syntax,
                  parser->entry->options & OPTION_BIT(OPTION_STRENGTH) ? "[:strength=s]" : "");
}

static whet_status refuse_unknown(name_parser *parser, span word) {
    const char *nearest = nearest_name(word);
    if (nearest) {
        return REFUSE(parser, "unknown policy '%.*s': did you mean '%s'?", SPAN(word), nearest);
    }
    return REFUSE(parser, "unknown policy '%.*s'", SPAN(word));
}

static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(":=/.+-_", c));
}

/* Refuses what cannot be part of any name, so that the rest can be quoted in messages as it is. */
static whet_status check_characters(name_parser *parser) {
    size_t length = strnlen(parser->name, POLICY_NAME_LENGTH_MAX + 1);
    if (length == 0) {
        return REFUSE(parser, "the name is empty: a policy is expected, such as 'adaptive'");
    }
    if (length > POLICY_NAME_LENGTH_MAX) {
        return REFUSE(parser, "the name is too long: at most %d characters are expected",
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

/* The entry with the longest name that the text begins with, up to a ':' or the end. */
static const policy_entry *find_entry(const char *text) {
    const policy_entry *found = NULL;
    for (size_t i = 0; whet_policy_entry_at(i); i++) {
        const policy_entry *entry = whet_policy_entry_at(i);
        size_t length = strlen(entry->name);
        bool begins = strncmp(text, entry->name, length) == 0 &&
                      (text[length] == ':' || text[length] == '\0');
        if (begins && (!found || length > strlen(found->name))) {
            found = entry;
        }
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
        if (count > WHET_POLY_DEGREE_MAX) {
            return refuse_part(parser, part,
                               "is one coefficient too many, the degree is at most 8");
        }
        whet_status status = read_number(parser, part, &parser->policy.value[count++]);
        next += part.length;
        if (status != WHET_OK || next == end) {
            parser->policy.degree = count - 1;
            return status;
        }
    }
}

static whet_status read_positional(name_parser *parser, span part) {
    if (parser->options) {
        return refuse_part(parser, part, "comes after an option");
    }
    if (parser->numbers == parser->entry->accepted) {
        size_t length_so_far = (size_t)(part.text - parser->name) + part.length;
        const char *nearest = nearest_name((span){parser->name, length_so_far});
        if (nearest && strcmp(nearest, parser->entry->name) != 0) {
            return REFUSE(parser, "'%.*s' does not belong here: did you mean '%s'?", SPAN(part),
                          nearest);
        }
        return refuse_part(parser, part, "does not belong here");
    }
    unsigned position = parser->numbers++;
    if (parser->entry->is_list) {
        return read_list(parser, part);
    }
    return read_number(parser, part, &parser->policy.value[position]);
}

static whet_status read_option(name_parser *parser, span word, span number) {
    unsigned option = 0;
    while (option < OPTION_COUNT && !span_is(word, whet_policy_option_names[option])) {
        option++;
    }
    if (option == OPTION_COUNT) {
        const char *nearest = nearest_option(word, parser->entry->options);
        if (nearest) {
            return REFUSE(parser, "unknown option '%.*s': did you mean '%s'?", SPAN(word), nearest);
        }
        return refuse_part(parser, word, "is not an option");
    }
    if (!(parser->entry->options & OPTION_BIT(option))) {
        return refuse_part(parser, word, "is not an option here");
    }
    if (parser->options & OPTION_BIT(option)) {
        return refuse_part(parser, word, "is given twice");
    }
    parser->options |= OPTION_BIT(option);
    double value = 0;
    whet_status status = read_number(parser, number, &value);
    whet_policy_option_set(&parser->policy, option, value);
    return status;
}

static whet_status read_part(name_parser *parser, span part) {
    const char *equals = memchr(part.text, '=', part.length);
    if (!equals) {
        return read_positional(parser, part);
    }
    size_t word_length = (size_t)(equals - part.text);
    span word = {part.text, word_length};
    span number = {equals + 1, part.length - word_length - 1};
    return read_option(parser, word, number);
}

static whet_status read_name(name_parser *parser) {
    whet_status status = check_characters(parser);
    if (status != WHET_OK) {
        return status;
    }
    parser->entry = find_entry(parser->name);
    if (!parser->entry) {
        return refuse_unknown(parser, span_until(parser->name, ":"));
    }
    parser->policy = parser->entry->preset();
    const char *next = parser->name + strlen(parser->entry->name);
    while (status == WHET_OK && *next == ':') {
        span part = span_until(next + 1, ":");
        status = read_part(parser, part);
        next = part.text + part.length;
    }
    if (status == WHET_OK && parser->numbers < parser->entry->needed) {
        span whole = {parser->name, strlen(parser->name)};
        return refuse_part(parser, whole, "lacks a number");
    }
    return status;
}

whet_status whet_policy_parse(const char *name, whet_policy *policy, char *message,
                              size_t message_size) {
    if (!name || !policy) {
        whet_policy_refuse(message, message_size, "no %s was given", name ? "policy" : "name");
        return WHET_ERROR_ARGUMENT;
    }
    name_parser parser = {.name = name, .message = message, .message_size = message_size};
    whet_status status = read_name(&parser);
    if (status == WHET_OK) {
        status = whet_policy_check(&parser.policy, message, message_size);
    }
    if (status == WHET_OK) {
        *policy = parser.policy;
    }
    return status;
}
