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

/* Seconds of a judge for a token of the sequences to learn from: on one thread, or by llama.cpp on
 * all of them with its share of loading the model. */
static bool time_judge(tune_run_state *run, const tune_judge *judge, double *seconds) {
    enum { ENOUGH = 4096 }; /* tokens */
    const tune_arm arm = {.setting = &run->neutral};
    size_t length = run->result->learn_context, sequences = 1;
    if (run->request->is_forward) {
        size_t batch = tune_search_defaults().batch;
        while (sequences < batch && sequences < run->calibration.count &&
               sequences * length < ENOUGH)
            sequences++;
    }
    size_t count = sequences * length;
    tune_losses losses = {.loss = malloc(count * sizeof(float)), .right = malloc(count)};
    double began = lab_now();
    bool good = (losses.loss && losses.right) || lab_fail_memory(run->error);
    good = good && judge->run(judge->context, &arm, run->calibration.list, sequences, &losses, NULL,
                              NULL, run->error);
    *seconds = (lab_now() - began) / (double)count;
    free(losses.loss);
    free(losses.right);
    return good;
}

/* Tokens that gradients are computed of, each as much work as three in a forward pass; and those of
 * everything else. */
static double tokens_of_gradients(const tune_run_state *run) {
    const tune_request *request = run->request;
    bool has_one = !request->is_forward, has_own = request->by != TUNE_BY_ALL;
    double runs = (double)(request->seeds * ((size_t)has_one + (size_t)has_own));
    if (request->is_forward && !request->has_gradients)
        return 0;
    return 3 * runs * (double)(request->steps * request->batch * run->result->learn_context);
}

static double tokens_of_rest(const tune_run_state *run) {
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
    double looks = request->is_forward && !request->has_gradients ? 1 : (double)request->looks;
    double judged = runs * looks * validation + (runs + TUNE_PERMUTATIONS + OTHER_ARMS) * check;
    double search = request->is_forward ? (double)(request->seeds * request->passes) : 0;
    return search * (double)result->learn_context + judged * (double)result->context;
}

static bool is_confirmed(tune_run_state *run) {
    const tune_request *request = run->request;
    double seconds, learning;
    if (!request->confirm)
        return true;
    if (!time_judge(run, &run->models[0].judge, &seconds))
        return false;
    learning = seconds;
    if (run->learner) {
        const tune_judge judge = tune_network_judge(run->learner);
        if (!time_judge(run, &judge, &learning))
            return false;
    }
    /* llama.cpp computes one sequence on all threads. */
    double threads = request->executor ? (double)request->executor->workers : 1;
    double judging = request->is_forward ? 1 : threads;
    return request->confirm(request->confirm_context,
                            learning * tokens_of_gradients(run) / threads +
                                seconds * tokens_of_rest(run) / judging);
}

static bool run_phases(tune_run_state *run) {
    bool good = tune_prepare(run) && is_confirmed(run);
    tune_result *result = run->result;
    /* The last token is predicted from one key less than the sequence has. */
    result->part = (double)result->context - 1 > result->n0 ? TUNE_BEYOND : TUNE_ALL;
    good = good && tune_find_candidates(run);
    tune_close_learner(run);
    good = good && tune_choose(run) && tune_check_all(run);
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
