/* Pieces of the samples as tasks of the executor, each with a workspace; sums in order of pieces.
 */
#include "league/evaluate.h"

#include "base/signals.h"
#include "lm/pack.h"
#include "lm/workspace.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { WORKERS_MAX = 64 };

typedef struct sums {
    lm_outcome outcome;
    double *heads; /* [layers][heads][3], over targets */
} sums;

typedef struct sitting {
    lm_network network;
    lm_packed packed;
    lm_workspace *workspaces[WORKERS_MAX];
    atomic_flag busy[WORKERS_MAX];
    size_t workers;
    sums *of_pieces;
    float *losses;     /* of all targets */
    double *entropies; /* of all targets, summed over heads */
    size_t values;     /* of heads */
    double *heads;     /* of all pieces */
} sitting;

static size_t take_workspace(sitting *own) {
    for (size_t i = 0;; i = (i + 1) % own->workers)
        if (!atomic_flag_test_and_set(&own->busy[i]))
            return i;
}

/* Statistics of the rows of the answers. */
static void add_heads(const sitting *own, const lm_piece *piece, const lm_workspace *workspace,
                      double *to) {
    const lm_config *config = &own->network.config;
    for (size_t layer = 0; layer < config->layers; layer++)
        for (size_t head = 0; head < config->heads; head++, to += 3)
            for (size_t i = 0; i < piece->targets; i++) {
                size_t row = piece->at[i] / piece->length, at = piece->at[i] % piece->length;
                const whet_stats *stats =
                    &workspace->kept[layer]
                         .stats[(row * config->heads + head) * piece->length + at];
                own->entropies[piece->labels - own->packed.labels + (ptrdiff_t)i] += stats->entropy;
                to[0] += stats->entropy;
                to[1] += stats->entropy_after;
                to[2] += stats->beta;
            }
}

static void run_piece(void *argument, size_t task, size_t worker) {
    (void)worker;
    sitting *own = argument;
    sums *to = &own->of_pieces[task];
    const lm_piece *piece = &own->packed.pieces[task];
    if (lab_interrupted())
        return;
    size_t taken = take_workspace(own);
    to->outcome = lm_network_run(&own->network, piece, own->workspaces[taken], NULL);
    if (to->outcome.status == WHET_OK)
        add_heads(own, piece, own->workspaces[taken], to->heads);
    atomic_flag_clear(&own->busy[taken]);
}

/* Means over the answer of every sequence. */
static void sum_sequences(const sitting *own, const league_exam *exam) {
    const double heads = (double)own->network.config.layers * own->network.config.heads;
    size_t sequence = 0;
    for (size_t p = 0; p < own->packed.count; p++) {
        const lm_piece *piece = &own->packed.pieces[p];
        size_t first = (size_t)(piece->labels - own->packed.labels), i = 0;
        for (size_t row = 0; row < piece->rows; row++, sequence++) {
            double loss = 0, entropy = 0;
            size_t count = 0;
            for (; i < piece->targets && piece->at[i] / piece->length == row; i++, count++) {
                loss += (double)own->losses[first + i];
                entropy += own->entropies[first + i] / heads;
            }
            if (exam->losses)
                exam->losses[own->packed.order[sequence]] = loss / (double)count;
            if (exam->entropies)
                exam->entropies[own->packed.order[sequence]] = entropy / (double)count;
        }
    }
}

static bool set_policy(sitting *own, const whet_policy *policy) {
    lm_network *network = &own->network;
    for (size_t layer = 0; policy && layer < network->config.layers; layer++)
        if (!lm_layer_policies(&network->config, &network->layout, network->weights, layer, policy,
                               network->policies + layer * network->config.heads,
                               &network->policy_count))
            return false;
    return true;
}

static bool make_room(sitting *own, const league_exam *exam) {
    const lm_config *config = &own->network.config;
    size_t longest = 1;
    if (!lm_pack(exam->sequences, LM_LOSS_ANSWER, LM_WEIGH_TOKENS, &own->packed))
        return false;
    for (size_t i = 0; i < own->packed.count; i++) {
        size_t tokens = own->packed.pieces[i].rows * own->packed.pieces[i].length;
        longest = tokens > longest ? tokens : longest;
    }
    own->values = (size_t)config->layers * config->heads * 3;
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): no exam is empty */
    own->of_pieces = calloc(own->packed.count, sizeof *own->of_pieces);
    own->heads = calloc((own->packed.count + 1) * own->values, sizeof *own->heads);
    own->losses = calloc(own->packed.token_capacity, sizeof *own->losses);
    own->entropies = calloc(own->packed.token_capacity, sizeof *own->entropies);
    own->workers = exam->executor ? exam->executor->workers : 1;
    own->workers = own->workers < WORKERS_MAX ? own->workers : WORKERS_MAX;
    own->workers = own->workers < own->packed.count ? own->workers : own->packed.count;
    for (size_t i = 0; i < own->workers; i++) {
        atomic_flag_clear(&own->busy[i]);
        own->workspaces[i] = lm_workspace_create(&own->network, longest);
        if (!own->workspaces[i])
            return false;
    }
    if (!own->of_pieces || !own->heads || !own->losses || !own->entropies)
        return false;
    for (size_t i = 0; i < own->packed.count; i++) {
        lm_piece *piece = &own->packed.pieces[i];
        own->of_pieces[i].heads = own->heads + (i + 1) * own->values;
        piece->losses = own->losses + (piece->labels - own->packed.labels);
    }
    return true;
}

/* Adds all pieces, in order. */
static whet_status add_pieces(const sitting *own, lm_outcome *sum) {
    *sum = (lm_outcome){.status = WHET_OK};
    for (size_t i = 0; i < own->packed.count; i++) {
        const lm_outcome *outcome = &own->of_pieces[i].outcome;
        if (outcome->status != WHET_OK)
            return outcome->status;
        sum->answer_loss += outcome->answer_loss;
        sum->answer_tokens += outcome->answer_tokens;
        sum->sequences += outcome->sequences;
        sum->exact += outcome->exact;
        for (size_t j = 0; j < own->values; j++)
            own->heads[j] += own->of_pieces[i].heads[j];
    }
    return WHET_OK;
}

static bool sum_up(const sitting *own, league_score *score, lab_error *error) {
    lm_outcome sum;
    if (lab_interrupted())
        return lab_fail(error, LAB_STOPPED, "stopped while testing a model");
    whet_status status = add_pieces(own, &sum);
    if (status != WHET_OK)
        return lab_fail(error, LAB_SYSTEM, "attention: %s", whet_status_text(status));
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): every model has heads */
    score->heads = calloc(own->values / 3, sizeof *score->heads);
    if (!score->heads)
        return lab_fail_memory(error);
    double tokens = (double)sum.answer_tokens;
    for (size_t i = 0; i < own->values / 3; i++)
        score->heads[i] = (league_head){own->heads[3 * i] / tokens, own->heads[3 * i + 1] / tokens,
                                        own->heads[3 * i + 2] / tokens};
    score->samples = sum.sequences;
    score->exact = sum.exact;
    score->loss = sum.answer_loss / tokens;
    return true;
}

static void end_sitting(sitting *own) {
    for (size_t i = 0; i < WORKERS_MAX; i++)
        lm_workspace_destroy(own->workspaces[i]);
    free(own->of_pieces);
    free(own->heads);
    free(own->losses);
    free(own->entropies);
    lm_packed_free(&own->packed);
    lm_network_destroy(&own->network);
}

bool league_examine(const league_exam *exam, league_score *score, lab_error *error) {
    sitting own = {.workers = 0};
    *score = (league_score){.samples = 0};
    if (!lm_network_create(exam->engine, &exam->model->config, exam->model->weights, &own.network,
                           error))
        return false;
    bool is_good =
        set_policy(&own, exam->policy) || lab_fail(error, LAB_INPUT, "invalid policy at inference");
    is_good = is_good && (make_room(&own, exam) || lab_fail_memory(error));
    if (is_good) {
        nn_run_tasks(exam->executor, own.packed.count, run_piece, &own);
        is_good = sum_up(&own, score, error);
        if (is_good)
            sum_sequences(&own, exam);
    }
    end_sitting(&own);
    return is_good;
}
