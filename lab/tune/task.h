/*
 * Tasks that show whether a model finds what it has read: prompts with answers that are somewhere
 * in the prompt, so that attention decides whether they are found.
 *
 *   copy     a passage of 24 tokens, other text, the passage again. The answer begins at the fifth
 *            token of the second copy: the four before it are nowhere else in the prompt, so a
 *            model can know that a copy has begun and which one. (The fifth rather than the
 *            thirteenth, because 20 tokens measure more than 12 and four suffice to tell.)
 *   keys     lines such as "basket: 4821" scattered in running text; at the end a key again, and
 *            its value is the answer. One line for every 32 tokens of length, 2 to 32 lines.
 *   needle   one sentence, "The secret number of the basket is 7284.", somewhere in running text;
 *            at the end the sentence again without its number, which is the answer.
 *   FILE     lines of JSON, each with the strings "prompt" and "answer". The answer continues the
 *            prompt: a blank between them is the first character of the answer. Control tokens are
 *            recognised in both. The same example twice is refused.
 *
 * Prompt and answer are tokenised separately, and so is each value where the prompt states it: the
 * answer has the same tokens in both places.
 */
#ifndef WHET_LAB_TUNE_TASK_H
#define WHET_LAB_TUNE_TASK_H

#include "base/error.h"
#include "lm/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

/* A prompt with its answer as one sequence of tokens. */
typedef struct tune_example {
    lm_token *tokens;
    size_t length;
    size_t answer; /* index of the first token of the answer, which goes to the end; at least 1 */
} tune_example;

typedef struct tune_examples {
    tune_example *list;
    size_t count, capacity;
    size_t skipped; /* lines of a FILE that were drawn but are longer than the length */
} tune_examples;

typedef enum tune_task_kind { TUNE_COPY, TUNE_KEYS, TUNE_NEEDLE, TUNE_FILE } tune_task_kind;

/* A line of a FILE: offsets and lengths in the task's texts. */
typedef struct tune_line {
    size_t number; /* from 1 */
    size_t prompt, prompt_length;
    size_t answer, answer_length;
} tune_line;

typedef struct tune_task {
    tune_task_kind kind;
    char *name; /* "copy", "keys", "needle" or the path */
    tune_line *lines;
    size_t line_count, line_capacity;
    lm_text texts;
} tune_task;

enum {
    TUNE_PASSAGE = 24,           /* tokens that are copied */
    TUNE_LEAD = 4,               /* of them, before the answer */
    TUNE_LEAST_FILLER = 16,      /* tokens of running text in any example */
    TUNE_FILE_MAX = 1 << 26,     /* bytes */
    TUNE_FILE_LINE_MAX = 1 << 20 /* bytes */
};

/* Takes "copy", "keys", "needle" or the path of a FILE, which is read and checked as a whole. Close
 * it whatever this returns. */
bool tune_task_open(const char *name, tune_task *task, lab_error *error);
void tune_task_close(tune_task *task); /* a zeroed one is fine */

/*
 * Draws `count` examples. Those of copy, keys and needle have exactly `length` tokens, filled up
 * with pieces of `text`, which needs at least as many. Those of a FILE have at most `length`; lines
 * are drawn in an order given by the seed, each once, so there may be fewer than `count`, and it is
 * an error if there is none. They need no text.
 *
 * An example depends on the seed and its index: the first ones are the same for any count. With
 * another seed a FILE gives the same lines in another order; to have examples that were not trained
 * on, draw all at once and divide them.
 *
 * Every sequence begins with `prefix` or, if it is NULL, with the tokenizer's begin token.
 *
 * After an error there are no examples; free them whatever this returns.
 */
bool tune_task_draw(const tune_task *task, const lm_tokenizer *tokenizer,
                    const lm_token_list *prefix, const lm_token *text, size_t text_count,
                    size_t length, uint64_t seed, size_t count, tune_examples *examples,
                    lab_error *error);
void tune_examples_free(tune_examples *examples); /* zeroed ones are fine */

#endif
