/* Opened in the order in which failures are cheap to tell, closed in the other. */
#include "laboratory.h"

bool open_laboratory(laboratory *lab, uint64_t threads, const char *heads_path) {
    *lab = (laboratory){.pool = NULL};
    /* Heads first: a wrong path is reported without a BLAS, too. */
    if (heads_path && !retrieval_heads_load(heads_path, &lab->heads, &lab->error))
        return false;
    if (!nn_engine_open(&lab->engine, &lab->error)) {
        close_laboratory(lab);
        return false;
    }
    whet_status status = whet_pool_create((size_t)threads, &lab->pool);
    if (status != WHET_OK) {
        close_laboratory(lab);
        return lab_fail(&lab->error, LAB_SYSTEM, "%s", whet_last_error());
    }
    lab->executor = whet_pool_executor(lab->pool);
    if (!nn_blas_reserve(&lab->engine.blas, whet_pool_threads(lab->pool), &lab->error)) {
        close_laboratory(lab);
        return false;
    }
    return true;
}

void close_laboratory(laboratory *lab) {
    whet_pool_destroy(lab->pool);
    nn_engine_close(&lab->engine);
    retrieval_heads_free(&lab->heads);
    lab->pool = NULL;
}
