/*
 * The league: every arm trained on every task from several seeds and tested at multiples of its
 * training size. A model in training is a "cell", kept in a folder of its own:
 *
 *     FOLDER/manifest.json                                     scale, machine
 *     FOLDER/TASK/POSITIONS/ARM/seed-S-rate-R/result.json      what the model did, once it is done
 *                                            /training/        checkpoint and log until then
 *
 * So a run can be stopped and resumed, and extended by tasks, arms and seeds; several processes on
 * one folder share its cells, each taking those that nobody has taken, or those dealt to it.
 */
#ifndef WHET_LAB_LEAGUE_LEAGUE_H
#define WHET_LAB_LEAGUE_LEAGUE_H

#include "base/json.h"
#include "base/ranks.h"
#include "league/arms.h"
#include "league/task.h"
#include "nn/layers.h"

enum {
    LEAGUE_MULTIPLES_MAX = 16,
    LEAGUE_RATES_MAX = 8,
    LEAGUE_SEEDS_MAX = 64,
    LEAGUE_FIRST_SEED_MAX = 1000000,
    LEAGUE_LAYERS_MAX = 64,
    LEAGUE_WIDTH_MIN = 8,
    LEAGUE_WIDTH_MAX = 4096,
    LEAGUE_HEADS_MAX = 64,
    LEAGUE_SAMPLES_MAX = 100000,
    LEAGUE_TOKENS_MIN = 128,
    LEAGUE_POSITIONS = 4
};

/* How large everything is: the same for all arms. */
typedef struct league_scale {
    uint32_t layers, width, heads, batch;
    uint64_t steps;
    double rates[LEAGUE_RATES_MAX]; /* tried with the first seed; others take the best */
    size_t rate_count;
    uint64_t first_seed;
    size_t seeds;                             /* first_seed and those after it */
    uint64_t multiples[LEAGUE_MULTIPLES_MAX]; /* of the largest training size */
    size_t multiple_count;
    size_t samples;    /* at each size, fewer of long ones */
    size_t tokens_max; /* of a sample; larger sizes are left out */
} league_scale;

/* Ten minutes on two cores; and days. */
league_scale league_scale_quick(void);
league_scale league_scale_full(void);

bool league_scale_check(const league_scale *scale, lab_error *error);
json_t *league_scale_json(const league_scale *scale);

typedef struct league_request {
    league_scale scale;
    league_task tasks[LEAGUE_TASKS_MAX];
    size_t task_count;
    league_arms arms;
    lm_positions positions[LEAGUE_POSITIONS];
    size_t position_count;
    const char *folder;
    size_t share, shares;   /* takes cell i where i % shares == share; shares 0: all */
    const lab_ranks *ranks; /* or NULL: processes to which league_run deals the cells */
    bool quiet;
    const nn_engine *engine;
    const whet_executor *executor;
} league_request;

/* Everything there is. */
void league_all_tasks(league_request *request);
bool league_all_arms(league_request *request, lab_error *error);
void league_all_positions(league_request *request);

/* One model. */
typedef struct league_cell {
    const league_task *task;
    lm_positions positions;
    const league_arm *arm;
    uint64_t seed;
    double rate;
} league_cell;

/* The folder of a cell, to be freed; NULL when memory runs out. */
char *league_cell_folder(const league_request *request, const league_cell *cell);

/* What is known of a cell: a new reference, or NULL where it is not done. False if a result cannot
 * be read. */
bool league_cell_read(const league_request *request, const league_cell *cell, json_t **result,
                      lab_error *error);

/* Trains and tests a model and writes its result. *is_taken: another process has it. */
bool league_cell_run(const league_request *request, const league_cell *cell, const char *title,
                     bool *is_taken, lab_error *error);

/* The share of right answers in validation, by which learning rates are chosen. */
double league_validation(const json_t *result);

/* The learning rate of a cell's seed: 0 while those of the first are not all known. */
bool league_rate(const league_request *request, league_cell cell, double *rate, lab_error *error);

/* Seconds that training a cell is likely to take, and all that are not done; 0 if unknown. */
double league_cell_seconds(const league_request *request, const league_cell *cell);
double league_seconds(const league_request *request);

/* Whether the folder's cells, if any, have this scale: it is that of all of them. */
bool league_check_folder(const league_request *request, bool must_exist, lab_error *error);

/* Runs what is not done yet. *left: cells that other processes or ranks have. LAB_STOPPED after a
 * signal. With `ranks`, by all of them, which must see the same folder; a failure of one is that
 * of all. */
bool league_run(const league_request *request, size_t *left, lab_error *error);

#endif
