/*
 * The task of copying: [begin] passage, other text, passage. Passage and other text are pieces of
 * the running text that do not overlap. They are drawn again until the first tokens of the passage
 * occur nowhere else in the prompt.
 */
#include "tune/task_parts.h"

#include <stdlib.h>
#include <string.h>

bool tune_copy_prepare(const tune_drawing *d, lab_error *error) {
    return tune_check_sizes(d, "copy", tune_begin_count(d) + 2 * TUNE_PASSAGE + TUNE_LEAST_FILLER,
                            error);
}

static bool write_copies(const tune_drawing *d, lab_random *random, lm_token_list *tokens,
                         lab_error *error) {
    size_t gap = d->length - tune_begin_count(d) - 2 * TUNE_PASSAGE;
    size_t passage = tune_below(random, d->text_count - TUNE_PASSAGE + 1);
    size_t between = tune_below(random, d->text_count - TUNE_PASSAGE - gap + 1);
    tokens->count = 0;
    return tune_add_begin(d, tokens, error) &&
           tune_add_text(d, passage, TUNE_PASSAGE, tokens, error) &&
           tune_add_text(d, passage + TUNE_PASSAGE + between, gap, tokens, error) &&
           tune_add_text(d, passage, TUNE_PASSAGE, tokens, error);
}

/* Whether the tokens that the second copy begins with occur exactly once before it. */
static bool is_recognisable(const lm_token_list *tokens) {
    size_t second = tokens->count - TUNE_PASSAGE, found = 0;
    for (size_t i = 0; i < second; i++)
        found += memcmp(tokens->items + i, tokens->items + second,
                        TUNE_LEAD * sizeof *tokens->items) == 0;
    return found == 1;
}

bool tune_copy_draw(const tune_drawing *d, lab_random random, tune_examples *examples,
                    lab_error *error) {
    enum { ATTEMPTS = 200 };
    lm_token_list tokens = {NULL, 0, 0};
    for (int i = 0; i < ATTEMPTS; i++) {
        if (!write_copies(d, &random, &tokens, error)) {
            free(tokens.items);
            return false;
        }
        if (is_recognisable(&tokens))
            return tune_add_example(examples, &tokens, tokens.count - TUNE_PASSAGE + TUNE_LEAD,
                                    error);
    }
    free(tokens.items);
    return lab_fail(error, LAB_INPUT,
                    "task copy: the text repeats itself too much; %d passages were drawn and none "
                    "begins with %d tokens that are unique within %zu",
                    ATTEMPTS, TUNE_LEAD, d->length);
}
