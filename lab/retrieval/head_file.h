/*
 * Trained heads without what training alone needs, in half the space: a file is
 * one record after the other, each little-endian:
 *
 *     8 bytes   "WHETHEAD"
 *     u32       version, 1
 *     u32       length of the description
 *     ...       the description: one JSON object (retrieval_config_to_json)
 *     u64       step
 *     u64       number of floats, a multiple of 16
 *     ...       a bit for each 16 of them, lowest first: 1 where all are bfloat16
 *     ...       the floats, 16 at a time: 2 bytes each where the bit is set, else 4
 *     u64       checksum (FNV-1a of all bytes of the record before it)
 *
 * Heads of the precision bf16-products multiply by weights rounded to bfloat16, so
 * rounded weights are what is written of them: the head that is read computes the
 * same bits as the one that was written.
 */
#ifndef WHET_LAB_RETRIEVAL_HEAD_FILE_H
#define WHET_LAB_RETRIEVAL_HEAD_FILE_H

#include "retrieval/head.h"

/* Whether a file begins like one. */
enum { RETRIEVAL_HEAD_MAGIC_SIZE = 8 };
bool retrieval_is_head_file(const void *bytes, size_t size);

bool retrieval_heads_write(const char *path, const retrieval_heads *heads, lab_error *error);

/* All heads of a file in memory, in its order; the error names it. To be freed. */
bool retrieval_heads_read(const char *name, const void *bytes, size_t size, retrieval_heads *heads,
                          lab_error *error);

#endif
