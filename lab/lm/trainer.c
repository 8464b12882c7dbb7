/*
 * The training step: draw, pack, gradients lane by lane, their sum and its norm
 * slice by slice, one update by AdamW. Lanes and slices are tasks for an
 * executor.
 */
#include "lm/trainer.h"

#include "nn/training_state.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 16384 }; /* parameters added up and updated in one task */

/* A part of one tensor. */
typedef struct slice {
    size_t offset, count;
    bool decays;
    double square; /* of its gradient's norm */
} slice;

struct lm_trainer {
    const nn_engine *engine;
    const whet_executor *executor;
    lm_config config;
    lm_training training;
    lm_network network;
    nn_training_state state;
    float *gradients; /* [LM_LANES][state.count] */
    lm_workspace *workspaces[LM_LANES];
    atomic_flag busy[LM_LANES]; /* workspaces in use */
    size_t workers;             /* number of workspaces */
    lm_needs needs;
    size_t capacity; /* tokens of the longest piece that workspaces can hold */
    slice *slices;
    size_t slice_count;
    lm_source *source;
    lm_sequences sequences;
    lm_packed packed;
    size_t lanes;           /* that have pieces in this step, */
    size_t first_lane;      /* and the first of this process */
    const lab_ranks *ranks; /* or NULL */
    bool *all_exact;        /* [ranks][sequences], with ranks */
    lm_outcome outcomes[LM_LANES];
    float factor; /* on gradients: one over the weight of all targets, and clipping */
    nn_adam adam;
};

static bool cut_slices(lm_trainer *trainer) {
    const lm_config *config = &trainer->config;
    size_t tensors = lm_tensor_count(config);
    trainer->slices = calloc(tensors + trainer->state.count / SLICE + 1, sizeof *trainer->slices);
    for (size_t i = 0; trainer->slices && i < tensors; i++) {
        lm_tensor tensor = lm_tensor_at(config, &trainer->network.layout, i);
        size_t count = tensor.rows * tensor.cols;
        bool decays = tensor.rows > 1 && !strstr(tensor.name, "attn_policy");
        for (size_t first = 0; first < count; first += SLICE)
            trainer->slices[trainer->slice_count++] =
                (slice){.offset = tensor.offset + first,
                        .count = count - first < SLICE ? count - first : SLICE,
                        .decays = decays};
    }
    return trainer->slices != NULL;
}

static size_t piece_capacity(const lm_config *config) {
    return config->context > LM_PIECE_MOST ? config->context : LM_PIECE_MOST;
}

static size_t workers_of(const whet_executor *executor) {
    if (!executor)
        return 1;
    return executor->workers < LM_LANES ? executor->workers : LM_LANES;
}

bool lm_trainer_needs(const lm_config *config, const lm_training *training,
                      const whet_executor *executor, lm_needs *needs, lab_error *error) {
    enum {
        MOMENTS = 2,
        COPIES = 2 * (1 + MOMENTS) + LM_LANES
    }; /* twice: once for the checkpoint */
    lm_layout layout;
    size_t longest, activations;
    size_t rope = 3 * (size_t)config->context * config->rope_dims * sizeof(float);
    if (!lm_training_longest(training, config->context, &longest, error))
        return false;
    needs->piece_tokens = longest > LM_PIECE_MOST ? longest : LM_PIECE_MOST;
    if (!lm_layout_of(config, &layout) || layout.count > SIZE_MAX / 8 / LM_LANES ||
        __builtin_mul_overflow(lm_workspace_estimate(config, needs->piece_tokens),
                               workers_of(executor), &activations) ||
        __builtin_add_overflow(activations, COPIES * layout.count * sizeof(float) + rope,
                               &needs->bytes))
        return lab_fail(error, LAB_INPUT, "the model is too large for memory");
    needs->parameters = layout.count;
    return true;
}

static bool fail_memory(const lm_trainer *trainer, lab_error *error) {
    return lab_fail(error, LAB_SYSTEM, "out of memory: training takes about %.0f MB",
                    (double)trainer->needs.bytes / 1e6);
}

static void destroy_workspaces(lm_trainer *trainer) {
    for (size_t i = 0; i < trainer->workers; i++) {
        lm_workspace_destroy(trainer->workspaces[i]);
        trainer->workspaces[i] = NULL;
    }
    trainer->capacity = 0;
}

/* Reallocates workspaces that are too small. So memory follows the sequences and not the context,
 * which may be far longer for questions after training. */
static bool make_workspaces(lm_trainer *trainer, size_t tokens) {
    if (tokens <= trainer->capacity)
        return true;
    destroy_workspaces(trainer);
    for (size_t i = 0; i < trainer->workers; i++) {
        atomic_flag_clear(&trainer->busy[i]);
        trainer->workspaces[i] = lm_workspace_create(&trainer->network, tokens);
        if (!trainer->workspaces[i])
            return false;
    }
    trainer->capacity = tokens;
    return true;
}

/* For the pieces of this step, with a reserve for later ones. */
static bool reserve_pieces(lm_trainer *trainer) {
    size_t largest = 0, most = piece_capacity(&trainer->config);
    for (size_t i = 0; i < trainer->packed.count; i++) {
        size_t tokens = trainer->packed.pieces[i].rows * trainer->packed.pieces[i].length;
        largest = tokens > largest ? tokens : largest;
    }
    if (largest <= trainer->capacity)
        return true;
    size_t wanted = largest + largest / 8;
    return make_workspaces(trainer, wanted < most || largest > most ? wanted : most);
}

static bool allocate(lm_trainer *trainer, lab_error *error) {
    const lm_config *config = &trainer->config;
    lm_layout layout;
    if (!lm_trainer_needs(config, &trainer->training, trainer->executor, &trainer->needs, error) ||
        !lm_layout_of(config, &layout))
        return false;
    trainer->gradients = nn_floats(LM_LANES * layout.count);
    if (!nn_training_state_create(&trainer->state, layout.count) || !trainer->gradients)
        return fail_memory(trainer, error);
    lm_initialise(config, &layout, trainer->training.seed, trainer->state.weights);
    if (!lm_network_create(trainer->engine, config, trainer->state.weights, &trainer->network,
                           error))
        return false;
    if (!make_workspaces(trainer, trainer->needs.piece_tokens))
        return fail_memory(trainer, error);
    trainer->source = lm_source_create(&trainer->training, config->context, error);
    return trainer->source && (cut_slices(trainer) || lab_fail_memory(error));
}

lm_trainer *lm_trainer_create(const nn_engine *engine, const lm_config *config,
                              const lm_training *training, const whet_executor *executor,
                              lab_error *error) {
    if (!lm_config_check(config, error) || !lm_training_check(training, error))
        return NULL;
    if (config->vocabulary < lm_training_vocabulary(training)) {
        lab_fail(error, LAB_INPUT, "--vocabulary: %s has %u tokens",
                 training->synthetic ? training->synthetic->name : "CLRS-Text",
                 lm_training_vocabulary(training));
        return NULL;
    }
    lm_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer) {
        lab_fail_memory(error);
        return NULL;
    }
    trainer->engine = engine;
    trainer->executor = executor;
    trainer->config = *config;
    trainer->training = *training;
    trainer->workers = workers_of(executor);
    if (!allocate(trainer, error)) {
        lm_trainer_destroy(trainer);
        return NULL;
    }
    return trainer;
}

void lm_trainer_destroy(lm_trainer *trainer) {
    if (!trainer)
        return;
    destroy_workspaces(trainer);
    lm_packed_free(&trainer->packed);
    lm_sequences_free(&trainer->sequences);
    lm_source_destroy(trainer->source);
    lm_network_destroy(&trainer->network);
    free(trainer->slices);
    free(trainer->all_exact);
    free(trainer->gradients);
    nn_training_state_free(&trainer->state);
    free(trainer);
}

uint64_t lm_trainer_done(const lm_trainer *trainer) { return trainer->state.step; }

nn_log_sums *lm_trainer_log_sums(lm_trainer *trainer) { return &trainer->state.log_sums; }
size_t lm_trainer_parameters(const lm_trainer *trainer) { return trainer->state.count; }
float *lm_trainer_weights(lm_trainer *trainer) { return trainer->state.weights; }

size_t lm_trainer_bytes(const lm_trainer *trainer) {
    const nn_rope *rope = &trainer->network.rope;
    size_t bytes = (3 + LM_LANES) * trainer->state.count * sizeof(float) +
                   3 * rope->positions * rope->dims * sizeof(float);
    for (size_t i = 0; i < trainer->workers; i++)
        bytes += lm_workspace_bytes(trainer->workspaces[i]);
    return bytes;
}

static void add_outcome(lm_outcome *sum, const lm_outcome *outcome) {
    sum->loss += outcome->loss;
    sum->weight += outcome->weight;
    sum->answer_loss += outcome->answer_loss;
    sum->answer_tokens += outcome->answer_tokens;
    sum->right += outcome->right;
    sum->sequences += outcome->sequences;
    sum->exact += outcome->exact;
    if (sum->status == WHET_OK)
        sum->status = outcome->status;
}

/* A free workspace: there are as many as lanes can run at a time. */
static size_t take_workspace(lm_trainer *trainer) {
    for (size_t i = 0;; i = (i + 1) % trainer->workers)
        if (!atomic_flag_test_and_set(&trainer->busy[i]))
            return i;
}

/* Pieces come longest first: each lane takes one of every LM_LANES. */
static void lane_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    lm_trainer *trainer = argument;
    size_t lane = trainer->first_lane + task;
    size_t own = take_workspace(trainer);
    float *gradient = trainer->gradients + lane * trainer->state.count;
    lm_outcome sum = {.status = WHET_OK};
    memset(gradient, 0, trainer->state.count * sizeof(float));
    for (size_t i = lane; i < trainer->packed.count && sum.status == WHET_OK; i += LM_LANES) {
        lm_outcome outcome = lm_network_run(&trainer->network, &trainer->packed.pieces[i],
                                            trainer->workspaces[own], gradient);
        add_outcome(&sum, &outcome);
    }
    trainer->outcomes[lane] = sum;
    atomic_flag_clear(&trainer->busy[own]);
}

static size_t packed_rows(const lm_trainer *trainer) {
    size_t rows = 0;
    for (size_t i = 0; i < trainer->packed.count; i++)
        rows += trainer->packed.pieces[i].rows;
    return rows;
}

/* Space for what ranks tell each other of the sequences of a step. */
static bool reserve_exact(lm_trainer *trainer) {
    if (!trainer->ranks)
        return true;
    free(trainer->all_exact);
    trainer->all_exact =
        calloc((size_t)trainer->ranks->size * packed_rows(trainer) + 1, sizeof(bool));
    return trainer->all_exact != NULL;
}

/* What ranks tell each other besides gradients: for every sequence whether its answer was exact. */
static void share_exact(lm_trainer *trainer) {
    size_t count = packed_rows(trainer), size = (size_t)trainer->ranks->size;
    bool *all = trainer->all_exact;
    memcpy(all + (size_t)trainer->ranks->rank * count, trainer->packed.exact, count);
    lab_ranks_share(trainer->ranks, all, size, count);
    for (size_t i = 0; i < size * count; i++)
        trainer->packed.exact[i % count] = trainer->packed.exact[i % count] || all[i];
}

/* The lanes of this process, then those of the others. */
static void run_lanes(lm_trainer *trainer) {
    const lab_ranks *ranks = trainer->ranks;
    int rank = ranks ? ranks->rank : 0;
    size_t end = lab_rank_first(ranks, trainer->lanes, rank + 1);
    trainer->first_lane = lab_rank_first(ranks, trainer->lanes, rank);
    for (size_t i = 0; ranks && i < trainer->packed.count; i++)
        memset(trainer->packed.pieces[i].exact, 0, trainer->packed.pieces[i].rows);
    if (end > trainer->first_lane)
        nn_run_tasks(trainer->executor, end - trainer->first_lane, lane_task, trainer);
    if (!ranks)
        return;
    lab_ranks_share(ranks, trainer->gradients, trainer->lanes,
                    trainer->state.count * sizeof(float));
    lab_ranks_share(ranks, trainer->outcomes, trainer->lanes, sizeof trainer->outcomes[0]);
    share_exact(trainer);
}

/* Adds the lanes' gradients into the first one's, and computes the norm. */
static void sum_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    lm_trainer *trainer = argument;
    slice *own = &trainer->slices[task];
    float *gradient = trainer->gradients + own->offset;
    for (size_t lane = 1; lane < trainer->lanes; lane++)
        trainer->engine->kernels->add(gradient, gradient + lane * trainer->state.count, own->count);
    own->square = 0;
    for (size_t i = 0; i < own->count; i++)
        own->square += (double)gradient[i] * (double)gradient[i];
}

static void update_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    lm_trainer *trainer = argument;
    const nn_kernels *kernels = trainer->engine->kernels;
    const slice *own = &trainer->slices[task];
    float *gradient = trainer->gradients + own->offset;
    nn_adam adam = trainer->adam;
    adam.decay = own->decays ? adam.decay : 0;
    kernels->scale(gradient, trainer->factor, own->count);
    kernels->adam(&adam, gradient, 1, 0, own->count, trainer->state.weights + own->offset,
                  trainer->state.first + own->offset, trainer->state.second + own->offset);
}

static nn_adam adam_at(const lm_training *training, uint64_t step) {
    double rate = lm_rate_at(training, step);
    nn_adam adam = nn_adam_at(rate, training->beta1, training->beta2, step);
    adam.decay = (float)(rate * training->decay);
    return adam;
}

static double gradient_length(lm_trainer *trainer) {
    double square = 0;
    nn_run_tasks(trainer->executor, trainer->slice_count, sum_task, trainer);
    for (size_t i = 0; i < trainer->slice_count; i++)
        square += trainer->slices[i].square;
    return sqrt(square);
}

static bool fail_step(const lm_trainer *trainer, whet_status status, lab_error *error) {
    if (status == WHET_ERROR_MEMORY)
        return lab_fail_memory(error);
    if (status != WHET_NOT_FINITE)
        return lab_fail(error, LAB_SYSTEM, "attention: %s", whet_status_text(status));
    return nn_fail_not_finite(trainer->training.seed, trainer->state.step, error);
}

static void note_result(const lm_trainer *trainer, const lm_sequences *sequences,
                        const lm_outcome *sum, lm_step *result) {
    double answers = (double)sum->answer_tokens;
    *result = (lm_step){.loss = sum->loss / sum->weight,
                        .answer_loss = sum->answer_loss / (answers > 0 ? answers : 1),
                        .rate = lm_rate_at(&trainer->training, trainer->state.step),
                        .tokens = sequences->token_count,
                        .answer_tokens = sum->answer_tokens,
                        .right = sum->right,
                        .all = {sum->sequences, sum->exact},
                        .left_out = sequences->left_out};
    for (size_t i = 0; i < sequences->count; i++) {
        lm_tally *tally = &result->tasks[sequences->list[trainer->packed.order[i]].task];
        tally->sequences++;
        tally->exact += trainer->packed.exact[i];
    }
}

static bool pack(lm_trainer *trainer, const lm_sequences *sequences, lab_error *error) {
    const lm_training *training = &trainer->training;
    if (!lm_pack(sequences, training->loss, training->weigh, &trainer->packed))
        return lab_fail_memory(error);
    return (reserve_pieces(trainer) && reserve_exact(trainer)) || fail_memory(trainer, error);
}

/* A step on what is packed: by all ranks, or by none. */
static bool run_step(lm_trainer *trainer, const lm_sequences *sequences, bool is_packed,
                     lm_step *result, lab_error *error) {
    const lm_training *training = &trainer->training;
    if (!lab_ranks_agree(trainer->ranks, is_packed, error))
        return false;
    trainer->lanes = trainer->packed.count < LM_LANES ? trainer->packed.count : LM_LANES;
    run_lanes(trainer);
    lm_outcome sum = {.status = WHET_OK};
    for (size_t lane = 0; lane < trainer->lanes; lane++)
        add_outcome(&sum, &trainer->outcomes[lane]);
    if (sum.status != WHET_OK)
        return fail_step(trainer, sum.status, error);
    note_result(trainer, sequences, &sum, result);
    result->norm = gradient_length(trainer) / sum.weight;
    if (!isfinite(result->norm))
        return fail_step(trainer, WHET_NOT_FINITE, error);
    bool clips = training->clip > 0 && result->norm > training->clip;
    trainer->factor = (float)((clips ? training->clip / result->norm : 1) / sum.weight);
    trainer->adam = adam_at(training, trainer->state.step);
    nn_run_tasks(trainer->executor, trainer->slice_count, update_task, trainer);
    lm_keep_policies_valid(&trainer->config, &trainer->network.layout, trainer->state.weights);
    trainer->state.step++;
    return lm_network_refresh(&trainer->network) ||
           lab_fail(error, LAB_SYSTEM,
                    "the learned parameters of a policy are out of range; try a lower --rate");
}

bool lm_trainer_step_on(lm_trainer *trainer, const lm_sequences *sequences, lm_step *result,
                        lab_error *error) {
    return run_step(trainer, sequences, pack(trainer, sequences, error), result, error);
}

bool lm_trainer_step(lm_trainer *trainer, lm_step *result, lab_error *error) {
    bool is_packed = lm_source_draw(trainer->source, &trainer->sequences, error) &&
                     pack(trainer, &trainer->sequences, error);
    return run_step(trainer, &trainer->sequences, is_packed, result, error);
}

bool lm_trainer_join(lm_trainer *trainer, const lab_ranks *ranks, lab_error *error) {
    uint64_t before = trainer->state.step;
    trainer->ranks = ranks;
    nn_training_state_broadcast(&trainer->state, ranks);
    return trainer->state.step == before ||
           (lm_source_skip_to(trainer->source, trainer->state.step, &trainer->sequences, error) &&
            (lm_network_refresh(&trainer->network) ||
             lab_fail(error, LAB_SYSTEM, "learned parameters of a policy are out of range")));
}

static json_t *describe(const lm_trainer *trainer) {
    return json_pack("{s:s, s:s, s:o, s:o}", "model", LM_MODEL_NAME, "tokens",
                     trainer->training.synthetic ? LM_TOKENS_TASK : LM_TOKENS_CLRS, "shape",
                     lm_config_to_json(&trainer->config), "training",
                     lm_training_to_json(&trainer->training));
}

bool lm_trainer_save(const lm_trainer *trainer, const char *path, lab_error *error) {
    return nn_training_state_save(&trainer->state, path, describe(trainer), error);
}

static bool is_same_run(const void *context, const nn_checkpoint *read, const char *path,
                        lab_error *error) {
    const lm_trainer *trainer = context;
    const char *name = json_string_value(json_object_get(read->description, "model"));
    if (!name || strcmp(name, LM_MODEL_NAME) != 0)
        return lab_fail(error, LAB_INPUT, "%s: not a language model checkpoint", path);
    if (!json_object_get(read->description, "training"))
        return lab_fail(error, LAB_INPUT, "%s: holds a model but no training state to resume from",
                        path);
    static const nn_option_name names[] = {
        {"algorithms", "algo", false},         {"tied", "untied", true},
        {"layers", "num-layers", false},       {"heads", "num-heads", false},
        {"key_heads", "num-key-heads", false}, {NULL, NULL, false}};
    static const char *const parts[] = {"shape", "training"};
    json_t *ours = describe(trainer);
    if (!ours)
        return lab_fail_memory(error);
    bool is_same = true;
    for (size_t i = 0; is_same && i < sizeof parts / sizeof parts[0]; i++)
        is_same = nn_checkpoint_agrees(json_object_get(ours, parts[i]),
                                       json_object_get(read->description, parts[i]), NULL, names,
                                       path, error);
    json_decref(ours);
    return is_same;
}

bool lm_trainer_restore(lm_trainer *trainer, const char *path, lab_error *error) {
    return nn_training_state_restore(&trainer->state, path, trainer->training.steps, is_same_run,
                                     trainer, error) &&
           lm_source_skip_to(trainer->source, trainer->state.step, &trainer->sequences, error) &&
           (lm_network_refresh(&trainer->network) ||
            lab_fail(error, LAB_INPUT,
                     "%s: damaged checkpoint: learned parameters of a policy are out of range",
                     path));
}
