/*
 * The parser for rows of numbers and the reader of lines, driven directly: every
 * length of a line, reads that come byte by byte, and rounding.
 */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"

#include "parse_rows.h"
#include "read_lines.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In memory of exactly the needed size, so that a sanitizer sees a step too far. */
static row_result parse(const char *text, size_t length, row_values *row, row_error *error) {
    char *line = malloc(length + 1);
    REQUIRE(line != NULL);
    memcpy(line, text, length);
    line[length] = '\0';
    row_result result = parse_row(line, length, row, error);
    free(line);
    return result;
}

static float number(const char *text) {
    row_values row = {0};
    row_error error;
    CHECK_INT(parse(text, strlen(text), &row, &error), ROW_PARSED);
    CHECK_INT(row.n, 1);
    float value = row.n == 1 ? row.values[0] : NAN;
    free(row.values);
    return value;
}

static size_t column_of_mistake(const char *text) {
    row_values row = {0};
    row_error error = {0};
    CHECK_INT(parse(text, strlen(text), &row, &error), ROW_MALFORMED);
    CHECK(error.message[0] != '\0');
    CHECK(memchr(error.message, '\0', sizeof error.message) != NULL);
    free(row.values);
    return error.column;
}

TEST(numbers_are_rounded_once_to_the_nearest_float) {
    CHECK(number("16777217") == 16777216.0f);
    CHECK(number("16777219") == 16777220.0f);
    /* Above the middle of two floats by less than a double can tell. */
    CHECK(number("1.0000000596046447753906251") == 1.00000011920928955078125f);
    CHECK(number("1.000000059604644775390625") == 1.0f);
    CHECK(number("3.4028234e38") == 3.4028234e38f);
    CHECK(number("1e-45") == 1e-45f);
    CHECK(number("-1e-50") == 0.0f && signbit(number("-1e-50")));
}

TEST(every_spelling_of_a_number_is_read) {
    CHECK(number("-0") == 0.0f && signbit(number("-0")));
    CHECK(number("+.5") == 0.5f);
    CHECK(number("5.") == 5.0f);
    CHECK(number("5.e1") == 50.0f);
    CHECK(number("5E+1") == 50.0f);
    CHECK(number("0000000000000000000000000000005") == 5.0f);
    CHECK(number("-InF") == -INFINITY);
    CHECK(number("+infinity") == INFINITY);
    CHECK(isnan(number("NaN")));
    CHECK(isnan(number("-nan")));
    CHECK(number("0.0000000000000000000000000000000000000000000000001e49") == 1.0f);
}

TEST(mistakes_are_found_where_they_are) {
    CHECK_INT(column_of_mistake("x"), 1);
    CHECK_INT(column_of_mistake("1 \t x 3"), 5);
    CHECK_INT(column_of_mistake("1,"), 3);
    CHECK_INT(column_of_mistake("1,\r"), 3);
    CHECK_INT(column_of_mistake("1, ,2"), 4);
    CHECK_INT(column_of_mistake(","), 1);
    CHECK_INT(column_of_mistake("1 1e99 x"), 3);
    CHECK_INT(column_of_mistake("1\r\r"), 1);
    CHECK_INT(column_of_mistake("infinit"), 1);
    CHECK_INT(column_of_mistake("1 +-2"), 3);
    CHECK_INT(column_of_mistake("1 1e5.0"), 3);
    CHECK_INT(column_of_mistake("1\v2"), 1);
}

TEST(a_nul_byte_is_no_number) {
    row_values row = {0};
    row_error error = {0};
    CHECK_INT(parse("1 2\0 3", 6, &row, &error), ROW_MALFORMED);
    CHECK_INT(error.column, 3);
    CHECK_INT(parse("\0", 1, &row, &error), ROW_MALFORMED);
    CHECK_INT(error.column, 1);
    free(row.values);
}

TEST(messages_stay_within_their_room_whatever_the_word) {
    char line[4097];
    for (int byte = 1; byte < 256; byte++) {
        if (byte == ' ' || byte == '\t' || byte == ',' || byte == '\n' ||
            (byte >= '0' && byte <= '9'))
            continue;
        memset(line, byte, sizeof line - 1);
        line[sizeof line - 1] = '\0';
        for (size_t length = 2; length < sizeof line; length = length * 3 / 2) {
            row_values row = {0};
            row_error error;
            memset(&error, 'x', sizeof error);
            CHECK_INT(parse(line, length, &row, &error), ROW_MALFORMED);
            CHECK_INT(error.column, 1);
            CHECK(memchr(error.message, '\0', sizeof error.message) != NULL);
            CHECK(strchr(error.message, '\'') != strrchr(error.message, '\''));
            free(row.values);
        }
    }
}

TEST(a_row_can_be_used_again_for_a_shorter_one) {
    row_values row = {0};
    row_error error;
    CHECK_INT(parse("1 2 3", 5, &row, &error), ROW_PARSED);
    CHECK_INT(row.n, 3);
    CHECK_INT(parse("", 0, &row, &error), ROW_PARSED);
    CHECK_INT(row.n, 0);
    CHECK_INT(parse("\r", 1, &row, &error), ROW_PARSED);
    CHECK_INT(row.n, 0);
    CHECK_INT(parse(" 7 ", 3, &row, &error), ROW_PARSED);
    CHECK_INT(row.n, 1);
    CHECK(row.values[0] == 7.0f);
    free(row.values);
}

/* Feeds a text to a pipe in pieces of one size and counts the lines that come out right. */
static void check_lines(const char *text, size_t length, const char *const *lines, size_t count) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    REQUIRE(write(ends[1], text, length) == (ssize_t)length);
    close(ends[1]);
    line_reader reader = {.in = {.descriptor = ends[0], .output = stdout}};
    const char *line;
    size_t line_length;
    for (size_t i = 0; i < count; i++) {
        REQUIRE(read_line(&reader, &line, &line_length) == LINE_READ);
        CHECK_STR(line, lines[i]);
        CHECK_INT(line_length, strlen(lines[i]));
        CHECK_INT(reader.line_number, i + 1);
    }
    CHECK_INT(read_line(&reader, &line, &line_length), LINE_NONE);
    CHECK_INT(read_line(&reader, &line, &line_length), LINE_NONE);
    free(reader.in.buffer);
    close(ends[0]);
}

TEST(lines_end_where_they_should) {
    check_lines("", 0, NULL, 0);
    check_lines("a", 1, (const char *const[]){"a"}, 1);
    check_lines("a\n", 2, (const char *const[]){"a"}, 1);
    check_lines("a\nb", 3, (const char *const[]){"a", "b"}, 2);
    check_lines("\n\n", 2, (const char *const[]){"", ""}, 2);
    check_lines("\xef\xbb\xbf", 3, NULL, 0);
    check_lines("\xef\xbb\xbf\n", 4, (const char *const[]){""}, 1);
    check_lines("\xef\xbb\xbfx\n\xef\xbb\xbf", 8, (const char *const[]){"x", "\xef\xbb\xbf"}, 2);
    check_lines("\xef\xbb", 2, (const char *const[]){"\xef\xbb"}, 1);
}

/* What reading the last of some lines gives, with a limit for their length. */
static line_result last_result(const char *text, size_t length, size_t limit, line_reader *reader) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    REQUIRE(write(ends[1], text, length) == (ssize_t)length);
    close(ends[1]);
    *reader = (line_reader){.in = {.descriptor = ends[0], .output = stdout}, .limit = limit};
    const char *line;
    size_t line_length;
    line_result result;
    while ((result = read_line(reader, &line, &line_length)) == LINE_READ)
        CHECK(line_length <= limit && !memchr(line, '\0', line_length));
    free(reader->in.buffer);
    close(ends[0]);
    return result;
}

TEST(a_line_with_a_nul_byte_ends_the_reading) {
    line_reader reader;
    CHECK_INT(last_result("a\nb\nc\0d\n", 8, 9, &reader), LINE_NUL);
    CHECK_INT(reader.line_number, 2);
    CHECK_INT(reader.nul, 5);
    CHECK_INT(last_result("\0", 1, 9, &reader), LINE_NUL);
    CHECK_INT(reader.nul, 0);
    CHECK_INT(last_result("\xef\xbb\xbf\0", 4, 9, &reader), LINE_NUL);
    CHECK_INT(reader.nul, 3);
}

TEST(a_line_beyond_the_limit_ends_the_reading) {
    line_reader reader;
    char text[120];
    CHECK_INT(last_result("123\n12\n123", 10, 3, &reader), LINE_NONE);
    CHECK_INT(last_result("123\n1234\n1", 10, 3, &reader), LINE_TOO_LONG);
    CHECK_INT(reader.line_number, 1);
    CHECK_INT(describe_bad_line(&reader, LINE_TOO_LONG, text, sizeof text), 2);
    CHECK_STR(text, "line longer than 3 bytes; --max-line sets the limit");
    CHECK_INT(last_result("1234", 4, 3, &reader), LINE_TOO_LONG);
}

TEST(lines_longer_than_a_block_come_whole) {
    FILE *file = tmpfile();
    REQUIRE(file != NULL);
    static const size_t lengths[] = {0, 1, 65534, 65535, 65536, 65537, 131072, 1000003, 5};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (size_t j = 0; j < lengths[i]; j++)
            fputc('a' + (int)(j % 26), file);
        fputc('\n', file);
    }
    rewind(file);
    line_reader reader = {.in = {.descriptor = fileno(file), .output = stdout}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const char *line;
        size_t length;
        REQUIRE(read_line(&reader, &line, &length) == LINE_READ);
        CHECK_INT(length, lengths[i]);
        size_t right = 0;
        while (right < length && line[right] == 'a' + (int)(right % 26))
            right++;
        CHECK_INT(right, length);
        CHECK_INT(line[length], 0);
    }
    free(reader.in.buffer);
    fclose(file);
}
