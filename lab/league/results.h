/*
 * What the cells of a league say together: the share of right answers by task, positions, arm and
 * multiple of the training size, over seeds; differences to softmax paired by seed; a ranking.
 * Cells that are not done are missing; models whose training failed are right never.
 */
#ifndef WHET_LAB_LEAGUE_RESULTS_H
#define WHET_LAB_LEAGUE_RESULTS_H

#include "base/statistics.h"
#include "league/league.h"

/* Of one task, positions, arm and multiple. */
typedef struct league_entry {
    size_t seeds;            /* 0: nothing is known */
    lab_interval right;      /* over seeds; of one seed, over its samples */
    size_t pairs;            /* seeds that softmax has, too */
    lab_interval difference; /* to softmax, over pairs */
    double entropy, beta;    /* means over heads, after the policy; NaN if unknown */
} league_entry;

/* Of one arm and positions, over all tasks that it has results of. */
typedef struct league_standing {
    size_t arm, positions;
    size_t models;           /* tasks times seeds */
    lab_interval right;      /* mean beyond the training size, over tasks and seeds */
    lab_interval difference; /* to softmax with the same positions, task and seed */
    double cost;             /* processor time of training relative to softmax; NaN if unknown */
} league_standing;

typedef struct league_results {
    const league_request *request;
    league_entry *entries;      /* [task][positions][arm][multiple] */
    league_standing *standings; /* the best first */
    size_t standing_count;
    json_t *failed;          /* results of models whose training failed */
    size_t models, expected; /* cells with results, and all */
} league_results;

/* The request must outlive the results. */
bool league_results_read(const league_request *request, league_results *results, lab_error *error);
void league_results_free(league_results *results); /* a zeroed one is fine */

const league_entry *league_entry_at(const league_results *results, size_t task, size_t positions,
                                    size_t arm, size_t multiple);

/* Everything; a new reference, NULL when memory runs out. */
json_t *league_results_json(const league_results *results);

/* A line for each entry, for replace_file, the context being the results. */
void league_results_csv(FILE *file, const void *results);

/* One page with everything, and its charts of right answers alone, likewise: page.c. */
void league_page(FILE *file, const void *context);
void league_svg(FILE *file, const void *context);

#endif
