/* The engine for tests that train: opened before the first of them; without a BLAS they are
 * skipped. */
#ifndef WHET_TESTS_SUPPORT_ENGINE_H
#define WHET_TESTS_SUPPORT_ENGINE_H

#include "support/check.h"

#include "nn/layers.h"

static nn_engine engine;

static void open_engine(void) {
    lab_error error = {.kind = LAB_NO_ERROR};
    if (!engine.kernels && !nn_engine_open(&engine, &error)) {
        engine.kernels = NULL;
        SKIP("%s", error.text);
    }
}

__attribute__((constructor)) static void before_each(void) { check_before_each(open_engine); }

#endif
