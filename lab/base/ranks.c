/* Processes that work together: see ranks.h. */
#include "base/ranks.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void lab_ranks_close(const lab_ranks *ranks, bool is_good) {
    if (ranks && ranks->size > 0 && is_good)
        ranks->close(ranks);
}

enum { RANKS_MAX = 4096 };

void lab_ranks_share(const lab_ranks *ranks, void *data, size_t count, size_t bytes) {
    size_t ends[RANKS_MAX];
    if (!ranks)
        return;
    for (int r = 0; r < ranks->size; r++)
        ends[r] = lab_rank_first(ranks, count, r + 1) * bytes;
    ranks->share(ranks, data, ends);
}

void lab_ranks_give(const lab_ranks *ranks, int owner, void *data, size_t bytes) {
    size_t ends[RANKS_MAX] = {0};
    if (!ranks)
        return;
    for (int r = owner; r < ranks->size; r++)
        ends[r] = bytes;
    ranks->share(ranks, data, ends);
}

bool lab_ranks_any(const lab_ranks *ranks, bool is_true) {
    unsigned char all[RANKS_MAX] = {0};
    if (!ranks)
        return is_true;
    all[ranks->rank] = is_true;
    lab_ranks_share(ranks, all, (size_t)ranks->size, 1);
    return memchr(all, 1, (size_t)ranks->size) != NULL;
}

static int first_true(const lab_ranks *ranks, bool is_true) {
    unsigned char all[RANKS_MAX] = {0};
    all[ranks->rank] = is_true;
    lab_ranks_share(ranks, all, (size_t)ranks->size, 1);
    const unsigned char *found = memchr(all, 1, (size_t)ranks->size);
    return found ? (int)(found - all) : ranks->size;
}

bool lab_ranks_agree(const lab_ranks *ranks, bool is_good, lab_error *error) {
    if (!ranks)
        return is_good;
    int failed = first_true(ranks, !is_good);
    if (failed == ranks->size)
        return true;
    lab_error theirs = {.kind = LAB_SYSTEM};
    if (failed == ranks->rank && error)
        theirs = *error;
    size_t ends[RANKS_MAX] = {0};
    for (int r = failed; r < ranks->size; r++)
        ends[r] = sizeof theirs;
    ranks->share(ranks, &theirs, ends);
    theirs.text[sizeof theirs.text - 1] = '\0';
    bool is_same = !is_good && error && failed != ranks->rank &&
                   strcmp(error->text, theirs.text) == 0; /* said by that rank */
    if (is_same)
        *error = (lab_error){.kind = LAB_NO_ERROR};
    if (is_good || is_same)
        lab_fail(error, theirs.kind, "%.480s (rank %d)", theirs.text, failed);
    return false;
}

void lab_ranks_broadcast(const lab_ranks *ranks, void *data, size_t bytes) {
    lab_ranks_give(ranks, 0, data, bytes);
}

/* The text that rank 0 has, in memory of the caller's, or NULL; its length. */
static char *give_text(const lab_ranks *ranks, const char *text, size_t *length) {
    *length = text ? strlen(text) : 0;
    lab_ranks_broadcast(ranks, length, sizeof *length);
    char *copy = calloc(*length + 1, 1);
    if (lab_ranks_any(ranks, !copy) || !copy) {
        free(copy);
        return NULL;
    }
    if (copy && text && ranks->rank == 0)
        memcpy(copy, text, *length);
    lab_ranks_broadcast(ranks, copy, *length);
    return copy;
}

bool lab_ranks_give_json(const lab_ranks *ranks, json_t **json, lab_error *error) {
    size_t length;
    bool has_value = lab_is_first(ranks) && *json;
    if (!ranks || !lab_ranks_any(ranks, has_value))
        return true;
    char *text = has_value ? json_dumps(*json, JSON_ENCODE_ANY) : NULL;
    char *copy = give_text(ranks, text, &length);
    if (copy && !has_value)
        *json = json_loadb(copy, length, JSON_DECODE_ANY, NULL);
    bool is_good = copy && length > 0 && *json;
    free(copy);
    free(text);
    return lab_ranks_agree(ranks, is_good || lab_fail_memory(error), error);
}

static bool same_text(const lab_ranks *ranks, const char *text, char *theirs, size_t length,
                      lab_error *error) {
    if (theirs && ranks->rank == 0 && text)
        memcpy(theirs, text, length);
    if (!lab_ranks_agree(ranks, (theirs && text) || lab_fail_memory(error), error))
        return false;
    lab_ranks_broadcast(ranks, theirs, length);
    return lab_ranks_agree(
        ranks,
        (text && theirs && strlen(text) == length && memcmp(theirs, text, length) == 0) ||
            lab_fail(error, LAB_INPUT, "options differ from those of rank 0"),
        error);
}

bool lab_ranks_same_options(const lab_ranks *ranks, json_t *options, lab_error *error) {
    char *text = options ? json_dumps(options, JSON_SORT_KEYS) : NULL;
    size_t length = text ? strlen(text) : 0;
    lab_ranks_broadcast(ranks, &length, sizeof length);
    char *theirs = calloc(length + 1, 1);
    bool is_same = same_text(ranks, text, theirs, length, error);
    free(theirs);
    free(text);
    json_decref(options);
    return is_same;
}
