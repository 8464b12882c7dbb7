/*
 * Loads OpenBLAS with the right kernels. It reads OPENBLAS_CORETYPE, or else
 * looks at the processor's model; releases such as 0.3.21 do not know recent
 * Intel models and take kernels for processors without AVX-512, at a fifth of
 * the speed, and fall back to very old ones for models of AMD's they have not
 * heard of. What the processor can do is a better guide than its model: unless
 * the user has chosen, kernels are asked for by name.
 */
#define _POSIX_C_SOURCE 200809L

#include "nn/blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

/* NULL where OpenBLAS is left to choose. */
static const char *fitting_kernels(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return __builtin_cpu_is("amd") ? "Zen" : "Haswell";
#endif
    return NULL;
}

static void *load(void) {
    const char *chosen = getenv("WHET_BLAS");
    if (chosen && *chosen)
        return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

/* ISO C has no conversion from an object pointer, which dlsym returns, to a function pointer. */
static bool find(void *library, const char *name, void *function, size_t size) {
    void *found = dlsym(library, name);
    memcpy(function, &found, size);
    return found != NULL;
}

static void describe(nn_blas *blas) {
    const char *(*config)(void) = NULL;
    const char *(*core_name)(void) = NULL;
    find(blas->library, "openblas_get_config", &config, sizeof config);
    find(blas->library, "openblas_get_corename", &core_name, sizeof core_name);
    if (!config || !core_name) {
        snprintf(blas->description, sizeof blas->description, "the BLAS of WHET_BLAS");
        return;
    }
    /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the first two words. */
    const char *text = config();
    size_t length = strcspn(text, " ");
    if (text[length] == ' ')
        length += 1 + strcspn(text + length + 1, " ");
    snprintf(blas->description, sizeof blas->description, "%.*s, kernels for %s", (int)length, text,
             core_name());
}

bool nn_blas_open(nn_blas *blas, lab_error *error) {
    *blas = (nn_blas){.library = NULL};
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    const char *kernels = fitting_kernels();
    if (kernels)
        setenv("OPENBLAS_CORETYPE", kernels, 0);
    blas->library = load();
    if (!blas->library)
        return lab_fail(error, LAB_SYSTEM, "no BLAS: install libopenblas0, or set WHET_BLAS");
    if (!find(blas->library, "cblas_sgemm", &blas->sgemm, sizeof blas->sgemm)) {
        nn_blas_close(blas);
        return lab_fail(error, LAB_SYSTEM, "the BLAS has no cblas_sgemm");
    }
    void (*set_threads)(int) = NULL;
    if (find(blas->library, "openblas_set_num_threads", &set_threads, sizeof set_threads))
        set_threads(1);
    describe(blas);
    return true;
}

void nn_blas_close(nn_blas *blas) {
    if (blas->library)
        dlclose(blas->library);
    *blas = (nn_blas){.library = NULL};
}

void nn_multiply(const nn_blas *blas, nn_product shape, const float *a, const float *b, float *c) {
    blas->sgemm(ROW_MAJOR, shape.ta ? TRANSPOSE : NO_TRANSPOSE, shape.tb ? TRANSPOSE : NO_TRANSPOSE,
                (int)shape.m, (int)shape.n, (int)shape.k, 1, a, (int)(shape.ta ? shape.m : shape.k),
                b, (int)(shape.tb ? shape.k : shape.n), shape.add ? 1.0F : 0.0F, c, (int)shape.n);
}
