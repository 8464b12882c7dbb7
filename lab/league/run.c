/* Which cells there are, in which order, and how long the rest will take. */
#include "league/league.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/manifest.h"
#include "base/progress.h"
#include "base/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char command_name[] = "league"; /* in manifests */

bool league_rate(const league_request *request, league_cell cell, double *rate, lab_error *error) {
    const league_scale *scale = &request->scale;
    double best = -2;
    *rate = scale->rates[0];
    cell.seed = scale->first_seed;
    for (size_t i = 0; i < scale->rate_count && scale->rate_count > 1; i++) {
        json_t *result;
        cell.rate = scale->rates[i];
        if (!league_cell_read(request, &cell, &result, error))
            return false;
        if (!result) {
            *rate = 0;
            return true;
        }
        double reached = league_validation(result);
        if (reached > best) {
            best = reached;
            *rate = cell.rate;
        }
        json_decref(result);
    }
    return true;
}

/* A pass over all cells in their order: seed by seed, so that a part of a run compares everything.
 */
typedef struct walk {
    const league_request *request;
    size_t total, done, taken; /* cells, those with results, and those of other processes */
    double guess;              /* seconds of a cell, before one has been timed */
    double seconds;            /* that cells took here */
    size_t timed;
    bool runs; /* or only counts */
} walk;

static bool visit(walk *own, const league_cell *cell, size_t index, lab_error *error) {
    const league_request *request = own->request;
    json_t *result;
    char title[160];
    bool is_taken;
    own->total++;
    if (cell->rate == 0) { /* not known yet */
        own->taken++;
        return true;
    }
    if (!league_cell_read(request, cell, &result, error))
        return false;
    if (result) {
        json_decref(result);
        own->done++;
        return true;
    }
    if (!own->runs)
        return true;
    if (request->shares > 0 && index % request->shares != request->share) {
        own->taken++;
        return true;
    }
    if (lab_interrupted())
        return lab_fail(error, LAB_STOPPED, "stopped; the same command continues from here");
    snprintf(title, sizeof title, "%s, %s, %s, seed %llu", cell->task->name,
             lm_positions_names[cell->positions], cell->arm->name, (unsigned long long)cell->seed);
    double began = lab_now();
    if (!league_cell_run(request, cell, title, &is_taken, error))
        return false;
    own->taken += is_taken;
    own->done += !is_taken;
    own->seconds += is_taken ? 0 : lab_now() - began;
    own->timed += !is_taken;
    return true;
}

static bool visit_seed(walk *own, league_cell cell, size_t *index, lab_error *error) {
    const league_scale *scale = &own->request->scale;
    bool sweeps = cell.seed == scale->first_seed;
    for (size_t i = 0; i < (sweeps ? scale->rate_count : 1); i++) {
        cell.rate = scale->rates[i];
        if ((!sweeps && !league_rate(own->request, cell, &cell.rate, error)) ||
            !visit(own, &cell, (*index)++, error))
            return false;
    }
    return true;
}

static void show_rest(const walk *own, size_t cells) {
    double left = (double)(cells - own->done);
    double each = own->timed ? own->seconds / (double)own->timed : own->guess;
    double after = (left - 1) * each;
    lab_progress_overall((unsigned)own->done + 1, (unsigned)cells, after > 0 ? after : 0);
}

static bool walk_cells(walk *own, size_t cells, lab_error *error) {
    const league_request *r = own->request;
    size_t index = 0;
    for (uint64_t i = 0; i < r->scale.seeds; i++)
        for (size_t t = 0; t < r->task_count; t++)
            for (size_t p = 0; p < r->position_count; p++)
                for (size_t a = 0; a < r->arms.count; a++) {
                    league_cell cell = {.task = &r->tasks[t],
                                        .positions = r->positions[p],
                                        .arm = &r->arms.list[a],
                                        .seed = r->scale.first_seed + i};
                    if (cell.arm->trained_as)
                        continue;
                    if (own->runs)
                        show_rest(own, cells);
                    if (!visit_seed(own, cell, &index, error))
                        return false;
                }
    return true;
}

/* Of training one model. */
static double guess_seconds(const league_request *request) {
    const league_cell first = {.task = &request->tasks[0],
                               .positions = request->positions[0],
                               .arm = &request->arms.list[0],
                               .seed = request->scale.first_seed,
                               .rate = request->scale.rates[0]};
    return league_cell_seconds(request, &first);
}

double league_seconds(const league_request *request) {
    walk count = {.request = request};
    lab_error ignored = {.kind = LAB_NO_ERROR};
    if (!walk_cells(&count, 0, &ignored))
        return 0;
    size_t left = count.total - count.done, shares = request->shares ? request->shares : 1;
    return left ? (double)left / (double)shares * guess_seconds(request) : 0;
}

bool league_check_folder(const league_request *request, bool must_exist, lab_error *error) {
    json_t *before = NULL, *ours = league_scale_json(&request->scale);
    bool is_good = lab_manifest_options(request->folder, command_name, &before, error);
    if (is_good && !before && must_exist)
        is_good = lab_fail(error, LAB_INPUT, "%s: holds no league", request->folder);
    if (is_good && before && !json_equal(before, ours))
        is_good = lab_fail(error, LAB_INPUT,
                           "%s: holds a league of another scale (see its manifest.json); choose "
                           "another --out-dir",
                           request->folder);
    json_decref(before);
    json_decref(ours);
    return is_good;
}

/* Cells without results. */
static bool count_left(const league_request *request, walk *count, size_t *left, lab_error *error) {
    *count = (walk){.request = request};
    bool is_good = walk_cells(count, 0, error);
    *left = count->total - count->done;
    return is_good;
}

/* What ranks must agree on. */
static json_t *options_json(const league_request *request) {
    unsigned mark = lab_json_mark();
    json_t *options = league_scale_json(&request->scale), *names = json_array();
    for (size_t i = 0; i < request->task_count; i++)
        json_array_append_new(names, json_string(request->tasks[i].name));
    for (size_t i = 0; i < request->arms.count; i++)
        json_array_append_new(names, json_string(request->arms.list[i].name));
    for (size_t i = 0; i < request->position_count; i++)
        json_array_append_new(names, json_string(lm_positions_names[request->positions[i]]));
    json_object_set_new(options, "dealt", names);
    return lab_json_whole(options, mark);
}

static bool run_cells(const league_request *request, size_t *left, lab_error *error) {
    walk count;
    if (!count_left(request, &count, left, error))
        return false;
    walk own = {.request = request, .runs = true};
    own.guess = request->quiet || count.done == count.total ? 0 : guess_seconds(request);
    bool is_good = walk_cells(&own, count.total, error);
    lab_progress_overall(0, 0, 0);
    *left = own.total - own.done;
    return is_good;
}

/* Pass after pass, since the learning rates of later seeds are known when the first seed is done;
 * until nothing is left, or only what others have. */
static bool run_together(const league_request *request, size_t *left, lab_error *error) {
    const lab_ranks *ranks = request->ranks;
    league_request own = *request;
    size_t before = SIZE_MAX;
    walk count;
    own.share = (size_t)ranks->rank;
    own.shares = (size_t)ranks->size;
    bool is_good = true, goes_on = true;
    while (is_good && goes_on) {
        is_good = lab_ranks_agree(ranks, run_cells(&own, left, error), error);
        is_good = is_good && lab_ranks_agree(ranks, count_left(&own, &count, left, error), error);
        goes_on = is_good && lab_ranks_any(ranks, *left > 0 && *left < before);
        before = *left;
    }
    return is_good;
}

static bool begin_folder(const league_request *request, lab_manifest *manifest, lab_error *error) {
    return !lab_is_first(request->ranks) ||
           (lab_make_folder(request->folder, error) && league_check_folder(request, false, error) &&
            lab_manifest_write(manifest, request->folder, false, error));
}

bool league_run(const league_request *request, size_t *left, lab_error *error) {
    const lab_ranks *ranks = request->ranks;
    *left = 0;
    if (!league_scale_check(&request->scale, error) ||
        (ranks && !lab_ranks_same_options(ranks, options_json(request), error)))
        return false;
    lab_manifest manifest = lab_manifest_begin(command_name, league_scale_json(&request->scale),
                                               request->engine->blas.description);
    bool is_good = lab_ranks_agree(ranks, begin_folder(request, &manifest, error), error) &&
                   (ranks ? run_together(request, left, error) : run_cells(request, left, error));
    if (is_good && lab_is_first(ranks))
        is_good = lab_manifest_write(&manifest, request->folder, *left == 0, error);
    lab_manifest_end(&manifest);
    return is_good;
}
