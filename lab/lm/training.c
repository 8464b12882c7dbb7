/* Options of a training run: defaults, limits, schedules, and their form in checkpoints. */
#include "lm/training.h"

#include "base/choices.h"
#include "lm/tokens.h"
#include "nn/training_state.h"

#include <inttypes.h>
#include <string.h>

const char *const lm_loss_names[] = {"answer", "all", NULL};
const char *const lm_weigh_names[] = {"tokens", "sequences", NULL};
static const char hints_suffix[] = ":hints";

lm_training lm_training_default(void) {
    return (lm_training){.seed = 1,
                         .length_min = 4,
                         .length_max = 8,
                         .curriculum = 0,
                         .batch = 32,
                         .accumulate = 1,
                         .steps = 10000,
                         .warm_up = 100,
                         .rate = 1e-3,
                         .rate_end = 1e-5,
                         .beta1 = 0.9,
                         .beta2 = 0.99,
                         .decay = 0.1,
                         .clip = 1,
                         .loss = LM_LOSS_ANSWER,
                         .weigh = LM_WEIGH_TOKENS};
}

bool lm_loss_parse(const char *name, lm_loss *loss) {
    size_t found;
    bool is_known = lab_find_name(lm_loss_names, name, &found);
    if (is_known)
        *loss = (lm_loss)found;
    return is_known;
}

bool lm_weigh_parse(const char *name, lm_weigh *weigh) {
    size_t found;
    bool is_known = lab_find_name(lm_weigh_names, name, &found);
    if (is_known)
        *weigh = (lm_weigh)found;
    return is_known;
}

bool lm_training_add_task(lm_training *training, const char *text, lab_error *error) {
    char name[64];
    size_t length = strlen(text), suffix = sizeof hints_suffix - 1;
    bool hints = length > suffix && strcmp(text + length - suffix, hints_suffix) == 0;
    length -= hints ? suffix : 0;
    if (length >= sizeof name)
        return lab_fail(error, LAB_INPUT,
                        "--algo: unknown algorithm '%.80s'; 'whet clrs list' lists them", text);
    memcpy(name, text, length);
    name[length] = '\0';
    const clrs_algorithm *algorithm = clrs_algorithm_find(name);
    if (!algorithm)
        return lab_fail(error, LAB_INPUT,
                        "--algo: unknown algorithm '%s'; 'whet clrs list' lists them", name);
    for (size_t i = 0; i < training->task_count; i++)
        if (training->tasks[i].algorithm == algorithm)
            return lab_fail(error, LAB_INPUT, "--algo: %s is given twice", name);
    training->tasks[training->task_count++] = (lm_task){algorithm, hints};
    return true;
}

bool lm_training_add_tasks(lm_training *training, const char *text, lab_error *error) {
    while (*text) {
        size_t length = strcspn(text, ",");
        char task[96];
        snprintf(task, sizeof task, "%.*s", (int)(length < sizeof task ? length : sizeof task),
                 text);
        if (!lm_training_add_task(training, task, error))
            return false;
        text += length + (text[length] == ',');
    }
    return true;
}

uint32_t lm_training_vocabulary(const lm_training *training) {
    return training->synthetic ? task_vocabulary(training->synthetic) : LM_CLRS_VOCABULARY;
}

static bool tasks_are_good(const lm_training *training, lab_error *error) {
    const task_kind *task = training->synthetic;
    if (!lm_training_has_task(training))
        return lab_fail(error, LAB_INPUT, "--algo: no algorithm to learn");
    if (task && training->task_count > 0)
        return lab_fail(error, LAB_INPUT, "--task cannot be combined with --algo");
    return !task || training->length_min >= task->smallest ||
           lab_fail(error, LAB_INPUT, "--lengths: %u is out of range (at least %u for %s)",
                    training->length_min, task->smallest, task->name);
}

bool lm_training_check(const lm_training *training, lab_error *error) {
    if (!tasks_are_good(training, error))
        return false;
    if (training->length_min > training->length_max)
        return lab_fail(error, LAB_INPUT, "--lengths: %u is larger than %u", training->length_min,
                        training->length_max);
    return lab_in_range("lengths", training->length_min, 2, LM_LENGTH_MAX, error) &&
           lab_in_range("lengths", training->length_max, 2, LM_LENGTH_MAX, error) &&
           (training->seed <= LM_SEED_MAX ||
            lab_fail(error, LAB_INPUT,
                     "--seed: %" PRIu64 " is out of range (0 to 9,223,372,036,854,775,807)",
                     training->seed)) &&
           lab_in_range("curriculum", training->curriculum, 0, 1, error) &&
           lab_in_range("batch", training->batch, 1, LM_BATCH_MAX, error) &&
           lab_in_range("accumulate", training->accumulate, 1, LM_ACCUMULATE_MAX, error) &&
           lab_in_range("steps", (double)training->steps, 0, LAB_STEPS_MAX, error) &&
           lab_in_range("warm-up", (double)training->warm_up, 0, LAB_STEPS_MAX, error) &&
           lab_in_range("rate", training->rate, 0, 10, error) &&
           lab_in_range("rate-end", training->rate_end, 0, 10, error) &&
           lab_in_range("beta1", training->beta1, 0, 0.9999, error) &&
           lab_in_range("beta2", training->beta2, 0, 0.99999, error) &&
           lab_in_range("decay", training->decay, 0, 100, error) &&
           lab_in_range("clip", training->clip, 0, 1e9, error);
}

static json_t *tasks_to_json(const lm_training *training) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < training->task_count; i++) {
        const lm_task *task = &training->tasks[i];
        json_t *text = json_sprintf("%s%s", task->algorithm->name, task->hints ? hints_suffix : "");
        if (json_array_append_new(list, text) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *lm_training_to_json(const lm_training *training) {
    json_t *json = json_pack(
        "{s:I, s:o, s:[i,i], s:f, s:i, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, "
        "s:s, s:s}",
        "seed", (json_int_t)training->seed, "algorithms", tasks_to_json(training), "lengths",
        (int)training->length_min, (int)training->length_max, "curriculum", training->curriculum,
        "batch", (int)training->batch, "accumulate", (int)training->accumulate, "steps",
        (json_int_t)training->steps, "warm_up", (json_int_t)training->warm_up, "rate",
        training->rate, "rate_end", training->rate_end, "beta1", training->beta1, "beta2",
        training->beta2, "decay", training->decay, "clip", training->clip, "loss",
        lm_loss_names[training->loss], "weigh", lm_weigh_names[training->weigh]);
    if (json && training->synthetic &&
        json_object_set_new(json, "task", json_string(training->synthetic->name)) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static bool unpack_tasks(const json_t *list, lm_training *training, lab_error *reason) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *task = json_string_value(json_array_get(list, i));
        if (!task || !lm_training_add_task(training, task, reason))
            return false;
    }
    return true;
}

static bool unpack(json_t *json, lm_training *training, lab_error *reason) {
    json_int_t seed, steps, warm_up;
    int length_min, length_max, batch, accumulate;
    const char *loss, *weigh, *task = NULL;
    json_t *tasks;
    if (json_unpack(json,
                    "{s:I, s:o, s:[i,i], s:F, s:i, s:i, s:I, s:I, s:F, s:F, s:F, s:F, s:F, s:F, "
                    "s:s, s:s, s?s}",
                    "seed", &seed, "algorithms", &tasks, "lengths", &length_min, &length_max,
                    "curriculum", &training->curriculum, "batch", &batch, "accumulate", &accumulate,
                    "steps", &steps, "warm_up", &warm_up, "rate", &training->rate, "rate_end",
                    &training->rate_end, "beta1", &training->beta1, "beta2", &training->beta2,
                    "decay", &training->decay, "clip", &training->clip, "loss", &loss, "weigh",
                    &weigh, "task", &task) != 0 ||
        seed < 0 || steps < 0 || warm_up < 0)
        return false;
    training->seed = (uint64_t)seed;
    training->length_min = lab_small(length_min);
    training->length_max = lab_small(length_max);
    training->batch = lab_small(batch);
    training->accumulate = lab_small(accumulate);
    training->steps = (uint64_t)steps;
    training->warm_up = (uint64_t)warm_up;
    training->synthetic = task ? task_find(task) : NULL;
    if (task && !training->synthetic)
        return lab_fail(reason, LAB_INPUT, "unknown task '%.80s'", task);
    return lm_loss_parse(loss, &training->loss) && lm_weigh_parse(weigh, &training->weigh) &&
           unpack_tasks(tasks, training, reason);
}

bool lm_training_from_json(json_t *json, const char *path, lm_training *training,
                           lab_error *error) {
    lab_error reason = {.kind = LAB_NO_ERROR};
    unsigned mark = lab_json_mark();
    *training = lm_training_default();
    bool is_unpacked = unpack(json, training, &reason);
    if (lab_json_mark() != mark)
        return lab_fail_memory(error);
    if (!is_unpacked && reason.kind == LAB_NO_ERROR)
        return lab_fail(error, LAB_INPUT, "%s: damaged checkpoint: no description of the training",
                        path);
    return (is_unpacked && lm_training_check(training, &reason)) ||
           lab_fail(error, LAB_INPUT, "%s: damaged checkpoint: %s", path, reason.text);
}

double lm_rate_at(const lm_training *training, uint64_t step) {
    if (step < training->warm_up)
        return training->rate * (double)(step + 1) / (double)training->warm_up;
    uint64_t span =
        training->steps > training->warm_up + 1 ? training->steps - training->warm_up - 1 : 1;
    return nn_half_cosine(training->rate, training->rate_end,
                          (double)(step - training->warm_up) / (double)span);
}

uint32_t lm_longest_at(const lm_training *training, uint64_t step) {
    double growing = training->curriculum * (double)training->steps;
    if ((double)step >= growing)
        return training->length_max;
    double lengths = training->length_max - training->length_min + 1;
    return training->length_min + (uint32_t)(lengths * (double)step / growing);
}
