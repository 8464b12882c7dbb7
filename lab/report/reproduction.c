/* Deciding on the parts of a report and making them; see reproduction.h. */
#include "report/reproduction.h"

#include "base/files.h"
#include "base/manifest.h"
#include "base/signals.h"
#include "report/page.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char command_name[] = "reproduce"; /* in manifests */

const reproduction_scale reproduction_scale_most = {.seeds = 1000,
                                                    .steps = 1000000000,
                                                    .sets = 10000000,
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

bool reproduction_wants(const reproduction *run, const report_part *part) {
    if (!run->only)
        return run->is_full || !part->is_extra;
    return is_listed(run->only, part->name) || (part->group && is_listed(run->only, part->group));
}

bool reproduction_leaves_out(const reproduction *run, const experiment *e,
                             const report_part *part) {
    return !run->only && !part->group && !reproduction_wants(run, part) &&
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

static bool recall_heads(const json_t *options, reproduction_scale *scale) {
    const reproduction_scale *most = &reproduction_scale_most;
    bool has_seeds = recall_number(options, "seeds", most->seeds, &scale->seeds);
    bool has_steps = recall_number(options, "steps", most->steps, &scale->steps);
    bool has_sets = recall_number(options, "sets", most->sets, &scale->sets);
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
        is_good = lab_fail(error, LAB_INPUT, "%s is not the manifest of a 'whet reproduce'", path);
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
                                  .executor = run->executor};
    return experiment_start(&options);
}

/* ---- making them ---- */

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
    char *figures = lab_path(folder, "figures");
    bool good = figures ? lab_make_folder(figures, error) : lab_fail_memory(error);
    free(figures);
    return good;
}

static bool make_parts(const reproduction *run, experiment *e, lab_error *error) {
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++) {
        if (!reproduction_wants(run, part))
            continue;
        if (lab_interrupted())
            return lab_fail(error, LAB_STOPPED, "stopped");
        bool good = part->draw ? draw_both(e, part, error) : part->table->make(e, error) != NULL;
        if (!good)
            return false;
    }
    return true;
}

static json_t *options_json(const experiment_options *o, const char *only) {
    return json_pack("{s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:s}", "seeds", (json_int_t)o->seeds,
                     "steps", (json_int_t)o->steps, "sets", (json_int_t)o->sets, "largest",
                     (json_int_t)o->largest, "full", (int)o->is_full, "lm_steps",
                     (json_int_t)o->lm_steps, "lm_samples", (json_int_t)o->lm_samples, "lm_seeds",
                     (json_int_t)o->lm_seeds, "only", only ? only : "everything");
}

bool reproduction_make(const reproduction *run, experiment *e, lab_error *error) {
    if (!experiment_claim(e, error) || !make_folders(run->folder, error))
        return false;
    lab_manifest manifest = lab_manifest_begin(command_name, options_json(&e->options, run->only),
                                               run->engine->blas.description);
    bool good = lab_manifest_write(&manifest, run->folder, false, error) &&
                make_parts(run, e, error) && page_write(e, error);
    lab_error second = {.kind = LAB_NO_ERROR};
    bool noted = lab_manifest_write(&manifest, run->folder, good, good ? error : &second);
    lab_manifest_end(&manifest);
    return good && noted;
}
