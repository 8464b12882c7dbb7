#include "digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { lines_max = 32 };

static struct {
    char name[320];
    struct {
        const char *what; // a string literal
        uint64_t hash;
    } lines[lines_max];
    size_t count;
} group;

static char *const *selected;
static size_t selected_count;

void digest_select(char *const *prefixes, size_t count) {
    selected = prefixes;
    selected_count = count;
}

bool group_begin(const char *path, const char *policy, const char *type, const char *mask,
                 const char *size) {
    bool wanted = selected_count == 0;
    for (size_t i = 0; i < selected_count; i++) {
        wanted |= strncmp(path, selected[i], strlen(selected[i])) == 0;
    }
    if (!wanted) {
        return false;
    }
    group.count = 0;
    snprintf(group.name, sizeof group.name, "%s %s %s %s %s %s", whet_isa(), path, policy, type,
             mask, size);
    return true;
}

void group_end(void) {
    for (size_t i = 0; i < group.count; i++) {
        printf("%s %s\t%016llx\n", group.name, group.lines[i].what,
               (unsigned long long)group.lines[i].hash);
    }
    fflush(stdout); // what a crash leaves says where it was
}

static uint64_t *hash_of(const char *what) {
    for (size_t i = 0; i < group.count; i++) {
        if (strcmp(group.lines[i].what, what) == 0) {
            return &group.lines[i].hash;
        }
    }
    if (group.count == lines_max) {
        fprintf(stderr, "digest: %s: more than %d lines\n", group.name, (int)lines_max);
        exit(1);
    }
    group.lines[group.count].what = what;
    group.lines[group.count].hash = 0xcbf29ce484222325u;
    return &group.lines[group.count++].hash;
}

// FNV-1a, a value rather than a byte at a time, with the high bits folded back. Each step is a
// bijection of the hash: one differing value is never lost.
static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x100000001b3u;
    return hash ^ (hash >> 29);
}

void group_add(const char *what, uint64_t value) {
    uint64_t *hash = hash_of(what);
    *hash = mixed(*hash, value);
}

void group_add_elements(const char *what, const void *values, whet_type type, size_t n) {
    uint64_t *line = hash_of(what), hash = mixed(*line, n);
    if (type == WHET_F32) {
        const uint32_t *bits = values;
        for (size_t i = 0; i < n; i++) {
            hash = mixed(hash, (bits[i] & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits[i]);
        }
    } else {
        const uint16_t *bits = values;
        const uint16_t infinity = type == WHET_F16 ? 0x7c00 : 0x7f80;
        for (size_t i = 0; i < n; i++) {
            hash = mixed(hash, (bits[i] & 0x7fff) > infinity ? 0x7fff : bits[i]);
        }
    }
    *line = hash;
}

void group_add_doubles(const char *what, const double *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        group_add(what, values[i] != values[i] ? 0x7ff8000000000000u : bits);
    }
}

void group_add_stats(const whet_stats *stats, size_t count) {
    for (size_t i = 0; i < count; i++) {
        group_add("stats.n", stats[i].n);
        group_add_doubles("stats.max", &stats[i].max, 1);
        group_add_doubles("stats.z", &stats[i].z, 1);
        group_add_doubles("stats.s", &stats[i].s, 1);
        group_add_doubles("stats.logsumexp", &stats[i].logsumexp, 1);
        group_add_doubles("stats.entropy", &stats[i].entropy, 1);
        group_add_doubles("stats.beta", &stats[i].beta, 1);
        group_add_doubles("stats.entropy_after", &stats[i].entropy_after, 1);
        group_add_doubles("stats.max_prob", &stats[i].max_prob, 1);
        group_add("stats.flags", stats[i].flags);
#if DIGEST_HAS_ROW_EXTRAS
        group_add_doubles("stats.min", &stats[i].min, 1);
        group_add("stats.argmax", stats[i].argmax);
        group_add("stats.position", (uint64_t)stats[i].position);
        group_add_doubles("stats.sink_share", &stats[i].sink_share, 1);
#endif
    }
}

void group_add_policy_gradients(const whet_policy_gradient *gradients, size_t count) {
    for (size_t i = 0; i < count; i++) {
        group_add_doubles("grad.policy.value", gradients[i].value, COUNT(gradients[i].value));
        group_add_doubles("grad.policy.strength", &gradients[i].strength, 1);
        group_add_doubles("grad.policy.hold", &gradients[i].hold, 1);
#if DIGEST_HAS_ROW_EXTRAS
        group_add_doubles("grad.policy.map_value", gradients[i].map_value,
                          COUNT(gradients[i].map_value));
#endif
    }
}

bool group_add_status(whet_status status, uint64_t first_bad_row) {
    bool computed = status == WHET_OK || status == WHET_NOT_FINITE;
    group_add("status", (uint64_t)status);
    group_add("status", first_bad_row);
    if (!computed) {
        fprintf(stderr, "digest: %s: refused: %s\n", group.name, whet_status_text(status));
    }
    return computed;
}
