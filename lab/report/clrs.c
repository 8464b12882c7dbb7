/* Training arms, asking them, and putting it all together; see clrs.h. */
#include "report/clrs.h"

#include "base/files.h"
#include "base/json.h"
#include "base/statistics.h"
#include "lm/evaluate.h"
#include "lm/experiment.h"
#include "lm/train.h"
#include "nn/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS_MAX = 64, SEEDS_MAX = 100, POLICIES = 6 };

/* On the model that was trained with softmax, and, at full scale, trained with. The first two are
 * the paper's. n at the trained lengths is about a hundred, where length and ssmax should do
 * nothing yet. */
static const char *const policies[POLICIES] = {"softmax",   "adaptive",   "adaptive:hold",
                                               "ssmax:0.2", "length:128", "target:2"};

/* Everything a run goes by. */
typedef struct scale {
    const char *name;
    lm_config config;
    lm_training training;
    uint64_t seeds;
    size_t trained; /* number of policies that are trained with, the first ones */
    uint64_t lengths[LENGTHS_MAX];
    size_t length_count;
    uint64_t samples;
} scale;

static void add_lengths(scale *s, uint64_t first, uint64_t last, uint64_t step) {
    for (uint64_t length = first; length <= last && s->length_count < LENGTHS_MAX; length += step)
        s->lengths[s->length_count++] = length;
}

static scale scale_of(const experiment_options *o) {
    scale s = {.name = o->is_full ? "full" : "quick",
               .seeds = o->lm_seeds  ? o->lm_seeds
                        : o->is_full ? 3
                                     : 1,
               .trained = o->is_full ? POLICIES : 2,
               .samples = o->lm_samples ? o->lm_samples : 128};
    lm_experiment(o->is_full, &s.config, &s.training);
    if (s.seeds > SEEDS_MAX)
        s.seeds = SEEDS_MAX;
    if (o->lm_steps) {
        s.training.steps = o->lm_steps;
        if (s.training.warm_up > s.training.steps)
            s.training.warm_up = s.training.steps;
    }
    add_lengths(&s, 4, 16, 1);
    add_lengths(&s, 24, o->is_full ? 48 : 32, 8);
    return s;
}

/* ---- one model ---- */

/* A model that may have to be trained first. */
typedef struct trained_arm {
    experiment *experiment;
    const scale *scale;
    const char *policy;
    uint64_t seed;
    lm_model model; /* once it was needed */
} trained_arm;

/* "quick-adaptive-hold-1" */
static const char *arm_name(const trained_arm *a, char name[96]) {
    snprintf(name, 96, "%s-%s-%llu", a->scale->name, a->policy, (unsigned long long)a->seed);
    for (char *at = name; *at; at++)
        if (*at == ':')
            *at = '-';
    return name;
}

static lm_config config_of(const trained_arm *a) {
    lm_config config = a->scale->config;
    snprintf(config.policy, sizeof config.policy, "%s", a->policy);
    return config;
}

static lm_training training_of(const trained_arm *a) {
    lm_training training = a->scale->training;
    training.seed = a->seed;
    return training;
}

static bool need_model(trained_arm *a, lab_error *error) {
    const experiment_options *o = &a->experiment->options;
    char name[96], title[128];
    if (a->model.weights)
        return true;
    char *folder = lab_path(o->folder, "runs/clrs-%s", arm_name(a, name));
    char *path = folder ? lab_path(folder, "model.ckpt") : NULL;
    snprintf(title, sizeof title, "training with %s", a->policy);
    lm_run run = {
        .config = config_of(a),
        .training = training_of(a),
        .folder = {.path = folder, .checkpoint_interval = 200, .log_interval = 100, .resume = true},
        .quiet = o->quiet,
        .title = title,
        .executor = o->executor};
    lm_summary summary;
    bool good =
        path ? lm_train(o->engine, &run, &summary, error) && lm_model_load(path, &a->model, error)
             : lab_fail_memory(error);
    free(folder);
    free(path);
    return good;
}

/* ---- one algorithm ---- */

typedef struct question {
    trained_arm *arm;
    const lm_task *task;
} question;

/* All policies for the model trained with softmax, its own for the others. */
static size_t policies_for(const trained_arm *a, lm_eval_policy list[POLICIES],
                           whet_policy parsed[POLICIES]) {
    if (strcmp(a->policy, policies[0]) != 0) {
        list[0] = (lm_eval_policy){a->policy, NULL};
        return 1;
    }
    for (size_t i = 0; i < POLICIES; i++) {
        if (whet_policy_parse(policies[i], &parsed[i], NULL, 0) != WHET_OK)
            return 0;
        list[i] = (lm_eval_policy){policies[i], &parsed[i]};
    }
    return POLICIES;
}

static json_t *ask(experiment *e, const void *context, lab_error *error) {
    const question *q = context;
    const scale *s = q->arm->scale;
    lm_eval_policy list[POLICIES];
    whet_policy parsed[POLICIES];
    lm_evaluation result;
    char title[128];
    if (!need_model(q->arm, error))
        return NULL;
    snprintf(title, sizeof title, "asking, trained with %s", q->arm->policy);
    lm_eval_request request = {.model = &q->arm->model,
                               .engine = e->options.engine,
                               .executor = e->options.executor,
                               .tasks = q->task,
                               .task_count = 1,
                               .lengths = s->lengths,
                               .length_count = s->length_count,
                               .samples = s->samples,
                               .policies = list,
                               .policy_count = policies_for(q->arm, list, parsed),
                               .quiet = e->options.quiet,
                               .title = title};
    if (!lm_evaluate(&request, &result, error))
        return NULL;
    json_t *json = lm_evaluation_json(&result);
    lm_evaluation_free(&result);
    if (!json)
        lab_fail_memory(error);
    return json;
}

static json_t *lengths_json(const scale *s) {
    json_t *lengths = json_array();
    for (size_t i = 0; i < s->length_count; i++)
        json_array_append_new(lengths, json_integer((json_int_t)s->lengths[i]));
    return lengths;
}

/* A kept evaluation is good for this model and these questions alone. */
static json_t *options_of(const trained_arm *a) {
    lm_config config = config_of(a);
    lm_training training = training_of(a);
    json_t *names = json_array();
    for (size_t i = 0; i < POLICIES; i++)
        json_array_append_new(names, json_string(policies[i]));
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "shape", lm_config_to_json(&config),
                     "training", lm_training_to_json(&training), "lengths", lengths_json(a->scale),
                     "policies", names, "samples", (json_int_t)a->scale->samples, "seeds",
                     (json_int_t)a->scale->seeds);
}

/* The answers of a model to everything: an array with an evaluation for each algorithm. */
static json_t *ask_everything(trained_arm *a, lab_error *error) {
    json_t *all = json_array();
    char name[96], result[192];
    bool good = all || lab_fail_memory(error);
    for (size_t i = 0; good && i < a->scale->training.task_count; i++) {
        const question q = {a, &a->scale->training.tasks[i]};
        snprintf(result, sizeof result, "clrs-%s-%s", arm_name(a, name), q.task->algorithm->name);
        json_t *one = experiment_keep(a->experiment, result, options_of(a), ask, &q, error);
        good = one && (json_array_append_new(all, one) == 0 || lab_fail_memory(error));
    }
    if (good)
        return all;
    json_decref(all);
    return NULL;
}

/* ---- everything together ---- */

/* All evaluations: [trained policy][seed][algorithm]. */
typedef struct answers {
    const scale *scale;
    json_t *of[POLICIES][SEEDS_MAX];
} answers;

static double mean_of(const json_t *row, const char *measure) {
    const json_t *number = json_object_get(json_object_get(row, measure), "mean");
    return json_is_number(number) ? json_number_value(number) : (double)NAN;
}

/* Over all questions of all seeds, as if one model had answered them. */
static lab_interval pooled(const json_t *const *rows, const double *means, uint64_t seeds) {
    double hits = 0;
    uint64_t samples = 0;
    for (uint64_t i = 0; i < seeds; i++) {
        uint64_t own = (uint64_t)json_integer_value(json_object_get(rows[i], "samples"));
        hits += round(means[i] * (double)own);
        samples += own;
    }
    return lab_share_interval((uint64_t)hits, samples);
}

/* One seed: the interval over its samples. Several: over seeds, or over all their questions where
 * that is wider: seeds that agree are no proof. Where a seed was not asked there is nothing. */
json_t *clrs_combine(const json_t *const *rows, uint64_t seeds, const char *measure) {
    double means[SEEDS_MAX] = {0}, nothing = (double)NAN;
    if (seeds == 1)
        return json_deep_copy(json_object_get(rows[0], measure));
    for (uint64_t i = 0; i < seeds; i++)
        means[i] = mean_of(rows[i], measure);
    lab_interval all = lab_mean_interval(means, (size_t)seeds);
    if (isfinite(all.mean)) {
        lab_interval questions = pooled(rows, means, seeds);
        all.low = fmax(0, fmin(all.low, questions.low));
        all.high = fmin(1, fmax(all.high, questions.high));
    } else {
        all = (lab_interval){nothing, nothing, nothing, nothing};
    }
    return json_pack("{s:o, s:o, s:o}", "mean", lab_json_number(all.mean), "low",
                     lab_json_number(all.low), "high", lab_json_number(all.high));
}

/* A row from the same row of every seed; entropies are those of the first. */
static json_t *combine_rows(const json_t *const *rows, uint64_t seeds) {
    static const char *const copied[] = {
        "algorithm", "hints",         "length", "inside",        "samples",
        "entropy",   "entropy_after", "steps",  "answer_tokens", "question_tokens"};
    json_t *row = json_object();
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        json_object_set(row, copied[i], json_object_get(rows[0], copied[i]));
    json_object_set_new(row, "exact", clrs_combine(rows, seeds, "exact"));
    json_object_set_new(row, "final", clrs_combine(rows, seeds, "final"));
    return row;
}

static bool is_policy(const json_t *row, const char *policy) {
    const char *name = json_string_value(json_object_get(row, "policy"));
    return name && strcmp(name, policy) == 0;
}

static json_t *rows_of(const answers *a, size_t trained, const char *policy) {
    json_t *rows = json_array();
    for (size_t task = 0; task < a->scale->training.task_count; task++) {
        const json_t *first = json_object_get(json_array_get(a->of[trained][0], task), "rows");
        for (size_t i = 0; i < json_array_size(first); i++) {
            const json_t *same[SEEDS_MAX] = {NULL};
            if (!is_policy(json_array_get(first, i), policy))
                continue;
            for (uint64_t s = 0; s < a->scale->seeds; s++)
                same[s] = json_array_get(
                    json_object_get(json_array_get(a->of[trained][s], task), "rows"), i);
            json_array_append_new(rows, combine_rows(same, a->scale->seeds));
        }
    }
    return rows;
}

/* The paper's three: softmax; adaptive at inference alone; adaptive throughout. */
static json_t *arm_json(const answers *a, size_t trained, size_t policy) {
    char name[128];
    bool is_main = trained < 2 && policy < 2;
    if (trained == policy)
        snprintf(name, sizeof name, "%s", policies[policy]);
    else
        snprintf(name, sizeof name, "%s at inference only", policies[policy]);
    return json_pack("{s:s, s:s, s:s, s:b, s:o}", "name", name, "trained", policies[trained],
                     "policy", policies[policy], "is_main", (int)is_main, "rows",
                     rows_of(a, trained, policies[policy]));
}

static json_t *merge_arms(const answers *a, lab_error *error) {
    const scale *s = a->scale;
    json_t *arms = json_array();
    for (size_t policy = 0; policy < POLICIES; policy++)
        json_array_append_new(arms, arm_json(a, 0, policy));
    for (size_t trained = 1; trained < s->trained; trained++)
        json_array_append_new(arms, arm_json(a, trained, trained));
    const json_t *one = json_array_get(a->of[0][0], 0);
    json_t *json =
        json_pack("{s:s, s:O, s:O, s:O, s:I, s:I, s:o}", "scale", s->name, "shape",
                  json_object_get(one, "shape"), "parameters", json_object_get(one, "parameters"),
                  "training", json_object_get(one, "training"), "seeds", (json_int_t)s->seeds,
                  "samples", (json_int_t)s->samples, "arms", arms);
    if (!json)
        lab_fail_memory(error);
    return json;
}

static bool ask_one(experiment *e, answers *a, size_t trained, uint64_t seed, lab_error *error) {
    trained_arm one = {.experiment = e,
                       .scale = a->scale,
                       .policy = policies[trained],
                       .seed = a->scale->training.seed + seed};
    a->of[trained][seed] = ask_everything(&one, error);
    lm_model_free(&one.model);
    return a->of[trained][seed] != NULL;
}

static void free_answers(answers *a) {
    for (size_t trained = 0; trained < POLICIES; trained++)
        for (uint64_t seed = 0; seed < SEEDS_MAX; seed++)
            json_decref(a->of[trained][seed]);
    free(a);
}

/* Models, with the questions to each, one to a rank at a time; what is found out is kept, and an
 * experiment of one process finds it there. */
static bool deal_arms(experiment *e, answers *a, lab_error *error) {
    const lab_ranks *ranks = e->options.ranks;
    experiment own = *e;
    bool good = true;
    size_t index = 0;
    own.options.ranks = NULL;
    own.options.is_dealt = true;
    for (uint64_t seed = 0; seed < a->scale->seeds; seed++)
        for (size_t trained = 0; trained < a->scale->trained; trained++)
            if (index++ % (size_t)ranks->size == (size_t)ranks->rank)
                good = good && ask_one(&own, a, trained, seed, error);
    return lab_ranks_agree(ranks, good, error);
}

/* By the first rank: those of the others are kept by now. */
static bool collect_arms(experiment *e, answers *a, lab_error *error) {
    experiment own = *e;
    bool good = true;
    own.options.ranks = NULL;
    own.options.is_dealt = true;
    for (uint64_t seed = 0; good && seed < a->scale->seeds; seed++)
        for (size_t trained = 0; good && trained < a->scale->trained; trained++)
            good = a->of[trained][seed] || ask_one(&own, a, trained, seed, error);
    return good;
}

static json_t *make_together(experiment *e, answers *a, lab_error *error) {
    if (!deal_arms(e, a, error))
        return NULL;
    if (!lab_is_first(e->options.ranks))
        return json_object(); /* the first one has it */
    return collect_arms(e, a, error) ? merge_arms(a, error) : NULL;
}

static json_t *make_clrs(experiment *e, const void *context, lab_error *error) {
    answers *a = calloc(1, sizeof *a);
    if (!a) {
        lab_fail_memory(error);
        return NULL;
    }
    a->scale = context;
    jobs_begin(e->jobs, JOB_CLRS);
    json_t *json = e->options.ranks            ? make_together(e, a, error)
                   : collect_arms(e, a, error) ? merge_arms(a, error)
                                               : NULL;
    free_answers(a);
    return json;
}

static const json_t *find_clrs(experiment *e, experiment_maker make, lab_error *error) {
    if (e->clrs)
        return e->clrs;
    char name[32];
    scale s = scale_of(&e->options);
    const trained_arm first = {
        .experiment = e, .scale = &s, .policy = policies[0], .seed = s.training.seed};
    snprintf(name, sizeof name, "clrs-%s", s.name);
    e->clrs = experiment_keep(e, name, options_of(&first), make, &s, error);
    return e->clrs;
}

const json_t *experiment_clrs(experiment *e, lab_error *error) {
    return find_clrs(e, make_clrs, error);
}

void experiment_clrs_recall(experiment *e) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    find_clrs(e, NULL, &unimportant);
}

/* ---- what is left to do ---- */

/* How far the training of a model came. */
static double steps_done(const trained_arm *a) {
    char name[96];
    nn_checkpoint read = {.step = 0};
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    char *path =
        lab_path(a->experiment->options.folder, "runs/clrs-%s/model.ckpt", arm_name(a, name));
    if (path && lab_file_exists(path))
        nn_checkpoint_read(path, &read, &unimportant);
    double done = (double)read.step;
    nn_checkpoint_free(&read);
    free(path);
    return done;
}

/* Algorithms about which a model was not asked yet. */
static size_t tasks_left(const trained_arm *a) {
    size_t left = 0;
    char name[96], result[192];
    for (size_t i = 0; i < a->scale->training.task_count; i++) {
        lab_error unimportant = {.kind = LAB_NO_ERROR};
        snprintf(result, sizeof result, "clrs-%s-%s", arm_name(a, name),
                 a->scale->training.tasks[i].algorithm->name);
        json_t *kept =
            experiment_keep(a->experiment, result, options_of(a), NULL, NULL, &unimportant);
        left += kept == NULL;
        json_decref(kept);
    }
    return left;
}

clrs_work experiment_clrs_left(experiment *e) {
    clrs_work left = {0};
    scale s = scale_of(&e->options);
    experiment_clrs_recall(e);
    for (size_t trained = 0; !e->clrs && trained < s.trained; trained++)
        for (uint64_t seed = 0; seed < s.seeds; seed++) {
            trained_arm one = {.experiment = e,
                               .scale = &s,
                               .policy = policies[trained],
                               .seed = s.training.seed + seed};
            size_t tasks = tasks_left(&one), asked_under = trained == 0 ? POLICIES : 1;
            if (tasks > 0)
                left.steps += fmax(0, (double)s.training.steps - steps_done(&one));
            left.answers += (double)(tasks * asked_under * s.length_count) * (double)s.samples;
        }
    return left;
}

/* ---- looking things up ---- */

const json_t *clrs_row(const json_t *arm, const char *algorithm, json_int_t length) {
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(arm, "rows"), i, row) {
        const char *name = json_string_value(json_object_get(row, "algorithm"));
        if (name && strcmp(name, algorithm) == 0 &&
            json_integer_value(json_object_get(row, "length")) == length)
            return row;
    }
    return NULL;
}

size_t clrs_algorithms_of(const json_t *result, const char *names[CLRS_NAMES_MAX]) {
    size_t count = 0, i;
    const json_t *row;
    const json_t *first = json_array_get(json_object_get(result, "arms"), 0);
    json_array_foreach(json_object_get(first, "rows"), i, row) {
        const char *name = json_string_value(json_object_get(row, "algorithm"));
        if (name && count < CLRS_NAMES_MAX && (count == 0 || strcmp(names[count - 1], name) != 0))
            names[count++] = name;
    }
    return count;
}
