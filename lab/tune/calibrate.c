/* Batches, gradients of shared numbers, Adam. */
#include "tune/calibrate.h"

#include "base/random.h"
#include "nn/training_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tune_by_names[] = {"all", "layer", "head", NULL};

/* ---- numbers ---- */

/* Pairs of a and h. */
static size_t pair_count(const tune_calibration *c) {
    return c->by == TUNE_BY_ALL ? 1 : c->by == TUNE_BY_LAYER ? c->layers : c->layers * c->heads;
}

static size_t pair_of(const tune_calibration *c, size_t head) {
    return c->by == TUNE_BY_ALL ? 0 : c->by == TUNE_BY_LAYER ? head / c->heads : head;
}

static bool is_tuned(const tune_calibration *c, size_t head) {
    return !c->is_tuned || c->is_tuned[head];
}

static double longest_excess(const tune_calibration *c) {
    return c->longest > c->n0 ? log(c->longest / c->n0) : 0;
}

bool tune_state_create(const tune_calibration *c, tune_state *state, lab_error *error) {
    *state = (tune_state){.count = 2 * pair_count(c)};
    state->theta = calloc(state->count, sizeof *state->theta);
    state->first = calloc(state->count, sizeof *state->first);
    state->second = calloc(state->count, sizeof *state->second);
    return (state->theta && state->first && state->second) || lab_fail_memory(error);
}

void tune_state_free(tune_state *state) {
    free(state->theta);
    free(state->first);
    free(state->second);
    *state = (tune_state){.step = 0};
}

void tune_state_setting(const tune_calibration *c, const tune_state *state, tune_setting *setting) {
    for (size_t head = 0; head < c->layers * c->heads; head++) {
        size_t pair = pair_of(c, head);
        setting->a[head] = is_tuned(c, head) ? state->theta[2 * pair] : 0;
        setting->h[head] = is_tuned(c, head) ? state->theta[2 * pair + 1] : 0;
    }
}

static double clamp(double value, double low, double high) {
    return value < low ? low : value > high ? high : value;
}

/* ln beta is linear between its values at n0 and at the longest row: bounded there, it is bounded
 * everywhere. */
static void bound_pairs(const tune_calibration *c, tune_state *state) {
    double excess = longest_excess(c);
    for (size_t i = 0; i < state->count; i += 2) {
        double a = clamp(state->theta[i], -c->bound, c->bound);
        state->theta[i] = a;
        state->theta[i + 1] = excess > 0 ? clamp(state->theta[i + 1], (-c->bound - a) / excess,
                                                 (c->bound - a) / excess)
                                         : 0;
    }
}

/* ---- one step ---- */

/* Sequence `index` of an endless stream of permutations; `order` has space for `count`. */
static size_t draw(const tune_calibration *c, const char *purpose, size_t count, size_t index,
                   uint32_t *order) {
    lab_random random = lab_random_start(lab_seed_for(c->seed, purpose, index / count));
    size_t wanted = index % count, chosen = 0;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = 0; i <= wanted; i++) {
        size_t other = i + lab_random_below(&random, (uint32_t)(count - i));
        chosen = order[other];
        order[other] = order[i];
    }
    return chosen;
}

static size_t judged(const tune_sequence *sequence) { return sequence->length - sequence->from; }

/* The sequences of a step, weighted so that the sum of losses is a mean over tokens. */
static void draw_batch(const tune_calibration *c, size_t step, uint32_t *order,
                       tune_weighted *batch) {
    size_t tasks = c->task_count > 0 ? (c->batch + 1) / 2 : 0, texts = c->batch - tasks;
    double text_tokens = 0, task_tokens = 0;
    texts += texts == 0;
    for (size_t i = 0; i < texts; i++) {
        batch[i].sequence = c->texts[draw(c, "text", c->text_count, step * texts + i, order)];
        text_tokens += (double)judged(&batch[i].sequence);
    }
    for (size_t i = texts; i < texts + tasks; i++) {
        batch[i].sequence =
            c->tasks[draw(c, "task", c->task_count, step * tasks + i - texts, order)];
        task_tokens += (double)judged(&batch[i].sequence);
    }
    double text_weight = tasks > 0 ? c->text_weight : 1;
    for (size_t i = 0; i < texts + tasks; i++)
        batch[i].weight = i < texts ? text_weight / text_tokens : 1 / task_tokens;
}

static size_t batch_size(const tune_calibration *c) {
    size_t tasks = c->task_count > 0 ? (c->batch + 1) / 2 : 0, texts = c->batch - tasks;
    return tasks + texts + (texts == 0);
}

static void update(const tune_calibration *c, tune_state *state, const double *gradient) {
    const double beta1 = 0.9, beta2 = 0.99, least = 1e-12;
    double share = (double)state->step / (double)(c->steps > 1 ? c->steps - 1 : 1);
    double rate = nn_half_cosine(c->rate, c->rate / 10, share > 1 ? 1 : share);
    double done = (double)state->step + 1;
    double correct1 = 1 - pow(beta1, done), correct2 = 1 - pow(beta2, done);
    for (size_t i = 0; i < state->count; i++) {
        state->first[i] += (1 - beta1) * (gradient[i] - state->first[i]);
        state->second[i] += (1 - beta2) * (gradient[i] * gradient[i] - state->second[i]);
        double root = sqrt(state->second[i] / correct2);
        if (root > least)
            state->theta[i] -= rate * state->first[i] / correct1 / root;
    }
    bound_pairs(c, state);
    state->step++;
}

typedef struct step_memory {
    tune_weighted *batch;
    uint32_t *order;
    double *grad_a, *grad_h, *gradient;
    tune_setting setting;
} step_memory;

static bool make_memory(const tune_calibration *c, const tune_state *state, step_memory *memory) {
    size_t heads = c->layers * c->heads, most = c->text_count + c->task_count;
    *memory = (step_memory){.batch = calloc(batch_size(c), sizeof *memory->batch),
                            .order = calloc(most, sizeof *memory->order),
                            .grad_a = calloc(heads, sizeof(double)),
                            .grad_h = calloc(heads, sizeof(double)),
                            .gradient = calloc(state->count, sizeof(double))};
    return tune_setting_create(c->layers, c->heads, c->n0, &memory->setting) && memory->batch &&
           memory->order && memory->grad_a && memory->grad_h && memory->gradient;
}

static void free_memory(step_memory *memory) {
    free(memory->batch);
    free(memory->order);
    free(memory->grad_a);
    free(memory->grad_h);
    free(memory->gradient);
    tune_setting_free(&memory->setting);
}

static bool one_step(const tune_calibration *c, step_memory *memory, tune_state *state,
                     lab_error *error) {
    draw_batch(c, state->step, memory->order, memory->batch);
    tune_state_setting(c, state, &memory->setting);
    if (!tune_network_gradient(c->network, &memory->setting, memory->batch, batch_size(c),
                               &state->loss, memory->grad_a, memory->grad_h, error))
        return false;
    memset(memory->gradient, 0, state->count * sizeof(double));
    for (size_t head = 0; head < c->layers * c->heads; head++) {
        size_t pair = pair_of(c, head);
        if (!is_tuned(c, head))
            continue;
        memory->gradient[2 * pair] += memory->grad_a[head];
        memory->gradient[2 * pair + 1] += memory->grad_h[head];
    }
    update(c, state, memory->gradient);
    return true;
}

/* ---- the ledger ---- */

enum { KEY_SIZE = 160 };

static json_t *state_json(const tune_state *state) {
    unsigned mark = lab_json_mark();
    return lab_json_whole(json_pack("{s:I, s:f, s:o, s:o, s:o}", "step", (json_int_t)state->step,
                                    "loss", state->loss, "theta",
                                    lab_json_numbers(state->theta, state->count), "first",
                                    lab_json_numbers(state->first, state->count), "second",
                                    lab_json_numbers(state->second, state->count)),
                          mark);
}

static bool take_numbers(const json_t *json, const char *key, size_t count, double *numbers) {
    const json_t *list = json_object_get(json, key);
    for (size_t i = 0; i < count; i++) {
        if (!json_is_number(json_array_get(list, i)))
            return false;
        numbers[i] = json_number_value(json_array_get(list, i));
    }
    return json_array_size(list) == count;
}

static bool take_state(const json_t *json, const tune_ledger *ledger, tune_state *state,
                       lab_error *error) {
    uint64_t step = 0;
    lab_json_take_count(json, "step", &step);
    state->step = (size_t)step;
    state->loss = json_number_value(json_object_get(json, "loss"));
    return (take_numbers(json, "theta", state->count, state->theta) &&
            take_numbers(json, "first", state->count, state->first) &&
            take_numbers(json, "second", state->count, state->second)) ||
           lab_fail(error, LAB_INPUT, "%s: damaged; remove it", ledger->path);
}

bool tune_calibrate(const tune_calibration *c, size_t until, const char *key, tune_ledger *ledger,
                    tune_stepped stepped, void *listener, tune_state *state, lab_error *error) {
    char at_key[KEY_SIZE];
    step_memory memory;
    snprintf(at_key, sizeof at_key, "%s/%zu", key, until);
    const json_t *known = tune_ledger_get(ledger, at_key);
    if (known)
        return take_state(known, ledger, state, error);
    const json_t *latest = tune_ledger_get(ledger, key);
    if (latest && !take_state(latest, ledger, state, error))
        return false;
    bool good = make_memory(c, state, &memory) || lab_fail_memory(error);
    while (good && state->step < until) {
        good = one_step(c, &memory, state, error) &&
               tune_ledger_put(ledger, key, state_json(state), error);
        if (good && stepped && !stepped(listener, state))
            good = lab_fail(error, LAB_STOPPED, "stopped");
    }
    free_memory(&memory);
    return good && tune_ledger_put(ledger, at_key, state_json(state), error);
}
