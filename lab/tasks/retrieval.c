/*
 * Tasks that look something up: associative recall, as the authors of ASEntmax draw it, and the
 * paper's max retrieval with items as tokens.
 */
#include "tasks/writer.h"

#include <stdlib.h>

/*
 * Multi-query multi-token associative recall. A word is two letters; keys and values are words. Of
 * `size` symbols four fifths are entries "key key : value value blank", whose keys differ, as do
 * their values; blanks are scattered between them. Four queries "? key key" follow, and the answer
 * is "? value value" for each; in an easier task only one does. Keys and values are each from
 * 10,000 words, as far as there are as many.
 */
enum {
    LETTERS = 256,
    WORDS = 10000,
    ENTRY = 6,
    QUERIES = 4,
    BLANK = LETTERS,
    COLON,
    QUERY,
    RECALL_SYMBOLS
};

/* The words are the same in every sample: an odd multiplier permutes the 2^16 pairs of letters. */
static void write_word(task_sample *sample, uint32_t word, uint32_t multiplier) {
    uint32_t mixed = word * multiplier & 0xFFFFu;
    task_write(sample, mixed >> 8);
    task_write(sample, mixed & 0xFFu);
}

static void write_key(task_sample *sample, uint32_t word) { write_word(sample, word, 40503); }
static void write_value(task_sample *sample, uint32_t word) { write_word(sample, word, 30011); }

static void write_entries(size_t size, const uint32_t *keys, const uint32_t *values, size_t count,
                          lab_random *random, task_sample *sample) {
    size_t blanks = size - count * ENTRY, left = count;
    while (left + blanks > 0) {
        /* every order of entries and single blanks is equally likely */
        if (lab_random_below(random, (uint32_t)(left + blanks)) >= left) {
            task_write(sample, BLANK);
            blanks--;
            continue;
        }
        left--;
        write_key(sample, keys[left]);
        task_write(sample, COLON);
        write_value(sample, values[left]);
        task_write(sample, BLANK);
    }
}

static void write_queries(const uint32_t *keys, const uint32_t *values, size_t count,
                          size_t queries, lab_random *random, task_sample *sample) {
    uint32_t asked[QUERIES];
    for (size_t i = 0; i < queries; i++) {
        asked[i] = lab_random_below(random, (uint32_t)count);
        task_write(sample, QUERY);
        write_key(sample, keys[asked[i]]);
    }
    task_begin_answer(sample);
    for (size_t i = 0; i < queries; i++) {
        task_write(sample, QUERY);
        write_value(sample, values[asked[i]]);
    }
}

static void draw_entries(size_t size, size_t queries, lab_random *random, task_sample *sample) {
    size_t count = size * 4 / 5 / ENTRY;
    count = count < WORDS ? count : WORDS;
    uint32_t *words = malloc(2 * count * sizeof *words);
    sample->failed = !words || !task_draw_different(random, WORDS, words, count) ||
                     !task_draw_different(random, WORDS, words + count, count);
    if (!sample->failed) {
        write_entries(size, words, words + count, count, random, sample);
        write_queries(words, words + count, count, queries, random, sample);
    }
    free(words);
}

static void draw_recall(size_t size, lab_random *random, task_sample *sample) {
    draw_entries(size, QUERIES, random, sample);
}

static void draw_recall_one(size_t size, lab_random *random, task_sample *sample) {
    draw_entries(size, 1, random, sample);
}

/*
 * Max retrieval. An item is one symbol, a level and one of ten classes; the answer is the class of
 * the item with the highest level. That level is drawn first, so that it is as likely to be low at
 * every size, and the other items are below it.
 */
enum { LEVELS = 32, CLASSES = 10 };

static void draw_max(size_t size, lab_random *random, task_sample *sample) {
    uint32_t top = 1 + lab_random_below(random, LEVELS - 1);
    size_t place = lab_random_below(random, (uint32_t)size);
    uint32_t answer = 0;
    for (size_t i = 0; i < size; i++) {
        uint32_t level = i == place ? top : lab_random_below(random, top);
        uint32_t class = lab_random_below(random, CLASSES);
        task_write(sample, level * CLASSES + class);
        answer = i == place ? class : answer;
    }
    task_begin_answer(sample);
    task_write(sample, answer);
}

const task_kind task_recall = {.name = "recall",
                               .summary = "associative recall: four queries, words of two letters",
                               .alphabet = RECALL_SYMBOLS,
                               .smallest = 8,
                               .train_min = 32,
                               .train_max = 64,
                               .has_short_answers = true,
                               .draw = draw_recall};
const task_kind task_recall_one = {.name = "recall-1",
                                   .summary = "the same with one query",
                                   .alphabet = RECALL_SYMBOLS,
                                   .smallest = 8,
                                   .train_min = 24,
                                   .train_max = 64,
                                   .has_short_answers = true,
                                   .draw = draw_recall_one};
const task_kind task_max = {.name = "max",
                            .summary = "max retrieval: the class of the highest of all items",
                            .alphabet = LEVELS * CLASSES,
                            .smallest = 1,
                            .train_min = 4,
                            .train_max = 16,
                            .has_short_answers = true,
                            .draw = draw_max};
