/*
 * Sets up what the sections share (the processor's name, OpenBLAS, a pool of
 * threads), runs them one after the other and clears up.
 */
#include "suite.h"

#include "base/machine.h"

#include <string.h>

static const effort full = {.rounds = 7, .seconds = 3};
static const effort quick = {.rounds = 3, .seconds = 0.6};

static bool run_sections(suite *with) {
    const suite_options *wanted = &with->options;
    return (!wanted->rows || bench_rows(with)) && (!wanted->prefill || bench_prefill(with)) &&
           (!wanted->decode || bench_decode(with)) && (!wanted->backward || bench_backward(with)) &&
           (!wanted->retrieval || bench_retrieval(with)) && (!wanted->lm || bench_lm(with)) &&
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
    lab_cpu_name(result->cpu, sizeof result->cpu);
    if (options->prefill || options->retrieval || options->lm)
        bench_blas_open(&with.blas, result->blas, sizeof result->blas);
    bool done = run_sections(&with);
    bench_blas_close(&with.blas);
    whet_pool_destroy(with.pool);
    return done;
}
