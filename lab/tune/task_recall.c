/*
 * The tasks of recalling a value: statements, each of a noun and a number, are inserted at random
 * places of running text; the question repeats one of them up to its number. The tasks differ in
 * how a statement is worded and in how many there are.
 *
 * A statement is tokenised in three parts, of which the question and the answer are the first two.
 * The numbers of tokens that the parts may have are known before anything is drawn, so whether a
 * length suffices does not depend on the seed.
 */
#include "tune/nouns.h"
#include "tune/task_parts.h"

#include <stdio.h>
#include <stdlib.h>

enum { STATEMENTS_MAX = 32, TOKENS_FOR_EACH = 32, WORDS_SIZE = 64 };

typedef struct wording {
    const char *name;
    const char *before, *after; /* the noun */
    const char *end;            /* after the value */
    size_t least, most;         /* statements */
} wording;

static const wording wordings[] = {
    [TUNE_KEYS] = {"keys", "\n", ":", "\n", 2, STATEMENTS_MAX},
    [TUNE_NEEDLE] = {"needle", "\nThe secret number of the ", " is", ".\n", 1, 1}};

static bool add_question(const wording *w, const tune_drawing *d, size_t noun,
                         lm_token_list *tokens, lab_error *error) {
    char words[WORDS_SIZE];
    snprintf(words, sizeof words, "%s%s%s", w->before, tune_nouns[noun], w->after);
    return tune_add_words(d, words, tokens, error);
}

static bool add_value(const tune_drawing *d, unsigned value, lm_token_list *tokens,
                      lab_error *error) {
    char words[WORDS_SIZE];
    snprintf(words, sizeof words, " %u", value);
    return tune_add_words(d, words, tokens, error);
}

/* ---- the number of statements ---- */

/* Raises *most to the number of tokens of some words. */
static bool measure(const tune_drawing *d, const char *words, size_t *most, lab_error *error) {
    lm_token_list tokens = {NULL, 0, 0};
    bool good = tune_add_words(d, words, &tokens, error);
    *most = tokens.count > *most ? tokens.count : *most;
    free(tokens.items);
    return good;
}

static bool measure_questions(const wording *w, const tune_drawing *d, size_t *most,
                              lab_error *error) {
    bool good = true;
    for (size_t noun = 0; good && noun < TUNE_NOUNS; noun++) {
        char words[WORDS_SIZE];
        snprintf(words, sizeof words, "%s%s%s", w->before, tune_nouns[noun], w->after);
        good = measure(d, words, most, error);
    }
    return good;
}

/* Merging only shortens: a value has at most the tokens of its characters. */
static bool measure_values(const tune_drawing *d, size_t *most, lab_error *error) {
    size_t blank = 0, digit = 0;
    bool good = measure(d, " ", &blank, error);
    for (char words[] = "0"; good && words[0] <= '9'; words[0]++)
        good = measure(d, words, &digit, error);
    *most = blank + 4 * digit;
    return good;
}

bool tune_recall_prepare(tune_task_kind kind, tune_drawing *d, lab_error *error) {
    const wording *w = &wordings[kind];
    size_t question = 0, value = 0, end = 0;
    if (!measure_questions(w, d, &question, error) || !measure_values(d, &value, error) ||
        !measure(d, w->end, &end, error))
        return false;
    size_t statement = question + value + end;
    size_t rest = tune_begin_count(d) + question + value + TUNE_LEAST_FILLER;
    if (!tune_check_sizes(d, w->name, w->least * statement + rest, error))
        return false;
    size_t wanted = d->length / TOKENS_FOR_EACH, most = (d->length - rest) / statement;
    d->statements = wanted < most ? wanted : most;
    d->statements = d->statements < w->least  ? w->least
                    : d->statements > w->most ? w->most
                                              : d->statements;
    return true;
}

/* ---- one example ---- */

typedef struct recall {
    size_t nouns[STATEMENTS_MAX];
    unsigned values[STATEMENTS_MAX];
    size_t ends[STATEMENTS_MAX]; /* in `stated`, where the next one begins */
    lm_token_list stated;        /* all statements */
    lm_token_list asked;         /* the question and the answer */
    size_t answer;               /* index in `asked` */
    lm_token_list tokens;        /* the whole */
} recall;

static unsigned draw_value(lab_random *random) { return 1000 + lab_random_below(random, 9000); }

/* No noun and no value twice. */
static void draw_statements(recall *r, size_t count, lab_random *random) {
    size_t order[TUNE_NOUNS];
    for (size_t i = 0; i < TUNE_NOUNS; i++)
        order[i] = i;
    for (size_t i = 0; i < count; i++) {
        size_t other = i + tune_below(random, TUNE_NOUNS - i);
        r->nouns[i] = order[other];
        order[other] = order[i];
        r->values[i] = draw_value(random);
        for (size_t j = 0; j < i;) {
            if (r->values[j] == r->values[i]) {
                r->values[i] = draw_value(random);
                j = 0;
            } else {
                j++;
            }
        }
    }
}

static bool write_statements(recall *r, const wording *w, const tune_drawing *d, lab_error *error) {
    bool good = true;
    for (size_t i = 0; good && i < d->statements; i++) {
        good = add_question(w, d, r->nouns[i], &r->stated, error) &&
               add_value(d, r->values[i], &r->stated, error) &&
               tune_add_words(d, w->end, &r->stated, error);
        r->ends[i] = r->stated.count;
    }
    return good;
}

static bool write_question(recall *r, const wording *w, const tune_drawing *d, size_t which,
                           lab_error *error) {
    bool good = add_question(w, d, r->nouns[which], &r->asked, error);
    r->answer = r->asked.count;
    return good && add_value(d, r->values[which], &r->asked, error);
}

static bool add_all(const lm_token *items, size_t count, lm_token_list *tokens, lab_error *error) {
    for (size_t i = 0; i < count; i++)
        if (!lm_token_list_add(tokens, items[i]))
            return lab_fail_memory(error);
    return true;
}

/* Places for statements among `filler` tokens, in order. */
static void draw_places(size_t *places, size_t count, size_t filler, lab_random *random) {
    for (size_t i = 0; i < count; i++) {
        size_t place = tune_below(random, filler + 1), at = i;
        for (; at > 0 && places[at - 1] > place; at--)
            places[at] = places[at - 1];
        places[at] = place;
    }
}

/* Running text with the statements in it, then the question and the answer. */
static bool join(recall *r, const tune_drawing *d, lab_random *random, lab_error *error) {
    size_t filler = d->length - tune_begin_count(d) - r->stated.count - r->asked.count;
    size_t start = tune_below(random, d->text_count), places[STATEMENTS_MAX];
    size_t written = 0, begin = 0; /* of the filler; of the next statement */
    draw_places(places, d->statements, filler, random);
    bool good = tune_add_begin(d, &r->tokens, error);
    for (size_t i = 0; good && i < d->statements; i++) {
        good = tune_add_text(d, start + written, places[i] - written, &r->tokens, error) &&
               add_all(r->stated.items + begin, r->ends[i] - begin, &r->tokens, error);
        written = places[i];
        begin = r->ends[i];
    }
    return good && tune_add_text(d, start + written, filler - written, &r->tokens, error) &&
           add_all(r->asked.items, r->asked.count, &r->tokens, error);
}

bool tune_recall_draw(tune_task_kind kind, const tune_drawing *d, lab_random random,
                      tune_examples *examples, lab_error *error) {
    recall r = {.answer = 0};
    draw_statements(&r, d->statements, &random);
    size_t which = tune_below(&random, d->statements);
    bool good = write_statements(&r, &wordings[kind], d, error) &&
                write_question(&r, &wordings[kind], d, which, error) && join(&r, d, &random, error);
    free(r.stated.items);
    free(r.asked.items);
    if (good)
        return tune_add_example(examples, &r.tokens, d->length - r.asked.count + r.answer, error);
    free(r.tokens.items);
    return false;
}
