/*
 * Chooses the table of kernels once, at first use. The choice is the only static variable
 * that threads share; every thread would write the same value, so that a race between
 * them is harmless.
 */
#include "isa/kernels.h"
#include "base/last_error.h"
#include "isa/sets.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* web/wasm builds modules with one set each. */
#if !defined(WHET_SETS)
#define WHET_SETS "isa/sets.def"
#endif

typedef struct candidate {
    const kernels *table;
    int (*runs_here)(void);
} candidate;

/* How sets.def asks what the processor has. */
#define CPU(feature) __builtin_cpu_supports(feature)
#define F16C has_f16c()

#if defined(__x86_64__)
/* Not every compiler's __builtin_cpu_supports knows this one. Checked after avx2, which also says
 * that the operating system saves the wide registers. */
static int has_f16c(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}
#endif

#define WHET_SET(name, target, flags, condition)                                                   \
    WHET_IF(                                                                                       \
        target, static int runs_##name(void) { return condition; })
#include WHET_SETS

/* Best first. */
static const candidate candidates[] = {
#define WHET_SET(name, target, flags, condition)                                                   \
    WHET_IF(target, {&whet_kernels_##name, runs_##name}, )
#include WHET_SETS
};

#define CANDIDATES (sizeof candidates / sizeof candidates[0])

const kernels *whet_kernels_named(const char *name) {
    for (size_t i = 0; i < CANDIDATES; i++)
        if (strcmp(candidates[i].table->name, name) == 0)
            return candidates[i].runs_here() ? candidates[i].table : NULL;
    return NULL;
}

static const kernels *choose(void) {
    const char *wanted = getenv("WHET_ISA");
    const kernels *table = wanted ? whet_kernels_named(wanted) : NULL;
    for (size_t i = 0; !table && i < CANDIDATES; i++)
        if (candidates[i].runs_here())
            table = candidates[i].table;
    return table;
}

const kernels *whet_kernels_get(void) {
    static _Atomic(const kernels *) chosen;
    const kernels *table = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!table) {
        table = choose();
        atomic_store_explicit(&chosen, table, memory_order_release);
    }
    return table;
}

/* "avx2, scalar": the sets that this processor has, best first. */
static void list_sets(char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < CANDIDATES && length < size; i++)
        if (candidates[i].runs_here())
            length += (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "",
                                       candidates[i].table->name);
}

static bool is_set(const char *name) {
    bool found = false;
    for (size_t i = 0; i < CANDIDATES; i++)
        found = found || strcmp(candidates[i].table->name, name) == 0;
    return found;
}

whet_status whet_isa_check(void) {
    const char *wanted = getenv("WHET_ISA");
    char here[80];
    if (!wanted || !*wanted || whet_kernels_named(wanted))
        return WHET_OK;
    list_sets(here, sizeof here);
    return whet_refuse(WHET_ERROR_UNSUPPORTED,
                       is_set(wanted) ? "this processor lacks WHET_ISA '%.60s'; supported here: %s"
                                      : "unknown WHET_ISA '%.60s'; supported here: %s",
                       wanted, here);
}

const char *whet_isa(void) { return whet_kernels_get()->name; }
