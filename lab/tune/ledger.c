/* {"identity": {...}, "entries": {key: value}, "checksum": "..."}; see ledger.h. */
#define _POSIX_C_SOURCE 200809L

#include "tune/ledger.h"

#include "base/clock.h"
#include "base/files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool read_entries(tune_ledger *ledger, lab_error *error) {
    json_t *file = lab_json_read(ledger->path, error);
    if (!file)
        return false;
    json_t *entries = json_object_get(file, "entries"), *checksum = lab_json_checksum(entries);
    bool is_whole =
        json_is_object(entries) && json_equal(json_object_get(file, "checksum"), checksum);
    bool good = is_whole && json_equal(json_object_get(file, "identity"), ledger->identity);
    if (good) {
        json_decref(ledger->entries);
        ledger->entries = json_incref(entries);
    }
    bool ran_out = entries && !checksum;
    json_decref(checksum);
    json_decref(file);
    if (ran_out)
        return lab_fail_memory(error);
    if (!is_whole)
        return lab_fail(
            error, LAB_INPUT,
            "%s: not the state of a run, or damaged; remove it, or choose another --out",
            ledger->path);
    return good || lab_fail(error, LAB_INPUT,
                            "%s: state of a run with other options or texts; remove it, or choose "
                            "another --out",
                            ledger->path);
}

bool tune_ledger_open(const char *path, json_t *identity, tune_ledger *ledger, lab_error *error) {
    *ledger = (tune_ledger){.identity = identity, .entries = json_object(), .saved = -INFINITY};
    if (!identity || !ledger->entries)
        return lab_fail_memory(error);
    if (!path)
        return true;
    ledger->path = strdup(path);
    if (!ledger->path)
        return lab_fail_memory(error);
    if (!lab_file_exists(path) || read_entries(ledger, error))
        return true;
    free(ledger->path); /* what is there is not to be replaced */
    ledger->path = NULL;
    return false;
}

void tune_ledger_close(tune_ledger *ledger) {
    free(ledger->path);
    json_decref(ledger->identity);
    json_decref(ledger->entries);
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
    unsigned mark = lab_json_mark();
    json_t *file =
        lab_json_whole(json_pack("{s:O, s:O, s:o}", "identity", ledger->identity, "entries",
                                 ledger->entries, "checksum", lab_json_checksum(ledger->entries)),
                       mark);
    bool good = lab_json_write(ledger->path, file, error);
    json_decref(file);
    ledger->saved = lab_now();
    return good;
}

bool tune_ledger_put(tune_ledger *ledger, const char *key, json_t *value, lab_error *error) {
    enum { SECONDS_BETWEEN = 2 };
    if (!value || json_object_set_new(ledger->entries, key, value) != 0)
        return lab_fail_memory(error);
    return lab_now() - ledger->saved < SECONDS_BETWEEN || tune_ledger_save(ledger, error);
}
