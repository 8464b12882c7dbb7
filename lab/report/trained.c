/* The heads of an experiment: the program's own, or trained here; and the fresh one. */
#include "report/experiment.h"

#include "base/files.h"
#include "base/json.h"
#include "heads/builtin.h"
#include "report/jobs.h"
#include "retrieval/evaluate.h"
#include "retrieval/train.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 1000, LOG_MOST = 1 << 26 };

static bool train(experiment *e, retrieval_run *run, const char *folder, retrieval_heads *heads,
                  lab_error *error) {
    char *path =
        lab_path(e->options.folder, "runs/%s-%llu", folder, (unsigned long long)run->config.steps);
    if (!path)
        return lab_fail_memory(error);
    run->folder = (nn_run_folder){
        .path = path, .checkpoint_interval = 2000, .log_interval = 100, .resume = true};
    run->quiet = e->options.quiet;
    run->executor = e->options.executor;
    run->ranks = e->options.ranks;
    bool good = retrieval_train(e->options.engine, run, heads, error);
    free(path);
    return good;
}

size_t experiment_head_count(const experiment_options *o, retrieval_precision precision) {
    return o->trains_heads ? (size_t)o->seeds : builtin_head_count(precision);
}

const retrieval_heads *experiment_heads(experiment *e, retrieval_precision precision,
                                        lab_error *error) {
    retrieval_heads *heads = &e->heads[precision];
    uint64_t seeds[SEEDS_MAX];
    size_t count = 0;
    if (heads->count > 0)
        return heads;
    if (!e->options.trains_heads)
        return builtin_heads(precision, heads, error) ? heads : NULL;
    for (; count < e->options.seeds && count < SEEDS_MAX; count++)
        seeds[count] = count;
    retrieval_run run = {.config = retrieval_config_default(),
                         .seeds = seeds,
                         .seed_count = count,
                         .title = precision == RETRIEVAL_F32 ? "training heads, f32"
                                                             : "training heads, bf16"};
    run.config.steps = e->options.steps;
    run.config.precision = precision;
    jobs_begin(e->jobs, precision == RETRIEVAL_F32 ? JOB_HEADS_F32 : JOB_HEADS);
    return train(e, &run, retrieval_precision_name(precision), heads, error) ? heads : NULL;
}

/* ---- the fresh head ---- */

/* The lines of its log as an array; NULL where there is no memory for it. */
static json_t *read_curve(const experiment *e, lab_error *error) {
    char *path = lab_path(e->options.folder, "runs/fresh-%llu/seed-%d.jsonl",
                          (unsigned long long)e->options.fresh_steps, EXPERIMENT_FRESH_SEED);
    size_t size;
    char *text = path ? lab_read_file(path, LOG_MOST, &size, error) : NULL;
    json_t *curve = text ? json_array() : NULL;
    for (char *line = text; curve && *line;) {
        size_t length = strcspn(line, "\n");
        json_error_t reason;
        json_t *point = lab_json_parse(line, length, 0, &reason);
        if (point)
            json_object_del(point, "seconds"); /* of no run but that one */
        if (point && json_array_append_new(curve, point) != 0) {
            json_decref(curve);
            curve = NULL;
        }
        line += length + (line[length] == '\n');
    }
    if (!curve)
        lab_fail_memory(error);
    free(text);
    free(path);
    return curve;
}

static json_t *evaluate_fresh(experiment *e, const retrieval_heads *heads, lab_error *error) {
    static const char *const names[] = {"softmax", "adaptive"};
    const whet_policy policies[] = {whet_policy_softmax(), whet_policy_adaptive()};
    size_t sizes[32];
    retrieval_eval_request request = {
        .heads = heads,
        .sizes = sizes,
        .size_count = retrieval_sizes(16, (size_t)e->options.largest, sizes),
        .sets = e->options.sets < 1024 ? (size_t)e->options.sets : 1024,
        .policies = policies,
        .names = names,
        .policy_count = 2};
    return experiment_evaluate(e, request, error);
}

static json_t *make_fresh(experiment *e, const void *context, lab_error *error) {
    (void)context;
    const uint64_t seed = EXPERIMENT_FRESH_SEED;
    retrieval_heads heads = {.count = 0};
    retrieval_run run = {.config = retrieval_config_default(),
                         .seeds = &seed,
                         .seed_count = 1,
                         .title = "training a fresh head"};
    run.config.steps = e->options.fresh_steps;
    jobs_begin(e->jobs, JOB_FRESH);
    if (!train(e, &run, "fresh", &heads, error))
        return NULL;
    /* the first rank writes the log; the others need not have it */
    json_t *curve = lab_is_first(e->options.ranks) ? read_curve(e, error) : json_array();
    bool has_curve = lab_ranks_agree(e->options.ranks, curve || lab_fail_memory(error), error);
    json_t *evaluation = has_curve ? evaluate_fresh(e, &heads, error) : NULL;
    retrieval_heads_free(&heads);
    if (evaluation)
        return json_pack("{s:I, s:I, s:o, s:o}", "seed", (json_int_t)seed, "steps",
                         (json_int_t)e->options.fresh_steps, "curve", curve, "evaluation",
                         evaluation);
    json_decref(curve);
    return NULL;
}

static json_t *fresh_options(const experiment *e) {
    return json_pack("{s:I, s:I, s:I, s:I}", "seed", (json_int_t)EXPERIMENT_FRESH_SEED, "steps",
                     (json_int_t)e->options.fresh_steps, "sets", (json_int_t)e->options.sets,
                     "largest", (json_int_t)e->options.largest);
}

static const json_t *find_fresh(experiment *e, experiment_maker make, lab_error *error) {
    if (!e->fresh)
        e->fresh = experiment_keep(e, "fresh", fresh_options(e), make, NULL, error);
    return e->fresh;
}

const json_t *experiment_fresh(experiment *e, lab_error *error) {
    return find_fresh(e, make_fresh, error);
}

void experiment_fresh_recall(experiment *e) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    find_fresh(e, NULL, &unimportant);
}
