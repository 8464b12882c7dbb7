/* The phases of a run, one after the other; see tune.h. */
#include "tune/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tune_announce(tune_run_state *run, size_t total, const char *format, ...) {
    char text[sizeof run->doing];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    char *end = strstr(text, ", validation, validation");
    if (end)
        end[strlen(", validation")] = '\0';
    snprintf(run->doing, sizeof run->doing, "%s", text);
    run->progress = lab_progress_begin("tune", 0, total, run->request->quiet);
}

bool tune_progress(void *listener, size_t done) {
    tune_run_state *run = listener;
    lab_progress_show(&run->progress, done, "%s", run->doing);
    if (done == run->progress.total)
        lab_progress_end(&run->progress);
    return true;
}

static bool run_phases(tune_run_state *run) {
    bool good = tune_prepare(run);
    tune_result *result = run->result;
    result->part = (double)result->context > result->n0 ? TUNE_BEYOND : TUNE_ALL;
    good = good && tune_find_candidates(run) && tune_choose(run) && tune_check_all(run);
    for (size_t i = 0; i < run->model_count; i++) {
        size_t bytes = run->models[i].network ? tune_network_bytes(run->models[i].network) : 0;
        result->bytes = bytes > result->bytes ? bytes : result->bytes;
    }
    return good;
}

bool tune_run(const tune_request *request, tune_result *result, lab_error *error) {
    tune_run_state run = {.request = request, .result = result, .error = error};
    *result = (tune_result){.layers = 0};
    bool good = run_phases(&run);
    lab_error ignored;
    if (good)
        tune_ledger_remove(&run.ledger);
    else if (run.ledger.path)
        tune_ledger_save(&run.ledger, &ignored);
    if (good) {
        result->candidates = run.candidates;
        result->candidate_count = run.candidate_count;
        run.candidates = NULL;
        run.candidate_count = 0;
    }
    if (good && !result->is_confirmed)
        tune_setting_fill(&result->setting, 0, 0);
    tune_clean_up(&run);
    return good;
}
