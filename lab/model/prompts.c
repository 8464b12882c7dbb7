/* Prompts of growing length; see prompts.h. */
#include "model/prompts.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char papers_question[] =
    "What is the maximum in the following sequence: " PROMPT_PLACE "? The maximum is:";

enum { NUMBER_SIZE = 24 };

/* A number in units of its last digit, as it is written. */
static int write_number(uint64_t units, uint64_t decimals, char text[NUMBER_SIZE]) {
    uint64_t unit = 1;
    for (uint64_t i = 0; i < decimals; i++)
        unit *= 10;
    if (decimals == 0)
        return snprintf(text, NUMBER_SIZE, "%llu", (unsigned long long)units);
    return snprintf(text, NUMBER_SIZE, "%llu.%0*llu", (unsigned long long)(units / unit),
                    (int)decimals, (unsigned long long)(units % unit));
}

static uint64_t draw(lab_random *random, const number_format *format) {
    uint64_t unit = 1;
    for (uint64_t i = 0; i < format->decimals; i++)
        unit *= 10;
    uint64_t span = (format->high - format->low) * unit + 1;
    return format->low * unit + (uint64_t)(lab_random_double(random) * (double)span);
}

/* A question with "3, 17, 5" inserted; NULL when memory runs out. */
static char *ask(uint64_t size, const number_format *format, lab_random random, char maximum[32]) {
    const char *question = format->question ? format->question : papers_question;
    const char *place = strstr(question, PROMPT_PLACE);
    size_t length = place ? (size_t)(place - question) : strlen(question);
    size_t capacity = strlen(question) + size * NUMBER_SIZE + 1;
    char *text = malloc(capacity), number[NUMBER_SIZE];
    uint64_t largest = 0;
    if (!text)
        return NULL;
    snprintf(text, capacity, "%.*s", (int)length, question);
    for (uint64_t i = 0; i < size; i++) {
        uint64_t drawn = draw(&random, format);
        largest = drawn > largest ? drawn : largest;
        write_number(drawn, format->decimals, number);
        length += (size_t)snprintf(text + length, capacity - length, "%s%s", i ? ", " : "", number);
    }
    snprintf(text + length, capacity - length, "%s", place ? place + strlen(PROMPT_PLACE) : "");
    write_number(largest, format->decimals, number);
    snprintf(maximum, 32, "%s", number);
    return text;
}

bool prompts_of_numbers(const uint64_t *sizes, size_t size_count, size_t sequences,
                        const number_format *format, uint64_t seed, prompt_list *list) {
    *list = (prompt_list){.items = calloc(size_count * sequences, sizeof *list->items)};
    for (size_t s = 0; list->items && s < size_count; s++) {
        for (size_t i = 0; i < sequences; i++) {
            prompt *next = &list->items[list->count];
            uint64_t own = lab_seed_for(lab_seed_for(seed, "probe", sizes[s]), "sequence", i);
            *next = (prompt){.size = s, .sequence = i};
            next->text = ask(sizes[s], format, lab_random_start(own), next->maximum);
            if (!next->text) {
                prompts_free(list);
                return false;
            }
            list->count++;
        }
    }
    return list->items != NULL;
}

static char *copy_of(const char *text) {
    size_t length = strlen(text) + 1;
    char *copy = malloc(length);
    if (copy)
        memcpy(copy, text, length);
    return copy;
}

bool prompts_of_needles(const uint64_t *sizes, size_t size_count, size_t sequences,
                        const char *text, uint64_t seed, prompt_list *list) {
    static const char *const owners[] = {"garden", "river", "castle", "market", "bridge", "tower"};
    enum { OWNERS = sizeof owners / sizeof owners[0], LEAST = 10000, RANGE = 90000 };
    *list = (prompt_list){.items = calloc(size_count * sequences, sizeof *list->items)};
    for (size_t i = 0; list->items && i < size_count * sequences; i++) {
        size_t s = i / sequences, k = i % sequences;
        uint64_t own = lab_seed_for(lab_seed_for(seed, "needle", sizes[s]), "sequence", k);
        lab_random random = lab_random_start(own);
        prompt *next = &list->items[list->count];
        *next = (prompt){.size = s, .sequence = k, .token_limit = sizes[s]};
        next->depth = ((double)k + 0.5) / (double)sequences;
        next->text = copy_of(text);
        snprintf(next->lead, sizeof next->lead, "\nThe secret number of the %s is",
                 owners[(size_t)(lab_random_double(&random) * OWNERS)]);
        snprintf(next->answer, sizeof next->answer, " %d",
                 LEAST + (int)(lab_random_double(&random) * RANGE));
        if (!next->text) {
            prompts_free(list);
            return false;
        }
        list->count++;
    }
    return list->items != NULL;
}

bool prompts_of_text(const uint64_t *sizes, size_t size_count, const char *text,
                     prompt_list *list) {
    *list = (prompt_list){.items = calloc(size_count, sizeof *list->items)};
    for (size_t s = 0; list->items && s < size_count; s++) {
        char *copy = copy_of(text);
        if (!copy) {
            prompts_free(list);
            return false;
        }
        list->items[list->count++] = (prompt){.size = s, .text = copy, .token_limit = sizes[s]};
    }
    return list->items != NULL;
}

void prompts_free(prompt_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].text);
    free(list->items);
    *list = (prompt_list){0};
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Whether a number continues here: with a digit, or with a point and a digit. */
static bool goes_on(const char *text) {
    return is_digit(text[0]) || (text[0] == '.' && is_digit(text[1]));
}

bool answer_has_number(const char *answer, const char *number) {
    size_t length = strlen(number);
    for (const char *at = answer; length && (at = strstr(at, number)) != NULL; at++) {
        bool is_inside = at > answer && (is_digit(at[-1]) || at[-1] == '.');
        if (!is_inside && !goes_on(at + length))
            return true;
    }
    return false;
}
