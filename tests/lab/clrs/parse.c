// Reads numbers up to where a value ends: at the end of a line, or at a comma outside of brackets
// that a name follows.
#include "parse.h"

#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

static bool starts_number(char c) { return c == '-' || (c >= '0' && c <= '9'); }

static struct values parse_values(const char *text) {
    // A number has at least one digit and something between it and the next.
    struct values values = {.at = malloc((strlen(text) / 2 + 1) * sizeof *values.at)};
    REQUIRE(values.at != NULL);
    while (*text && *text != '\n') {
        if (starts_number(*text)) {
            char *end;
            values.at[values.count++] = strtod(text, &end);
            text = end;
        } else if (*text == '[' || *text == ']' || *text == ' ' || *text == ',' || *text == '(' ||
                   *text == ')') {
            values.rows += *text == ']' && text[-1] != ']';
            text++;
        } else {
            break; // the next input's name
        }
    }
    values.columns = values.rows ? values.count / values.rows : 0;
    return values;
}

struct values input_values(const char *question, const char *name) {
    char wanted[2][40];
    snprintf(wanted[0], sizeof wanted[0], "\n%s: ", name);
    snprintf(wanted[1], sizeof wanted[1], ", %s: ", name);
    for (int i = 0; i < 2; i++) {
        const char *found = strstr(question, wanted[i]);
        if (found)
            return parse_values(found + strlen(wanted[i]));
    }
    CHECK_MSG(false, "there is no input %s in %.100s", name, question);
    check_end_test();
}

struct values answer_values(const char *answer) {
    for (const char *bar; (bar = strstr(answer, " | "));)
        answer = bar + 3;
    return parse_values(answer);
}

void free_values(struct values *values) { free(values->at); }
