/*
 * Parses the file of policy_config.h: a JSON reader for this one format. It accepts objects and
 * arrays where the format has them, strings without escapes, and numbers. Unknown keys, duplicate
 * keys and everything else are refused with their line number. Only "about" may hold any JSON,
 * which is checked and skipped.
 */
#include "llama/policy_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRING_BYTES 4096 /* enough for a long list of heads or a policy's name */
#define ABOUT_DEPTH 32    /* of nested objects and arrays */

typedef struct reader {
    const char *at, *end;
    unsigned line;
    message *why;
} reader;

static bool wrong(const reader *r, const char *what) {
    return message_set(r->why, "%u: %s", r->line, what);
}

static void skip_space(reader *r) {
    for (; r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at; r->at++)
        r->line += *r->at == '\n';
}

/* Consumes the next character if it is this one. */
static bool take(reader *r, char sign) {
    skip_space(r);
    if (r->at == r->end || *r->at != sign)
        return false;
    r->at++;
    return true;
}

static bool expect(reader *r, char sign) {
    char what[] = "' ' expected";
    what[1] = sign;
    return take(r, sign) || wrong(r, what);
}

static bool read_string(reader *r, char *text) {
    if (!take(r, '"'))
        return wrong(r, "expected a string in double quotes");
    size_t n = 0;
    for (; r->at < r->end && *r->at != '"'; r->at++) {
        unsigned char byte = (unsigned char)*r->at;
        if (byte < ' ' || byte > '~' || byte == '\\')
            return wrong(r, "strings must be printable ASCII without backslashes");
        if (n == STRING_BYTES - 1)
            return wrong(r, "string too long");
        text[n++] = *r->at;
    }
    text[n] = 0;
    if (r->at == r->end)
        return wrong(r, "unterminated string");
    r->at++;
    return true;
}

static const char *skip_digits(const char *text) { return text + strspn(text, "0123456789"); }

/* Whether a text is a number in JSON syntax; the format has no negative ones. */
static bool is_json_number(const char *text) {
    const char *at = skip_digits(text), *from;
    if (at == text || (*text == '0' && at > text + 1))
        return false;
    if (*at == '.') {
        from = at + 1;
        if ((at = skip_digits(from)) == from)
            return false;
    }
    if (*at == 'e' || *at == 'E') {
        from = at + 1 + (at[1] == '+' || at[1] == '-');
        if ((at = skip_digits(from)) == from)
            return false;
    }
    return *at == 0;
}

/* Consumes the characters that a number may consist of. */
static void read_number_text(reader *r, char *text, size_t size) {
    size_t n = 0;
    skip_space(r);
    while (r->at < r->end && n < size - 1 && *r->at && strchr("+-.0123456789eE", *r->at))
        text[n++] = *r->at++;
    text[n] = 0;
}

static bool read_number(reader *r, double *number) {
    char text[64];
    read_number_text(r, text, sizeof text);
    return (is_json_number(text) && policy_config_number(text, number)) ||
           wrong(r, "expected a number");
}

/* ---- "about": any JSON ---- */

/* The character after a backslash, and the four digits after \u. */
static bool skip_escape(reader *r) {
    if (r->at == r->end || !*r->at || !strchr("\"\\/bfnrtu", *r->at))
        return wrong(r, "unknown escape in a string");
    if (*r->at++ != 'u')
        return true;
    for (int i = 0; i < 4; i++, r->at++)
        if (r->at == r->end || !*r->at || !strchr("0123456789abcdefABCDEF", *r->at))
            return wrong(r, "\\u needs four hexadecimal digits");
    return true;
}

static bool skip_string(reader *r) {
    if (!take(r, '"'))
        return wrong(r, "expected a string in double quotes");
    while (r->at < r->end && *r->at != '"') {
        unsigned char byte = (unsigned char)*r->at++;
        if (byte < ' ')
            return wrong(r, "control character in a string");
        if (byte == '\\' && !skip_escape(r))
            return false;
    }
    return take(r, '"') || wrong(r, "unterminated string");
}

static bool skip_key(reader *r) { return skip_string(r) && expect(r, ':'); }

static bool take_word(reader *r, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static bool skip_scalar(reader *r) {
    char text[64];
    skip_space(r);
    if (r->at < r->end && *r->at == '"')
        return skip_string(r);
    if (take_word(r, "true") || take_word(r, "false") || take_word(r, "null"))
        return true;
    read_number_text(r, text, sizeof text);
    return is_json_number(text + (*text == '-')) || wrong(r, "expected a value");
}

/* The closing characters of the objects and arrays that are open. */
typedef struct open_values {
    char ends[ABOUT_DEPTH];
    size_t depth;
} open_values;

/* A scalar or an empty object or array, which are whole, or the opening of one with content. */
static bool begin_value(reader *r, open_values *open, bool *is_whole) {
    char end = (char)(take(r, '{') ? '}' : take(r, '[') ? ']' : 0);
    *is_whole = true;
    if (!end)
        return skip_scalar(r);
    if (take(r, end))
        return true;
    if (open->depth == ABOUT_DEPTH)
        return wrong(r, "\"about\" is nested too deeply");
    *is_whole = false;
    open->ends[open->depth++] = end;
    return end == ']' || skip_key(r);
}

/* What follows a value: a comma, before another value, or the ends of those that are open. */
static bool end_values(reader *r, open_values *open) {
    for (; open->depth > 0; open->depth--) {
        char end = open->ends[open->depth - 1];
        if (take(r, ','))
            return end == ']' || skip_key(r);
        if (!expect(r, end))
            return false;
    }
    return true;
}

static bool skip_value(reader *r) {
    open_values open = {.depth = 0};
    do {
        bool is_whole;
        if (!begin_value(r, &open, &is_whole) || (is_whole && !end_values(r, &open)))
            return false;
    } while (open.depth > 0);
    return true;
}

/* ---- the format ---- */

/* The fields an object of the format may have. */
typedef struct fields {
    char policy[STRING_BYTES], layers[STRING_BYTES], heads[STRING_BYTES];
    bool has_policy, has_layers, has_heads, has_strength, has_rules, has_about;
    double strength;
} fields;

static bool once(const reader *r, bool *has) {
    if (*has)
        return wrong(r, "duplicate key");
    return *has = true;
}

static bool read_rules(reader *r, policy_config *c);

static bool read_field(reader *r, fields *f, policy_config *rules_go_to) {
    char key[STRING_BYTES];
    if (!read_string(r, key) || !expect(r, ':'))
        return false;
    if (strcmp(key, "policy") == 0)
        return once(r, &f->has_policy) && read_string(r, f->policy);
    if (strcmp(key, "strength") == 0)
        return once(r, &f->has_strength) && read_number(r, &f->strength);
    if (strcmp(key, "about") == 0)
        return once(r, &f->has_about) && skip_value(r);
    if (!rules_go_to && strcmp(key, "layers") == 0)
        return once(r, &f->has_layers) && read_string(r, f->layers);
    if (!rules_go_to && strcmp(key, "heads") == 0)
        return once(r, &f->has_heads) && read_string(r, f->heads);
    if (rules_go_to && strcmp(key, "rules") == 0)
        return once(r, &f->has_rules) && read_rules(r, rules_go_to);
    return message_set(r->why, "%u: unknown key \"%.40s\"", r->line, key);
}

/* Reads an object: a rule where rules_go_to is NULL, otherwise the whole file. */
static bool read_object(reader *r, fields *f, policy_config *rules_go_to) {
    if (!expect(r, '{'))
        return false;
    if (take(r, '}'))
        return true;
    do {
        if (!read_field(r, f, rules_go_to))
            return false;
    } while (take(r, ','));
    return expect(r, '}');
}

/* Composes the message with which the value of a key is refused. */
static bool refuse_value(const reader *r, const char *key, const char *value,
                         const message *reason) {
    return message_set(r->why, "%u: \"%s\": %.60s: %.300s", r->line, key, value, reason->text);
}

static bool finish_policy(const reader *r, const fields *f, whet_policy *policy) {
    message reason = {""};
    char number[32];
    if (!f->has_policy)
        return !f->has_strength || wrong(r, "strength without a policy");
    if (!policy_config_make(f->policy, policy, &reason))
        return refuse_value(r, "policy", f->policy, &reason);
    if (!f->has_strength || policy_config_set_strength(policy, f->strength, &reason))
        return true;
    snprintf(number, sizeof number, "%g", f->strength);
    return refuse_value(r, "strength", number, &reason);
}

static bool finish_set(const reader *r, const char *key, const char *text, index_set *set) {
    message reason = {""};
    return index_set_parse(text, set, &reason) || refuse_value(r, key, text, &reason);
}

static policy_rule *add_rule(policy_config *c) {
    /* doubled whenever the count is a power of two */
    if ((c->rule_count & (c->rule_count - 1)) == 0) {
        size_t capacity = c->rule_count ? 2 * c->rule_count : 1;
        policy_rule *rules = realloc(c->rules, capacity * sizeof *rules);
        if (!rules)
            return NULL;
        c->rules = rules;
    }
    policy_rule *rule = &c->rules[c->rule_count++];
    memset(rule, 0, sizeof *rule);
    return rule;
}

static bool read_rule(reader *r, policy_config *c) {
    fields f = {.has_policy = false};
    if (c->rule_count == RULES_MAX)
        return wrong(r, "too many rules");
    if (!read_object(r, &f, NULL))
        return false;
    if (!f.has_policy)
        return wrong(r, "rule without a policy");
    policy_rule *rule = add_rule(c);
    if (!rule)
        return wrong(r, "out of memory");
    return finish_policy(r, &f, &rule->policy) &&
           (!f.has_layers || finish_set(r, "layers", f.layers, &rule->layers)) &&
           (!f.has_heads || finish_set(r, "heads", f.heads, &rule->heads));
}

static bool read_rules(reader *r, policy_config *c) {
    if (!expect(r, '['))
        return false;
    if (take(r, ']'))
        return true;
    do {
        if (!read_rule(r, c))
            return false;
    } while (take(r, ','));
    return expect(r, ']');
}

bool policy_config_parse(policy_config *c, const char *text, size_t bytes, message *why) {
    reader r = {.at = text, .end = text + bytes, .line = 1, .why = why};
    fields f = {.has_policy = false};
    if (!read_object(&r, &f, c) || !finish_policy(&r, &f, &c->policy))
        return false;
    skip_space(&r);
    return r.at == r.end || wrong(&r, "unexpected text after the end");
}
