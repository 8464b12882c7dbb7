/*
 * Needles in a haystack: what the plug-in recorded while a model copied a number, reduced to a
 * score for each head (Wu et al. 2024, "Retrieval Head Mechanistically Explains Long-Context
 * Factuality"). A token of the answer counts for a head if the head's largest weight, at the
 * position that predicts the token, lies on that very token in the needle.
 */
#include "model/needles.h"

#include <math.h>
#include <stdlib.h>

bool needles_take(needles *all, const json_t *steps, lab_error *error) {
    size_t index;
    const json_t *step;
    json_array_foreach(steps, index, step) {
        needle_step next = {
            .evaluation = (uint64_t)json_integer_value(json_array_get(step, 0)),
            .place = (uint64_t)json_integer_value(json_array_get(step, 1)),
            .is_copied = json_is_true(json_array_get(step, 2)),
        };
        needle_step *grown = realloc(all->steps, (all->count + 1) * sizeof *grown);
        if (!grown)
            return lab_fail_memory(error);
        all->steps = grown;
        all->steps[all->count++] = next;
    }
    return true;
}

static int compare_steps(const void *a, const void *b) {
    const needle_step *x = a, *y = b;
    return x->evaluation < y->evaluation ? -1 : x->evaluation > y->evaluation;
}

bool needles_begin(needles *all, size_t heads, lab_error *error) {
    free(all->found);
    all->heads = heads;
    all->found = calloc(all->count * heads + 1, 1);
    if (all->count > 0)
        qsort(all->steps, all->count, sizeof *all->steps, compare_steps);
    return all->found || lab_fail_memory(error);
}

void needles_add(needles *all, size_t head, const record_row *row) {
    const needle_step key = {.evaluation = row->evaluation};
    const needle_step *step =
        all->count == 0 ? NULL : bsearch(&key, all->steps, all->count, sizeof key, compare_steps);
    if (step) /* the last row of an evaluation decides: it predicts the token */
        all->found[(size_t)(step - all->steps) * all->heads + head] = row->argmax == step->place;
}

needle_score needles_score(const needles *all, size_t head) {
    needle_score score = {.tokens = all->count};
    size_t right = 0, right_copied = 0;
    for (size_t i = 0; i < all->count; i++) {
        bool is_found = all->found[i * all->heads + head];
        score.copied += all->steps[i].is_copied;
        right += is_found;
        right_copied += is_found && all->steps[i].is_copied;
    }
    score.share = score.copied       ? (double)right_copied / (double)score.copied
                  : score.tokens > 0 ? (double)right / (double)score.tokens
                                     : (double)NAN;
    return score;
}

void needles_forget(needles *all) {
    free(all->steps);
    free(all->found);
    *all = (needles){.count = 0};
}
