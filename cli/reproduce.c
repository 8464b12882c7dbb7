/*
 * `whet reproduce`: the paper's table and figures from nothing, and what lies
 * beyond them, as a report. Everything is kept as it is made, so that a run that
 * was stopped goes on where it was.
 */
#include "reproduce.h"

#include "messages.h"

#include "base/files.h"
#include "base/json.h"
#include "base/manifest.h"
#include "base/progress.h"
#include "base/signals.h"
#include "report/page.h"
#include "report/parts.h"
#include "report/table1.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int report_failure(const char *command, const lab_error *error) {
    if (!lab_interrupted())
        return report_lab_error(command, error);
    complain("%s: stopped; the same command goes on from here", command);
    return STATUS_STOPPED;
}

reproduction reproduction_start(void) {
    return (reproduction){.folder = "report",
                          .seeds = {.least = 1, .most = 1000},
                          .steps = {.least = 1, .most = 1000000000},
                          .sets = {.least = 1, .most = 10000000},
                          .lm_steps = {.least = 1, .most = 1000000000},
                          .lm_samples = {.least = 1, .most = 1000000},
                          .lm_seeds = {.least = 1, .most = 100}};
}

/* A number of the manifest for an option that was not given; false where it is none. */
static bool recall_number(const json_t *options, const char *name, option_range *number) {
    const json_t *kept = json_object_get(options, name);
    uint64_t value = json_is_integer(kept) ? (uint64_t)json_integer_value(kept) : 0;
    if (value < number->least || value > number->most)
        return false;
    if (number->value == 0)
        number->value = value;
    return true;
}

/* Those of the language models are 0 where the scale decided; older manifests do not have them. */
static void recall_models(const json_t *options, reproduction *r) {
    recall_number(options, "lm_steps", &r->lm_steps);
    recall_number(options, "lm_samples", &r->lm_samples);
    recall_number(options, "lm_seeds", &r->lm_seeds);
}

int recall_options(reproduction *r, const char *command) {
    lab_error error = {.kind = LAB_NO_ERROR};
    char *path = lab_path(r->folder, "manifest.json");
    if (!path)
        return complain_of_memory();
    json_t *manifest = lab_file_exists(path) ? lab_json_read(path, &error) : NULL;
    const json_t *options = json_object_get(manifest, "options");
    if (manifest &&
        (!recall_number(options, "seeds", &r->seeds) ||
         !recall_number(options, "steps", &r->steps) || !recall_number(options, "sets", &r->sets)))
        lab_fail(&error, LAB_INPUT, "%s is not the manifest of a 'whet reproduce'", path);
    recall_models(options, r);
    json_decref(manifest);
    free(path);
    return error.kind == LAB_NO_ERROR ? STATUS_OK : report_lab_error(command, &error);
}

int open_reproduction(reproduction *r, const char *command) {
    if (!open_laboratory(&r->lab, r->threads, NULL))
        return report_lab_error(command, &r->lab.error);
    experiment_options options = {.folder = r->folder,
                                  .seeds = r->seeds.value ? r->seeds.value
                                           : r->is_full   ? REPRODUCE_FULL_SEEDS
                                                          : 1,
                                  .steps = r->steps.value ? r->steps.value
                                           : r->is_full   ? REPRODUCE_FULL_STEPS
                                                          : REPRODUCE_QUICK_STEPS,
                                  .sets = r->sets.value ? r->sets.value : 4096,
                                  .largest = 16384,
                                  .is_full = r->is_full,
                                  .lm_steps = r->lm_steps.value,
                                  .lm_samples = r->lm_samples.value,
                                  .lm_seeds = r->lm_seeds.value,
                                  .quiet = r->quiet,
                                  .engine = &r->lab.engine,
                                  .executor = &r->lab.executor};
    r->experiment = experiment_start(&options);
    return STATUS_OK;
}

void close_reproduction(reproduction *r) {
    experiment_end(&r->experiment);
    close_laboratory(&r->lab);
}

/* Whether a name stands in a list with commas. */
static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return true;
    return false;
}

static void complain_of_part(const char *name) {
    const report_part *part;
    char list[512] = "";
    size_t used = 0;
    nearest_word search = nearest_to(name, strlen(name));
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++) {
        nearest_offer(&search, part->name);
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                     part->name);
    }
    if (search.found)
        complain("reproduce: --only: no part '%s'; did you mean '%s'?", name, search.found);
    else
        complain("reproduce: --only: no part '%s'; there are %s", name, list);
}

/* Every name of the list must be a part. */
static bool list_makes_sense(const char *list) {
    if (!*list) {
        complain("reproduce: --only: which parts? 'whet reproduce --help' lists them");
        return false;
    }
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        char name[32];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : INT_MAX, at);
        if (report_elsewhere(name)) {
            complain("reproduce: %s", report_elsewhere(name));
            return false;
        }
        const report_part *part = report_part_named(name);
        if (part && strcmp(part->name, name) == 0)
            continue;
        complain_of_part(name);
        return false;
    }
    return true;
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
    char *figures = lab_path(folder, "figures");
    bool good = figures ? lab_make_folder(figures, error) : lab_fail_memory(error);
    free(figures);
    return good;
}

/* Whether a part is to be made: named, or of those that a run makes by itself. */
static bool is_wanted(const report_part *part, const char *only, bool is_full) {
    if (!only)
        return is_full || !part->is_extra;
    return is_listed(only, part->name) || (part->group && is_listed(only, part->group));
}

/* Whether any part about language models is to be made, or any other. */
static bool wants(const reproduction *r, const char *only, bool about_models) {
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++) {
        bool is_model = strcmp(part->group ? part->group : part->name, "clrs") == 0;
        if (is_model == about_models && is_wanted(part, only, r->is_full))
            return true;
    }
    return false;
}

/* What an earlier run in the folder made and this one does not keeps its scale, so that the page
 * and the manifest still tell of it. */
static void keep_scales(reproduction *r, const char *only) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    char *path = lab_path(r->folder, "manifest.json");
    json_t *manifest = path && lab_file_exists(path) ? lab_json_read(path, &unimportant) : NULL;
    const json_t *options = json_object_get(manifest, "options");
    if (!wants(r, only, true))
        recall_models(options, r);
    if (!wants(r, only, false)) {
        recall_number(options, "seeds", &r->seeds);
        recall_number(options, "steps", &r->steps);
        recall_number(options, "sets", &r->sets);
    }
    json_decref(manifest);
    free(path);
}

static bool make_parts(experiment *e, const char *only, bool is_full, lab_error *error) {
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++) {
        if (!is_wanted(part, only, is_full))
            continue;
        if (lab_interrupted())
            return lab_fail(error, LAB_STOPPED, "stopped");
        bool good = part->draw ? draw_both(e, part, error) : part->table->make(e, error) != NULL;
        if (!good)
            return false;
    }
    return true;
}

static json_t *options_json(const reproduction *r, const char *only) {
    const experiment_options *o = &r->experiment.options;
    return json_pack("{s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:s}", "seeds", (json_int_t)o->seeds,
                     "steps", (json_int_t)o->steps, "sets", (json_int_t)o->sets, "largest",
                     (json_int_t)o->largest, "full", (int)o->is_full, "lm_steps",
                     (json_int_t)o->lm_steps, "lm_samples", (json_int_t)o->lm_samples, "lm_seeds",
                     (json_int_t)o->lm_seeds, "only", only ? only : "everything");
}

static bool run(reproduction *r, const char *only, lab_error *error) {
    experiment *e = &r->experiment;
    if (!experiment_claim(e, error) || !make_folders(r->folder, error))
        return false;
    lab_manifest manifest =
        lab_manifest_begin("reproduce", options_json(r, only), r->lab.engine.blas.description);
    bool good = lab_manifest_write(&manifest, r->folder, false, error) &&
                make_parts(e, only, r->is_full, error) && page_write(e, error);
    lab_error second = {.kind = LAB_NO_ERROR};
    bool noted = lab_manifest_write(&manifest, r->folder, good, good ? error : &second);
    lab_manifest_end(&manifest);
    return good && noted;
}

/* Parts that a run does not make by itself, unless they were made before. */
static void tell_what_is_missing(const reproduction *r, const char *only) {
    const report_part *part;
    for (size_t i = 0; !only && (part = report_part_at(i)) != NULL; i++)
        if (!part->group && !is_wanted(part, only, r->is_full) &&
            !(part->table && part->table->kept(&r->experiment)))
            printf("Left out, since it takes long: %s. --only %s makes it, and so does --full.\n",
                   part->name, part->name);
}

static int show(const reproduction *r, const char *only, const char *check) {
    const report_part *part;
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++) {
        const json_t *result = part->table ? part->table->kept(&r->experiment) : NULL;
        if (!result || !is_wanted(part, only, r->is_full))
            continue;
        if (!part->table->print(stdout, result))
            return complain_of_memory();
        putchar('\n');
    }
    const json_t *evaluation = r->experiment.evaluation[experiment_paper];
    if (check && evaluation) {
        table1_check(stdout, evaluation);
        putchar('\n');
    }
    tell_what_is_missing(r, only);
    printf("The report is in %s/index.html.\n", r->folder);
    return STATUS_OK;
}

int command_reproduce(int argc, char **argv) {
    reproduction r = reproduction_start();
    const char *only = NULL, *check = NULL;
    const option_spec options[] = {
        {"full", OPTION_FLAG, &r.is_full, NULL,
         "ten seeds of 100,000 steps instead of one of 20,000: hours"},
        {"only", OPTION_TEXT, &only, "PART,...",
         "only these: table1, figure1, figure2 ... (the list is below)"},
        {"out", OPTION_TEXT, &r.folder, "DIR", "where the report goes (default: report)"},
        {"check", OPTION_TEXT, &check, "published",
         "also say how far Table 1 is from the published figures, in standard errors, and where by "
         "more than two"},
        {"seeds", OPTION_RANGE, &r.seeds, "N", "heads to train of each kind"},
        {"steps", OPTION_RANGE, &r.steps, "N", "training steps of each"},
        {"sets", OPTION_RANGE, &r.sets, "N", "sets of each size to evaluate (default 4096)"},
        {"lm-steps", OPTION_RANGE, &r.lm_steps, "N",
         "training steps of each language model (clrs)"},
        {"lm-samples", OPTION_RANGE, &r.lm_samples, "N",
         "questions of each algorithm and length (clrs; default 128)"},
        {"lm-seeds", OPTION_RANGE, &r.lm_seeds, "N",
         "language models of each kind (clrs; default 1, with --full 3)"},
        threads_option(&r.threads),
        quiet_option(&r.quiet),
    };
    char list[2048];
    const report_part *part;
    int length = snprintf(list, sizeof list, "parts (* only with --full, or when named):\n");
    for (size_t i = 0; (part = report_part_at(i)) != NULL; i++)
        length += snprintf(list + length, sizeof list - (size_t)length, "  %-14s%c%s\n", part->name,
                           part->is_extra ? '*' : ' ', part->title);
    const command_syntax syntax = {
        .name = "reproduce",
        .operands = "",
        .about = "Makes the paper's table and figures on max retrieval, compares policies it did\n"
                 "not have, and writes a report. Stopped at any time, it goes on from there. The\n"
                 "experiment on CLRS-Text, for which language models are trained, takes half an\n"
                 "hour and more and is made when it is asked for: --only clrs.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = list,
    };
    int operands;
    options_result result = parse_options(&syntax, argc, argv, &operands);
    if (result != OPTIONS_GIVEN)
        return options_status(result);
    if (only && !list_makes_sense(only))
        return STATUS_MISUSE;
    if (check && strcmp(check, "published") != 0) {
        complain("reproduce: --check: '%s' cannot be checked; 'published' can", check);
        return STATUS_MISUSE;
    }
    lab_catch_interrupts();
    keep_scales(&r, only);
    int status = open_reproduction(&r, "reproduce");
    if (status == STATUS_OK) {
        lab_error error = {.kind = LAB_NO_ERROR};
        status =
            run(&r, only, &error) ? show(&r, only, check) : report_failure("reproduce", &error);
    }
    close_reproduction(&r);
    return status;
}
