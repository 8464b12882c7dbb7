/*
 * A JSON reader for arrays of numbers. It takes one byte after the other and
 * keeps nothing but the row under way, so that a file of any length is read in
 * the memory of its longest row.
 */
#include "json_rows.h"

#include "parse_rows.h"
#include "read_lines.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum {
    DEPTH_MAX = 63,  /* a bit each */
    WORD_MAX = 1024, /* bytes of a number */
};

bool has_json_row(const input *in) {
    return in->start < in->end && memchr(in->buffer + in->start, ']', input_left(in)) != NULL;
}

/* Ends the reading with a message about the byte at a place of the file. */
__attribute__((format(printf, 4, 5))) static row_result
refuse(const json_rows *json, uint64_t place, row_error *error, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(error->message, sizeof error->message, format, values);
    va_end(values);
    error->line = json->line + 1;
    error->column = (size_t)(place - json->line_start) + 1;
    return ROW_MALFORMED;
}

static row_result refuse_nul(const input *in, row_error *error) {
    error->line = 0;
    snprintf(error->message, sizeof error->message,
             "not a text file (NUL byte at offset %" PRIu64 ")", input_position(in));
    return ROW_MALFORMED;
}

/* The next byte, which stays unused; ROW_NONE at the end of the file. */
static row_result peek(input *in, char *byte) {
    row_result result = row_result_of(input_at_least(in, 1));
    if (result == ROW_PARSED)
        *byte = in->buffer[in->start];
    return result;
}

static bool is_white(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static bool ends_word(char c) { return is_white(c) || strchr(",[]{}:\"", c) != NULL; }

/* The first byte that is not white space. */
static row_result peek_token(json_rows *json, input *in, char *byte) {
    for (;;) {
        row_result result = peek(in, byte);
        if (result != ROW_PARSED || !is_white(*byte))
            return result;
        in->start++;
        if (*byte == '\n') {
            json->line++;
            json->line_start = input_position(in);
        }
    }
}

static uint64_t bit_of(size_t depth) { return UINT64_C(1) << depth; }

static row_result open_array(json_rows *json, input *in, row_values *row, row_error *error) {
    bool holds_arrays = json->holds_arrays & bit_of(json->depth);
    if (json->depth > 0 && !holds_arrays && row->n > 0)
        return refuse(json, input_position(in), error,
                      "expected a number, found '[' in an array of numbers");
    if (json->depth == DEPTH_MAX)
        return refuse(json, input_position(in), error, "more than %d nested arrays", DEPTH_MAX);
    json->holds_arrays |= bit_of(json->depth);
    json->depth++;
    json->holds_arrays &= ~bit_of(json->depth);
    json->expected = EXPECT_VALUE_OR_END;
    json->row_start = input_position(in);
    row->n = 0;
    row->number = json->line + 1;
    in->start++;
    return ROW_PARSED;
}

/* Closes the innermost array; *is_row says whether it was one of numbers. */
static void close_array(json_rows *json, input *in, bool *is_row) {
    *is_row = !(json->holds_arrays & bit_of(json->depth));
    json->depth--;
    json->expected = json->depth ? EXPECT_COMMA_OR_END : EXPECT_VALUE_OR_END;
    in->start++;
}

static row_result take_number(json_rows *json, input *in, row_values *row, row_error *error) {
    char word[WORD_MAX + 1];
    size_t length = 0;
    uint64_t place = input_position(in);
    row_result result;
    char c;
    while ((result = peek(in, &c)) == ROW_PARSED && !ends_word(c) && c != '\0') {
        if (length == WORD_MAX)
            return refuse(json, place, error, "a number of more than %d bytes", WORD_MAX);
        word[length++] = c;
        in->start++;
    }
    if (result != ROW_PARSED && result != ROW_NONE)
        return result;
    word[length] = '\0';
    float value = 0;
    if (parse_value(word, length, &value, error) != ROW_PARSED) {
        error->line = json->line + 1;
        error->column = (size_t)(place - json->line_start) + 1;
        return ROW_MALFORMED;
    }
    json->expected = EXPECT_COMMA_OR_END;
    return append_value(row, value) ? ROW_PARSED : ROW_NO_MEMORY;
}

static row_result refuse_byte(const json_rows *json, const input *in, char c, row_error *error) {
    if (c == '\0')
        return refuse_nul(in, error);
    char found[QUOTED_SIZE];
    quote_word(&c, 1, found);
    const char *expected = json->depth == 0                           ? "'['"
                           : json->expected == EXPECT_COMMA_OR_END    ? "',' or ']'"
                           : json->holds_arrays & bit_of(json->depth) ? "'['"
                                                                      : "a number";
    return refuse(json, input_position(in), error, "expected %s, found %s", expected, found);
}

/* One token, whose first byte is c. */
static row_result take_token(json_rows *json, input *in, char c, row_values *row, row_error *error,
                             bool *is_row) {
    bool wants_value = json->expected != EXPECT_COMMA_OR_END;
    if (c == '[' && wants_value)
        return open_array(json, in, row, error);
    if (c == ']' && json->depth > 0 && json->expected != EXPECT_VALUE) {
        close_array(json, in, is_row);
        return ROW_PARSED;
    }
    if (c == ',' && !wants_value) {
        json->expected = EXPECT_VALUE;
        in->start++;
        return ROW_PARSED;
    }
    bool in_row = json->depth > 0 && !(json->holds_arrays & bit_of(json->depth));
    return in_row && wants_value && c != '\0' && !ends_word(c) ? take_number(json, in, row, error)
                                                               : refuse_byte(json, in, c, error);
}

row_result next_json_row(json_rows *json, input *in, row_values *row, row_error *error) {
    for (bool is_row = false; !is_row;) {
        char c;
        row_result result = peek_token(json, in, &c);
        if (result == ROW_NONE && json->depth > 0)
            return refuse(json, input_position(in), error,
                          "unexpected end of the file: %zu array%s open", json->depth,
                          json->depth > 1 ? "s are" : " is");
        if (result == ROW_PARSED)
            result = take_token(json, in, c, row, error, &is_row);
        if (result != ROW_PARSED)
            return result;
        if (json->depth > 0 && input_position(in) - json->row_start > json->limit)
            return refuse(json, input_position(in), error,
                          "a row of more than %zu bytes; --max-line sets the limit", json->limit);
    }
    return ROW_PARSED;
}
