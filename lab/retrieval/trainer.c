/*
 * The training step: draw, gradients tile by tile, one update by Adam. Tiles
 * and slices of the update are tasks for an executor; results do not depend on
 * which thread runs them.
 */
#include "retrieval/trainer.h"

#include "nn/training_state.h"
#include "retrieval/task.h"

#include <stdlib.h>
#include <string.h>

enum { SLICE = 16384 }; /* parameters updated in one task */

struct retrieval_trainer {
    const nn_engine *engine;
    const whet_executor *executor;
    retrieval_config config;
    retrieval_model model;
    uint64_t seed;
    size_t tiles;
    size_t first_tile;      /* of this process, */
    const lab_ranks *ranks; /* which may be one of several */
    nn_training_state state;
    float *gradients; /* [tiles][state.count] */
    retrieval_workspace **workspaces;
    retrieval_outcome *outcomes;
    float *priority, *query;
    uint16_t *class_of, *label;
    size_t n; /* items in each set of the current batch */
    nn_adam adam;
};

static bool allocate(retrieval_trainer *trainer) {
    const retrieval_config *config = &trainer->config;
    size_t items = (size_t)config->batch * config->size_max;
    size_t count = retrieval_layout_of(config).count;
    trainer->gradients = nn_floats(trainer->tiles * count);
    trainer->priority = nn_floats(items);
    trainer->query = nn_floats(config->batch);
    trainer->class_of = malloc(items * sizeof *trainer->class_of);
    trainer->label = malloc(config->batch * sizeof *trainer->label);
    trainer->outcomes = calloc(trainer->tiles, sizeof *trainer->outcomes);
    trainer->workspaces = calloc(trainer->tiles, sizeof(retrieval_workspace *));
    if (!nn_training_state_create(&trainer->state, count) || !trainer->gradients ||
        !trainer->priority || !trainer->query || !trainer->class_of || !trainer->label ||
        !trainer->outcomes || !trainer->workspaces)
        return false;
    for (size_t i = 0; i < trainer->tiles; i++) {
        trainer->workspaces[i] =
            retrieval_workspace_create(config, retrieval_tile_sets(config), config->size_max);
        if (!trainer->workspaces[i])
            return false;
    }
    return true;
}

retrieval_trainer *retrieval_trainer_create(const nn_engine *engine, const retrieval_config *config,
                                            uint64_t seed, const whet_executor *executor,
                                            lab_error *error) {
    if (!retrieval_config_check(config, error))
        return NULL;
    retrieval_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer) {
        lab_fail_memory(error);
        return NULL;
    }
    trainer->engine = engine;
    trainer->executor = executor;
    trainer->config = *config;
    trainer->seed = seed;
    size_t sets = retrieval_tile_sets(config);
    trainer->tiles = (config->batch + sets - 1) / sets;
    if (!allocate(trainer)) {
        lab_fail_memory(error);
        retrieval_trainer_destroy(trainer);
        return NULL;
    }
    retrieval_initialise(config, seed, trainer->state.weights);
    trainer->model = (retrieval_model){.engine = engine,
                                       .config = *config,
                                       .layout = retrieval_layout_of(config),
                                       .parameters = trainer->state.weights};
    whet_policy_parse(config->policy, &trainer->model.policy, NULL, 0);
    return trainer;
}

void retrieval_trainer_destroy(retrieval_trainer *trainer) {
    if (!trainer)
        return;
    for (size_t i = 0; trainer->workspaces && i < trainer->tiles; i++)
        retrieval_workspace_destroy(trainer->workspaces[i]);
    free((void *)trainer->workspaces);
    free(trainer->outcomes);
    free(trainer->label);
    free(trainer->class_of);
    free(trainer->query);
    free(trainer->priority);
    free(trainer->gradients);
    nn_training_state_free(&trainer->state);
    free(trainer);
}

uint64_t retrieval_trainer_done(const retrieval_trainer *trainer) { return trainer->state.step; }

nn_log_sums *retrieval_trainer_log_sums(retrieval_trainer *trainer) {
    return &trainer->state.log_sums;
}

static void draw_batch(retrieval_trainer *trainer) {
    const retrieval_config *config = &trainer->config;
    lab_random random = lab_random_start(lab_seed_for(trainer->seed, "step", trainer->state.step));
    size_t n =
        config->size_min + lab_random_below(&random, config->size_max - config->size_min + 1);
    trainer->n = n;
    for (size_t s = 0; s < config->batch; s++) {
        retrieval_items items = {trainer->priority + s * n, trainer->class_of + s * n};
        retrieval_top top = {.priority = -1};
        float priority_range = retrieval_draw_priority_range(&random, config);
        trainer->query[s] = retrieval_draw_query(&random, config);
        retrieval_draw_items(&random, config, priority_range, 0, n, items, &top);
        trainer->label[s] = items.class_of[top.index];
    }
}

static void tile_task(void *argument, size_t index, size_t worker) {
    (void)worker;
    retrieval_trainer *trainer = argument;
    size_t task = trainer->first_tile + index;
    size_t sets = retrieval_tile_sets(&trainer->config);
    size_t n = trainer->n, first = task * sets, left = trainer->config.batch - first;
    retrieval_batch batch = {.sets = left < sets ? left : sets,
                             .n = n,
                             .priority = trainer->priority + first * n,
                             .class_of = trainer->class_of + first * n,
                             .query = trainer->query + first,
                             .label = trainer->label + first};
    trainer->outcomes[task] = retrieval_tile(
        &trainer->model, &batch, 1.0F / (float)trainer->config.batch, trainer->workspaces[task],
        trainer->gradients + task * trainer->state.count, NULL);
}

static void update_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    retrieval_trainer *trainer = argument;
    size_t first = task * SLICE, left = trainer->state.count - first;
    trainer->engine->kernels->adam(&trainer->adam, trainer->gradients + first, trainer->tiles,
                                   trainer->state.count, left < SLICE ? left : SLICE,
                                   trainer->state.weights + first, trainer->state.first + first,
                                   trainer->state.second + first);
}

/* The tiles of this process, then those of the others. */
static void run_tiles(retrieval_trainer *trainer) {
    const lab_ranks *ranks = trainer->ranks;
    int rank = ranks ? ranks->rank : 0;
    size_t end = lab_rank_first(ranks, trainer->tiles, rank + 1);
    trainer->first_tile = lab_rank_first(ranks, trainer->tiles, rank);
    if (end > trainer->first_tile)
        nn_run_tasks(trainer->executor, end - trainer->first_tile, tile_task, trainer);
    lab_ranks_share(ranks, trainer->gradients, trainer->tiles,
                    trainer->state.count * sizeof(float));
    lab_ranks_share(ranks, trainer->outcomes, trainer->tiles, sizeof trainer->outcomes[0]);
}

void retrieval_trainer_join(retrieval_trainer *trainer, const lab_ranks *ranks) {
    trainer->ranks = ranks;
    nn_training_state_broadcast(&trainer->state, ranks);
}

static nn_adam adam_at(const retrieval_config *config, uint64_t step) {
    double share = config->steps > 1 ? (double)step / (double)(config->steps - 1) : 0;
    double rate = nn_half_cosine(config->rate, config->rate_end, share);
    nn_adam adam = nn_adam_at(rate, 0.9, 0.999, step);
    if (config->l2 == RETRIEVAL_L2_LOSS)
        adam.gradient_loss = (float)(2 * config->lambda);
    else if (config->l2 == RETRIEVAL_L2_LOSS_HALF)
        adam.gradient_loss = (float)config->lambda;
    else if (config->l2 == RETRIEVAL_L2_DECOUPLED)
        adam.decay = (float)(rate * config->lambda);
    return adam;
}

bool retrieval_trainer_step(retrieval_trainer *trainer, retrieval_step *result, lab_error *error) {
    draw_batch(trainer);
    run_tiles(trainer);
    double loss = 0;
    size_t correct = 0;
    bool is_finite = true;
    for (size_t i = 0; i < trainer->tiles; i++) {
        loss += trainer->outcomes[i].loss;
        correct += trainer->outcomes[i].correct;
        is_finite = is_finite && trainer->outcomes[i].is_finite;
    }
    *result =
        (retrieval_step){loss / trainer->config.batch, (double)correct / trainer->config.batch};
    if (!is_finite)
        return nn_fail_not_finite(trainer->seed, trainer->state.step, error);
    trainer->adam = adam_at(&trainer->config, trainer->state.step);
    bool learns_scale = trainer->config.learn_scale;
    float scale = trainer->state.weights[trainer->model.layout.scale];
    nn_run_tasks(trainer->executor, (trainer->state.count + SLICE - 1) / SLICE, update_task,
                 trainer);
    if (!learns_scale) /* its gradient is zero, but L2 would move it */
        trainer->state.weights[trainer->model.layout.scale] = scale;
    trainer->state.step++;
    return true;
}

bool retrieval_trainer_save(const retrieval_trainer *trainer, const char *path, lab_error *error) {
    return nn_training_state_save(&trainer->state, path,
                                  retrieval_config_to_json(&trainer->config, trainer->seed), error);
}

static bool is_same_run(const void *context, const nn_checkpoint *read, const char *path,
                        lab_error *error) {
    const retrieval_trainer *trainer = context;
    static const nn_option_name names[] = {{"key_sees_class", "blind-key", true},
                                           {"precision", "rounding", false},
                                           {NULL, NULL, false}};
    retrieval_config config;
    uint64_t seed;
    if (!retrieval_config_from_json(read->description, path, &config, &seed, error))
        return false;
    json_t *ours = retrieval_config_to_json(&trainer->config, trainer->seed);
    if (!ours)
        return lab_fail_memory(error);
    /* A run can be extended. */
    bool is_same = nn_checkpoint_agrees(ours, read->description, "steps", names, path, error);
    json_decref(ours);
    return is_same;
}

bool retrieval_trainer_restore(retrieval_trainer *trainer, const char *path, lab_error *error) {
    return nn_training_state_restore(&trainer->state, path, trainer->config.steps, is_same_run,
                                     trainer, error);
}

bool retrieval_trainer_head(const retrieval_trainer *trainer, retrieval_head *head,
                            lab_error *error) {
    *head = (retrieval_head){
        .config = trainer->config, .seed = trainer->seed, .step = trainer->state.step};
    head->parameters = nn_floats(trainer->state.count);
    if (!head->parameters)
        return lab_fail_memory(error);
    memcpy(head->parameters, trainer->state.weights, trainer->state.count * sizeof(float));
    return true;
}
