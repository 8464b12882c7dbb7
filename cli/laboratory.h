/*
 * What commands that compute need: the BLAS, threads and perhaps trained heads,
 * opened and closed as one; and the options that come with them.
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

static inline option_spec threads_option(uint64_t *threads) {
    return (option_spec){"threads", OPTION_AMOUNT, threads, "N",
                         "threads (default: one for each processor); results do not depend on it"};
}

static inline option_spec quiet_option(bool *quiet) {
    return (option_spec){"quiet", OPTION_FLAG, quiet, NULL, "no progress"};
}

/* The end of a command's help: what else decides on the BLAS. */
#define BLAS_ENVIRONMENT                                                                           \
    "WHET_BLAS names another library with cblas_sgemm; OPENBLAS_CORETYPE chooses the\n"            \
    "kernels of OpenBLAS.\n"

#endif
