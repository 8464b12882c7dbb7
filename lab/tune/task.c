/* Opening tasks and drawing examples of any kind; see task.h. */
#define _POSIX_C_SOURCE 200809L

#include "tune/task_parts.h"

#include "base/files.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [TUNE_COPY] = "copy", [TUNE_KEYS] = "keys", [TUNE_NEEDLE] = "needle"};

static tune_task_kind kind_of(const char *name) {
    for (tune_task_kind kind = TUNE_COPY; kind < TUNE_FILE; kind++)
        if (strcmp(name, names[kind]) == 0)
            return kind;
    return TUNE_FILE;
}

bool tune_task_open(const char *name, tune_task *task, lab_error *error) {
    *task = (tune_task){.kind = kind_of(name)};
    if (task->kind == TUNE_FILE && !lab_file_exists(name))
        return lab_fail(error, LAB_INPUT,
                        "--task: '%s' is neither copy, keys or needle nor an existing file", name);
    task->name = strdup(name);
    if (!task->name)
        return lab_fail_memory(error);
    return task->kind != TUNE_FILE || tune_file_read(task, error);
}

void tune_task_close(tune_task *task) {
    free(task->name);
    free(task->lines);
    free(task->texts.bytes);
    *task = (tune_task){.name = NULL};
}

/* ---- parts of a sequence ---- */

bool tune_add_begin(const tune_drawing *d, lm_token_list *tokens, lab_error *error) {
    for (size_t i = 0; d->prefix && i < d->prefix->count; i++)
        if (!lm_token_list_add(tokens, d->prefix->items[i]))
            return lab_fail_memory(error);
    return d->prefix || tune_begin_count(d) == 0 ||
           lm_token_list_add(tokens, d->tokenizer->begin) || lab_fail_memory(error);
}

bool tune_add_words(const tune_drawing *d, const char *words, lm_token_list *tokens,
                    lab_error *error) {
    return lm_tokenize(&d->inside, words, strlen(words), tokens, error);
}

bool tune_add_text(const tune_drawing *d, size_t from, size_t count, lm_token_list *tokens,
                   lab_error *error) {
    for (size_t i = 0; i < count; i++)
        if (!lm_token_list_add(tokens, d->text[(from + i) % d->text_count]))
            return lab_fail_memory(error);
    return true;
}

bool tune_check_sizes(const tune_drawing *d, const char *task, size_t needed, lab_error *error) {
    if (d->length < needed)
        return lab_fail(error, LAB_INPUT,
                        "task %s: sequences of %zu tokens are too short; it needs at least %zu",
                        task, d->length, needed);
    if (d->text_count < d->length)
        return lab_fail(error, LAB_INPUT,
                        "task %s: the text has %zu tokens; sequences of %zu need as many", task,
                        d->text_count, d->length);
    return true;
}

bool tune_add_example(tune_examples *examples, lm_token_list *tokens, size_t answer,
                      lab_error *error) {
    tune_example *list =
        lab_grow(examples->list, sizeof *examples->list, examples->count + 1, &examples->capacity);
    if (!list) {
        free(tokens->items);
        return lab_fail_memory(error);
    }
    examples->list = list;
    list[examples->count++] = (tune_example){tokens->items, tokens->count, answer};
    return true;
}

/* ---- drawing ---- */

static bool draw_one(const tune_task *task, const tune_drawing *d, lab_random random,
                     tune_examples *examples, lab_error *error) {
    return task->kind == TUNE_COPY ? tune_copy_draw(d, random, examples, error)
                                   : tune_recall_draw(task->kind, d, random, examples, error);
}

static bool draw_made(const tune_task *task, tune_drawing *d, uint64_t seed, size_t count,
                      tune_examples *examples, lab_error *error) {
    bool good = task->kind == TUNE_COPY ? tune_copy_prepare(d, error)
                                        : tune_recall_prepare(task->kind, d, error);
    for (size_t i = 0; good && i < count; i++)
        good = draw_one(task, d, lab_random_start(lab_seed_for(seed, "task", i)), examples, error);
    return good;
}

bool tune_task_draw(const tune_task *task, const lm_tokenizer *tokenizer,
                    const lm_token_list *prefix, const lm_token *text, size_t text_count,
                    size_t length, uint64_t seed, size_t count, tune_examples *examples,
                    lab_error *error) {
    tune_drawing d = {.tokenizer = tokenizer,
                      .inside = *tokenizer,
                      .prefix = prefix,
                      .text = text,
                      .text_count = text_count < TUNE_TEXT_MAX ? text_count : TUNE_TEXT_MAX,
                      .length = length};
    d.inside.adds_blank = false;
    *examples = (tune_examples){.list = NULL};
    bool good = task->kind == TUNE_FILE
                    ? tune_file_draw(task, &d, lab_random_start(lab_seed_for(seed, "task", 0)),
                                     count, examples, error)
                    : draw_made(task, &d, seed, count, examples, error);
    if (!good)
        tune_examples_free(examples);
    return good;
}

void tune_examples_free(tune_examples *examples) {
    for (size_t i = 0; i < examples->count; i++)
        free(examples->list[i].tokens);
    free(examples->list);
    *examples = (tune_examples){.list = NULL};
}
