/* The league's tasks: all of lab/tasks, and six algorithms with short questions. */
#include "league/task.h"

#include <string.h>

static const char prefix[] = "clrs-";
static const char *const algorithms[] = {
    "clrs-minimum",           "clrs-insertion_sort",
    "clrs-binary_search",     "clrs-find_maximum_subarray_kadane",
    "clrs-activity_selector", "clrs-naive_string_matcher"};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms, CLRS_MIN = 4, CLRS_MAX = 16 };

bool league_task_at(size_t index, league_task *task) {
    size_t synthetic = 0;
    for (; task_at(synthetic); synthetic++)
        if (synthetic == index) {
            const task_kind *kind = task_at(index);
            *task = (league_task){.name = kind->name,
                                  .synthetic = kind,
                                  .train_min = kind->train_min,
                                  .train_max = kind->train_max};
            return true;
        }
    if (index - synthetic >= ALGORITHMS)
        return false;
    const char *name = algorithms[index - synthetic];
    *task = (league_task){.name = name,
                          .algorithm = clrs_algorithm_find(name + sizeof prefix - 1),
                          .train_min = CLRS_MIN,
                          .train_max = CLRS_MAX};
    return true;
}

bool league_task_find(const char *name, league_task *task) {
    for (size_t i = 0; league_task_at(i, task); i++)
        if (strcmp(task->name, name) == 0)
            return true;
    return false;
}

bool league_task_train(const league_task *task, lm_training *training, lab_error *error) {
    training->length_min = task->train_min;
    training->length_max = task->train_max;
    training->synthetic = task->synthetic;
    training->task_count = 0;
    return !task->algorithm || lm_training_add_task(training, task->algorithm->name, error);
}

static bool fits(const league_task *task, const lm_sequences *sequences, uint64_t size,
                 size_t tokens_max, lab_error *error) {
    size_t tokens = sequences->list[sequences->count - 1].count;
    return tokens <= tokens_max ||
           lab_fail(error, LAB_INPUT, "%s of size %llu takes %zu tokens, more than %zu", task->name,
                    (unsigned long long)size, tokens, tokens_max);
}

static bool draw_synthetic(const league_task *task, task_split split, uint64_t size, size_t count,
                           size_t tokens_max, lm_sequences *sequences, lab_error *error) {
    task_sample sample = {.tokens = NULL};
    bool is_good = true;
    for (size_t i = 0; is_good && i < count; i++)
        is_good = ((task_draw(task->synthetic, size, task_seed(0, split, i), &sample) &&
                    lm_sequences_add(sequences, &sample)) ||
                   lab_fail_memory(error)) &&
                  fits(task, sequences, size, tokens_max, error);
    task_sample_free(&sample);
    return is_good;
}

static bool draw_text(const league_task *task, task_split split, uint64_t size, size_t count,
                      size_t tokens_max, lm_sequences *sequences, lab_error *error) {
    clrs_request request = clrs_request_default(task->algorithm->name, (int64_t)size);
    clrs_sampler *sampler;
    clrs_sample sample;
    request.seed = split; /* those of training are 2^31 and more */
    clrs_status status = clrs_sampler_create(&request, &sampler);
    bool is_good = status == CLRS_OK;
    for (size_t i = 0; is_good && i < count; i++) {
        status = clrs_sampler_next(sampler, &sample);
        is_good = status == CLRS_OK &&
                  (lm_sequences_add_text(sequences, &sample, 0) || lab_fail_memory(error)) &&
                  fits(task, sequences, size, tokens_max, error);
    }
    clrs_sampler_destroy(sampler);
    return status == CLRS_OK
               ? is_good
               : lab_fail(error, LAB_SYSTEM, "%s: %s", task->name, clrs_status_text(status));
}

bool league_task_draw(const league_task *task, task_split split, uint64_t size, size_t count,
                      size_t tokens_max, lm_sequences *sequences, lab_error *error) {
    sequences->count = sequences->token_count = 0;
    return task->synthetic ? draw_synthetic(task, split, size, count, tokens_max, sequences, error)
                           : draw_text(task, split, size, count, tokens_max, sequences, error);
}
