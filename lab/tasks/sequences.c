/*
 * Tasks on a sequence of symbols: sort, copy, reverse, 2-back and flip-flop, as the authors of
 * ASEntmax draw them. The size is the number of symbols in the question.
 */
#include "tasks/writer.h"

enum { SYMBOLS = 32, TWO_BACK_SYMBOLS = 16 };

static void draw_symbols(size_t size, uint32_t limit, lab_random *random, task_sample *sample) {
    for (size_t i = 0; i < size; i++)
        task_write(sample, lab_random_below(random, limit));
}

static void draw_copy(size_t size, lab_random *random, task_sample *sample) {
    draw_symbols(size, SYMBOLS, random, sample);
    task_begin_answer(sample);
    for (size_t i = 0; i < size && !sample->failed; i++)
        task_write(sample, task_symbol_at(sample, i));
}

static void draw_reverse(size_t size, lab_random *random, task_sample *sample) {
    draw_symbols(size, SYMBOLS, random, sample);
    task_begin_answer(sample);
    for (size_t i = size; i-- > 0 && !sample->failed;)
        task_write(sample, task_symbol_at(sample, i));
}

static void draw_sort(size_t size, lab_random *random, task_sample *sample) {
    size_t counts[SYMBOLS] = {0};
    draw_symbols(size, SYMBOLS, random, sample);
    task_begin_answer(sample);
    if (sample->failed)
        return;
    for (size_t i = 0; i < size; i++)
        counts[task_symbol_at(sample, i)]++;
    for (uint32_t symbol = 0; symbol < SYMBOLS; symbol++)
        for (size_t i = 0; i < counts[symbol]; i++)
            task_write(sample, symbol);
}

/* The question begins with symbol 0, which is not drawn otherwise; the answer is the question two
 * places later. */
static void draw_two_back(size_t size, lab_random *random, task_sample *sample) {
    task_write(sample, 0);
    for (size_t i = 0; i < size; i++)
        task_write(sample, 1 + lab_random_below(random, TWO_BACK_SYMBOLS - 1));
    task_begin_answer(sample);
    for (size_t i = 0; i <= size && !sample->failed; i++)
        task_write(sample, i < 2 ? 0 : task_symbol_at(sample, i - 2));
}

/* Symbols 0 and 1 are bits, the others commands. The first command is a write, the last a read,
 * and four in five of the others are writes. */
static void draw_flip_flop(size_t size, lab_random *random, task_sample *sample) {
    enum { WRITE = 2, IGNORE, READ };
    uint32_t kept = 0;
    for (size_t i = 0; i + 1 < size / 2; i++) {
        bool is_write = lab_random_below(random, 5) < 4 || i == 0;
        uint32_t bit = lab_random_below(random, 2);
        task_write(sample, is_write ? WRITE : IGNORE);
        task_write(sample, bit);
        kept = is_write ? bit : kept;
    }
    task_write(sample, READ);
    task_begin_answer(sample);
    task_write(sample, kept);
}

const task_kind task_copy = {.name = "copy",
                             .summary = "repeat a sequence of 32 symbols",
                             .alphabet = SYMBOLS,
                             .smallest = 1,
                             .train_min = 8,
                             .train_max = 32,
                             .draw = draw_copy};
const task_kind task_reverse = {.name = "reverse",
                                .summary = "repeat a sequence of 32 symbols backwards",
                                .alphabet = SYMBOLS,
                                .smallest = 1,
                                .train_min = 8,
                                .train_max = 32,
                                .draw = draw_reverse};
const task_kind task_sort = {.name = "sort",
                             .summary = "put a sequence of 32 symbols in order",
                             .alphabet = SYMBOLS,
                             .smallest = 1,
                             .train_min = 8,
                             .train_max = 32,
                             .draw = draw_sort};
const task_kind task_two_back = {.name = "2-back",
                                 .summary = "repeat a sequence of 16 symbols two places later",
                                 .alphabet = TWO_BACK_SYMBOLS,
                                 .smallest = 2,
                                 .train_min = 8,
                                 .train_max = 32,
                                 .draw = draw_two_back};
const task_kind task_flip_flop = {.name = "flip-flop",
                                  .summary = "recall the bit that was written last",
                                  .alphabet = 5,
                                  .smallest = 4,
                                  .train_min = 16,
                                  .train_max = 64,
                                  .has_short_answers = true,
                                  .draw = draw_flip_flop};
