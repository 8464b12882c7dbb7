/*
 * Solvers by search over the whole question, without anything of the generators: symbols that a
 * format uses are written out here once more.
 */
#include "solvers.h"

#include "support/check.h"

/* Symbols of a question without the token that ends it. */
typedef struct text {
    const uint32_t *tokens;
    size_t count;
} text;

typedef size_t (*solver)(text question, uint32_t *answer);

static uint32_t symbol(text question, size_t i) { return question.tokens[i] - TASK_SYMBOLS; }

static size_t solve_copy(text question, uint32_t *answer) {
    for (size_t i = 0; i < question.count; i++)
        answer[i] = question.tokens[i];
    return question.count;
}

static size_t solve_reverse(text question, uint32_t *answer) {
    for (size_t i = 0; i < question.count; i++)
        answer[question.count - 1 - i] = question.tokens[i];
    return question.count;
}

static size_t solve_sort(text question, uint32_t *answer) {
    for (size_t i = 0; i < question.count; i++) {
        size_t at = i;
        for (; at > 0 && answer[at - 1] > question.tokens[i]; at--)
            answer[at] = answer[at - 1];
        answer[at] = question.tokens[i];
    }
    return question.count;
}

static size_t solve_two_back(text question, uint32_t *answer) {
    for (size_t i = 0; i < question.count; i++)
        answer[i] = i >= 2 ? question.tokens[i - 2] : TASK_SYMBOLS;
    return question.count;
}

static size_t solve_flip_flop(text question, uint32_t *answer) {
    for (size_t i = 0; i + 1 < question.count; i += 2)
        if (symbol(question, i) == 2)
            answer[0] = question.tokens[i + 1];
    return 1;
}

static size_t solve_max(text question, uint32_t *answer) {
    uint32_t best = 0;
    for (size_t i = 0; i < question.count; i++)
        if (symbol(question, i) / 10 >= best / 10)
            best = symbol(question, i);
    answer[0] = TASK_SYMBOLS + best % 10;
    return 1;
}

/* "key key : value value"; 256 is a blank, 257 the colon, 258 a query. */
static size_t solve_recall(text question, uint32_t *answer) {
    size_t written = 0;
    for (size_t i = 0; i < question.count; i++) {
        if (symbol(question, i) != 258)
            continue;
        answer[written++] = question.tokens[i];
        for (size_t at = 2; at < i; at++)
            if (symbol(question, at) == 257 &&
                same_bytes(question.tokens + at - 2, question.tokens + i + 1, 8)) {
                answer[written++] = question.tokens[at + 1];
                answer[written++] = question.tokens[at + 2];
            }
    }
    return written;
}

/* The query is the last two symbols; needles are "62 key key 63" and seven digits. */
static size_t solve_needle(text question, uint32_t *answer) {
    const uint32_t *asked = question.tokens + question.count - 2;
    size_t written = 0;
    for (size_t i = 0; i + 11 <= question.count; i++)
        if (symbol(question, i) == 62 && same_bytes(question.tokens + i + 1, asked, 8))
            for (size_t digit = 0; digit < 7; digit++)
                answer[written++] = question.tokens[i + 4 + digit];
    return written;
}

/* Statements are "64 name name 65" with five digits, or with "64 name name" after them. */
static size_t solve_variables(text question, uint32_t *answer) {
    const uint32_t *value = question.tokens + question.count - 5;
    size_t written = 0;
    for (size_t i = 0; i + 9 < question.count; i++) {
        if (symbol(question, i) != 64 || symbol(question, i + 3) != 65)
            continue;
        const uint32_t *right = question.tokens + i + 4;
        bool is_first = same_bytes(right, value, 20);
        bool is_next = written > 0 && right[0] == TASK_SYMBOLS + 64 &&
                       same_bytes(right + 1, answer + written - 2, 8);
        if (is_first || is_next) {
            answer[written++] = question.tokens[i + 1];
            answer[written++] = question.tokens[i + 2];
        }
    }
    return written;
}

size_t solve_task(const char *name, const uint32_t *question, size_t count, uint32_t *answer) {
    static const struct {
        const char *name;
        solver solve;
    } table[] = {
        {"copy", solve_copy},          {"reverse", solve_reverse},     {"sort", solve_sort},
        {"2-back", solve_two_back},    {"flip-flop", solve_flip_flop}, {"max", solve_max},
        {"recall", solve_recall},      {"recall-1", solve_recall},     {"needle", solve_needle},
        {"needle-keys", solve_needle}, {"variables", solve_variables}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].solve((text){question, count - 1}, answer);
    CHECK_MSG(false, "%s has no solver", name);
    return 0;
}
