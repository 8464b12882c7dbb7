/* The phases of a run, one after the other; see tune.h. */
#include "tune/run.h"

#include "base/clock.h"
#include "tune/search.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tune_announce(tune_run_state *run, size_t total, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(run->showing, sizeof run->showing, format, values);
    va_end(values);
    run->progress = lab_progress_begin("tune", 0, total, run->request->quiet);
}

bool tune_progress(void *listener, size_t done) {
    tune_run_state *run = listener;
    lab_progress_show(&run->progress, done, "%s", run->showing);
    if (done == run->progress.total)
        lab_progress_end(&run->progress);
    return true;
}

/* ---- how long it will take ---- */

/* Seconds of one sequence's forward pass: on one thread, or by llama.cpp on all of them with its
 * share of loading the model. */
static bool time_forward(tune_run_state *run, double *seconds) {
    const tune_judge *judge = &run->models[0].judge;
    const tune_arm arm = {.setting = &run->neutral};
    size_t batch = tune_search_defaults().batch;
    size_t sequences = !run->request->is_forward        ? 1
                       : batch < run->calibration.count ? batch
                                                        : run->calibration.count;
    size_t count = sequences * run->result->context;
    tune_losses losses = {.loss = malloc(count * sizeof(float)), .right = malloc(count)};
    double began = lab_now();
    bool good = (losses.loss && losses.right) || lab_fail_memory(run->error);
    good = good && judge->run(judge->context, &arm, run->calibration.list, sequences, &losses, NULL,
                              NULL, run->error);
    *seconds = (lab_now() - began) / (double)sequences;
    free(losses.loss);
    free(losses.right);
    return good;
}

/* Forward passes of the whole run; a step's gradient counts as three. */
static double passes_of(const tune_run_state *run) {
    enum { OTHER_ARMS = 8 };
    const tune_request *request = run->request;
    const tune_result *result = run->result;
    double runs = (double)request->seeds * (request->by == TUNE_BY_ALL ? 1 : 2);
    double validation = (double)run->examples[TUNE_VALIDATION].count;
    double check = (double)run->examples[TUNE_CHECK].count;
    for (size_t i = 0; i < result->validate.count; i++)
        validation += (double)run->validation[i].count;
    for (size_t i = 0; i < result->check.count; i++)
        check += (double)run->check[i].count;
    double learning = request->is_forward ? (double)(request->seeds * request->passes)
                                          : runs * (3 * (double)(request->steps * request->batch));
    double looks = request->is_forward ? 1 : TUNE_LOOKS;
    return learning + runs * looks * validation + (runs + TUNE_PERMUTATIONS + OTHER_ARMS) * check;
}

static bool is_confirmed(tune_run_state *run) {
    const tune_request *request = run->request;
    double seconds;
    if (!request->confirm)
        return true;
    /* llama.cpp computes one sequence on all threads. */
    double threads = request->executor ? (double)request->executor->workers : 1;
    return time_forward(run, &seconds) &&
           request->confirm(request->confirm_context, seconds * passes_of(run) / threads);
}

static bool run_phases(tune_run_state *run) {
    bool good = tune_prepare(run) && is_confirmed(run);
    tune_result *result = run->result;
    /* The last token is predicted from one key less than the sequence has. */
    result->part = (double)result->context - 1 > result->n0 ? TUNE_BEYOND : TUNE_ALL;
    good = good && tune_find_candidates(run) && tune_choose(run) && tune_check_all(run);
    for (size_t i = 0; i < run->model_count; i++) {
        size_t bytes = run->models[i].network ? tune_network_bytes(run->models[i].network) : 0;
        result->bytes = bytes > result->bytes ? bytes : result->bytes;
    }
    return good;
}

bool tune_run(const tune_request *request, tune_result *result, lab_error *error) {
    tune_run_state run = {.request = request,
                          .result = result,
                          .error = error,
                          .together = {.ranks = request->ranks}};
    *result = (tune_result){.layers = 0};
    bool good = run_phases(&run);
    good = tune_agree(&run.together, good, error);
    lab_error ignored;
    if (tune_ledger_is_resumed(&run.ledger)) /* has entries: until the caller has kept the result */
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
