/* Deciding on the parts of a report and making them; see reproduction.h. */
#include "report/reproduction.h"

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/manifest.h"
#include "base/signals.h"
#include "report/clrs.h"
#include "report/page.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char command_name[] = "reproduce"; /* in manifests */

const reproduction_scale reproduction_scale_most = {.seeds = 1000,
                                                    .steps = 1000000000,
                                                    .sets = 10000000,
                                                    .fresh_steps = 1000000000,
                                                    .lm_steps = 1000000000,
                                                    .lm_samples = 1000000,
                                                    .lm_seeds = 100};

/* ---- which parts ---- */

/* Whether a name stands in a list with commas. */
static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return true;
    return false;
}

bool reproduction_check_list(const char *only, char wrong[REPRODUCTION_NAME_SIZE]) {
    *wrong = '\0';
    for (const char *at = only; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t length = strcspn(at, ",");
        snprintf(wrong, REPRODUCTION_NAME_SIZE, "%.*s",
                 length < REPRODUCTION_NAME_SIZE ? (int)length : INT_MAX, at);
        const report_part *part = report_part_named(wrong);
        if (!part || strcmp(part->name, wrong) != 0)
            return false;
    }
    return *only != '\0';
}

/* Whether the heads are to be trained, and not those of the program. */
static bool trains_heads(const reproduction *run) {
    return run->is_full || run->scale.seeds > 0 || run->scale.steps > 0;
}

bool reproduction_wants(const reproduction *run, const report_part *part) {
    if (!run->only)
        return (run->is_full || !part->is_extra) && !(part->is_live && trains_heads(run));
    return is_listed(run->only, part->name) || (part->group && is_listed(run->only, part->group));
}

bool reproduction_leaves_out(const reproduction *run, const experiment *e,
                             const report_part *part) {
    return !run->only && part->is_extra && !part->group && !reproduction_wants(run, part) &&
           !(part->table && part->table->kept(e));
}

/* Whether any part about language models is to be made, or any other. */
static bool wants_any(const reproduction *run, bool about_models) {
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++) {
        bool is_model = strcmp(part->group ? part->group : part->name, "clrs") == 0;
        if (is_model == about_models && reproduction_wants(run, part))
            return true;
    }
    return false;
}

/* ---- the scale ---- */

/* A number of the manifest for one that was not given; false where it is none. */
static bool recall_number(const json_t *options, const char *name, uint64_t most,
                          uint64_t *number) {
    const json_t *kept = json_object_get(options, name);
    uint64_t value = json_is_integer(kept) ? (uint64_t)json_integer_value(kept) : 0;
    if (value < 1 || value > most)
        return false;
    if (*number == 0)
        *number = value;
    return true;
}

/* Where the run before used the program's heads, so does this one, unless it says otherwise. */
static bool recall_heads(const json_t *options, reproduction_scale *scale) {
    const reproduction_scale *most = &reproduction_scale_most;
    bool has_sets = recall_number(options, "sets", most->sets, &scale->sets);
    if (json_is_true(json_object_get(options, "builtin_heads")))
        return has_sets &&
               recall_number(options, "fresh_steps", most->fresh_steps, &scale->fresh_steps);
    bool has_seeds = recall_number(options, "seeds", most->seeds, &scale->seeds);
    bool has_steps = recall_number(options, "steps", most->steps, &scale->steps);
    return has_seeds && has_steps && has_sets;
}

/* These are 0 where the scale decided; older manifests do not have them. */
static void recall_models(const json_t *options, reproduction_scale *scale) {
    const reproduction_scale *most = &reproduction_scale_most;
    recall_number(options, "lm_steps", most->lm_steps, &scale->lm_steps);
    recall_number(options, "lm_samples", most->lm_samples, &scale->lm_samples);
    recall_number(options, "lm_seeds", most->lm_seeds, &scale->lm_seeds);
}

bool reproduction_recall_scale(reproduction *run, lab_error *error) {
    json_t *options;
    if (!lab_manifest_options(run->folder, command_name, &options, error))
        return false;
    char *path = lab_path(run->folder, "manifest.json");
    bool is_good = path != NULL;
    if (!path)
        lab_fail_memory(error);
    else if (options ? !recall_heads(options, &run->scale) : lab_file_exists(path))
        is_good = lab_fail(error, LAB_INPUT, "%s: not a manifest of 'whet reproduce'", path);
    recall_models(options, &run->scale);
    json_decref(options);
    free(path);
    return is_good;
}

void reproduction_keep_scale(reproduction *run) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    json_t *options;
    lab_manifest_options(run->folder, command_name, &options, &unimportant);
    if (!wants_any(run, true))
        recall_models(options, &run->scale);
    if (!wants_any(run, false))
        recall_heads(options, &run->scale);
    json_decref(options);
}

experiment reproduction_start(const reproduction *run) {
    const reproduction_scale *scale = &run->scale;
    uint64_t usual_seeds = run->is_full ? REPRODUCTION_FULL_SEEDS : 1;
    uint64_t usual_steps = run->is_full ? REPRODUCTION_FULL_STEPS : REPRODUCTION_QUICK_STEPS;
    experiment_options options = {.folder = run->folder,
                                  .trains_heads = trains_heads(run),
                                  .fresh_steps = scale->fresh_steps ? scale->fresh_steps
                                                                    : REPRODUCTION_QUICK_STEPS,
                                  .seeds = scale->seeds ? scale->seeds : usual_seeds,
                                  .steps = scale->steps ? scale->steps : usual_steps,
                                  .sets = scale->sets ? scale->sets : 4096,
                                  .largest = 16384,
                                  .is_full = run->is_full,
                                  .lm_steps = scale->lm_steps,
                                  .lm_samples = scale->lm_samples,
                                  .lm_seeds = scale->lm_seeds,
                                  .quiet = run->quiet,
                                  .engine = run->engine,
                                  .executor = run->executor,
                                  .ranks = run->ranks};
    return experiment_start(&options);
}

/* ---- making them ---- */

static const json_t *make_panels(experiment *e, lab_error *error) {
    return experiment_panels(e, "softmax", error);
}

static const json_t *make_policies(experiment *e, lab_error *error) {
    return experiment_evaluation(e, experiment_paper, error);
}

static const json_t *make_policies_f32(experiment *e, lab_error *error) {
    return experiment_evaluation(e, RETRIEVAL_F32, error);
}

static bool draw_both(experiment *e, const report_part *part, lab_error *error) {
    static const char *const endings[] = {"svg", "png"};
    bool good = true;
    for (size_t i = 0; good && i < 2; i++) {
        char *path = lab_path(e->options.folder, "figures/%s.%s", part->name, endings[i]);
        good = path ? part->draw(e, path, error) : lab_fail_memory(error);
        free(path);
    }
    return good;
}

static bool make_folders(const char *folder, lab_error *error) {
    static const char *const names[] = {"figures", "data"};
    bool good = true;
    for (size_t i = 0; good && i < 2; i++) {
        char *path = lab_path(folder, "%s", names[i]);
        good = path ? lab_make_folder(path, error) : lab_fail_memory(error);
        free(path);
    }
    return good;
}

/* The numbers of a part, to be written. */
typedef struct part_data {
    const report_part *part;
    const experiment *experiment;
} part_data;

static void write_data(FILE *file, const void *context) {
    const part_data *data = context;
    data->part->csv(file, data->experiment);
}

static bool make_data(experiment *e, const report_part *part, lab_error *error) {
    const part_data data = {part, e};
    char *path = lab_path(e->options.folder, "data/%s.csv", part->name);
    if (!path)
        return lab_fail_memory(error);
    bool good = replace_file(path, write_data, &data) || lab_fail_file(error, "write", path);
    free(path);
    return good;
}

static bool goes_on(lab_error *error) {
    return !lab_interrupted() || lab_fail(error, LAB_STOPPED, "stopped");
}

/* The results first, in the order of the jobs, the fresh head first. */
static bool make_results(experiment *e, unsigned wanted, lab_error *error) {
    static const struct {
        unsigned job;
        const json_t *(*make)(experiment *experiment, lab_error *error);
    } makers[] = {{JOB(FRESH), experiment_fresh},
                  {JOB(TABLE), experiment_table},
                  {JOB(PANELS), make_panels},
                  {JOB(POLICIES), make_policies},
                  {JOB(POLICIES_F32), make_policies_f32},
                  {JOB(SHARPNESS), experiment_sharpness},
                  {JOB(FIT), experiment_fit},
                  {JOB(BEYOND), experiment_beyond},
                  {JOB(CLRS), experiment_clrs}};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (wanted & makers[i].job && (!lab_ranks_agree(e->options.ranks, goes_on(error), error) ||
                                       !makers[i].make(e, error)))
            return false;
    return true;
}

static bool make_parts(const reproduction *run, experiment *e, lab_error *error) {
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++)
        if (reproduction_wants(run, part) && (!goes_on(error) || !make_data(e, part, error) ||
                                              (part->draw && !draw_both(e, part, error))))
            return false;
    return true;
}

static unsigned wanted_jobs(const reproduction *run) {
    unsigned wanted = JOB(PICTURES);
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++)
        if (reproduction_wants(run, part))
            wanted |= part->needs;
    return wanted;
}

report_jobs reproduction_plan(const reproduction *run, experiment *e) {
    return jobs_plan(e, wanted_jobs(run));
}

/* Pictures, numbers and the page, by the first rank alone. */
static bool write_all(const reproduction *run, experiment *e, double began, lab_error *error) {
    if (!lab_is_first(run->ranks))
        return true;
    e->options.ranks = NULL;
    jobs_begin(e->jobs, JOB_PICTURES);
    bool good = make_parts(run, e, error);
    jobs_end();
    good = good && page_write(e, lab_now() - began, error);
    e->options.ranks = run->ranks;
    return good;
}

static bool make_all(const reproduction *run, experiment *e, double began, lab_error *error) {
    bool good = make_results(e, wanted_jobs(run), error);
    jobs_end();
    return good && write_all(run, e, began, error);
}

static json_t *options_json(const experiment_options *o, const char *only) {
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:s}", "builtin_heads",
                     (int)!o->trains_heads, "seeds", (json_int_t)o->seeds, "steps",
                     (json_int_t)o->steps, "fresh_steps", (json_int_t)o->fresh_steps, "sets",
                     (json_int_t)o->sets, "largest", (json_int_t)o->largest, "full",
                     (int)o->is_full, "lm_steps", (json_int_t)o->lm_steps, "lm_samples",
                     (json_int_t)o->lm_samples, "lm_seeds", (json_int_t)o->lm_seeds, "only",
                     only ? only : "everything");
}

static bool begin_folder(const reproduction *run, experiment *e, lab_manifest *manifest,
                         lab_error *error) {
    return experiment_claim(e, error) && make_folders(run->folder, error) &&
           lab_manifest_write(manifest, run->folder, false, error);
}

bool reproduction_make(const reproduction *run, experiment *e, lab_error *error) {
    const lab_ranks *ranks = run->ranks;
    bool is_first = lab_is_first(ranks);
    double began = lab_now();
    if (ranks && !lab_ranks_same_options(ranks, options_json(&e->options, run->only), error))
        return false;
    lab_manifest manifest = lab_manifest_begin(command_name, options_json(&e->options, run->only),
                                               run->engine->blas.description);
    bool begun = !is_first || begin_folder(run, e, &manifest, error);
    bool good = lab_ranks_agree(ranks, begun, error) && make_all(run, e, began, error);
    lab_error second = {.kind = LAB_NO_ERROR};
    bool noted = !is_first || !begun ||
                 lab_manifest_write(&manifest, run->folder, good, good ? error : &second);
    lab_manifest_end(&manifest);
    return lab_ranks_agree(ranks, good && noted, error);
}
