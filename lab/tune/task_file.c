/* Tasks from a file of JSON lines; see task.h. */
#include "tune/task_parts.h"

#include "base/files.h"
#include "base/grow.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static bool refuse(const tune_task *task, size_t number, const char *reason, lab_error *error) {
    return lab_fail(error, LAB_INPUT, "%s:%zu: %s", task->name, number, reason);
}

/* Keeps a member that must be a string with something in it. */
static bool keep(tune_task *task, const json_t *member, size_t *offset, size_t *length,
                 const char *complaint, size_t number, lab_error *error) {
    if (json_string_length(member) == 0)
        return refuse(task, number, complaint, error);
    *offset = task->texts.length;
    *length = json_string_length(member);
    return lm_text_add(&task->texts, json_string_value(member), *length) || lab_fail_memory(error);
}

static bool keep_line(tune_task *task, const json_t *json, size_t number, lab_error *error) {
    tune_line line = {.number = number};
    if (!keep(task, json_object_get(json, "prompt"), &line.prompt, &line.prompt_length,
              "no \"prompt\", or not a string with text in it", number, error) ||
        !keep(task, json_object_get(json, "answer"), &line.answer, &line.answer_length,
              "no \"answer\", or not a string with text in it", number, error))
        return false;
    void *lines =
        lab_grow(task->lines, sizeof *task->lines, task->line_count + 1, &task->line_capacity);
    if (!lines)
        return lab_fail_memory(error);
    task->lines = lines;
    task->lines[task->line_count++] = line;
    return true;
}

static bool is_empty(const char *text, size_t length) {
    return length == 0 || (length == 1 && text[0] == '\r');
}

static bool read_line(tune_task *task, const char *text, size_t length, size_t number,
                      lab_error *error) {
    json_error_t reason;
    if (is_empty(text, length))
        return true;
    if (length > TUNE_FILE_LINE_MAX)
        return lab_fail(error, LAB_INPUT, "%s:%zu: line too long (%zu bytes; at most %d)",
                        task->name, number, length, TUNE_FILE_LINE_MAX);
    if (memchr(text, '\0', length))
        return refuse(task, number, "not a text file (NUL byte)", error);
    json_t *json = lab_json_parse(text, length, JSON_REJECT_DUPLICATES, &reason);
    if (!json && reason.line == LAB_JSON_MEMORY)
        return lab_fail_memory(error);
    if (!json)
        return lab_fail(error, LAB_INPUT, "%s:%zu: not JSON: %s", task->name, number, reason.text);
    bool good = json_is_object(json) ? keep_line(task, json, number, error)
                                     : refuse(task, number, "not a JSON object", error);
    json_decref(json);
    return good;
}

/* ---- examples that are there twice ---- */

typedef struct sorted_line {
    const char *prompt, *answer;
    const tune_line *line;
} sorted_line;

static int compare_texts(const char *a, size_t a_length, const char *b, size_t b_length) {
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

static int compare_examples(const sorted_line *a, const sorted_line *b) {
    int order = compare_texts(a->prompt, a->line->prompt_length, b->prompt, b->line->prompt_length);
    return order ? order
                 : compare_texts(a->answer, a->line->answer_length, b->answer,
                                 b->line->answer_length);
}

/* Lines with the same example one after the other, in the order of the file. */
static int compare_lines(const void *one, const void *other) {
    const sorted_line *a = one, *b = other;
    int order = compare_examples(a, b);
    return order ? order
                 : (a->line->number > b->line->number) - (a->line->number < b->line->number);
}

/* Examples are dealt to learning and judging: one that is there twice could be in both. */
static bool are_different(const tune_task *task, lab_error *error) {
    size_t count = task->line_count, first = 0, again = SIZE_MAX;
    sorted_line *sorted = calloc(count, sizeof *sorted);
    if (!sorted)
        return lab_fail_memory(error);
    for (size_t i = 0; i < count; i++) {
        const tune_line *line = &task->lines[i];
        sorted[i] =
            (sorted_line){task->texts.bytes + line->prompt, task->texts.bytes + line->answer, line};
    }
    qsort(sorted, count, sizeof *sorted, compare_lines);
    for (size_t i = 1; i < count; i++)
        if (compare_examples(&sorted[i - 1], &sorted[i]) == 0 && sorted[i].line->number < again) {
            first = sorted[i - 1].line->number;
            again = sorted[i].line->number;
        }
    free(sorted);
    return again == SIZE_MAX ||
           lab_fail(error, LAB_INPUT,
                    "%s:%zu: the same prompt and answer as in line %zu; leave one out", task->name,
                    again, first);
}

bool tune_file_read(tune_task *task, lab_error *error) {
    size_t size = 0, number = 1;
    char *bytes = lab_read_file(task->name, TUNE_FILE_MAX, &size, error);
    bool good = bytes != NULL;
    for (size_t at = 0; good && at < size; number++) {
        const char *end = memchr(bytes + at, '\n', size - at);
        size_t length = end ? (size_t)(end - bytes) - at : size - at;
        good = read_line(task, bytes + at, length, number, error);
        at += length + 1;
    }
    free(bytes);
    if (good && task->line_count == 0)
        return lab_fail(error, LAB_INPUT,
                        "%s: no examples; a line is {\"prompt\": \"...\", \"answer\": \"...\"}",
                        task->name);
    return good && are_different(task, error);
}

/* ---- drawing ---- */

/* Says which line it was that could not be tokenised. */
static bool fail_line(const tune_task *task, const tune_line *line, const lab_error *reason,
                      lab_error *error) {
    return lab_fail(error, reason->kind, "%s:%zu: %s", task->name, line->number, reason->text);
}

/* A line as an example, or one more that is skipped. */
static bool take_line(const tune_task *task, const tune_drawing *d, const tune_line *line,
                      tune_examples *examples, lab_error *error) {
    lm_token_list tokens = {NULL, 0, 0};
    lab_error reason = {.kind = LAB_NO_ERROR};
    const char *texts = task->texts.bytes;
    bool good =
        tune_add_begin(d, &tokens, &reason) &&
        lm_tokenize(d->tokenizer, texts + line->prompt, line->prompt_length, &tokens, &reason);
    size_t answer = tokens.count;
    good = good &&
           lm_tokenize(&d->inside, texts + line->answer, line->answer_length, &tokens, &reason);
    if (good && tokens.count <= d->length)
        return tune_add_example(examples, &tokens, answer, error);
    free(tokens.items);
    examples->skipped += good;
    return good || fail_line(task, line, &reason, error);
}

static bool draw_lines(const tune_task *task, const tune_drawing *d, lab_random *random,
                       size_t *order, size_t count, tune_examples *examples, lab_error *error) {
    for (size_t i = 0; i < task->line_count; i++)
        order[i] = i;
    for (size_t i = 0; i < task->line_count && examples->count < count; i++) {
        size_t other = i + tune_below(random, task->line_count - i);
        size_t next = order[other];
        order[other] = order[i];
        if (!take_line(task, d, &task->lines[next], examples, error))
            return false;
    }
    return true;
}

bool tune_file_draw(const tune_task *task, const tune_drawing *d, lab_random random, size_t count,
                    tune_examples *examples, lab_error *error) {
    size_t *order = malloc(task->line_count * sizeof *order);
    if (!order)
        return lab_fail_memory(error);
    bool good = draw_lines(task, d, &random, order, count, examples, error);
    free(order);
    if (good && count > 0 && examples->count == 0)
        return lab_fail(error, LAB_INPUT,
                        "%s: none of its %zu examples has at most %zu tokens; use longer sequences",
                        task->name, task->line_count, d->length);
    return good;
}
