/* The engine of layers, opened before every test of a program; all are skipped where there is no
 * BLAS. */
#ifndef WHET_TESTS_SUPPORT_ENGINE_H
#define WHET_TESTS_SUPPORT_ENGINE_H

#include "support/check.h"

#include "nn/layers.h"

static nn_engine engine;

static void open_engine(void) {
    lab_error error = {0};
    if (!engine.kernels && !nn_engine_open(&engine, &error)) {
        engine.kernels = NULL;
        SKIP("%s", error.text);
    }
}

__attribute__((constructor)) static void before_each(void) { check_before_each(open_engine); }

#endif
