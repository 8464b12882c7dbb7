/*
 * Checkpoints: a file with everything that a run needs to go on as if it had
 * never stopped. Little-endian:
 *
 *     8 bytes   "WHETCKPT"
 *     u32       version, 1
 *     u32       length of the description
 *     ...       the description: one JSON object (the model and its training)
 *     u64       step
 *     u64       number of floats
 *     f32 ...   the floats
 *     u64       checksum (FNV-1a of all bytes before it)
 *
 * Files are replaced atomically; damaged files and files of another kind are
 * refused.
 */
#ifndef WHET_LAB_CHECKPOINT_H
#define WHET_LAB_CHECKPOINT_H

#include "base/json.h"

#include <stddef.h>
#include <stdint.h>

typedef struct nn_checkpoint {
    json_t *description;
    uint64_t step;
    size_t count;
    float *values;
} nn_checkpoint;

/* Values are gathered from several arrays. */
typedef struct nn_span {
    const float *values;
    size_t count;
} nn_span;

bool nn_checkpoint_write(const char *path, const json_t *description, uint64_t step,
                         const nn_span *spans, size_t span_count, lab_error *error);

/* Reads and checks everything there is to check without knowing the model. */
bool nn_checkpoint_read(const char *path, nn_checkpoint *checkpoint, lab_error *error);

/* An option whose name differs from its member in the description: "algorithm" for "algorithms"; or
 * that is given where the member is false: "untied" for "tied". */
typedef struct nn_option_name {
    const char *key, *option;
    bool is_negated;
} nn_option_name;

/* Whether the description of a checkpoint agrees with ours in all of our members; `except` (or
 * NULL) may differ. The error names the option and both of its values. `names` ends with a key of
 * NULL. */
bool nn_checkpoint_agrees(json_t *ours, json_t *theirs, const char *except,
                          const nn_option_name *names, const char *path, lab_error *error);

/* A zero-initialised one is fine. */
void nn_checkpoint_free(nn_checkpoint *checkpoint);

#endif
