/* The list of tasks, their seeds, and writing samples. */
#include "tasks/writer.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static const task_kind *const all[] = {&task_recall,      &task_recall_one, &task_sort,
                                       &task_copy,        &task_reverse,    &task_two_back,
                                       &task_flip_flop,   &task_max,        &task_needle,
                                       &task_needle_keys, &task_variables};
enum { TASKS = sizeof all / sizeof all[0] }; /* NOLINT(bugprone-sizeof-expression): of pointers */

const task_kind *task_at(size_t index) { return index < TASKS ? all[index] : NULL; }

const task_kind *task_find(const char *name) {
    for (size_t i = 0; i < TASKS; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

uint64_t task_seed(uint64_t seed, task_split split, uint64_t index) {
    static const char *const names[] = {"train", "validation", "test"};
    return lab_seed_for(seed, names[split], index);
}

bool task_draw(const task_kind *task, size_t size, uint64_t seed, task_sample *sample) {
    lab_random random = lab_random_start(lab_seed_for(seed, task->name, size));
    if (size < task->smallest || size > TASK_SIZE_MAX)
        return false;
    sample->count = sample->question = 0;
    sample->failed = false;
    task->draw(size, &random, sample);
    return !sample->failed;
}

void task_sample_free(task_sample *sample) {
    free(sample->tokens);
    *sample = (task_sample){.tokens = NULL};
}

bool task_is_right(const task_sample *sample, const uint32_t *answer, size_t count) {
    return count == sample->count - sample->question &&
           memcmp(answer, sample->tokens + sample->question, count * sizeof *answer) == 0;
}

static void append(task_sample *sample, uint32_t token) {
    if (sample->failed)
        return;
    void *grown =
        lab_grow(sample->tokens, sizeof *sample->tokens, sample->count + 1, &sample->capacity);
    sample->failed = !grown;
    if (!grown)
        return;
    sample->tokens = grown;
    sample->tokens[sample->count++] = token;
}

void task_write(task_sample *sample, uint32_t symbol) { append(sample, TASK_SYMBOLS + symbol); }

void task_begin_answer(task_sample *sample) {
    append(sample, TASK_ANSWER);
    sample->question = sample->count;
}

bool task_draw_different(lab_random *random, uint32_t limit, uint32_t *numbers, size_t count) {
    bool *taken = calloc(limit, sizeof *taken);
    if (!taken)
        return false;
    /* Floyd's: each step draws one more number of a range that is one larger. */
    for (size_t i = 0; i < count; i++) {
        uint32_t last = limit - (uint32_t)(count - i), drawn = lab_random_below(random, last + 1);
        numbers[i] = taken[drawn] ? last : drawn;
        taken[numbers[i]] = true;
    }
    free(taken);
    for (size_t i = count; i > 1; i--) {
        size_t j = lab_random_below(random, (uint32_t)i);
        uint32_t swapped = numbers[i - 1];
        numbers[i - 1] = numbers[j];
        numbers[j] = swapped;
    }
    return true;
}
