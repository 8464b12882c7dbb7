/*
 * Sets up what the sections share (the processor's name, OpenBLAS, a pool of
 * threads), runs them one after the other and clears up.
 */
#include "suite.h"

#include <stdio.h>
#include <string.h>

static const effort full = {.rounds = 7, .seconds = 3};
static const effort quick = {.rounds = 3, .seconds = 0.6};

/* The name after "model name :" in the system's own description. */
static void find_cpu_name(char *name, size_t size) {
    snprintf(name, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(name, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    fclose(file);
}

static bool run_sections(suite *with) {
    const suite_options *wanted = &with->options;
    return (!wanted->rows || bench_rows(with)) && (!wanted->prefill || bench_prefill(with)) &&
           (!wanted->decode || bench_decode(with)) && (!wanted->backward || bench_backward(with)) &&
           (!wanted->long_run || bench_long(with));
}

bool bench_run(const suite_options *options, report *result) {
    memset(result, 0, sizeof *result);
    suite with = {.options = *options, .until = options->quick ? quick : full, .report = result};
    whet_status status = whet_pool_create(options->threads, &with.pool);
    if (status != WHET_OK)
        return bench_report_fail(result, "threads", whet_status_text(status));
    with.executor = whet_pool_executor(with.pool);
    result->quick = options->quick;
    result->threads = whet_pool_threads(with.pool);
    find_cpu_name(result->cpu, sizeof result->cpu);
    if (options->prefill)
        bench_blas_open(&with.blas, result->blas, sizeof result->blas);
    bool done = run_sections(&with);
    bench_blas_close(&with.blas);
    whet_pool_destroy(with.pool);
    return done;
}
