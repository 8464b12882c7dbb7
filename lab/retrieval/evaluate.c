/*
 * Evaluation. A task is a block of sets of one size, on which all heads are
 * evaluated in turn; its sums are kept separately and added in order
 * afterwards. Beside each head's sums there are sums of squares of the heads'
 * totals per set: they show how much of the variance is due to the sets, and
 * hence the error of the means over all heads.
 */
#include "retrieval/evaluate.h"

#include "base/csv.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/statistics.h"
#include "retrieval/chunked.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const measure_names[RETRIEVAL_MEASURES] = {
    "accuracy", "cross_entropy", "entropy", "share_beta_1", "weight_on_maximum", "beta"};

enum { BLOCK = 64 }; /* sets in a task */

/* Sums over the sets of a block for one policy. */
typedef struct sums {
    double sum[RETRIEVAL_MEASURES], squares[RETRIEVAL_MEASURES];
} sums;

/* Of all heads together: of one set, or squared and summed over those of a block. */
typedef struct shared_sums {
    double sum[RETRIEVAL_MEASURES];
} shared_sums;

typedef struct evaluation_run {
    const nn_engine *engine;
    const retrieval_eval_request *request;
    retrieval_cells **cells;  /* [heads], NULL where a table does not pay */
    size_t blocks;            /* of each head and size */
    sums *sums;               /* [heads][sizes][blocks][policies] */
    shared_sums *shared;      /* [sizes][blocks][policies] */
    retrieval_paired *paired; /* [heads][sizes][blocks] */
    double *shared_gain;      /* [sizes][blocks]: gains of all heads on a set, squared */
    size_t softmax, adaptive; /* the indices of these policies, or policy_count */
    pthread_mutex_t lock;     /* for the following arrays */
    lab_progress progress;
    uint64_t done, total;
    lab_error *error;
} evaluation_run;

size_t retrieval_sizes(size_t first, size_t last, size_t sizes[32]) {
    size_t count = 0;
    for (size_t size = first; size <= last && count < 32; size *= 2)
        sizes[count++] = size;
    return count;
}

/* The share of one item in the total weight, which is not 1 for some maps (they have no entropy,
 * either). */
static double weight_share(const float *weights, size_t n, size_t item, const whet_stats *stats) {
    double total = 0;
    if (!isnan(stats->entropy_after))
        return weights[item];
    for (size_t i = 0; i < n; i++)
        total += weights[i];
    return total > 0 ? weights[item] / total : 0;
}

/* Adds one head's result on a set to its sums and to the set's totals over heads. */
static void measure_set(const evaluation_run *run, retrieval_chunked *chunked,
                        const retrieval_set *set, const whet_stats *stats, const float *logits,
                        size_t classes, sums *into, shared_sums *totals, bool *correct) {
    const float *weights = retrieval_chunked_weights(chunked);
    for (size_t p = 0; p < run->request->policy_count; p++) {
        float loss;
        correct[p] =
            nn_cross_entropy(logits + p * classes, &set->label, 1, classes, 1, &loss, NULL) == 1;
        const double values[RETRIEVAL_MEASURES] = {
            [RETRIEVAL_ACCURACY] = correct[p],
            [RETRIEVAL_LOSS] = loss,
            [RETRIEVAL_ENTROPY] = stats[p].entropy_after,
            [RETRIEVAL_PLAIN] = stats[p].beta == 1,
            [RETRIEVAL_TOP_WEIGHT] =
                weight_share(weights + p * set->n, set->n, set->top, &stats[p]),
            [RETRIEVAL_BETA] = stats[p].beta};
        for (size_t m = 0; m < RETRIEVAL_MEASURES; m++) {
            into[p].sum[m] += values[m];
            into[p].squares[m] += values[m] * values[m];
            totals[p].sum[m] += values[m];
        }
    }
}

static void normalise(const evaluation_run *run, const retrieval_set *set,
                      retrieval_chunked *chunked, whet_stats *stats) {
    float *weights = retrieval_chunked_weights(chunked);
    for (size_t p = 0; p < run->request->policy_count && !lab_interrupted(); p++) {
        whet_rows row = {.size = sizeof row,
                         .rows = 1,
                         .n = set->n,
                         .in = set->logits,
                         .out = weights + p * set->n,
                         .stats = &stats[p]};
        whet_softmax(&row, &run->request->policies[p], NULL);
    }
}

static bool has_pair(const evaluation_run *run) {
    return run->softmax < run->request->policy_count && run->adaptive < run->request->policy_count;
}

static size_t sets_of_block(const evaluation_run *run, size_t block) {
    size_t left = run->request->sets - block * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

/* Totals over the heads of a task, set by set. */
typedef struct block_totals {
    shared_sums *sums; /* [BLOCK][policies] */
    double gain[BLOCK];
} block_totals;

static bool run_head(evaluation_run *run, size_t head, size_t size, size_t block,
                     block_totals *totals, lab_error *error) {
    const retrieval_eval_request *request = run->request;
    retrieval_model model = retrieval_head_model(&request->heads->list[head], run->engine);
    size_t n = request->sizes[size], policies = request->policy_count;
    size_t classes = model.layout.classes;
    size_t place = (head * request->size_count + size) * run->blocks + block;
    retrieval_chunked *chunked =
        retrieval_chunked_create(&model, run->cells[head], n, policies, error);
    float *logits = malloc(policies * classes * sizeof *logits);
    if (!chunked || !logits) {
        retrieval_chunked_destroy(chunked);
        free(logits);
        return lab_fail_memory(error);
    }
    whet_stats stats[RETRIEVAL_POLICIES_MAX] = {{0}};
    bool correct[RETRIEVAL_POLICIES_MAX + 1] = {false};
    retrieval_paired *paired = &run->paired[place];
    for (size_t i = 0; i < sets_of_block(run, block) && !lab_interrupted(); i++) {
        retrieval_set set;
        retrieval_chunked_open(chunked, request->seed, n, block * BLOCK + i, &set);
        normalise(run, &set, chunked, stats);
        if (!lab_interrupted())
            retrieval_chunked_answer(chunked, policies, logits);
        if (lab_interrupted())
            break; /* the results are incomplete */
        measure_set(run, chunked, &set, stats, logits, classes, run->sums + place * policies,
                    totals->sums + i * policies, correct);
        if (has_pair(run)) {
            int gain = correct[run->adaptive] - correct[run->softmax];
            paired->only_adaptive += gain > 0;
            paired->only_softmax += gain < 0;
            totals->gain[i] += gain;
        }
    }
    free(logits);
    retrieval_chunked_destroy(chunked);
    return true;
}

static void tell_progress(evaluation_run *run, size_t size) {
    size_t n = run->request->sizes[size];
    pthread_mutex_lock(&run->lock);
    run->done += n * BLOCK;
    lab_progress_show(&run->progress, run->done < run->total ? run->done : run->total,
                      "sets of %zu items", n);
    pthread_mutex_unlock(&run->lock);
}

static void add_squares(const evaluation_run *run, size_t size, size_t block,
                        const block_totals *totals) {
    size_t policies = run->request->policy_count, place = size * run->blocks + block;
    shared_sums *into = run->shared + place * policies;
    for (size_t i = 0; i < sets_of_block(run, block); i++) {
        for (size_t p = 0; p < policies; p++)
            for (size_t m = 0; m < RETRIEVAL_MEASURES; m++) {
                double sum = totals->sums[i * policies + p].sum[m];
                into[p].sum[m] += sum * sum;
            }
        run->shared_gain[place] += totals->gain[i] * totals->gain[i];
    }
}

static bool run_block(evaluation_run *run, size_t size, size_t block, lab_error *error) {
    block_totals totals = {.sums = calloc(BLOCK * run->request->policy_count, sizeof *totals.sums)};
    bool is_done = true;
    if (!totals.sums)
        return lab_fail_memory(error);
    for (size_t head = 0; is_done && head < run->request->heads->count && !lab_interrupted();
         head++) {
        is_done = run_head(run, head, size, block, &totals, error);
        tell_progress(run, size);
    }
    if (is_done)
        add_squares(run, size, block, &totals);
    free(totals.sums);
    return is_done;
}

/* The blocks of each size that this process evaluates. */
static size_t first_own_block(const evaluation_run *run) {
    const lab_ranks *ranks = run->request->ranks;
    return lab_rank_first(ranks, run->blocks, ranks ? ranks->rank : 0);
}

static size_t own_blocks(const evaluation_run *run) {
    const lab_ranks *ranks = run->request->ranks;
    return lab_rank_first(ranks, run->blocks, ranks ? ranks->rank + 1 : 1) - first_own_block(run);
}

static void block_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    evaluation_run *run = argument;
    size_t own = own_blocks(run);
    if (lab_interrupted())
        return;
    /* Large sets first: the longest tasks must not start last. */
    size_t size = run->request->size_count - 1 - task / own;
    lab_error error = {.kind = LAB_NO_ERROR};
    if (run_block(run, size, first_own_block(run) + task % own, &error))
        return;
    pthread_mutex_lock(&run->lock);
    lab_fail(run->error, error.kind, "%s", error.text);
    pthread_mutex_unlock(&run->lock);
}

static size_t find_policy(const retrieval_eval_request *request, const char *name) {
    char own[RETRIEVAL_POLICY_SIZE];
    size_t i = 0;
    for (; i < request->policy_count; i++) {
        whet_policy_name(&request->policies[i], own, sizeof own);
        if (strcmp(own, name) == 0)
            break;
    }
    return i;
}

/* One head's sums over all blocks. */
static sums sum_blocks(const evaluation_run *run, size_t head, size_t size, size_t policy) {
    sums total = {{0}, {0}};
    const retrieval_eval_request *request = run->request;
    size_t first = (head * request->size_count + size) * run->blocks;
    for (size_t block = 0; block < run->blocks; block++) {
        const sums *from = &run->sums[(first + block) * request->policy_count + policy];
        for (size_t m = 0; m < RETRIEVAL_MEASURES; m++) {
            total.sum[m] += from->sum[m];
            total.squares[m] += from->squares[m];
        }
    }
    return total;
}

static void fill_cell(const sums *total, size_t sets, retrieval_cell *cell) {
    for (size_t m = 0; m < RETRIEVAL_MEASURES; m++) {
        bool is_share = m == RETRIEVAL_ACCURACY || m == RETRIEVAL_PLAIN;
        cell->measure[m] = is_share
                               ? lab_share_interval((uint64_t)total->sum[m], sets)
                               : lab_mean_interval_of_sums(total->sum[m], total->squares[m], sets);
    }
}

static retrieval_cell *cell_at(const retrieval_evaluation *evaluation, size_t head, size_t size,
                               size_t policy) {
    return &evaluation->cells[(head * evaluation->sizes + size) * evaluation->policies + policy];
}

/* The cells of a size and policy, and their summary: one head's own, or for several heads with
 * intervals over heads and sets. */
static void summarise(const evaluation_run *run, retrieval_evaluation *result, size_t size,
                      size_t policy, double *means) {
    double squares[RETRIEVAL_MEASURES] = {0}, shared[RETRIEVAL_MEASURES] = {0};
    for (size_t head = 0; head < result->heads; head++) {
        sums total = sum_blocks(run, head, size, policy);
        fill_cell(&total, result->sets, cell_at(result, head, size, policy));
        for (size_t m = 0; m < RETRIEVAL_MEASURES; m++)
            squares[m] += total.squares[m];
    }
    for (size_t block = 0; block < run->blocks; block++)
        for (size_t m = 0; m < RETRIEVAL_MEASURES; m++)
            shared[m] +=
                run->shared[(size * run->blocks + block) * result->policies + policy].sum[m];
    retrieval_cell *to = &result->summary[size * result->policies + policy];
    *to = *cell_at(result, 0, size, policy);
    for (size_t m = 0; m < RETRIEVAL_MEASURES && result->heads > 1; m++) {
        for (size_t head = 0; head < result->heads; head++)
            means[head] = cell_at(result, head, size, policy)->measure[m].mean;
        to->measure[m] =
            lab_crossed_interval(means, result->heads, result->sets, squares[m], shared[m]);
    }
}

static void compare_pair(const evaluation_run *run, retrieval_evaluation *result, size_t size,
                         double *means) {
    retrieval_paired *to = &result->paired[size];
    double shared = 0;
    for (size_t head = 0; head < result->heads; head++) {
        const retrieval_paired *from = &run->paired[(head * result->sizes + size) * run->blocks];
        uint64_t gained = 0, lost = 0;
        for (size_t block = 0; block < run->blocks; block++) {
            gained += from[block].only_adaptive;
            lost += from[block].only_softmax;
        }
        to->only_adaptive += gained;
        to->only_softmax += lost;
        means[head] = ((double)gained - (double)lost) / (double)result->sets;
    }
    for (size_t block = 0; block < run->blocks; block++)
        shared += run->shared_gain[size * run->blocks + block];
    to->p = lab_even_split_probability(to->only_adaptive, to->only_softmax);
    double difference = (double)to->only_adaptive - (double)to->only_softmax;
    double squares = (double)to->only_adaptive + (double)to->only_softmax;
    result->gain[size] =
        result->heads > 1
            ? lab_crossed_interval(means, result->heads, result->sets, squares, shared)
            : lab_mean_interval_of_sums(difference, squares, result->sets);
}

static bool allocate_result(const retrieval_eval_request *request, retrieval_evaluation *result,
                            lab_error *error) {
    size_t heads = request->heads->count, sizes = request->size_count,
           policies = request->policy_count;
    *result = (retrieval_evaluation){
        .heads = heads, .sizes = sizes, .policies = policies, .sets = request->sets};
    result->size = calloc(sizes, sizeof *result->size);
    result->name = calloc(policies, sizeof *result->name);
    result->seed = calloc(heads, sizeof *result->seed);
    result->cells = calloc(heads * sizes * policies, sizeof *result->cells);
    result->summary = calloc(sizes * policies, sizeof *result->summary);
    result->paired = calloc(sizes, sizeof *result->paired);
    result->gain = calloc(sizes, sizeof *result->gain);
    bool is_good = result->size && result->name && result->seed && result->cells &&
                   result->summary && result->paired && result->gain;
    for (size_t i = 0; is_good && i < policies; i++) {
        size_t length = strlen(request->names[i]) + 1;
        is_good = (result->name[i] = malloc(length)) != NULL;
        if (is_good)
            memcpy(result->name[i], request->names[i], length);
    }
    if (!is_good) {
        retrieval_evaluation_free(result);
        return lab_fail_memory(error);
    }
    memcpy(result->size, request->sizes, sizes * sizeof *result->size);
    for (size_t i = 0; i < heads; i++)
        result->seed[i] = request->heads->list[i].seed;
    return true;
}

void retrieval_evaluation_free(retrieval_evaluation *evaluation) {
    for (size_t i = 0; evaluation->name && i < evaluation->policies; i++)
        free(evaluation->name[i]);
    free((void *)evaluation->name);
    free(evaluation->size);
    free(evaluation->seed);
    free(evaluation->cells);
    free(evaluation->summary);
    free(evaluation->paired);
    free(evaluation->gain);
    *evaluation = (retrieval_evaluation){.heads = 0};
}

/* That each head meets. */
static double items_of_head(const evaluation_run *run) {
    double items = 0;
    for (size_t i = 0; i < run->request->size_count; i++)
        items += (double)run->request->sizes[i] * (double)run->request->sets;
    return items;
}

static void cells_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    evaluation_run *run = argument;
    const retrieval_head *head = &run->request->heads->list[task];
    retrieval_model model = retrieval_head_model(head, run->engine);
    if (!retrieval_cells_pay(&head->config, run->request->heads->count, items_of_head(run)) ||
        lab_interrupted())
        return;
    run->cells[task] = retrieval_cells_create(&model);
    if (!run->cells[task]) {
        pthread_mutex_lock(&run->lock);
        lab_fail_memory(run->error);
        pthread_mutex_unlock(&run->lock);
    }
}

static void free_cells(evaluation_run *run) {
    for (size_t head = 0; run->cells && head < run->request->heads->count; head++)
        retrieval_cells_destroy(run->cells[head]);
    free((void *)run->cells);
}

/* What each process has found out goes to all. */
static void share_sums(evaluation_run *run) {
    const retrieval_eval_request *request = run->request;
    size_t blocks = run->blocks, policies = request->policy_count;
    for (size_t i = 0; i < request->heads->count * request->size_count; i++) {
        lab_ranks_share(request->ranks, run->sums + i * blocks * policies, blocks,
                        policies * sizeof *run->sums);
        lab_ranks_share(request->ranks, run->paired + i * blocks, blocks, sizeof *run->paired);
    }
    for (size_t i = 0; i < request->size_count; i++) {
        lab_ranks_share(request->ranks, run->shared + i * blocks * policies, blocks,
                        policies * sizeof *run->shared);
        lab_ranks_share(request->ranks, run->shared_gain + i * blocks, blocks,
                        sizeof *run->shared_gain);
    }
}

static bool run_all(evaluation_run *run, retrieval_evaluation *result, lab_error *error) {
    const retrieval_eval_request *request = run->request;
    size_t tasks = request->size_count * own_blocks(run);
    for (size_t i = 0; i < request->size_count; i++)
        run->total += request->heads->count * own_blocks(run) * BLOCK * request->sizes[i];
    run->progress = lab_progress_begin(request->title ? request->title : "evaluating", 0,
                                       run->total, request->quiet);
    nn_run_tasks(request->executor, request->heads->count, cells_task, run);
    if (error->kind == LAB_NO_ERROR)
        nn_run_tasks(request->executor, tasks, block_task, run);
    lab_progress_end(&run->progress);
    if (lab_interrupted() && error->kind == LAB_NO_ERROR)
        lab_fail(error, LAB_STOPPED, "stopped while evaluating");
    if (!lab_ranks_agree(request->ranks, error->kind == LAB_NO_ERROR, error))
        return false;
    share_sums(run);
    double *means = malloc(result->heads * sizeof *means);
    if (!means)
        return lab_fail_memory(error);
    result->has_pair = has_pair(run);
    for (size_t size = 0; size < result->sizes; size++) {
        for (size_t policy = 0; policy < result->policies; policy++)
            summarise(run, result, size, policy, means);
        if (result->has_pair)
            compare_pair(run, result, size, means);
    }
    free(means);
    return true;
}

static bool check_request(const retrieval_eval_request *request, lab_error *error) {
    for (size_t i = 0; i < request->size_count; i++)
        if (request->sizes[i] < 1 || request->sizes[i] > RETRIEVAL_EVAL_SIZE_MAX)
            return lab_fail(error, LAB_INPUT, "--sizes: %zu is out of range (1 to %d)",
                            request->sizes[i], RETRIEVAL_EVAL_SIZE_MAX);
    if (request->sets < 1 || request->policy_count < 1 || request->size_count < 1 ||
        request->heads->count < 1)
        return lab_fail(error, LAB_INPUT, "nothing to evaluate");
    if (request->policy_count > RETRIEVAL_POLICIES_MAX)
        return lab_fail(error, LAB_INPUT,
                        "--policy: %zu policies given; at most %d can be compared",
                        request->policy_count, RETRIEVAL_POLICIES_MAX);
    return true;
}

bool retrieval_evaluate(const nn_engine *engine, const retrieval_eval_request *request,
                        retrieval_evaluation *result, lab_error *error) {
    if (!check_request(request, error) || !allocate_result(request, result, error))
        return false;
    evaluation_run run = {.engine = engine,
                          .request = request,
                          .blocks = (request->sets + BLOCK - 1) / BLOCK,
                          .softmax = find_policy(request, "softmax"),
                          .adaptive = find_policy(request, "adaptive"),
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .error = error};
    size_t shared = request->size_count * run.blocks, places = request->heads->count * shared;
    run.cells = calloc(request->heads->count, sizeof(retrieval_cells *));
    run.sums = calloc(places * request->policy_count + 1, sizeof *run.sums);
    run.shared = calloc(shared * request->policy_count + 1, sizeof *run.shared);
    run.paired = calloc(places + 1, sizeof *run.paired);
    run.shared_gain = calloc(shared + 1, sizeof *run.shared_gain);
    bool is_done = run.cells && run.sums && run.shared && run.paired && run.shared_gain
                       ? run_all(&run, result, error)
                       : lab_fail_memory(error);
    free_cells(&run);
    free(run.sums);
    free(run.shared);
    free(run.paired);
    free(run.shared_gain);
    pthread_mutex_destroy(&run.lock);
    if (!is_done)
        retrieval_evaluation_free(result);
    return is_done;
}

static json_t *estimate_json(const lab_interval *of) {
    return json_pack("{s:o, s:o, s:o, s:o}", "mean", lab_json_number(of->mean), "low",
                     lab_json_number(of->low), "high", lab_json_number(of->high), "error",
                     lab_json_number(of->error));
}

static json_t *cell_json(const retrieval_cell *cell) {
    json_t *json = json_object();
    for (size_t m = 0; m < RETRIEVAL_MEASURES; m++)
        json_object_set_new(json, measure_names[m], estimate_json(&cell->measure[m]));
    return json;
}

static json_t *row_json(const retrieval_evaluation *from, size_t size, size_t policy) {
    json_t *heads = json_array();
    for (size_t head = 0; head < from->heads; head++) {
        json_t *one = cell_json(cell_at(from, head, size, policy));
        json_object_set_new(one, "seed", json_integer((json_int_t)from->seed[head]));
        json_array_append_new(heads, one);
    }
    json_t *row = cell_json(&from->summary[size * from->policies + policy]);
    json_object_set_new(row, "n", json_integer((json_int_t)from->size[size]));
    json_object_set_new(row, "policy", json_string(from->name[policy]));
    json_object_set_new(row, "heads", heads);
    return row;
}

json_t *retrieval_evaluation_json(const retrieval_evaluation *from) {
    unsigned mark = lab_json_mark();
    json_t *rows = json_array(), *pairs = json_array();
    for (size_t policy = 0; policy < from->policies; policy++)
        for (size_t size = 0; size < from->sizes; size++)
            json_array_append_new(rows, row_json(from, size, policy));
    for (size_t size = 0; from->has_pair && size < from->sizes; size++) {
        const retrieval_paired *pair = &from->paired[size];
        json_array_append_new(
            pairs, json_pack("{s:I, s:I, s:I, s:o, s:o}", "n", (json_int_t)from->size[size],
                             "only_adaptive", (json_int_t)pair->only_adaptive, "only_softmax",
                             (json_int_t)pair->only_softmax, "p", lab_json_number(pair->p), "gain",
                             estimate_json(&from->gain[size])));
    }
    json_t *all =
        json_pack("{s:I, s:I, s:o, s:o}", "sets", (json_int_t)from->sets, "seeds",
                  (json_int_t)from->heads, "rows", rows, "adaptive_against_softmax", pairs);
    return lab_json_whole(all, mark);
}

void retrieval_evaluation_csv(FILE *file, const void *context) {
    const retrieval_evaluation *from = context;
    lab_csv csv = {.file = file};
    lab_csv_text(&csv, "seed");
    lab_csv_text(&csv, "n");
    lab_csv_text(&csv, "policy");
    for (size_t m = 0; m < RETRIEVAL_MEASURES; m++)
        lab_csv_text(&csv, measure_names[m]);
    lab_csv_end_line(&csv);
    for (size_t head = 0; head < from->heads; head++)
        for (size_t size = 0; size < from->sizes; size++)
            for (size_t policy = 0; policy < from->policies; policy++) {
                lab_csv_number(&csv, (double)from->seed[head]);
                lab_csv_number(&csv, (double)from->size[size]);
                lab_csv_text(&csv, from->name[policy]);
                for (size_t m = 0; m < RETRIEVAL_MEASURES; m++)
                    lab_csv_number(&csv, cell_at(from, head, size, policy)->measure[m].mean);
                lab_csv_end_line(&csv);
            }
}
