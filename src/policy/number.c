/*
 * Numbers in policy names. The library lives in programs with locales of
 * their own, where strtod and printf may put a comma for the decimal point. So
 * numbers reach strtod without any point, as an integer and an exponent
 * ("-0.037" is "-0037e-3"), which every locale reads alike and correctly
 * rounded; and what printf wrote between digits becomes a '.' again.
 */
#include "policy/number.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer than any number in a name; digits past that are refused. */
#define DIGITS_MAX 520

/* Beyond this every double is infinite or zero, whatever the digits before it. */
#define EXPONENT_MAX 100000

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_sign(char c) { return c == '+' || c == '-'; }

/* The parts of a number: a sign, digits without their point, and a power of ten. */
typedef struct decimal {
    char sign;
    char digits[DIGITS_MAX + 1];
    size_t count;
    long exponent;
} decimal;

/* Reads digits with at most one point from text[i] on; returns where they end. */
static size_t read_digits(const char *text, size_t i, size_t length, decimal *number) {
    bool after_point = false;
    for (; i < length && number->count < DIGITS_MAX; i++) {
        if (text[i] == '.' && !after_point) {
            after_point = true;
        } else if (is_digit(text[i])) {
            number->digits[number->count++] = text[i];
            number->exponent -= after_point;
        } else {
            break;
        }
    }
    number->digits[number->count] = '\0';
    return i;
}

/* Reads "e-3" from text[i] on, if it is there; returns where it ends, or 0 if it is malformed. */
static size_t read_exponent(const char *text, size_t i, size_t length, decimal *number) {
    if (i == length || (text[i] != 'e' && text[i] != 'E')) {
        return i;
    }
    i++;
    bool negative = i < length && text[i] == '-';
    if (i < length && is_sign(text[i])) {
        i++;
    }
    if (i == length || !is_digit(text[i])) {
        return 0;
    }
    long exponent = 0;
    for (; i < length && is_digit(text[i]); i++) {
        if (exponent < EXPONENT_MAX) {
            exponent = exponent * 10 + (text[i] - '0');
        }
    }
    number->exponent += negative ? -exponent : exponent;
    return i;
}

policy_number whet_policy_number_parse(const char *text, size_t length, double *value) {
    decimal number = {.sign = '+'};
    size_t i = 0;
    if (length > 0 && is_sign(text[0])) {
        number.sign = text[i++];
    }
    i = read_digits(text, i, length, &number);
    if (number.count == 0) {
        return NUMBER_MALFORMED;
    }
    i = read_exponent(text, i, length, &number);
    if (i != length) {
        return NUMBER_MALFORMED;
    }

    char plain[DIGITS_MAX + 32];
    snprintf(plain, sizeof plain, "%c%se%ld", number.sign, number.digits, number.exponent);
    int saved_errno = errno;
    *value = strtod(plain, NULL);
    errno = saved_errno;
    return isfinite(*value) ? NUMBER_OK : NUMBER_TOO_LARGE;
}

/* Puts one '.' where printf wrote the locale's decimal point, which may be several bytes. */
static void restore_point(char *text) {
    char *end = text;
    for (const char *c = text; *c; c++) {
        bool plain = is_digit(*c) || is_sign(*c) || *c == 'e';
        if (plain) {
            *end++ = *c;
        } else if (end == text || end[-1] != '.') {
            *end++ = '.';
        }
    }
    *end = '\0';
}

void whet_policy_number_print(double value, char text[POLICY_NUMBER_SIZE]) {
    if (!isfinite(value)) {
        const char *word = isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
        snprintf(text, POLICY_NUMBER_SIZE, "%s", word);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        double back = 0;
        snprintf(text, POLICY_NUMBER_SIZE, "%.*g", digits, value);
        restore_point(text);
        whet_policy_number_parse(text, strlen(text), &back);
        if (back == value) {
            return;
        }
    }
}
