/* {"identity": {...}, "entries": {key: value}, "checksum": "..."}; see ledger.h. */
#define _POSIX_C_SOURCE 200809L

#include "tune/ledger.h"

#include "base/clock.h"
#include "base/files.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Adds the entries of a file to those that are there, or replaces them. */
static bool read_entries(const tune_ledger *ledger, const char *path, lab_error *error) {
    json_t *file = lab_json_read(path, error);
    if (!file)
        return false;
    json_t *entries = json_object_get(file, "entries"), *checksum = lab_json_checksum(entries);
    bool is_whole =
        json_is_object(entries) && json_equal(json_object_get(file, "checksum"), checksum);
    bool good = is_whole && json_equal(json_object_get(file, "identity"), ledger->identity);
    bool is_added = !good || json_object_update(ledger->entries, entries) == 0;
    bool ran_out = (entries && !checksum) || !is_added;
    json_decref(checksum);
    json_decref(file);
    if (ran_out)
        return lab_fail_memory(error);
    if (!is_whole)
        return lab_fail(
            error, LAB_INPUT,
            "%s: not the state of a run, or damaged; remove it, or choose another --out", path);
    return good || lab_fail(error, LAB_INPUT,
                            "%s: state of a run with other options or texts; remove it, or choose "
                            "another --out",
                            path);
}

/* ---- files of ranks ---- */

static char *rank_path(const char *path, const char *rank) {
    size_t size = strlen(path) + 1 + strlen(rank) + 1;
    char *result = malloc(size);
    if (result)
        snprintf(result, size, "%s-%s", path, rank);
    return result;
}

/* What follows NAME- in a file's name, if it is the number of a rank; or NULL. */
static const char *rank_in(const char *file, const char *name) {
    size_t length = strlen(name);
    if (strncmp(file, name, length) != 0 || file[length] != '-')
        return NULL;
    const char *rank = file + length + 1;
    size_t digits = strspn(rank, "0123456789");
    return digits > 0 && digits <= 4 && rank[digits] == '\0' ? rank : NULL;
}

typedef bool (*rank_file)(const tune_ledger *ledger, const char *path, lab_error *error);

static bool remove_file(const tune_ledger *ledger, const char *path, lab_error *error) {
    (void)ledger;
    return unlink(path) == 0 || lab_fail_file(error, "remove", path);
}

/* Calls a function for each such file; *found is set if there is one. */
static bool each_rank_file(const tune_ledger *ledger, rank_file function, bool *found,
                           lab_error *error) {
    const char *slash = strrchr(ledger->path, '/');
    const char *name = slash ? slash + 1 : ledger->path;
    char *folder = slash ? strndup(ledger->path, (size_t)(slash - ledger->path) + 1) : strdup(".");
    DIR *entries = folder ? opendir(folder) : NULL;
    const struct dirent *entry;
    bool good = folder || lab_fail_memory(error);
    while (good && entries && (entry = readdir(entries)) != NULL) {
        const char *rank = rank_in(entry->d_name, name);
        char *path = rank ? rank_path(ledger->path, rank) : NULL;
        if (rank)
            good = path ? function(ledger, path, error) : lab_fail_memory(error);
        *found = *found || rank;
        free(path);
    }
    if (entries)
        closedir(entries);
    free(folder);
    return good;
}

/* What ranks had, which are gone. */
static bool take_over(tune_ledger *ledger, lab_error *error) {
    bool found = false;
    return each_rank_file(ledger, read_entries, &found, error) &&
           (!found || (tune_ledger_save(ledger, error) &&
                       each_rank_file(ledger, remove_file, &found, error)));
}

/* ---- one process ---- */

bool tune_ledger_open(const char *path, json_t *identity, tune_ledger *ledger, lab_error *error) {
    *ledger = (tune_ledger){.identity = identity, .entries = json_object(), .saved = -INFINITY};
    if (!identity || !ledger->entries)
        return lab_fail_memory(error);
    if (!path)
        return true;
    ledger->path = strdup(path);
    if (!ledger->path)
        return lab_fail_memory(error);
    if ((!lab_file_exists(path) || read_entries(ledger, path, error)) && take_over(ledger, error))
        return true;
    free(ledger->path); /* what is there is not to be replaced */
    ledger->path = NULL;
    return false;
}

void tune_ledger_close(tune_ledger *ledger) {
    free(ledger->path);
    json_decref(ledger->identity);
    json_decref(ledger->entries);
    json_decref(ledger->own);
    *ledger = (tune_ledger){.path = NULL};
}

bool tune_ledger_is_resumed(const tune_ledger *ledger) {
    return json_object_size(ledger->entries) > 0;
}

json_t *tune_ledger_get(const tune_ledger *ledger, const char *key) {
    return json_object_get(ledger->entries, key);
}

bool tune_ledger_save(tune_ledger *ledger, lab_error *error) {
    if (!ledger->path)
        return true;
    json_t *entries = ledger->saves_own ? ledger->own : ledger->entries;
    unsigned mark = lab_json_mark();
    json_t *file =
        lab_json_whole(json_pack("{s:O, s:O, s:o}", "identity", ledger->identity, "entries",
                                 entries, "checksum", lab_json_checksum(entries)),
                       mark);
    bool good = lab_json_write(ledger->path, file, error);
    json_decref(file);
    ledger->saved = lab_now();
    return good;
}

bool tune_ledger_put(tune_ledger *ledger, const char *key, json_t *value, lab_error *error) {
    enum { SECONDS_BETWEEN = 2 };
    if (!value || (ledger->own && json_object_set(ledger->own, key, value) != 0)) {
        json_decref(value);
        return lab_fail_memory(error);
    }
    if (json_object_set_new(ledger->entries, key, value) != 0)
        return lab_fail_memory(error);
    return lab_now() - ledger->saved < SECONDS_BETWEEN || tune_ledger_save(ledger, error);
}

/* ---- ranks ---- */

bool tune_ledger_share(tune_ledger *ledger, tune_together *together, lab_error *error) {
    const lab_ranks *ranks = together->ranks;
    if (!ranks)
        return true;
    bool is_good = lab_ranks_same_options(ranks, json_incref(ledger->identity), error);
    if (is_good && !lab_is_first(ranks)) {
        json_decref(ledger->entries);
        ledger->entries = NULL;
    }
    is_good = is_good && lab_ranks_give_json(ranks, &ledger->entries, error);
    together->has_failed = !is_good;
    return is_good;
}

bool tune_ledger_part(tune_ledger *ledger, tune_together *together, const char *path,
                      lab_error *error) {
    char rank[16];
    together->is_apart = true;
    ledger->own = json_object();
    ledger->saves_own = !lab_is_first(together->ranks);
    if (ledger->saves_own && path) {
        snprintf(rank, sizeof rank, "%d", together->ranks->rank);
        ledger->path = rank_path(path, rank);
        ledger->saved = -INFINITY;
    }
    return (ledger->own && (!path || ledger->path)) || lab_fail_memory(error);
}

/* The texts of all ranks, one after the other; ends[r] is that of rank r. NULL and an error on all
 * where memory runs out. */
static char *share_texts(tune_together *together, const char *text, size_t own, size_t *ends,
                         lab_error *error) {
    const lab_ranks *ranks = together->ranks;
    size_t count = (size_t)ranks->size, before = 0;
    ends[ranks->rank] = own;
    lab_ranks_share(ranks, ends, count, sizeof *ends);
    for (size_t r = 1; r < count; r++)
        ends[r] += ends[r - 1];
    if (ranks->rank > 0)
        before = ends[ranks->rank - 1];
    char *all = malloc(ends[count - 1] + 1);
    if (!tune_agree(together, all || lab_fail_memory(error), error) || !all) {
        free(all);
        return NULL;
    }
    memcpy(all + before, text, own);
    ranks->share(ranks, all, ends);
    return all;
}

static bool take_texts(tune_ledger *ledger, const char *all, const size_t *ends, size_t count,
                       lab_error *error) {
    for (size_t r = 0, at = 0; r < count; at = ends[r++]) {
        json_error_t reason;
        json_t *theirs = lab_json_parse(all + at, ends[r] - at, 0, &reason);
        bool good = theirs && json_object_update(ledger->entries, theirs) == 0;
        json_decref(theirs);
        if (!good)
            return lab_fail_memory(error);
    }
    return true;
}

/* From here on the first rank saves for all. */
static void end_part(tune_ledger *ledger) {
    if (ledger->saves_own && ledger->path) {
        unlink(ledger->path);
        free(ledger->path);
        ledger->path = NULL;
    }
    ledger->saves_own = false;
    json_decref(ledger->own);
    ledger->own = NULL;
}

bool tune_ledger_join(tune_ledger *ledger, tune_together *together, bool is_good,
                      lab_error *error) {
    size_t count = (size_t)together->ranks->size;
    size_t *ends = calloc(count, sizeof *ends);
    char *text = is_good ? json_dumps(ledger->own, 0) : NULL, *all = NULL;
    together->is_apart = false;
    is_good = is_good && ((ends && text) || lab_fail_memory(error));
    if (tune_agree(together, is_good, error) && text && ends)
        all = share_texts(together, text, strlen(text), ends, error);
    is_good = all && take_texts(ledger, all, ends, count, error) &&
              (ledger->saves_own || tune_ledger_save(ledger, error));
    if (all && tune_agree(together, is_good, error))
        end_part(ledger);
    free(all);
    free(text);
    free(ends);
    return !together->has_failed;
}
