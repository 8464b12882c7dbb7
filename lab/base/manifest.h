/*
 * The manifest of a run, written beside its results: what made them, with which
 * options, on which machine and when, so that they can be had again.
 */
#ifndef WHET_LAB_MANIFEST_H
#define WHET_LAB_MANIFEST_H

#include "base/json.h"

typedef struct lab_manifest {
    json_t *json;
    double began;
} lab_manifest;

/* Notes versions, machine and time. `options` is stolen; `blas` describes the BLAS or is NULL. */
lab_manifest lab_manifest_begin(const char *command, json_t *options, const char *blas);

/* Adds the time taken and whether the run got to its end, and writes FOLDER/manifest.json. May be
 * called more than once. */
bool lab_manifest_write(lab_manifest *manifest, const char *folder, bool is_complete,
                        lab_error *error);

/* The options in FOLDER/manifest.json, as a new reference; NULL where the folder has no manifest of
 * this command. False where it cannot be read. */
bool lab_manifest_options(const char *folder, const char *command, json_t **options,
                          lab_error *error);

void lab_manifest_end(lab_manifest *manifest);

#endif
