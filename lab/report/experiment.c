/* Running, keeping and finding again what the report is made from; see experiment.h. */
#include "report/experiment.h"
#include "base/files.h"
#include "base/json.h"
#include "heads/builtin.h"
#include "report/clrs.h"
#include "retrieval/beyond.h"
#include "retrieval/evaluate.h"
#include "retrieval/figure_data.h"
#include "retrieval/fit.h"
#include <stdlib.h>
#include <string.h>

experiment experiment_start(const experiment_options *options) {
    return (experiment){.options = *options, .lock = lab_folder_unlocked()};
}

bool experiment_claim(experiment *e, lab_error *error) {
    static const char *const parts[] = {"data", "figures", "results"};
    if (e->lock.descriptor >= 0 || e->options.is_dealt || !lab_is_first(e->options.ranks))
        return true;
    if (!lab_make_folder(e->options.folder, error) ||
        !lab_folder_take(&e->lock, e->options.folder, error))
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *path = lab_path(e->options.folder, "%s", parts[i]);
        if (!path)
            return lab_fail_memory(error);
        lab_folder_sweep(path);
        free(path);
    }
    return true;
}

void experiment_end(experiment *e) {
    for (size_t i = 0; i < RETRIEVAL_PRECISIONS; i++) {
        retrieval_heads_free(&e->heads[i]);
        json_decref(e->evaluation[i]);
    }
    json_decref(e->table);
    json_decref(e->fresh);
    json_decref(e->panels);
    json_decref(e->fit);
    json_decref(e->sharpness);
    json_decref(e->clrs);
    json_decref(e->beyond);
    lab_folder_release(&e->lock);
    *e = experiment_start(&e->options);
}

/* ---- kept results ---- */

/* Where the result of a name is kept; the folder is made where it is to be written. */
static char *result_path(const experiment *e, const char *name, bool is_written, lab_error *error) {
    char *folder = lab_path(e->options.folder, "results");
    char *path = folder && (!is_written || lab_make_folder(folder, error))
                     ? lab_path(folder, "%s.json", name)
                     : NULL;
    if (!folder || (!path && error->kind == LAB_NO_ERROR))
        lab_fail_memory(error);
    free(folder);
    return path;
}

/* What is kept under a name, if it was made with these options, in *result. A file that is not as
 * expected is simply made again; false, with an error, only where it could not be read at all. */
static bool find_kept(const char *path, const json_t *options, json_t **result, lab_error *error) {
    lab_error reason = {.kind = LAB_NO_ERROR};
    *result = NULL;
    if (!lab_file_exists(path))
        return true;
    json_t *file = lab_json_read(path, &reason);
    json_t *found = json_object_get(file, "result"), *checksum = lab_json_checksum(found);
    if (json_equal(json_object_get(file, "made_with"), options) && checksum &&
        json_equal(json_object_get(file, "checksum"), checksum))
        *result = json_incref(found);
    bool ran_out = found && !checksum;
    json_decref(checksum);
    json_decref(file);
    if (ran_out)
        return lab_fail_memory(error);
    return reason.kind != LAB_SYSTEM || lab_fail(error, LAB_SYSTEM, "%s", reason.text);
}

static bool keep_result(const char *path, json_t *options, json_t *result, lab_error *error) {
    json_t *file = json_pack("{s:O, s:O, s:o}", "made_with", options, "result", result, "checksum",
                             lab_json_checksum(result));
    bool good = lab_json_write(path, file, error);
    json_decref(file);
    return good;
}

/* Makes a result, by all ranks, and keeps it, by the first. NULL and an error otherwise. */
static json_t *make_and_keep(experiment *e, const char *path, json_t *options,
                             experiment_maker make, const void *context, lab_error *error) {
    const lab_ranks *ranks = e->options.ranks;
    json_t *result = NULL;
    if (lab_ranks_agree(ranks, experiment_claim(e, error), error))
        result = make(e, context, error);
    if (!result)
        lab_fail_memory(error); /* unless there is another reason */
    bool is_good = lab_ranks_agree(ranks, result != NULL, error);
    bool is_kept = !is_good || !lab_is_first(ranks) || keep_result(path, options, result, error);
    if (is_good && lab_ranks_agree(ranks, is_kept, error))
        return result;
    json_decref(result);
    return NULL;
}

json_t *experiment_keep(experiment *e, const char *name, json_t *options, experiment_maker make,
                        const void *context, lab_error *error) {
    const lab_ranks *ranks = make ? e->options.ranks : NULL;
    bool is_first = lab_is_first(ranks);
    char *path = options && is_first ? result_path(e, name, make != NULL, error) : NULL;
    json_t *result = NULL;
    bool is_known = (path && find_kept(path, options, &result, error)) || (options && !is_first);
    if (!is_known && (!path || !options))
        lab_fail_memory(error); /* unless there is another reason */
    is_known =
        lab_ranks_agree(ranks, is_known, error) && lab_ranks_give_json(ranks, &result, error);
    if (is_known && !result && make)
        result = make_and_keep(e, path, options, make, context, error);
    free(path);
    json_decref(options);
    return result;
}

/* What decides on a result: which heads, and how they were asked. The program's own heads are
 * known by their checksum, so that results of others are not taken for theirs. */
static json_t *heads_options(const experiment *e, retrieval_precision precision) {
    const experiment_options *o = &e->options;
    if (o->trains_heads)
        return json_pack("{s:I, s:I}", "seeds", (json_int_t)o->seeds, "steps",
                         (json_int_t)o->steps);
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)builtin_heads_checksum(precision));
    return json_pack("{s:s}", "built_in", text);
}

static json_t *common_options(const experiment *e, retrieval_precision precision, size_t sets) {
    return json_pack("{s:s, s:o, s:I, s:I, s:s}", "precision", retrieval_precision_name(precision),
                     "heads", heads_options(e, precision), "sets", (json_int_t)sets, "largest",
                     (json_int_t)e->options.largest, "errors", "over seeds and sets");
}

/* ---- evaluations ---- */

/* The paper's two first: figures shade them. */
static const char *const all_policies[] = {"softmax",    "adaptive",  "adaptive:hold", "exp:0.5",
                                           "target:0.5", "ssmax:0.5", "length:16",     "linear:16",
                                           "topk:8",     "hardmax",   "sparsemax",     "entmax15",
                                           "softmax1",   "sigmoid",   "stick-breaking"};
static const char *const fixed_policies[] = {"fixed:0.5", "fixed:1",  "fixed:1.5", "fixed:2",
                                             "fixed:3",   "fixed:4",  "fixed:6",   "fixed:8",
                                             "fixed:16",  "fixed:32", "fixed:64",  "fixed:256"};
static const size_t sharpness_sizes[] = {16, 128, 1024, 8192};
enum {
    ALL_POLICIES = sizeof all_policies / sizeof *all_policies,
    FIXED_POLICIES = sizeof fixed_policies / sizeof *fixed_policies,
    SHARPNESS_SIZES = sizeof sharpness_sizes / sizeof *sharpness_sizes
};

typedef struct evaluation_plan {
    retrieval_precision precision;
    const char *const *names;
    size_t policy_count;
    const size_t *sizes;
    size_t size_count;
    size_t sets;
    report_job job;
    const char *title; /* for the progress line */
} evaluation_plan;

json_t *experiment_evaluate(const experiment *e, retrieval_eval_request request, lab_error *error) {
    retrieval_evaluation result;
    request.executor = e->options.executor;
    request.ranks = e->options.ranks;
    request.quiet = e->options.quiet;
    if (!retrieval_evaluate(e->options.engine, &request, &result, error))
        return NULL;
    json_t *json = retrieval_evaluation_json(&result);
    retrieval_evaluation_free(&result);
    if (!json)
        lab_fail_memory(error);
    return json;
}

static json_t *evaluate(experiment *e, const void *context, lab_error *error) {
    const evaluation_plan *plan = context;
    whet_policy policies[RETRIEVAL_POLICIES_MAX];
    const retrieval_heads *heads = experiment_heads(e, plan->precision, error);
    if (!heads)
        return NULL;
    jobs_begin(e->jobs, plan->job);
    for (size_t i = 0; i < plan->policy_count; i++)
        if (whet_policy_parse(plan->names[i], &policies[i], NULL, 0) != WHET_OK) {
            lab_fail(error, LAB_INPUT, "unknown policy %s", plan->names[i]);
            return NULL;
        }
    retrieval_eval_request request = {.heads = heads,
                                      .sizes = plan->sizes,
                                      .size_count = plan->size_count,
                                      .sets = plan->sets,
                                      .policies = policies,
                                      .names = plan->names,
                                      .policy_count = plan->policy_count,
                                      .title = plan->title};
    return experiment_evaluate(e, request, error);
}

static size_t smaller(uint64_t a, size_t b) { return a < b ? (size_t)a : b; }

/* Ten heads need fewer sets each to tell policies apart than one does. */
static size_t policy_sets(const experiment *e, retrieval_precision precision) {
    size_t sets = (size_t)e->options.sets;
    return experiment_head_count(&e->options, precision) < 8 || sets < 8 ? sets : sets / 8;
}

static const json_t *find_table(experiment *e, experiment_maker make, lab_error *error) {
    size_t sizes[32];
    evaluation_plan plan = {.precision = experiment_paper,
                            .names = all_policies,
                            .policy_count = 2,
                            .sizes = sizes,
                            .sets = (size_t)e->options.sets,
                            .job = JOB_TABLE,
                            .title = "Table 1"};
    plan.size_count = retrieval_sizes(16, (size_t)e->options.largest, sizes);
    if (!e->table)
        e->table = experiment_keep(e, "table1", common_options(e, experiment_paper, plan.sets),
                                   make, &plan, error);
    /* cppcheck-suppress returnDanglingLifetime; the plan is not kept */
    return e->table;
}

const json_t *experiment_table(experiment *e, lab_error *error) {
    return find_table(e, evaluate, error);
}

static const json_t *find_evaluation(experiment *e, retrieval_precision precision,
                                     experiment_maker make, lab_error *error) {
    size_t sizes[32];
    bool is_f32 = precision == RETRIEVAL_F32;
    evaluation_plan plan = {.precision = precision,
                            .names = all_policies,
                            .policy_count = ALL_POLICIES,
                            .sizes = sizes,
                            .sets = policy_sets(e, precision),
                            .job = is_f32 ? JOB_POLICIES_F32 : JOB_POLICIES,
                            .title = is_f32 ? "all policies, f32" : "all policies, bf16"};
    plan.size_count = retrieval_sizes(16, (size_t)e->options.largest, sizes);
    if (!e->evaluation[precision])
        e->evaluation[precision] =
            experiment_keep(e, is_f32 ? "evaluation-f32" : "evaluation-bf16",
                            common_options(e, precision, plan.sets), make, &plan, error);
    /* cppcheck-suppress returnDanglingLifetime; the plan is not kept */
    return e->evaluation[precision];
}

const json_t *experiment_evaluation(experiment *e, retrieval_precision precision,
                                    lab_error *error) {
    return find_evaluation(e, precision, evaluate, error);
}

static const json_t *find_sharpness(experiment *e, experiment_maker make, lab_error *error) {
    evaluation_plan plan = {.precision = RETRIEVAL_F32,
                            .names = fixed_policies,
                            .policy_count = FIXED_POLICIES,
                            .sizes = sharpness_sizes,
                            .size_count = SHARPNESS_SIZES,
                            .sets = smaller(e->options.sets, 1024),
                            .job = JOB_SHARPNESS,
                            .title = "fixed temperatures"};
    if (!e->sharpness)
        e->sharpness = experiment_keep(e, "sharpness", common_options(e, RETRIEVAL_F32, plan.sets),
                                       make, &plan, error);
    /* cppcheck-suppress returnDanglingLifetime; the plan is not kept */
    return e->sharpness;
}

const json_t *experiment_sharpness(experiment *e, lab_error *error) {
    return find_sharpness(e, evaluate, error);
}

/* ---- coefficients, set by set ---- */

static json_t *panels_of(experiment *e, const retrieval_head *head, const char *policy_name,
                         lab_error *error) {
    static const size_t sizes[] = {16, 32, 64, 128, 256, 512, 1024, 2048};
    whet_policy policy;
    json_t *panels = json_array();
    bool good = whet_policy_parse(policy_name, &policy, NULL, 0) == WHET_OK && panels;
    for (size_t i = 0; good && i < sizeof sizes / sizeof *sizes; i++) {
        retrieval_panel panel;
        good = retrieval_panel_make(e->options.engine, head, &policy, sizes[i], 32, 16, 0, &panel,
                                    error);
        if (!good)
            break;
        good = json_array_append_new(panels, retrieval_panel_json(&panel)) == 0;
        retrieval_panel_free(&panel);
    }
    if (good)
        return panels;
    json_decref(panels);
    if (error->kind == LAB_NO_ERROR)
        lab_fail_memory(error);
    return NULL;
}

static json_t *make_panels(experiment *e, const void *context, lab_error *error) {
    (void)context;
    const retrieval_heads *heads = experiment_heads(e, experiment_paper, error);
    if (!heads)
        return NULL;
    jobs_begin(e->jobs, JOB_PANELS);
    json_t *plain = panels_of(e, &heads->list[0], "softmax", error);
    json_t *sharp = plain ? panels_of(e, &heads->list[0], "adaptive", error) : NULL;
    if (plain && sharp)
        return json_pack("{s:o, s:o}", "softmax", plain, "adaptive", sharp);
    json_decref(plain);
    return NULL;
}

static const json_t *find_panels(experiment *e, experiment_maker make, lab_error *error) {
    if (!e->panels)
        e->panels =
            experiment_keep(e, "heads", common_options(e, experiment_paper, 32), make, NULL, error);
    return e->panels;
}

const json_t *experiment_panels(experiment *e, const char *policy, lab_error *error) {
    return json_object_get(find_panels(e, make_panels, error), policy);
}

/* ---- the fit ---- */

static json_t *make_fit(experiment *e, const void *context, lab_error *error) {
    (void)context;
    size_t sizes[32];
    const retrieval_heads *heads = experiment_heads(e, RETRIEVAL_F32, error);
    if (!heads)
        return NULL;
    jobs_begin(e->jobs, JOB_FIT);
    retrieval_fit fit;
    retrieval_fit_request request = {.heads = heads,
                                     .sizes = sizes,
                                     .size_count = retrieval_sizes(16, 4096, sizes),
                                     .sets = smaller(e->options.sets, 256),
                                     .degree = 4,
                                     .cap = 64,
                                     .executor = e->options.executor,
                                     .quiet = e->options.quiet};
    if (!retrieval_fit_make(e->options.engine, &request, &fit, error))
        return NULL;
    json_t *json = retrieval_fit_json(&fit);
    retrieval_fit_free(&fit);
    if (!json)
        lab_fail_memory(error);
    return json;
}

static const json_t *find_fit(experiment *e, experiment_maker make, lab_error *error) {
    if (!e->fit)
        e->fit = experiment_keep(e, "fit",
                                 common_options(e, RETRIEVAL_F32, smaller(e->options.sets, 256)),
                                 make, NULL, error);
    return e->fit;
}

const json_t *experiment_fit(experiment *e, lab_error *error) {
    return find_fit(e, make_fit, error);
}

/* ---- heads that stay sharp ---- */

static json_t *make_recipe(experiment *e, const retrieval_recipe *recipe,
                           const retrieval_recipe_request *request, lab_error *error) {
    retrieval_evaluation evaluation;
    if (!retrieval_recipe_run(e->options.engine, recipe, request, &evaluation, error))
        return NULL;
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:o}", "name", recipe->name, "path", recipe->path, "change",
                  recipe->change, "evaluation", retrieval_evaluation_json(&evaluation));
    retrieval_evaluation_free(&evaluation);
    if (!json)
        lab_fail_memory(error);
    return json;
}

static json_t *make_beyond(experiment *e, const void *context, lab_error *error) {
    (void)context;
    enum { SEEDS_MAX = 1000 };
    uint64_t seeds[SEEDS_MAX];
    const size_t sizes[] = {16, 128, 1024, (size_t)e->options.largest};
    char *folder =
        lab_path(e->options.folder, "runs/beyond-%llu", (unsigned long long)e->options.steps);
    size_t count = smaller(e->options.seeds, SEEDS_MAX);
    for (size_t i = 0; i < count; i++)
        seeds[i] = RETRIEVAL_FRESH_HEADS + i;
    jobs_begin(e->jobs, JOB_BEYOND);
    retrieval_recipe_request request = {.seeds = seeds,
                                        .seed_count = count,
                                        .steps = e->options.steps,
                                        .sizes = sizes,
                                        .size_count = sizeof sizes / sizeof *sizes,
                                        .sets = (size_t)e->options.sets,
                                        .set_seed = RETRIEVAL_FRESH_SETS,
                                        .folder = folder,
                                        .quiet = e->options.quiet,
                                        .executor = e->options.executor,
                                        .ranks = e->options.ranks};
    json_t *recipes = json_array();
    bool good = (folder && recipes) || lab_fail_memory(error);
    for (size_t i = 0; good && i < retrieval_recipes(); i++) {
        retrieval_recipe recipe = retrieval_recipe_at(i);
        json_t *made = make_recipe(e, &recipe, &request, error);
        good = made && (json_array_append_new(recipes, made) == 0 || lab_fail_memory(error));
    }
    free(folder);
    if (good)
        return json_pack("{s:I, s:I, s:o}", "seeds", (json_int_t)e->options.seeds, "steps",
                         (json_int_t)e->options.steps, "recipes", recipes);
    json_decref(recipes);
    return NULL;
}

static const json_t *find_beyond(experiment *e, experiment_maker make, lab_error *error) {
    if (e->beyond)
        return e->beyond;
    unsigned mark = lab_json_mark();
    json_t *options =
        json_pack("{s:I, s:I, s:I, s:I}", "seeds", (json_int_t)e->options.seeds, "steps",
                  (json_int_t)e->options.steps, "sets", (json_int_t)e->options.sets, "largest",
                  (json_int_t)e->options.largest);
    json_object_set_new(options, "first_seed", json_integer(RETRIEVAL_FRESH_HEADS));
    json_object_set_new(options, "set_seed", json_integer(RETRIEVAL_FRESH_SETS));
    e->beyond = experiment_keep(e, "beyond", lab_json_whole(options, mark), make, NULL, error);
    return e->beyond;
}

const json_t *experiment_beyond(experiment *e, lab_error *error) {
    return find_beyond(e, make_beyond, error);
}

void experiment_recall(experiment *e) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    find_table(e, NULL, &unimportant);
    find_evaluation(e, RETRIEVAL_F32, NULL, &unimportant);
    find_evaluation(e, experiment_paper, NULL, &unimportant);
    find_sharpness(e, NULL, &unimportant);
    find_panels(e, NULL, &unimportant);
    find_fit(e, NULL, &unimportant);
    find_beyond(e, NULL, &unimportant);
    experiment_fresh_recall(e);
    experiment_clrs_recall(e);
}
