/*
 * Prompts for a model: the paper's question about the maximum of a sequence of random numbers of
 * growing length, a user's question about such a sequence, or growing prefixes of a user's text.
 */
#ifndef WHET_LAB_MODEL_PROMPTS_H
#define WHET_LAB_MODEL_PROMPTS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct prompt {
    size_t size;     /* which of the sizes */
    size_t sequence; /* which of the sequences of that size */
    char *text;
    uint64_t token_limit; /* use at most this many tokens; 0: all */
    char maximum[32];     /* as it is written in the text; "" where there is none */
    /* A needle, lead and answer, in the text at a share `depth` of its tokens; the prompt ends with
     * the lead once more. "" where there is none */
    char lead[80], answer[16];
    double depth;
} prompt;

typedef struct prompt_list {
    prompt *items; /* size after size */
    size_t count;
} prompt_list;

/* How numbers are drawn and written: uniform from low to high, with `decimals` digits after the
 * point. */
typedef struct number_format {
    uint64_t low, high;
    uint64_t decimals;
    const char *question; /* a text with PROMPT_PLACE in it; NULL: the paper's */
} number_format;

/* The placeholder for the numbers in a question. */
#define PROMPT_PLACE "{seq}"

enum { PROMPT_DECIMALS_MAX = 9, PROMPT_NUMBER_MAX = 1000000000 };

/* False when memory runs out; the list is then empty. */
bool prompts_of_numbers(const uint64_t *sizes, size_t size_count, size_t sequences,
                        const number_format *format, uint64_t seed, prompt_list *list);
bool prompts_of_text(const uint64_t *sizes, size_t size_count, const char *text, prompt_list *list);
/* `sequences` needles at increasing depths in the first tokens of a text, which is repeated where
 * it is too short. */
bool prompts_of_needles(const uint64_t *sizes, size_t size_count, size_t sequences,
                        const char *text, uint64_t seed, prompt_list *list);
void prompts_free(prompt_list *list);

/* Whether a text contains a number by itself, not as part of a longer one. */
bool answer_has_number(const char *answer, const char *number);

#endif
