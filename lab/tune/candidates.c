/* Candidates: the numbers at several steps of training, judged on the validation texts; and which
 * one is chosen. */
#include "tune/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_SIZE = 128, PATIENCE = 2 };

/* ---- measuring ---- */

bool tune_measure_validation(tune_run_state *run, const tune_setting *setting, const char *key,
                             tune_measure *domains, tune_measure *task) {
    const tune_judge *judge = &run->models[0].judge;
    const tune_arm arm = {.setting = setting};
    char full[KEY_SIZE + 32];
    bool good = true;
    for (size_t i = 0; good && i < run->result->validate.count; i++) {
        snprintf(full, sizeof full, "%s/validation/%zu", key, i);
        tune_announce(run, run->validation[i].count, "%s, validation", run->doing);
        good = tune_measure_run(judge, &arm, run->validation[i].list, run->validation[i].count,
                                full, &run->ledger, tune_progress, run, &domains[i], run->error);
    }
    if (!good || !run->request->task)
        return good;
    snprintf(full, sizeof full, "%s/validation/task", key);
    return tune_measure_run(judge, &arm, run->tasks[TUNE_VALIDATION],
                            run->examples[TUNE_VALIDATION].count, full, &run->ledger, NULL, NULL,
                            task, run->error);
}

/* Differences of the losses that are to fall: of answers, or of the texts that the user gave. */
static lab_interval gain_of(const tune_run_state *run, const tune_measure *domains,
                            const tune_measure *task) {
    if (run->request->task)
        return tune_difference(task->loss[TUNE_ALL], run->task_base.loss[TUNE_ALL], task->count);
    double sum = 0, squares = 0;
    size_t count = 0;
    tune_part part = run->result->part;
    for (size_t i = 0; i < run->result->validate.count; i++) {
        if (run->result->validate.domains[i].is_built_in)
            continue;
        for (size_t j = 0; j < domains[i].count; j++, count++) {
            double change = domains[i].loss[part][j] - run->validation_base[i].loss[part][j];
            sum += change;
            squares += change * change;
        }
    }
    return lab_mean_interval_of_sums(sum, squares, count);
}

double tune_cost_of(const tune_run_state *run, const tune_measure *domains, double *worst) {
    size_t parts = 0;
    double sum = 0, largest = -INFINITY;
    for (size_t i = 0; i < run->result->validate.count; i++)
        for (tune_part part = TUNE_WITHIN; part <= TUNE_BEYOND; part++) {
            double change = tune_change(&domains[i], &run->validation_base[i], part).mean;
            if (isnan(change))
                continue;
            largest = fmax(largest, change);
            sum += change;
            parts++;
        }
    if (worst)
        *worst = largest;
    return sum / (double)parts;
}

/* Adds a candidate, which takes over the setting's numbers after a copy. */
static tune_candidate *add(tune_run_state *run, const tune_setting *setting, tune_by by,
                           size_t seed, size_t step, double share) {
    tune_candidate *list =
        realloc(run->candidates, (run->candidate_count + 1) * sizeof *run->candidates);
    if (!list)
        return NULL;
    run->candidates = list;
    tune_candidate *made = &list[run->candidate_count];
    *made = (tune_candidate){.by = by, .seed = seed, .step = step, .share = share};
    run->candidate_count++;
    if (!tune_setting_create(setting->layers, setting->heads, setting->n0, &made->setting))
        return NULL;
    for (size_t i = 0; i < setting->layers * setting->heads; i++) {
        made->setting.a[i] = share * setting->a[i];
        made->setting.h[i] = share * setting->h[i];
    }
    return made;
}

bool tune_consider(tune_run_state *run, const tune_setting *setting, tune_by by, size_t seed,
                   size_t step, double share) {
    char key[KEY_SIZE] = "";
    size_t count = run->result->validate.count;
    tune_measure *domains = calloc(count + 1, sizeof *domains), task = {.count = 0};
    tune_candidate *candidate = add(run, setting, by, seed, step, share);
    bool good = (domains && candidate) || lab_fail_memory(run->error);
    if (candidate) /* the same numbers are run once */
        snprintf(key, sizeof key, "candidate/%016llx",
                 (unsigned long long)tune_setting_sum(&candidate->setting));
    good = good && tune_measure_validation(run, &candidate->setting, key, domains, &task);
    if (good) {
        candidate->gain = gain_of(run, domains, &task);
        candidate->cost = tune_cost_of(run, domains, &candidate->worst);
    }
    for (size_t i = 0; domains && i < count; i++)
        tune_measure_free(&domains[i]);
    free(domains);
    tune_measure_free(&task);
    return good;
}

static bool measure_base(tune_run_state *run) {
    run->validation_base = calloc(run->result->validate.count + 1, sizeof *run->validation_base);
    snprintf(run->doing, sizeof run->doing, "softmax");
    return run->validation_base ? tune_measure_validation(run, &run->neutral, "softmax",
                                                          run->validation_base, &run->task_base)
                                : lab_fail_memory(run->error);
}

/* ---- training ---- */

static bool stepped(void *listener, const tune_state *state) {
    tune_run_state *run = listener;
    lab_progress_show(&run->progress, state->step, "%s, loss %.4f", run->doing, state->loss);
    return true;
}

static tune_calibration calibration_of(const tune_run_state *run, tune_by by, size_t seed) {
    const tune_request *request = run->request;
    return (tune_calibration){.network = run->learner ? run->learner : run->models[0].network,
                              .by = by,
                              .is_tuned = run->is_tuned,
                              .layers = run->result->layers,
                              .heads = run->result->heads,
                              .n0 = run->result->n0,
                              .longest = (double)run->result->learn_context,
                              .texts = run->calibration.list,
                              .text_count = run->calibration.count,
                              .tasks = run->tasks[TUNE_CALIBRATION],
                              .task_count = run->examples[TUNE_CALIBRATION].count,
                              .text_weight = request->text_weight,
                              .steps = request->steps,
                              .batch = request->batch,
                              .rate = request->rate,
                              .bound = request->bound,
                              .seed = lab_seed_for(request->seed, "calibration", seed)};
}

/* Trains with looks at the validation texts, and stops when PATIENCE of them brought nothing. */
static bool train_one(tune_run_state *run, tune_by by, size_t seed, tune_state *state,
                      tune_setting *setting) {
    const tune_calibration c = calibration_of(run, by, seed);
    char key[KEY_SIZE];
    double best = 0;
    size_t steps = run->request->steps, without = 0;
    snprintf(key, sizeof key, "%s/%zu", tune_by_names[by], seed);
    size_t looks = run->request->looks < steps ? run->request->looks : steps;
    for (size_t look = 1; look <= looks && without < PATIENCE; look++) {
        size_t until = (steps * look + looks - 1) / looks;
        snprintf(run->doing, sizeof run->doing, "numbers by %s, seed %zu", tune_by_names[by], seed);
        run->progress = lab_progress_begin("tune", state->step, steps, run->request->quiet);
        bool good = tune_calibrate(&c, until, key, &run->ledger, stepped, run, state, run->error);
        lab_progress_end(&run->progress);
        if (!good)
            return false;
        tune_state_setting(&c, state, setting);
        if (!tune_consider(run, setting, by, seed, until, 1))
            return false;
        double gain = run->candidates[run->candidate_count - 1].gain.mean;
        without = gain < best ? 0 : without + 1;
        best = fmin(best, gain);
    }
    return true;
}

const tune_candidate *tune_best_of(const tune_run_state *run, tune_by by, size_t seed) {
    const tune_candidate *best = NULL;
    for (size_t i = 0; i < run->candidate_count; i++) {
        const tune_candidate *c = &run->candidates[i];
        if (c->by == by && c->seed == seed && c->share == 1 &&
            (!best || c->gain.mean < best->gain.mean))
            best = c;
    }
    return best;
}

/* Less of the best numbers, where all of them cost too much. */
static bool try_shares(tune_run_state *run, tune_by by, size_t seed) {
    const tune_candidate *best = tune_best_of(run, by, seed);
    static const double shares[] = {0.5, 0.25};
    if (!best || best->worst <= run->request->limit || best->gain.mean >= 0)
        return true;
    size_t step = best->step, index = (size_t)(best - run->candidates);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        /* The list may move while it grows: its numbers stay where they are. */
        tune_setting whole = run->candidates[index].setting;
        if (!tune_consider(run, &whole, by, seed, step, shares[i]))
            return false;
    }
    return true;
}

static bool train(tune_run_state *run, tune_by by, size_t seed) {
    const tune_calibration c = calibration_of(run, by, seed);
    const tune_result *result = run->result;
    tune_state state;
    tune_setting setting;
    bool good = tune_setting_create(result->layers, result->heads, result->n0, &setting) ||
                lab_fail_memory(run->error);
    good = tune_state_create(&c, &state, run->error) && good;
    good = good && train_one(run, by, seed, &state, &setting) && try_shares(run, by, seed);
    tune_state_free(&state);
    tune_setting_free(&setting);
    return good;
}

static void drop_candidates(tune_run_state *run) {
    while (run->candidate_count > 0)
        tune_setting_free(&run->candidates[--run->candidate_count].setting);
}

/* Whether the numbers of a way of sharing are learned by gradients. */
static bool learns(const tune_run_state *run, tune_by by) {
    return !run->request->is_forward && (by == TUNE_BY_ALL || by == run->request->by);
}

/* Ranks train apart, each some seeds and ways of sharing, and have all of the ledger afterwards. */
static bool train_apart(tune_run_state *run) {
    const lab_ranks *ranks = run->together.ranks;
    size_t index = 0;
    if (!ranks)
        return true;
    bool good =
        tune_ledger_part(&run->ledger, &run->together, run->request->state_path, run->error);
    for (size_t seed = 1; seed <= run->request->seeds; seed++)
        for (tune_by by = TUNE_BY_ALL; by <= TUNE_BY_HEAD; by++)
            if (learns(run, by) && index++ % (size_t)ranks->size == (size_t)ranks->rank)
                good = good && train(run, by, seed);
    drop_candidates(run);
    return tune_ledger_join(&run->ledger, &run->together, good, run->error);
}

bool tune_find_candidates(tune_run_state *run) {
    if (!measure_base(run) || !train_apart(run))
        return false;
    tune_by by = run->request->by;
    bool good = true;
    for (size_t seed = 1; good && seed <= run->request->seeds; seed++)
        if (run->request->is_forward)
            good = tune_search_candidates(run, seed) && try_shares(run, TUNE_BY_ALL, seed) &&
                   (by == TUNE_BY_ALL ||
                    (run->learner ? train(run, by, seed) : try_shares(run, by, seed)));
        else
            good = train(run, TUNE_BY_ALL, seed) && (by == TUNE_BY_ALL || train(run, by, seed));
    return good;
}

/* ---- choosing ---- */

bool tune_choose(tune_run_state *run) {
    tune_result *result = run->result;
    const tune_candidate *best = NULL;
    for (size_t i = 0; i < run->candidate_count; i++) {
        const tune_candidate *c = &run->candidates[i];
        bool is_allowed =
            c->worst <= run->request->limit && c->gain.high < 0 && c->gain.mean < -TUNE_LEAST_GAIN;
        if (is_allowed && (!best || c->gain.mean < best->gain.mean))
            best = c;
    }
    if (!tune_setting_create(result->layers, result->heads, result->n0, &result->setting))
        return lab_fail_memory(run->error);
    result->is_chosen = best != NULL;
    if (!best)
        return true;
    tune_setting_copy(&best->setting, &result->setting);
    result->by = best->by;
    result->seed = best->seed;
    result->step = best->step;
    result->share = best->share;
    result->validated = best->gain;
    return true;
}
