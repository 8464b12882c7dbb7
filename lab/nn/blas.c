/*
 * Loads OpenBLAS with the right kernels. It reads OPENBLAS_CORETYPE, or else
 * looks at the processor's model; releases such as 0.3.21 do not know recent
 * Intel models and use kernels for processors without AVX-512, at a fifth of
 * the speed, and fall back to very old ones for AMD models they do not know.
 * The processor's features are a better guide than its model: unless the user
 * has chosen, kernels are requested by name.
 *
 * OpenBLAS maps a buffer of 128 MiB for each product under way, keeps it for the
 * next one, and where the mapping fails tries again for ever. So its buffers are
 * mapped before the first product, after a trial of our own.
 */
#define _POSIX_C_SOURCE 200809L

#include "nn/blas.h"

#include "base/signals.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* What the loader said of the last library. */
static const char *loader_reason(void) {
    const char *reason = dlerror();
    return reason ? reason : "unknown reason";
}

static void *load(lab_error *error) {
    const char *chosen = getenv("WHET_BLAS");
    if (chosen && *chosen) {
        void *library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            lab_fail(error, LAB_INPUT, "WHET_BLAS=%s: cannot load: %s", chosen,
                     lab_without_path(loader_reason(), chosen));
        return library;
    }
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib"};
    char reason[300] = ""; /* of the first, which is the usual one */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
        if (i == 0)
            snprintf(reason, sizeof reason, "%s", loader_reason());
    }
    lab_fail(error, LAB_SYSTEM, "no BLAS: install libopenblas0, or set WHET_BLAS (%s)", reason);
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
    blas->library = load(error);
    if (!blas->library)
        return false;
    if (!find(blas->library, "cblas_sgemm", &blas->sgemm, sizeof blas->sgemm)) {
        nn_blas_close(blas);
        return lab_fail(error, LAB_SYSTEM, "the BLAS has no cblas_sgemm");
    }
    find(blas->library, "blas_memory_alloc", &blas->map_buffer, sizeof blas->map_buffer);
    find(blas->library, "blas_memory_free", &blas->leave_buffer, sizeof blas->leave_buffer);
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

enum {
    BUFFER_MIB = 128,
    BUFFERS_MAX = 64, /* more threads than this rarely multiply at the same time */
};

/* Whether the system has this many buffers left. They are mapped one by one, as OpenBLAS does: one
 * mapping of all could be refused where they are not. */
static bool has_memory_for(size_t buffers) {
    const size_t bytes = ((size_t)BUFFER_MIB << 20) + ((size_t)1 << 20);
    void *tried[BUFFERS_MAX];
    size_t count = 0;
    for (; count < buffers; count++) {
        tried[count] =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (tried[count] == MAP_FAILED)
            break;
    }
    bool is_enough = count == buffers;
    while (count > 0)
        munmap(tried[--count], bytes);
    return is_enough;
}

/* OpenBLAS maps the buffers that it does not have yet, and keeps them when they are given back. */
static void map_buffers(const nn_blas *blas, size_t count) {
    void *buffers[BUFFERS_MAX];
    for (size_t i = 0; i < count; i++)
        buffers[i] = blas->map_buffer(0);
    for (size_t i = 0; i < count; i++)
        blas->leave_buffer(buffers[i]);
}

bool nn_blas_reserve(const nn_blas *blas, size_t threads, lab_error *error) {
    if (!blas->map_buffer || !blas->leave_buffer)
        return true; /* not OpenBLAS */
    size_t count = threads < BUFFERS_MAX ? threads : BUFFERS_MAX;
    if (!has_memory_for(count))
        return lab_fail(error, LAB_SYSTEM,
                        count == 1 ? "out of memory: OpenBLAS needs %d MiB"
                                   : "out of memory: OpenBLAS needs %d MiB for each of %zu "
                                     "threads; use fewer --threads",
                        BUFFER_MIB, count);
    lab_end_on_interrupt(true); /* should OpenBLAS wait for memory nevertheless */
    map_buffers(blas, count);
    lab_end_on_interrupt(false);
    return true;
}

void nn_multiply(const nn_blas *blas, nn_product shape, const float *a, const float *b, float *c) {
    blas->sgemm(ROW_MAJOR, shape.ta ? TRANSPOSE : NO_TRANSPOSE, shape.tb ? TRANSPOSE : NO_TRANSPOSE,
                (int)shape.m, (int)shape.n, (int)shape.k, 1, a, (int)(shape.ta ? shape.m : shape.k),
                b, (int)(shape.tb ? shape.k : shape.n), shape.add ? 1.0F : 0.0F, c, (int)shape.n);
}
