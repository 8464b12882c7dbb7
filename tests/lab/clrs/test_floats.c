// Floats as text, against printf: as many digits as ours give the same digits, so that ours are the
// nearest decimal of their length and read back the same; one digit fewer does not read back.
#include "clrs/floats.h"
#include "support/check.h"
#include "support/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIGITS_MAX = 24 };

static const char *printed(clrs_floats *floats, double value, char text[CLRS_FLOAT_SIZE]) {
    text[clrs_float_print(floats, value, text)] = '\0';
    return text;
}

// The digits of a number, without zeros at either end; returns how many there are.
static int digits_of(const char *text, char digits[DIGITS_MAX]) {
    int count = 0;
    for (; *text && *text != 'e'; text++)
        if (*text >= '0' && *text <= '9' && (count > 0 || *text != '0') && count < DIGITS_MAX)
            digits[count++] = *text;
    while (count > 0 && digits[count - 1] == '0')
        count--;
    return count;
}

static void check_shortest(clrs_floats *floats, double value) {
    char text[CLRS_FLOAT_SIZE], other[64], ours[DIGITS_MAX], theirs[DIGITS_MAX];
    printed(floats, value, text);
    int count = digits_of(text, ours);
    snprintf(other, sizeof other, "%.*e", count - 1, value);
    bool is_right = strtod(text, NULL) == value && digits_of(other, theirs) == count &&
                    memcmp(ours, theirs, (size_t)count) == 0;
    if (count > 1) {
        snprintf(other, sizeof other, "%.*e", count - 2, value);
        is_right = is_right && strtod(other, NULL) != value;
    }
    if (!is_right) // said only where it is wrong: there are millions
        CHECK_MSG(false, "%a is printed as %s", value, text);
}

TEST(any_double_reads_back_from_its_shortest_digits) {
    static clrs_floats floats;
    struct rng rng = rng_seeded(1);
    for (int i = 0; i < 1000000; i++) {
        uint64_t bits = rng_bits(&rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value) && value != 0)
            check_shortest(&floats, value);
    }
}

TEST(uniform_doubles_read_back_from_their_shortest_digits) {
    static clrs_floats floats;
    struct rng rng = rng_seeded(2);
    for (int i = 0; i < 1000000; i++)
        check_shortest(&floats, rng_uniform(&rng, i % 2 ? -1.0 : 0.0, 1.0));
}

TEST(truncated_doubles_read_back_from_their_shortest_digits) {
    static clrs_floats floats;
    struct rng rng = rng_seeded(3);
    for (int i = 0; i < 1000000; i++) {
        int decimals = i % 19 + 1;
        floats.decimals = decimals;
        double value = clrs_truncate(rng_uniform(&rng, -2.0, 2.0), decimals);
        if (value != 0)
            check_shortest(&floats, value);
    }
}

TEST(a_wrong_hint_of_decimals_changes_nothing) {
    static clrs_floats plain, hinted;
    struct rng rng = rng_seeded(4);
    char a[CLRS_FLOAT_SIZE], b[CLRS_FLOAT_SIZE];
    for (int i = 0; i < 200000; i++) {
        double scale = pow(10, (double)rng_integer(&rng, -20, 20));
        double value = clrs_truncate(rng_uniform(&rng, -2.0, 2.0), i % 8) * scale;
        hinted.decimals = (int)rng_integer(&rng, 1, 19);
        if (strcmp(printed(&plain, value, a), printed(&hinted, value, b)) != 0)
            CHECK_STR(b, a);
    }
}

TEST(powers_of_two_and_their_neighbours_read_back) {
    static clrs_floats floats;
    char text[CLRS_FLOAT_SIZE];
    for (int exponent = -1074; exponent < 1024; exponent++) {
        double power = ldexp(1, exponent);
        CHECK(strtod(printed(&floats, power, text), NULL) == power);
        double below = nextafter(power, 0), above = nextafter(power, INFINITY);
        CHECK(strtod(printed(&floats, below, text), NULL) == below);
        CHECK(strtod(printed(&floats, above, text), NULL) == above);
    }
}

TEST(the_layout_is_that_of_python) {
    static clrs_floats floats;
    static const struct {
        double value;
        const char *text;
    } known[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {100.0, "100.0"},
        {-0.153, "-0.153"},
        {0.64, "0.64"},
        {0.1, "0.1"},
        {0.0001, "0.0001"},
        {0.00012, "0.00012"},
        {5.6e-05, "5.6e-05"},
        {1e-05, "1e-05"},
        {9.999e-05, "9.999e-05"},
        {123456.75, "123456.75"},
        {1e15, "1000000000000000.0"},
        {9007199254740993.0, "9007199254740992.0"},
        {1e16, "1e+16"},
        {1.5e16, "1.5e+16"},
        {1e23, "1e+23"},
        {1e100, "1e+100"},
        {5e-324, "5e-324"},
        {0x1p-44, "5.684341886080802e-14"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {-1.2345678901234567e-100, "-1.2345678901234567e-100"},
    };
    char text[CLRS_FLOAT_SIZE];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        CHECK_STR(printed(&floats, known[i].value, text), known[i].text);
}

TEST(truncation_goes_towards_zero_and_keeps_its_sign) {
    CHECK(clrs_truncate(0.9999, 3) == 0.999);
    CHECK(clrs_truncate(-0.9999, 3) == -0.999);
    CHECK(signbit(clrs_truncate(-0.0004, 3)));
    CHECK(clrs_truncate(0.123456789, 0) == 0.123456789);
    CHECK(clrs_truncate(1.003, 3) == 1.002); // 1.003 * 1000 is a little less than 1003
}
