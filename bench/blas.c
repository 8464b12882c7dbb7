/*
 * Loads OpenBLAS and drives its sgemm. Which kernels OpenBLAS uses is settled
 * while it is loaded, from OPENBLAS_CORETYPE or from the processor's model.
 * Releases such as 0.3.21 do not know recent Intel models and take kernels for
 * processors without AVX-512, at a fifth of the speed: where there is AVX-512,
 * and the user has not chosen, the kernels for it are asked for by name.
 */
#define _POSIX_C_SOURCE 200809L

#include "blas.h"

#include "inputs.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

static bool has_avx512(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

static void *load(void) {
    const char *chosen = getenv("WHET_BLAS");
    if (chosen && *chosen)
        return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
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

static void describe(void *library, char *description, size_t size) {
    const char *(*config)(void) = NULL;
    const char *(*core_name)(void) = NULL;
    find(library, "openblas_get_config", &config, sizeof config);
    find(library, "openblas_get_corename", &core_name, sizeof core_name);
    if (!config || !core_name) {
        snprintf(description, size, "the BLAS of WHET_BLAS");
        return;
    }
    /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the first two words. */
    const char *text = config();
    size_t length = strcspn(text, " ");
    if (text[length] == ' ')
        length += 1 + strcspn(text + length + 1, " ");
    snprintf(description, size, "%.*s, kernels for %s", (int)length, text, core_name());
}

static bool refuse(blas *opened, char *description, size_t size, const char *why) {
    bench_blas_close(opened);
    snprintf(description, size, "none (%s)", why);
    return false;
}

bool bench_blas_open(blas *opened, char *description, size_t description_size) {
    *opened = (blas){.library = NULL};
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    if (has_avx512())
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    opened->library = load();
    if (!opened->library)
        return refuse(opened, description, description_size,
                      "install libopenblas0, or set WHET_BLAS");
    if (!find(opened->library, "cblas_sgemm", &opened->sgemm, sizeof opened->sgemm))
        return refuse(opened, description, description_size, "it has no cblas_sgemm");
    opened->scores = bench_inputs_allocate((size_t)BLAS_ROWS * BLAS_KEYS_MAX * sizeof(float));
    if (!opened->scores)
        return refuse(opened, description, description_size, "not enough memory");
    void (*set_threads)(int) = NULL;
    if (find(opened->library, "openblas_set_num_threads", &set_threads, sizeof set_threads))
        set_threads(1);
    describe(opened->library, description, description_size);
    return true;
}

void bench_blas_close(blas *opened) {
    if (opened->library)
        dlclose(opened->library);
    free(opened->scores);
    *opened = (blas){.library = NULL};
}

void bench_blas_products(void *argument) {
    const blas_work *work = argument;
    blas_sgemm sgemm = work->with->sgemm;
    float *scores = work->with->scores;
    int dim = (int)work->dim;
    size_t step = work->causal ? BLAS_ROWS_CAUSAL : BLAS_ROWS;
    for (size_t first = 0; first < work->n; first += step) {
        size_t rows = work->n - first < step ? work->n - first : step;
        int keys = (int)(work->causal ? first + rows : work->n);
        sgemm(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, (int)rows, keys, dim, 1,
              work->q + first * work->dim, dim, work->k, dim, 0, scores, keys);
        sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, (int)rows, dim, keys, 1, scores, keys, work->v,
              dim, 0, work->out + first * work->dim, dim);
    }
}
