/* Candidates without gradients: what a search by forward passes finds. */
#include "tune/run.h"
#include "tune/search.h"

#include <stdio.h>
#include <string.h>

/* The losses of a search are the same for every seed, which orders them only. */
static const char key[] = "search";

static bool keep(void *context, json_t *state, lab_error *error) {
    tune_run_state *run = context;
    return tune_ledger_put(&run->ledger, key, json_incref(state), error);
}

static bool heard(void *context, const tune_search_news *news) {
    tune_run_state *run = context;
    lab_progress_show(&run->progress, news->passes, "%s, %s, a %+.3f, %zu steps of layers",
                      run->doing, news->stage, news->a, news->accepted);
    return true;
}

/* What is searched on: the task's answers, or texts. */
static const tune_sequence *material(const tune_run_state *run, size_t *count) {
    bool has_task = run->request->task != NULL;
    *count = has_task ? run->examples[TUNE_CALIBRATION].count : run->calibration.count;
    return has_task ? run->tasks[TUNE_CALIBRATION] : run->calibration.list;
}

/* Whether the search also finds the numbers of layers, which gradients do better. */
static bool has_layers(const tune_run_state *run) {
    return run->request->by != TUNE_BY_ALL && !run->learner;
}

static bool search(tune_run_state *run, size_t seed, tune_setting *setting,
                   tune_search_result *found) {
    size_t count;
    const tune_sequence *sequences = material(run, &count);
    tune_search_options options = tune_search_defaults();
    const tune_search_listener listener = {run, keep, heard};
    options.bound = run->request->bound;
    options.has_layers = has_layers(run);
    options.is_tuned = run->is_tuned;
    options.budget = run->request->passes;
    options.seed = lab_seed_for(run->request->seed, "search", seed);
    snprintf(run->doing, sizeof run->doing, "search %zu", seed);
    const json_t *known = tune_ledger_get(&run->ledger, key);
    json_t *state = known ? json_deep_copy(known) : json_object();
    if (!state)
        return lab_fail_memory(run->error);
    run->progress = lab_progress_begin("tune", 0, options.budget, run->request->quiet);
    bool good = tune_search(&run->models[0].judge, sequences, count, &options, &listener, state,
                            setting, found, run->error);
    lab_progress_end(&run->progress);
    json_decref(state);
    return good;
}

bool tune_search_candidates(tune_run_state *run, size_t seed) {
    const tune_result *result = run->result;
    tune_setting setting;
    tune_search_result found = {.a = 0};
    bool good = tune_setting_create(result->layers, result->heads, result->n0, &setting) ||
                lab_fail_memory(run->error);
    good = good && search(run, seed, &setting, &found);
    if (good && has_layers(run))
        good = tune_consider(run, &setting, run->request->by, seed, found.passes, 1);
    if (good) {
        tune_setting_fill_tuned(&setting, run->is_tuned, found.a, found.h);
        good = tune_consider(run, &setting, TUNE_BY_ALL, seed, found.passes, 1);
    }
    tune_setting_free(&setting);
    return good;
}
