/*
 * What a run has computed so far, by name: a JSON file that is replaced as a whole now and then, so
 * that a run which is killed continues where it was. Numbers keep their bits, so results do not
 * depend on where a run was interrupted.
 *
 * Ranks have the same entries, which the first one saves. While they work apart, each of the others
 * saves what it adds in a file of its own, PATH-RANK. Whoever opens the ledger takes over such
 * files, so that any number of ranks, or a process alone, continues.
 */
#ifndef WHET_LAB_TUNE_LEDGER_H
#define WHET_LAB_TUNE_LEDGER_H

#include "base/json.h"
#include "tune/together.h"

typedef struct tune_ledger {
    char *path; /* NULL: nothing is saved */
    json_t *identity, *entries;
    json_t *own;    /* while ranks work apart: what this one has added, or NULL */
    bool saves_own; /* and nothing else */
    double saved;   /* seconds on lab_now */
} tune_ledger;

/* `identity`, whose reference is taken, says what is computed from what: a file of another run is
 * refused. Without a path nothing is saved. Close it whatever this returns. */
bool tune_ledger_open(const char *path, json_t *identity, tune_ledger *ledger, lab_error *error);
void tune_ledger_close(tune_ledger *ledger); /* a zeroed one is fine */

/* Whether it has entries: from its file, or by now. */
bool tune_ledger_is_resumed(const tune_ledger *ledger);

/* A borrowed reference, or NULL. */
json_t *tune_ledger_get(const tune_ledger *ledger, const char *key);

/* Takes the reference, NULL where memory ran out. Saves the first time and every two seconds. */
bool tune_ledger_put(tune_ledger *ledger, const char *key, json_t *value, lab_error *error);
bool tune_ledger_save(tune_ledger *ledger, lab_error *error);

/* The same for all ranks, of which the first has read the file; the others open without a path.
 * Refuses an identity that is not that of the first. */
bool tune_ledger_share(tune_ledger *ledger, tune_together *together, lab_error *error);

/* From here on ranks add entries of their own (`path`: of the first one's file, or NULL), ... */
bool tune_ledger_part(tune_ledger *ledger, tune_together *together, const char *path,
                      lab_error *error);

/* ... and then all have all of them, if all have been successful. */
bool tune_ledger_join(tune_ledger *ledger, tune_together *together, bool is_good, lab_error *error);

#endif
