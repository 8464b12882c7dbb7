/*
 * RULER's tasks of a needle in a haystack, single and with other needles as the hay, and its
 * variable tracking. A word of RULER's texts is a symbol here: words of the noise, the two parts of
 * a key ("adjective-noun"), digits. The size is the number of symbols before the query; the noise
 * is RULER's five sentences over and over, and statements are inserted between its sentences, so it
 * is met up to a few symbols.
 */
#include "tasks/writer.h"

#include <stdlib.h>

enum {
    DIGITS = 10,
    NAME_PARTS = 26, /* of each of the two parts of a key or variable's name */
    FIRST_PART = DIGITS,
    SECOND_PART = FIRST_PART + NAME_PARTS,
    NEEDLE = SECOND_PART + NAME_PARTS, /* begins a needle: "one of the special magic numbers for" */
    IS,
    VAR,
    EQUALS,
    ASK,
    NOISE, /* the first word of the noise */
    NOISE_WORDS = 16,
    SYMBOLS = NOISE + NOISE_WORDS,
    NAMES = NAME_PARTS * NAME_PARTS
};

/* The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. */
static const unsigned char noise[] = {0, 1, 2, 3, 0, 4, 2, 5, 0, 6, 2, 7, 8, 9, 10, 11, 12, 13, 14};
/* Where its sentences begin. */
static const unsigned char sentences[] = {0, 4, 8, 12, 15, sizeof noise};
enum { SENTENCES = 5 };

static void write_name(task_sample *sample, uint32_t name) {
    task_write(sample, FIRST_PART + name / NAME_PARTS);
    task_write(sample, SECOND_PART + name % NAME_PARTS);
}

/* Without a leading zero, as RULER's numbers. */
static void write_number(task_sample *sample, uint32_t number) {
    uint32_t unit = 1;
    while (number / unit >= 10)
        unit *= 10;
    for (; unit > 0; unit /= 10)
        task_write(sample, number / unit % 10);
}

static uint32_t draw_number(lab_random *random, uint32_t least) {
    return least + lab_random_below(random, 9 * least);
}

/* ---- needles ---- */

enum { VALUE_LEAST = 1000000, NEEDLE_SYMBOLS = 4 + 7 };

static void write_needle(task_sample *sample, uint32_t key, uint32_t value) {
    task_write(sample, NEEDLE);
    write_name(sample, key);
    task_write(sample, IS);
    write_number(sample, value);
}

static void ask_for_needle(task_sample *sample, uint32_t key, uint32_t value) {
    task_write(sample, ASK);
    write_name(sample, key);
    task_begin_answer(sample);
    write_number(sample, value);
}

/* Writes `count` sentences of the noise from the `first` on. */
static void write_noise(task_sample *sample, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        for (size_t at = sentences[i % SENTENCES]; at < sentences[i % SENTENCES + 1]; at++)
            task_write(sample, (uint32_t)NOISE + noise[at]);
}

/* Sentences of noise that have at most `symbols` symbols. */
static size_t sentences_in(size_t symbols) {
    size_t whole = symbols / sizeof noise, rest = symbols % sizeof noise, more = 0;
    while (sentences[more + 1] <= rest)
        more++;
    return whole * SENTENCES + more;
}

static void draw_needle(size_t size, lab_random *random, task_sample *sample) {
    size_t hay = sentences_in(size - NEEDLE_SYMBOLS);
    size_t before = lab_random_below(random, (uint32_t)hay + 1);
    uint32_t key = lab_random_below(random, NAMES), value = draw_number(random, VALUE_LEAST);
    write_noise(sample, 0, before);
    write_needle(sample, key, value);
    write_noise(sample, before, hay - before);
    ask_for_needle(sample, key, value);
}

/* The hay is needles with other keys, which may be repeated among themselves. */
static void draw_needle_keys(size_t size, lab_random *random, task_sample *sample) {
    size_t count = size / NEEDLE_SYMBOLS, place = lab_random_below(random, (uint32_t)count);
    uint32_t key = lab_random_below(random, NAMES), value = draw_number(random, VALUE_LEAST);
    for (size_t i = 0; i < count; i++) {
        uint32_t other = (key + 1 + lab_random_below(random, NAMES - 1)) % NAMES;
        uint32_t number = draw_number(random, VALUE_LEAST);
        write_needle(sample, i == place ? key : other, i == place ? value : number);
    }
    ask_for_needle(sample, key, value);
}

/* ---- variables ---- */

/* A chain "VAR a = 12345", "VAR b = VAR a" ..., each statement later than the one before, hidden in
 * noise. Asked for the number, the answer is all its variables in order. */
enum { HOPS = 4, CHAIN = HOPS + 1, CHAIN_LEAST = 10000, CHAIN_SYMBOLS = 9 + 7 * HOPS };

static void write_statement(task_sample *sample, const uint32_t *names, size_t i, uint32_t value) {
    task_write(sample, VAR);
    write_name(sample, names[i]);
    task_write(sample, EQUALS);
    if (i == 0) {
        write_number(sample, value);
        return;
    }
    task_write(sample, VAR);
    write_name(sample, names[i - 1]);
}

static void draw_variables(size_t size, lab_random *random, task_sample *sample) {
    size_t hay = sentences_in(size - CHAIN_SYMBOLS), written = 0, statements = 0;
    uint32_t names[CHAIN], value = draw_number(random, CHAIN_LEAST);
    sample->failed = !task_draw_different(random, NAMES, names, CHAIN);
    while (written + statements < hay + CHAIN) {
        size_t left = hay + CHAIN - written - statements;
        if (lab_random_below(random, (uint32_t)left) < CHAIN - statements)
            write_statement(sample, names, statements++, value);
        else
            write_noise(sample, written++, 1);
    }
    task_write(sample, ASK);
    write_number(sample, value);
    task_begin_answer(sample);
    for (size_t i = 0; i < CHAIN; i++)
        write_name(sample, names[i]);
}

const task_kind task_needle = {.name = "needle",
                               .summary = "the number that belongs to a key, hidden in noise",
                               .alphabet = SYMBOLS,
                               .smallest = NEEDLE_SYMBOLS,
                               .train_min = 32,
                               .train_max = 64,
                               .has_short_answers = true,
                               .draw = draw_needle};
const task_kind task_needle_keys = {.name = "needle-keys",
                                    .summary = "the same, hidden among numbers of other keys",
                                    .alphabet = SYMBOLS,
                                    .smallest = NEEDLE_SYMBOLS,
                                    .train_min = 32,
                                    .train_max = 64,
                                    .has_short_answers = true,
                                    .draw = draw_needle_keys};
const task_kind task_variables = {.name = "variables",
                                  .summary = "the chain of variables that were assigned a number",
                                  .alphabet = SYMBOLS,
                                  .smallest = CHAIN_SYMBOLS,
                                  .train_min = 48,
                                  .train_max = 64,
                                  .has_short_answers = true,
                                  .draw = draw_variables};
