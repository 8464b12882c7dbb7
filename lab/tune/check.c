/* The check texts: the chosen setting, what was learned with every seed, and the controls. */
#include "tune/run.h"

#include "lm/rope_scaling.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE = 192 };

/* Adds a row; names are unique together with their seed. */
static tune_row *add_row(tune_run_state *run, const char *name, size_t seed) {
    tune_result *result = run->result;
    tune_row *rows = realloc(result->rows, (result->row_count + 1) * sizeof *rows);
    if (!rows)
        return NULL;
    result->rows = rows;
    tune_row *row = &rows[result->row_count];
    *row = (tune_row){.seed = seed, .check = calloc(result->check.count + 1, sizeof *row->check)};
    snprintf(row->name, sizeof row->name, "%s", name);
    result->row_count++;
    return row->check ? row : NULL;
}

/* The name of what an arm computes: arms with the same numbers are run once. */
static void name_arm(const tune_arm *arm, char *key, size_t size) {
    snprintf(key, size, "%016llx/%zu/%zu", (unsigned long long)tune_setting_sum(arm->setting),
             arm->window, arm->first);
}

/* Runs an arm on all check texts and on the task. */
static bool check(tune_run_state *run, tune_model *model, const tune_arm *arm, const char *name,
                  size_t seed) {
    char key[KEY_SIZE], arm_name[KEY_SIZE / 2];
    name_arm(arm, arm_name, sizeof arm_name);
    tune_row *row = model ? add_row(run, name, seed) : NULL;
    bool good = !model ? false : row != NULL || lab_fail_memory(run->error);
    for (size_t i = 0; good && i < run->result->check.count; i++) {
        snprintf(key, sizeof key, "check/%s/%s/%zu", model->rope, arm_name, i);
        tune_announce(run, run->check[i].count, "check: %s%s", name, seed > 1 ? ", again" : "");
        good = tune_measure_run(&model->judge, arm, run->check[i].list, run->check[i].count, key,
                                &run->ledger, tune_progress, run, &row->check[i], run->error);
    }
    if (!good || !run->request->task)
        return good;
    snprintf(key, sizeof key, "check/%s/%s/task", model->rope, arm_name);
    tune_announce(run, run->examples[TUNE_CHECK].count, "check: %s, task", name);
    return tune_measure_run(&model->judge, arm, run->tasks[TUNE_CHECK],
                            run->examples[TUNE_CHECK].count, key, &run->ledger, tune_progress, run,
                            &row->task, run->error);
}

static bool check_setting(tune_run_state *run, const tune_setting *setting, const char *name,
                          size_t seed) {
    const tune_arm arm = {.setting = setting};
    return check(run, &run->models[0], &arm, name, seed);
}

/* The same number in all heads that are tuned (NULL: in all). */
static bool check_uniform(tune_run_state *run, const unsigned char *is_tuned, double a,
                          const char *name) {
    tune_setting setting;
    const tune_setting *like = &run->neutral;
    bool good = tune_setting_create(like->layers, like->heads, like->n0, &setting) ||
                lab_fail_memory(run->error);
    if (good) {
        tune_setting_fill_tuned(&setting, is_tuned, a, 0);
        good = check_setting(run, &setting, name, 0);
    }
    if (good)
        run->result->rows[run->result->row_count - 1].beta = exp(a);
    tune_setting_free(&setting);
    return good;
}

/* ---- what was learned ---- */

static bool check_learned(tune_run_state *run) {
    for (size_t seed = 1; seed <= run->request->seeds; seed++) {
        const tune_candidate *one = tune_best_of(run, TUNE_BY_ALL, seed);
        if (one && !check_setting(run, &one->setting, "one number", seed))
            return false;
        tune_by by = run->request->by;
        const tune_candidate *own = by == TUNE_BY_ALL ? NULL : tune_best_of(run, by, seed);
        if (own && !check_setting(run, &own->setting,
                                  by == TUNE_BY_LAYER ? "per layer" : "per head", seed))
            return false;
    }
    return !run->result->is_chosen || check_setting(run, &run->result->setting, "chosen", 0);
}

/* ---- controls ---- */

/* The numbers of the first seed, or the chosen ones, dealt to other heads. */
static bool check_permuted(tune_run_state *run) {
    const tune_candidate *own = tune_best_of(run, run->request->by, 1);
    const tune_setting *from = run->result->is_chosen && run->result->by == run->request->by
                                   ? &run->result->setting
                               : own ? &own->setting
                                     : NULL;
    tune_setting permuted;
    if (!from || run->request->by == TUNE_BY_ALL)
        return true;
    bool good = tune_setting_create(from->layers, from->heads, from->n0, &permuted) ||
                lab_fail_memory(run->error);
    for (size_t i = 1; good && i <= TUNE_PERMUTATIONS; i++) {
        tune_setting_copy(from, &permuted);
        tune_setting_permute(&permuted, run->is_tuned, run->request->by == TUNE_BY_LAYER,
                             lab_seed_for(run->request->seed, "permutation", i));
        good = check_setting(run, &permuted, "permuted", i);
    }
    tune_setting_free(&permuted);
    return good;
}

/* By how much positions are stretched: "yarn:4" is 4; 1 without a scaling. */
static double factor_of(const char *rope) {
    const char *colon = rope ? strchr(rope, ':') : NULL;
    return colon ? strtod(colon + 1, NULL) : 1;
}

/* ln beta of YaRN's rule. */
static double yarn_rule(double factor) { return 2 * log(1 + 0.1 * log(factor)); }

static bool check_rule(tune_run_state *run) {
    const char *rope = run->request->rope;
    double factor = factor_of(rope);
    if (factor <= 1)
        return true;
    bool has_rule = strncmp(rope, "yarn", 4) == 0;
    return has_rule ? check_uniform(run, NULL, -yarn_rule(factor), "without YaRN's rule")
                    : check_uniform(run, NULL, yarn_rule(factor), "YaRN's rule");
}

/* Other ways to stretch positions by the same factor, with beta = 1. */
static bool check_stretches(tune_run_state *run) {
    static const char *const kinds[] = {"linear", "ntk", "yarn"};
    const tune_arm arm = {.setting = &run->neutral};
    double factor = factor_of(run->request->rope);
    for (size_t i = 0; factor > 1 && i < sizeof kinds / sizeof *kinds; i++) {
        char rope[TUNE_ROPE_SIZE];
        snprintf(rope, sizeof rope, "%s:%g", kinds[i], factor);
        if (strncmp(run->request->rope, kinds[i], strlen(kinds[i])) == 0)
            continue;
        if (!check(run, tune_model_with(run, rope), &arm, rope, 0))
            return false;
    }
    return true;
}

/* Positions as trained, beyond what the model was trained on: everything, and a window of it. */
static bool check_windows(tune_run_state *run) {
    size_t window = (size_t)run->result->n0;
    if (run->result->part != TUNE_BEYOND)
        return true;
    tune_model *model = tune_model_with(run, "none");
    const struct {
        const char *name;
        tune_arm arm;
    } arms[] = {{"as trained", {&run->neutral, 0, 0}},
                {"window", {&run->neutral, window, 0}},
                {"window and first tokens",
                 {&run->neutral, window - TUNE_FIRST_TOKENS, TUNE_FIRST_TOKENS}}};
    for (size_t i = 0; i < sizeof arms / sizeof *arms; i++)
        if (!model || ((arms[i].arm.window == 0 || model->judge.has_windows) &&
                       !check(run, model, &arms[i].arm, arms[i].name, 0)))
            return false;
    return true;
}

/* What one number for the tuned heads does on the validation texts. */
typedef struct one_number {
    double a, cost, loss; /* loss: of the task's answers */
} one_number;

static bool try_number(tune_run_state *run, double a, one_number *tried) {
    size_t count = run->result->validate.count;
    char key[KEY_SIZE];
    tune_setting setting;
    tune_measure *domains = calloc(count + 1, sizeof *domains), task = {.count = 0};
    bool good =
        tune_setting_create(run->neutral.layers, run->neutral.heads, run->neutral.n0, &setting) &&
        domains;
    if (good)
        tune_setting_fill_tuned(&setting, run->is_tuned, a, 0);
    snprintf(key, sizeof key, "equal cost/%.17g", a);
    good = good ? tune_measure_validation(run, &setting, key, domains, &task)
                : lab_fail_memory(run->error);
    if (good)
        *tried = (one_number){a, tune_cost_of(run, domains, NULL),
                              log(tune_perplexity(&task, TUNE_ALL))};
    for (size_t i = 0; domains && i < count; i++)
        tune_measure_free(&domains[i]);
    free(domains);
    tune_measure_free(&task);
    tune_setting_free(&setting);
    return good;
}

/* Halves the way from 0 to an end until the cost is met; *best is the best for the task of those
 * numbers that cost no more. */
static bool try_side(tune_run_state *run, double cost, double end, one_number *best) {
    enum { HALVINGS = 6 };
    double near = 0, far = end;
    bool good = true;
    for (size_t i = 0; good && i < HALVINGS; i++) {
        one_number tried;
        good = try_number(run, (near + far) / 2, &tried);
        if (!good)
            break;
        bool is_affordable = tried.cost <= cost;
        *(is_affordable ? &near : &far) = tried.a;
        if (is_affordable && tried.loss < best->loss)
            *best = tried;
    }
    return good;
}

/* The number, sharper or flatter, that is best for the task at no more than a cost. */
static bool find_equal_cost(tune_run_state *run, double cost, double *a) {
    one_number best = {0, 0, log(tune_perplexity(&run->task_base, TUNE_ALL))};
    bool good = try_side(run, cost, run->request->bound, &best) &&
                try_side(run, cost, -run->request->bound, &best);
    *a = best.a;
    return good;
}

static double cost_of_chosen(const tune_run_state *run) {
    for (size_t i = 0; i < run->candidate_count; i++) {
        const tune_candidate *c = &run->candidates[i];
        if (tune_is_chosen(run->result, c))
            return c->cost;
    }
    return 0;
}

/* With a task, a gain has a price, and one number could be had for the same. */
static bool check_equal_cost(tune_run_state *run) {
    double a = 0;
    if (!run->request->task || !run->result->is_chosen)
        return true;
    /* Where the chosen setting costs nothing, a number that costs nothing. */
    return find_equal_cost(run, fmax(0, cost_of_chosen(run)), &a) &&
           check_uniform(run, run->is_tuned, a, "one number at equal cost");
}

/* Whether the check texts agree with the choice. */
static void confirm(tune_run_state *run) {
    tune_result *result = run->result;
    if (!result->is_chosen)
        return;
    const tune_row *base = tune_find(result, "softmax"), *chosen = tune_find(result, "chosen");
    lab_interval gain = run->request->task
                            ? tune_difference(chosen->task.loss[TUNE_ALL],
                                              base->task.loss[TUNE_ALL], base->task.count)
                            : tune_total_change(result, "chosen", result->part);
    result->is_confirmed = gain.high < 0;
}

bool tune_check_all(tune_run_state *run) {
    bool good = check_setting(run, &run->neutral, "softmax", 0) && check_learned(run) &&
                check_permuted(run) && check_equal_cost(run) && check_rule(run) &&
                check_stretches(run) && check_windows(run);
    if (good)
        confirm(run);
    return good;
}
