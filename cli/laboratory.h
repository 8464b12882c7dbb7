/*
 * What commands that compute need: the BLAS, threads and perhaps trained heads,
 * opened and closed as one.
 */
#ifndef WHET_CLI_LABORATORY_H
#define WHET_CLI_LABORATORY_H

#include "options.h"

#include "retrieval/head.h"

/* The BLAS, threads, and heads if a path is given. */
typedef struct laboratory {
    nn_engine engine;
    whet_pool *pool;
    whet_executor executor;
    retrieval_heads heads;
    lab_error error;
} laboratory;

/* threads 0: one for each processor. On failure lab->error says why. */
bool open_laboratory(laboratory *lab, uint64_t threads, const char *heads_path);
void close_laboratory(laboratory *lab);

/* The end of a command's help: what else decides on the BLAS. */
#define BLAS_ENVIRONMENT                                                                           \
    "environment:\n"                                                                               \
    "  WHET_BLAS          another library with cblas_sgemm\n"                                      \
    "  OPENBLAS_CORETYPE  which kernels OpenBLAS uses\n"

#endif
