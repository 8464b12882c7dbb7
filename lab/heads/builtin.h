/* The trained heads that are part of the program; README.md in this folder says how they were made.
 */
#ifndef WHET_LAB_HEADS_BUILTIN_H
#define WHET_LAB_HEADS_BUILTIN_H

#include "retrieval/head.h"

/* Those of a precision, in the order of their seeds, to be freed. There are ten of bf16-products
 * (seeds 0 to 9) and one of f32 (seed 0), all trained for 100,000 steps; none of bf16, which is an
 * error. */
bool builtin_heads(retrieval_precision precision, retrieval_heads *heads, lab_error *error);

/* How many there are. */
size_t builtin_head_count(retrieval_precision precision);

/* Of all their bytes, to tell them from those of another version. */
uint64_t builtin_heads_checksum(retrieval_precision precision);

#endif
