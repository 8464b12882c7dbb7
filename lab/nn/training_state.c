/* The learned parameters of a run and their moments: three arrays of the same length, as in a
 * checkpoint. */
#include "nn/training_state.h"

#include "base/json.h"
#include "nn/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool nn_training_state_create(nn_training_state *state, size_t count) {
    *state = (nn_training_state){.count = count,
                                 .weights = nn_floats(count),
                                 .first = nn_floats(count),
                                 .second = nn_floats(count)};
    return state->weights && state->first && state->second;
}

void nn_training_state_free(nn_training_state *state) {
    free(state->second);
    free(state->first);
    free(state->weights);
    *state = (nn_training_state){.count = 0};
}

static const char log_key[] = "log";

/* NULL when memory runs out. */
static json_t *log_sums_to_json(const nn_log_sums *sums) {
    unsigned mark = lab_json_mark();
    json_t *values = lab_json_numbers(sums->values, sums->count);
    return lab_json_whole(json_pack("{s:f, s:o}", "seconds", sums->seconds, "sums", values), mark);
}

/* Invalid sums are dropped: only the log would suffer. */
static nn_log_sums log_sums_from_json(const json_t *log) {
    nn_log_sums sums = {.seconds = json_number_value(json_object_get(log, "seconds"))};
    const json_t *values = json_object_get(log, "sums");
    if (json_array_size(values) > NN_LOG_SUMS_MAX)
        return sums;
    sums.count = json_array_size(values);
    for (size_t i = 0; i < sums.count; i++)
        sums.values[i] = json_number_value(json_array_get(values, i));
    return sums;
}

bool nn_log_sums_are_good(const nn_log_sums *sums, size_t count) {
    bool is_good = sums->count == count && sums->seconds >= 0 && sums->seconds < 0x1p53;
    for (size_t i = 0; i < sums->count; i++)
        is_good = is_good && sums->values[i] >= 0 && sums->values[i] < 0x1p53;
    return is_good;
}

bool nn_training_state_save(const nn_training_state *state, const char *path, json_t *description,
                            lab_error *error) {
    if (description && state->log_sums.count > 0 &&
        json_object_set_new(description, log_key, log_sums_to_json(&state->log_sums)) != 0) {
        json_decref(description);
        return lab_fail_memory(error);
    }
    const nn_span spans[] = {{state->weights, state->count},
                             {state->first, state->count},
                             {state->second, state->count}};
    bool is_saved = nn_checkpoint_write(path, description, state->step, spans, 3, error);
    json_decref(description);
    return is_saved;
}

static bool fits(const nn_training_state *state, const nn_checkpoint *read, const char *path,
                 uint64_t steps, lab_error *error) {
    if (read->count != 3 * state->count)
        return lab_fail(error, LAB_INPUT, "%s: checkpoint of another run (its size differs)", path);
    if (read->step > steps)
        return lab_fail(error, LAB_INPUT,
                        "%s: already at step %llu, beyond the %llu asked for with --steps", path,
                        (unsigned long long)read->step, (unsigned long long)steps);
    return true;
}

bool nn_training_state_restore(nn_training_state *state, const char *path, uint64_t steps,
                               nn_same_run is_same, const void *context, lab_error *error) {
    nn_checkpoint read;
    if (!nn_checkpoint_read(path, &read, error))
        return false;
    bool is_good = is_same(context, &read, path, error) && fits(state, &read, path, steps, error);
    if (is_good) {
        size_t bytes = state->count * sizeof(float);
        memcpy(state->weights, read.values, bytes);
        memcpy(state->first, read.values + state->count, bytes);
        memcpy(state->second, read.values + 2 * state->count, bytes);
        state->step = read.step;
        state->log_sums = log_sums_from_json(json_object_get(read.description, log_key));
    }
    nn_checkpoint_free(&read);
    return is_good;
}

void nn_training_state_broadcast(nn_training_state *state, const lab_ranks *ranks) {
    size_t bytes = state->count * sizeof(float);
    lab_ranks_broadcast(ranks, &state->step, sizeof state->step);
    lab_ranks_broadcast(ranks, state->weights, bytes);
    lab_ranks_broadcast(ranks, state->first, bytes);
    lab_ranks_broadcast(ranks, state->second, bytes);
}

double nn_half_cosine(double from, double to, double share) {
    double fall = 0.5 * (1 - cos(3.141592653589793 * fmin(share, 1)));
    return from + (to - from) * fall;
}

nn_adam nn_adam_at(double rate, double beta1, double beta2, uint64_t step) {
    double count = (double)(step + 1);
    return (nn_adam){.rate = (float)(rate / (1 - pow(beta1, count))),
                     .correction = (float)(1 / (1 - pow(beta2, count))),
                     .beta1 = (float)beta1,
                     .beta2 = (float)beta2,
                     .epsilon = 1e-8f};
}

bool nn_fail_not_finite(uint64_t seed, uint64_t step, lab_error *error) {
    return lab_fail(error, LAB_SYSTEM,
                    "seed %llu: the loss is not finite at step %llu; try a lower --rate",
                    (unsigned long long)seed, (unsigned long long)step);
}
