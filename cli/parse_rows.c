/*
 * The parser for rows of numbers. It works on memory alone, so that tests and
 * fuzzers can drive it, and holds to a grammar of its own (see the header): the
 * extent of each number is found first, and strtof, which would also take
 * hexadecimal numbers and the decimal comma of some locales, only gets what is
 * known to be plain.
 */
#include "parse_rows.h"

#include "base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 24 }; /* bytes of a bad word that a message repeats at most */

typedef struct text_span {
    const char *start;
    const char *end;
} text_span;

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && is_blank(*at))
        at++;
    return at;
}

static const char *skip_digits(const char *at, const char *end) {
    while (at < end && is_digit(*at))
        at++;
    return at;
}

static const char *word_end(const char *at, const char *end) {
    while (at < end && !is_blank(*at) && *at != ',')
        at++;
    return at;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Whether a word is this one, written in small letters, in whatever case. */
static bool is_word(text_span word, const char *name) {
    size_t length = strlen(name);
    if ((size_t)(word.end - word.start) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (lower(word.start[i]) != name[i])
            return false;
    return true;
}

static text_span without_sign(text_span word) {
    if (word.start < word.end && (*word.start == '+' || *word.start == '-'))
        word.start++;
    return word;
}

static bool is_named_number(text_span word) {
    word = without_sign(word);
    return is_word(word, "inf") || is_word(word, "infinity") || is_word(word, "nan");
}

static bool is_decimal_number(text_span word) {
    word = without_sign(word);
    const char *at = skip_digits(word.start, word.end);
    ptrdiff_t digits = at - word.start;
    if (at < word.end && *at == '.') {
        const char *fraction = at + 1;
        at = skip_digits(fraction, word.end);
        digits += at - fraction;
    }
    if (digits == 0)
        return false;
    if (at < word.end && lower(*at) == 'e') {
        text_span exponent = without_sign((text_span){at + 1, word.end});
        at = skip_digits(exponent.start, word.end);
        if (at == exponent.start)
            return false;
    }
    return at == word.end;
}

void quote_word(const char *word, size_t length, char text[QUOTED_SIZE]) {
    size_t used = 0, shown = 0;
    text[used++] = '\'';
    /* Each turn leaves space for one more byte in hexadecimal, the dots, a quote and the zero. */
    for (; shown < length && shown < SHOWN_MAX && used + 9 <= QUOTED_SIZE; shown++) {
        unsigned char c = (unsigned char)word[shown];
        bool is_plain = c >= 0x20 && c < 0x7f;
        used += (size_t)snprintf(text + used, QUOTED_SIZE - used, is_plain ? "%c" : "\\x%02x", c);
    }
    snprintf(text + used, QUOTED_SIZE - used, shown < length ? "...'" : "'");
}

row_result parse_value(const char *start, size_t length, float *value, row_error *error) {
    text_span word = {start, start + length};
    bool is_named = is_named_number(word);
    char shown[QUOTED_SIZE];
    if (!is_named && !is_decimal_number(word)) {
        quote_word(start, length, shown);
        snprintf(error->message, sizeof error->message, "expected a number, found %s", shown);
        return ROW_MALFORMED;
    }
    *value = strtof(start, NULL);
    if (is_named || isfinite(*value))
        return ROW_PARSED;
    quote_word(start, length, shown);
    snprintf(error->message, sizeof error->message, "%s is out of the range of a 32-bit float",
             shown);
    return ROW_MALFORMED;
}

bool append_value(row_values *row, float value) {
    float *values = lab_grow(row->values, sizeof *values, row->n + 1, &row->capacity);
    if (!values)
        return false;
    row->values = values;
    row->values[row->n++] = value;
    return true;
}

/* The word becomes the row's next number. */
static row_result parse_word(text_span word, const char *line, row_values *row, row_error *error) {
    float value = 0;
    error->column = (size_t)(word.start - line) + 1;
    row_result result = parse_value(word.start, (size_t)(word.end - word.start), &value, error);
    if (result != ROW_PARSED)
        return result;
    return append_value(row, value) ? ROW_PARSED : ROW_NO_MEMORY;
}

static row_result malformed_comma(const char *line, const char *at, const char *end,
                                  row_error *error) {
    error->column = (size_t)(at - line) + 1;
    snprintf(error->message, sizeof error->message, "expected a number, found %s",
             at < end ? "','" : "the end of the line");
    return ROW_MALFORMED;
}

/* Where the line ends, apart from one carriage return. */
static const char *line_end(const char *line, size_t length) {
    return line + length - (length > 0 && line[length - 1] == '\r');
}

row_result parse_row(const char *line, size_t length, row_values *row, row_error *error) {
    const char *end = line_end(line, length);
    row->n = 0;
    const char *at = skip_blanks(line, end);
    bool after_comma = false;
    while (at < end || after_comma) {
        if (at == end || *at == ',')
            return malformed_comma(line, at, end, error);
        text_span word = {at, word_end(at, end)};
        row_result result = parse_word(word, line, row, error);
        if (result != ROW_PARSED)
            return result;
        at = skip_blanks(word.end, end);
        after_comma = at < end && *at == ',';
        if (after_comma)
            at = skip_blanks(at + 1, end);
    }
    return ROW_PARSED;
}

/* A field without the blanks around it, and without its quotes. */
static text_span field_text(const char *start, const char *end) {
    start = skip_blanks(start, end);
    while (end > start && is_blank(end[-1]))
        end--;
    bool is_quoted = end - start >= 2 && *start == '"' && end[-1] == '"';
    return is_quoted ? (text_span){start + 1, end - 1} : (text_span){start, end};
}

row_result parse_csv_row(const char *line, size_t length, row_values *row, row_error *error) {
    const char *end = line_end(line, length);
    row->n = 0;
    if (skip_blanks(line, end) == end)
        return ROW_PARSED;
    for (const char *at = line;;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        text_span field = field_text(at, comma ? comma : end);
        if (field.start == field.end)
            return malformed_comma(line, field.start, comma ? end : field.start, error);
        row_result result = parse_word(field, line, row, error);
        if (result != ROW_PARSED || !comma)
            return result;
        at = comma + 1;
    }
}
