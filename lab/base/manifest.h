/*
 * The manifest of a run, written beside its results: the command, its options,
 * the machine and the date, so that the results can be reproduced.
 */
#ifndef WHET_LAB_MANIFEST_H
#define WHET_LAB_MANIFEST_H

#include "base/json.h"

typedef struct lab_manifest {
    json_t *json;
    double began;
} lab_manifest;

/* Records versions, machine and time. `options` is stolen; `blas` describes the BLAS or is NULL. */
lab_manifest lab_manifest_begin(const char *command, json_t *options, const char *blas);

/* Adds the time taken and whether the run is complete, and writes FOLDER/manifest.json. May be
 * called more than once. */
bool lab_manifest_write(lab_manifest *manifest, const char *folder, bool is_complete,
                        lab_error *error);

/* The options in FOLDER/manifest.json, as a new reference; NULL where the folder has no manifest of
 * this command. False where it cannot be read. */
bool lab_manifest_options(const char *folder, const char *command, json_t **options,
                          lab_error *error);

void lab_manifest_end(lab_manifest *manifest);

#endif
