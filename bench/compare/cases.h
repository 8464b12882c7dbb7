/*
 * The benchmark's cases as a module, BUILD/bench/libwhet_cases.so. It contains
 * the library that was built with it, so that two versions can be compared in
 * one process even where their public structs differ: nothing of whet.h is in
 * this interface. It must not change, or CASES_VERSION must.
 */
#ifndef WHET_BENCH_COMPARE_CASES_H
#define WHET_BENCH_COMPARE_CASES_H

#include <stdbool.h>
#include <stddef.h>

enum { CASES_VERSION = 1, CASES_ERROR_SIZE = 160 };

/* One thing to time: a run computes the same from the same inputs every time. */
typedef struct cases_contender {
    const char *name; /* "adaptive" */
    void (*run)(void *argument);
    void *argument;
    size_t threads; /* that it runs on */
} cases_contender;

/* Where a module gets memory for tensors and for scratch, aligned to a page. Two modules may be
 * given the same memory: each fills tensors with the same numbers, and needs nothing that a run
 * leaves in the rest. */
typedef struct cases_memory {
    void *(*allocate)(void *context, size_t bytes); /* NULL where there is none left */
    void (*release)(void *context, void *memory);
    void *context;
} cases_memory;

/* Called for each problem of a list: "rows" and "n=4096", and the seconds that a quick run of the
 * benchmark gives it. The texts are valid during the call. */
typedef void cases_found(void *context, const char *section, const char *label, double seconds);

/* Called when a problem's inputs are in memory; they are released when it returns. */
typedef void cases_opened(void *context, const cases_contender *contenders, size_t count);

/* Functions that can fail return false and leave a sentence in `error`. */
typedef struct cases_module {
    unsigned version;
    const char *library; /* "0.3.0 (avx2)" */
    bool (*list)(cases_found *found, void *context, char error[CASES_ERROR_SIZE]);
    bool (*open)(const char *section, const char *label, const cases_memory *memory,
                 cases_opened *opened, void *context, char error[CASES_ERROR_SIZE]);
} cases_module;

/* The only symbol of the module. The description stays valid. */
#define CASES_SYMBOL "whet_cases"
typedef const cases_module *cases_entry_point(void);

#endif
