/* Sequences as tasks; a workspace for each worker, and for one kind of pass at a time. */
#include "tune/network_judge.h"

#include "base/signals.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS_MAX = 64, HALF_MINUS_INFINITY = 0xFC00 };

struct tune_network {
    lm_network network; /* a copy, with policies of its own */
    const whet_executor *executor;
    size_t length, workers, most_bytes;
    bool is_for_gradients; /* what the workspaces are for */
    lm_workspace *workspaces[WORKERS_MAX];
    atomic_flag busy[WORKERS_MAX];
    whet_policy *policies;
    uint16_t *mask;
    size_t mask_window, mask_first;
    /* What every piece needs, the same for all: positions, weights and no answers. */
    uint32_t *at;
    float *ones;
    unsigned char *answers;
};

/* ---- opening ---- */

static bool allocate(tune_network *n) {
    const lm_config *config = &n->network.config;
    n->policies = calloc((size_t)config->layers * config->heads, sizeof *n->policies);
    n->at = malloc(n->length * sizeof *n->at);
    n->ones = malloc(n->length * sizeof *n->ones);
    n->answers = calloc(n->length, 1);
    if (!n->policies || !n->at || !n->ones || !n->answers)
        return false;
    for (size_t i = 0; i < n->length; i++) {
        n->at[i] = (uint32_t)i;
        n->ones[i] = 1;
    }
    n->network.policies = n->policies;
    n->network.policy_count = config->heads;
    return true;
}

tune_network *tune_network_open(const lm_network *network, const whet_executor *executor,
                                size_t length, lab_error *error) {
    tune_network *n = calloc(1, sizeof *n);
    if (n) {
        size_t workers = executor ? executor->workers : 1;
        n->network = *network;
        n->executor = executor;
        n->length = length;
        n->workers = workers < WORKERS_MAX ? workers : WORKERS_MAX;
        if (allocate(n))
            return n;
    }
    tune_network_close(n);
    lab_fail_memory(error);
    return NULL;
}

static void drop_workspaces(tune_network *n) {
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        lm_workspace_destroy(n->workspaces[i]);
        n->workspaces[i] = NULL;
    }
}

void tune_network_rest(tune_network *n) {
    drop_workspaces(n);
    free(n->mask);
    n->mask = NULL;
    n->mask_window = n->mask_first = 0;
}

void tune_network_close(tune_network *n) {
    if (!n)
        return;
    drop_workspaces(n);
    free(n->policies);
    free(n->mask);
    free(n->at);
    free(n->ones);
    free(n->answers);
    free(n);
}

size_t tune_network_bytes(const tune_network *n) {
    return n->most_bytes + n->network.layout.count * sizeof(float);
}

/* ---- what a pass needs ---- */

static lm_workspace *create_workspace(const tune_network *n, bool for_gradients, size_t wanted) {
    /* Keeping everything saves a forward pass in three, where it fits easily. */
    const size_t plenty = (size_t)1 << 30;
    size_t all = lm_workspace_estimate(&n->network.config, n->length);
    if (!for_gradients)
        return lm_workspace_create_forward(&n->network, n->length);
    return all < plenty / wanted ? lm_workspace_create(&n->network, n->length)
                                 : lm_workspace_create_lean(&n->network, n->length);
}

/* Workspaces for up to `tasks` sequences at a time. */
static bool prepare(tune_network *n, bool for_gradients, size_t tasks, lab_error *error) {
    size_t wanted = tasks < n->workers ? tasks : n->workers, bytes = 0;
    if (n->is_for_gradients != for_gradients)
        drop_workspaces(n);
    n->is_for_gradients = for_gradients;
    for (size_t i = 0; i < wanted; i++) {
        atomic_flag_clear(&n->busy[i]);
        if (!n->workspaces[i])
            n->workspaces[i] = create_workspace(n, for_gradients, wanted);
        if (!n->workspaces[i])
            return lab_fail(error, LAB_SYSTEM,
                            "out of memory for sequences of %zu tokens; use a shorter --context "
                            "or fewer --threads",
                            n->length);
        bytes += lm_workspace_bytes(n->workspaces[i]);
    }
    n->most_bytes = bytes > n->most_bytes ? bytes : n->most_bytes;
    return true;
}

static void set_policies(tune_network *n, const tune_setting *setting) {
    for (size_t layer = 0; layer < setting->layers; layer++)
        for (size_t head = 0; head < setting->heads; head++)
            n->policies[layer * setting->heads + head] = tune_setting_policy(setting, layer, head);
}

/* The mask of a window with first tokens: causality hides the rest. */
static bool set_mask(tune_network *n, size_t window, size_t first, lab_error *error) {
    size_t length = n->network.config.context;
    bool needs_mask = window > 0 && first > 0;
    n->network.window = needs_mask ? 0 : window;
    n->network.mask = NULL;
    if (!needs_mask)
        return true;
    if (!n->mask)
        n->mask = malloc(length * length * sizeof *n->mask);
    if (!n->mask)
        return lab_fail_memory(error);
    n->network.mask = n->mask;
    if (n->mask_window == window && n->mask_first == first)
        return true;
    n->mask_window = window;
    n->mask_first = first;
    memset(n->mask, 0, length * length * sizeof *n->mask);
    for (size_t i = window; i < length; i++)
        for (size_t j = first; j + window <= i; j++)
            n->mask[i * length + j] = HALF_MINUS_INFINITY;
    return true;
}

static lm_workspace *take_workspace(tune_network *n, size_t *own) {
    for (size_t i = 0;; i = (i + 1) % n->workers)
        if (n->workspaces[i] && !atomic_flag_test_and_set(&n->busy[i])) {
            *own = i;
            return n->workspaces[i];
        }
}

static lm_piece piece_of(const tune_network *n, const tune_sequence *sequence,
                         const float *weights) {
    return (lm_piece){.rows = 1,
                      .length = sequence->length,
                      .tokens = sequence->tokens,
                      .targets = sequence->length - sequence->from,
                      .at = n->at + sequence->from - 1,
                      .labels = sequence->tokens + sequence->from,
                      .weights = weights,
                      .is_answer = n->answers};
}

static bool report(whet_status status, lab_error *error) {
    if (status == WHET_OK)
        return true;
    if (status == WHET_ERROR_MEMORY)
        return lab_fail_memory(error);
    if (status == WHET_NOT_FINITE)
        return lab_fail(error, LAB_SYSTEM, "the model's loss is not finite");
    return lab_fail(error, LAB_SYSTEM, "attention: %s", whet_status_text(status));
}

/* ---- losses ---- */

typedef struct judging {
    tune_network *network;
    const tune_sequence *sequences;
    const size_t *starts; /* of a sequence in the losses */
    tune_losses *losses;
    whet_status *statuses;
    tune_heard heard;
    void *listener;
    pthread_mutex_t lock;
    size_t done;
    bool is_stopped;
} judging;

/* One more is done; also hears whether to stop. */
static void note_done(judging *j) {
    pthread_mutex_lock(&j->lock);
    j->done++;
    if (lab_interrupted() || (j->heard && !j->heard(j->listener, j->done)))
        j->is_stopped = true;
    pthread_mutex_unlock(&j->lock);
}

static bool is_stopped(judging *j) {
    pthread_mutex_lock(&j->lock);
    bool stopped = j->is_stopped;
    pthread_mutex_unlock(&j->lock);
    return stopped;
}

static void judge_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    judging *j = argument;
    tune_network *n = j->network;
    size_t own;
    if (is_stopped(j))
        return;
    lm_workspace *workspace = take_workspace(n, &own);
    lm_piece piece = piece_of(n, &j->sequences[task], n->ones);
    piece.losses = j->losses->loss + j->starts[task];
    piece.right = j->losses->right + j->starts[task];
    j->statuses[task] = lm_network_run(&n->network, &piece, workspace, NULL).status;
    atomic_flag_clear(&n->busy[own]);
    note_done(j);
}

static bool judge_all(judging *j, size_t count, lab_error *error) {
    pthread_mutex_init(&j->lock, NULL);
    nn_run_tasks(j->network->executor, count, judge_task, j);
    pthread_mutex_destroy(&j->lock);
    if (j->is_stopped && j->done < count)
        return lab_fail(error, LAB_STOPPED, "stopped");
    for (size_t i = 0; i < count; i++)
        if (!report(j->statuses[i], error))
            return false;
    return !j->is_stopped || lab_fail(error, LAB_STOPPED, "stopped");
}

static bool judge(void *context, const tune_arm *arm, const tune_sequence *sequences, size_t count,
                  tune_losses *losses, tune_heard heard, void *listener, lab_error *error) {
    tune_network *n = context;
    size_t *starts = malloc((count + 1) * sizeof *starts);
    whet_status *statuses = calloc(count + 1, sizeof *statuses);
    judging j = {.network = n,
                 .sequences = sequences,
                 .starts = starts,
                 .losses = losses,
                 .statuses = statuses,
                 .heard = heard,
                 .listener = listener};
    bool good = (starts && statuses) || lab_fail_memory(error);
    for (size_t i = 0; good && i < count; i++)
        starts[i] = i ? starts[i - 1] + sequences[i - 1].length - sequences[i - 1].from : 0;
    if (good)
        set_policies(n, arm->setting);
    good = good && set_mask(n, arm->window, arm->first, error) && prepare(n, false, count, error) &&
           judge_all(&j, count, error);
    free(starts);
    free(statuses);
    return good;
}

tune_judge tune_network_judge(tune_network *network) {
    return (tune_judge){.context = network, .has_windows = true, .run = judge};
}

/* ---- gradients ---- */

typedef struct differentiating {
    tune_network *network;
    const tune_weighted *sequences;
    float *weights;                  /* [count][length] */
    whet_policy_gradient *gradients; /* [count][layers][heads] */
    lm_outcome *outcomes;
} differentiating;

static void gradient_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    differentiating *d = argument;
    tune_network *n = d->network;
    const lm_config *config = &n->network.config;
    size_t own, heads = (size_t)config->layers * config->heads;
    if (lab_interrupted())
        return;
    lm_workspace *workspace = take_workspace(n, &own);
    float *weights = d->weights + task * n->length;
    for (size_t i = 0; i < n->length; i++)
        weights[i] = (float)d->sequences[task].weight;
    lm_piece piece = piece_of(n, &d->sequences[task].sequence, weights);
    d->outcomes[task] =
        lm_network_run_frozen(&n->network, &piece, workspace, d->gradients + task * heads);
    atomic_flag_clear(&n->busy[own]);
}

/* a and h are the first two values of hinge. */
static void add_up(const differentiating *d, size_t count, size_t heads, double *loss,
                   double *grad_a, double *grad_h) {
    memset(grad_a, 0, heads * sizeof *grad_a);
    memset(grad_h, 0, heads * sizeof *grad_h);
    *loss = 0;
    for (size_t i = 0; i < count; i++) {
        *loss += d->outcomes[i].loss;
        for (size_t j = 0; j < heads; j++) {
            grad_a[j] += d->gradients[i * heads + j].value[0];
            grad_h[j] += d->gradients[i * heads + j].value[1];
        }
    }
}

bool tune_network_gradient(tune_network *n, const tune_setting *setting,
                           const tune_weighted *sequences, size_t count, double *loss,
                           double *grad_a, double *grad_h, lab_error *error) {
    size_t heads = setting->layers * setting->heads;
    differentiating d = {.network = n,
                         .sequences = sequences,
                         .weights = malloc(count * n->length * sizeof *d.weights),
                         .gradients = calloc(count * heads, sizeof *d.gradients),
                         .outcomes = calloc(count, sizeof *d.outcomes)};
    bool good = (d.weights && d.gradients && d.outcomes) || lab_fail_memory(error);
    set_policies(n, setting);
    good = good && set_mask(n, 0, 0, error) && prepare(n, true, count, error);
    if (good)
        nn_run_tasks(n->executor, count, gradient_task, &d);
    if (good && lab_interrupted())
        good = lab_fail(error, LAB_STOPPED, "stopped");
    for (size_t i = 0; good && i < count; i++)
        good = report(d.outcomes[i].status, error);
    if (good)
        add_up(&d, count, heads, loss, grad_a, grad_h);
    free(d.weights);
    free(d.gradients);
    free(d.outcomes);
    return good;
}
