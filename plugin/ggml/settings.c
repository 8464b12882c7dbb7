/*
 * Settings from the environment; see settings.h.
 */
#define _GNU_SOURCE /* for environ */
#include "settings.h"

#include "base/number_range.h"
#include "llama/record.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the environment ---- */

/* An empty value counts as unset, since that is how a variable is unset for one command. */
static const char *value_of(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Composes the message with which a value is refused. */
static bool refuse_value(message *why, const char *name, const char *value, const message *reason) {
    return message_set(why, "%s=%.60s: %.300s", name, value, reason->text);
}

static bool load_strength(whet_policy *policy, message *why) {
    const char *name = "WHET_STRENGTH", *text = value_of(name);
    message reason = {"not a number from 0 to 1"};
    double strength;
    return !text ||
           (policy_config_number(text, &strength) &&
            policy_config_set_strength(policy, strength, &reason)) ||
           refuse_value(why, name, text, &reason);
}

static bool load_set(const char *name, index_set *set, message *why) {
    const char *text = value_of(name);
    message reason = {""};
    return !text || index_set_parse(text, set, &reason) || refuse_value(why, name, text, &reason);
}

static bool load_policy(settings *s, message *why) {
    static const char *const others[] = {"WHET_STRENGTH", "WHET_LAYERS", "WHET_HEADS"};
    const char *name = value_of("WHET_POLICY");
    message reason = {""};
    whet_policy policy;
    for (size_t i = 0; !name && i < sizeof others / sizeof *others; i++)
        if (value_of(others[i]))
            return message_set(why, "%s is set without WHET_POLICY", others[i]);
    if (!name)
        return true;
    if (!policy_config_make(name, &policy, &reason))
        return refuse_value(why, "WHET_POLICY", name, &reason);
    if (!load_strength(&policy, why))
        return false;
    if (!value_of("WHET_LAYERS") && !value_of("WHET_HEADS")) {
        s->config.policy = policy;
        return true;
    }
    policy_rule *rule = calloc(1, sizeof *rule);
    if (!rule)
        return message_set(why, "out of memory");
    s->config.rules = rule;
    s->config.rule_count = 1;
    rule->policy = policy;
    return load_set("WHET_LAYERS", &rule->layers, why) && load_set("WHET_HEADS", &rule->heads, why);
}

static char *read_file(const char *path, size_t *bytes, message *why) {
    FILE *file = fopen(path, "rbe");
    if (!file) {
        message_set(why, "%s", strerror(errno));
        return NULL;
    }
    char *text = NULL;
    size_t used = 0, capacity = 0;
    bool good = true;
    while (good && !feof(file)) {
        if (used == capacity) {
            capacity = capacity ? 2 * capacity : 4096;
            char *more = capacity <= CONFIG_BYTES_MAX ? realloc(text, capacity) : NULL;
            good = more != NULL;
            text = more ? more : text;
            if (!good)
                break;
        }
        used += fread(text + used, 1, capacity - used, file);
        good = !ferror(file);
    }
    if (!good) {
        const char *reason = ferror(file) ? strerror(errno) : NULL;
        if (reason)
            message_set(why, "cannot read: %s", reason);
        else if (capacity > CONFIG_BYTES_MAX)
            message_set(why, "too large (more than %d bytes)", (int)CONFIG_BYTES_MAX);
        else
            message_set(why, "out of memory");
        free(text);
        text = NULL;
    }
    fclose(file);
    *bytes = used;
    return text;
}

static bool load_config(settings *s, const char *path, message *why) {
    static const char *const others[] = {"WHET_POLICY", "WHET_STRENGTH", "WHET_LAYERS",
                                         "WHET_HEADS"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (value_of(others[i]))
            return message_set(why, "WHET_CONFIG and %s are both set", others[i]);
    size_t bytes;
    message reason = {""};
    char *text = read_file(path, &bytes, &reason);
    if (!text)
        return message_set(why, "WHET_CONFIG=%.150s: %.300s", path, reason.text);
    bool good = policy_config_parse(&s->config, text, bytes, &reason);
    free(text);
    if (!good)
        return message_set(why, "WHET_CONFIG=%.150s:%.300s", path, reason.text);
    s->config_path = strdup(path);
    return s->config_path || message_set(why, "out of memory");
}

/* A recording overwrites its file, which must not be the settings file. */
static bool is_same_file(const char *path, const char *other) {
    struct stat one, two;
    return path && other && stat(path, &one) == 0 && stat(other, &two) == 0 &&
           one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

static bool load_recording(settings *s, message *why) {
    const char *path = value_of("WHET_STATS"), *rows = value_of("WHET_STATS_ROWS");
    s->stats_interval = 1;
    if (rows && strcmp(rows, "last") == 0) {
        s->stats_interval = SIZE_MAX;
    } else if (rows && strcmp(rows, "all") != 0) {
        uint64_t n = 0;
        bool is_about = *rows == '~';
        const char *p = rows + is_about;
        if (!take_whole_number(&p, INDEX_MAX, &n) || *p || n == 0)
            return message_set(
                why,
                "WHET_STATS_ROWS=%.60s is not one of all, last, N (every N-th row) or "
                "~N (about N rows of every evaluation), with N from 1 to %d",
                rows, INDEX_MAX);
        *(is_about ? &s->stats_row_count : &s->stats_interval) = (size_t)n;
    }
    if (rows && !path)
        return message_set(why, "WHET_STATS_ROWS is set without WHET_STATS");
    if (is_same_file(path, s->config_path))
        return message_set(why, "WHET_STATS=%.200s: same file as WHET_CONFIG", path);
    if (path && !(s->stats_path = strdup(path)))
        return message_set(why, "out of memory");
    return true;
}

/* What is recorded of last rows. The lists of layers and heads have been checked with the policy.
 */
static bool load_details(settings *s, message *why) {
    const char *keys = value_of("WHET_STATS_KEYS"), *gaps = value_of("WHET_STATS_GAPS");
    const char *p = keys;
    uint64_t n = 0;
    if (keys && (!take_whole_number(&p, RECORD_KEYS_MAX, &n) || *p || n == 0))
        return message_set(why, "WHET_STATS_KEYS=%.60s is not a number from 1 to %d", keys,
                           RECORD_KEYS_MAX);
    if (gaps && strcmp(gaps, "0") != 0 && strcmp(gaps, "1") != 0)
        return message_set(why, "WHET_STATS_GAPS=%.60s is not 0 or 1", gaps);
    if ((keys || gaps) && !s->stats_path)
        return message_set(why, "%s is set without WHET_STATS",
                           keys ? "WHET_STATS_KEYS" : "WHET_STATS_GAPS");
    s->stats_keys = (size_t)n;
    s->stats_gaps = gaps && *gaps == '1';
    return !keys || (load_set("WHET_LAYERS", &s->stats_layers, why) &&
                     load_set("WHET_HEADS", &s->stats_heads, why));
}

static bool load_skip(settings *s, message *why) {
    const char *text = value_of("WHET_SKIP");
    double skip = 0;
    if (text && !(policy_config_number(text, &skip) && skip >= 0 && (float)skip < 1))
        return message_set(why, "WHET_SKIP=%.60s is not a number from 0 to below 1", text);
    s->skip = (float)skip;
    return true;
}

/* A setting that is 0 or 1. */
static bool load_switch(const char *name, bool *result, message *why) {
    const char *text = value_of(name);
    if (text && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return message_set(why, "%s=%.60s is not 0 or 1", name, text);
    *result = text && *text == '1';
    return true;
}

static bool load_invariant(settings *s, message *why) {
    if (!load_switch("WHET_INVARIANT", &s->invariant, why))
        return false;
    if (s->invariant && s->skip > 0)
        return message_set(why, "WHET_INVARIANT and WHET_SKIP are both set: which values are left "
                                "out depends on what is computed together");
    return true;
}

/* Any other name that starts with WHET_ is a typing error (WHET_POLCY). */
static const char *const known_names[] = {
    "WHET_POLICY",
    "WHET_STRENGTH",
    "WHET_LAYERS",
    "WHET_HEADS",
    "WHET_CONFIG",
    "WHET_SKIP",
    "WHET_INVARIANT",
    "WHET_STATS",
    "WHET_STATS_ROWS",
    "WHET_STATS_KEYS",
    "WHET_STATS_GAPS",
    "WHET_VERBOSE",
    /* of the library and the program */
    "WHET_ISA",
    "WHET_BLAS",
    "WHET_LLAMA",
    "WHET_PLUGIN",
};

/* Whether the first `length` characters of `name` are a known name. */
static bool is_known_name(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof known_names / sizeof *known_names; i++)
        if (strlen(known_names[i]) == length && strncmp(name, known_names[i], length) == 0)
            return true;
    return false;
}

static bool check_names(message *why) {
    for (char **entry = environ; entry && *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, "WHET_", 5) == 0 && (*entry)[length] && (*entry)[length + 1] &&
            !is_known_name(*entry, length))
            return message_set(why, "unknown setting %.*s", length < 60 ? (int)length : 60, *entry);
    }
    return true;
}

size_t settings_interval(const settings *s, size_t queries) {
    return s->stats_row_count && queries ? (queries - 1) / s->stats_row_count + 1
                                         : s->stats_interval;
}

static bool load_all(settings *s, message *why) {
    if (!check_names(why))
        return false;
    if (whet_isa_check() != WHET_OK)
        return message_set(why, "%s", whet_last_error());
    const char *config = value_of("WHET_CONFIG");
    return load_switch("WHET_VERBOSE", &s->verbose, why) &&
           (config ? load_config(s, config, why) : load_policy(s, why)) && load_skip(s, why) &&
           load_invariant(s, why) && load_recording(s, why) && load_details(s, why);
}

bool settings_load(settings *s, message *why) {
    *s = (settings){.config = policy_config_start(), .stats_interval = 1};
    if (load_all(s, why))
        return true;
    settings_free(s);
    return false;
}

void settings_free(settings *s) {
    policy_config_free(&s->config);
    free(s->config_path);
    free(s->stats_path);
    free(s->stats_layers.ranges);
    free(s->stats_heads.ranges);
    *s = (settings){.config = policy_config_start(), .stats_interval = 1};
}
