/* What the tasks of task.h share: how a sequence is put together, and their drawing functions. */
#ifndef WHET_LAB_TUNE_TASK_PARTS_H
#define WHET_LAB_TUNE_TASK_PARTS_H

#include "tune/task.h"

#include "base/random.h"

/* What examples are drawn with. */
typedef struct tune_drawing {
    const lm_tokenizer *tokenizer;
    lm_tokenizer inside;         /* the same, for text within a sequence: adds no blank before it */
    const lm_token_list *prefix; /* before every sequence, or NULL: the tokenizer's begin token */
    const lm_token *text;
    size_t text_count;
    size_t length;
    size_t statements; /* keys and needle: in each example */
} tune_drawing;

/* Fewer tokens of text are used of a longer one, so that lab_random_below takes their number. */
enum { TUNE_TEXT_MAX = INT32_MAX };

static inline size_t tune_below(lab_random *random, size_t count) {
    return lab_random_below(random, (uint32_t)count);
}

/* The tokens before a sequence: how many there are, and the tokens themselves. */
static inline size_t tune_begin_count(const tune_drawing *d) {
    if (d->prefix)
        return d->prefix->count;
    return d->tokenizer->adds_begin && d->tokenizer->begin != LM_NO_TOKEN ? 1 : 0;
}
bool tune_add_begin(const tune_drawing *d, lm_token_list *tokens, lab_error *error);

/* Words within a sequence. */
bool tune_add_words(const tune_drawing *d, const char *words, lm_token_list *tokens,
                    lab_error *error);

/* Tokens of the running text, whose end is followed by its beginning. */
bool tune_add_text(const tune_drawing *d, size_t from, size_t count, lm_token_list *tokens,
                   lab_error *error);

/* Whether length and text suffice for a task that needs `needed` tokens. */
bool tune_check_sizes(const tune_drawing *d, const char *task, size_t needed, lab_error *error);

/* Adds an example, which takes over the tokens; they are freed on failure. */
bool tune_add_example(tune_examples *examples, lm_token_list *tokens, size_t answer,
                      lab_error *error);

/* Each adds one example. Prepare first. */
bool tune_copy_prepare(const tune_drawing *d, lab_error *error);
bool tune_copy_draw(const tune_drawing *d, lab_random random, tune_examples *examples,
                    lab_error *error);

/* `kind` is TUNE_KEYS or TUNE_NEEDLE. */
bool tune_recall_prepare(tune_task_kind kind, tune_drawing *d, lab_error *error);
bool tune_recall_draw(tune_task_kind kind, const tune_drawing *d, lab_random random,
                      tune_examples *examples, lab_error *error);

/* All examples of a file. */
bool tune_file_read(tune_task *task, lab_error *error);
bool tune_file_draw(const tune_task *task, const tune_drawing *d, lab_random random, size_t count,
                    tune_examples *examples, lab_error *error);

#endif
