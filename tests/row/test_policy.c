/*
 * Policies: names that read back, names that are refused and in which words,
 * numbers that are checked, and the beta each temperature gives.
 */
#include "policy/number.h"
#include "reference/reference.h"
#include "row/one_row.h"
#include "support/check.h"
#include "support/random.h"
#include "whet.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static whet_policy parsed(const char *name) {
    whet_policy policy;
    char message[600] = "";
    memset(&policy, 0, sizeof policy);
    whet_status status = whet_policy_parse(name, &policy, message, sizeof message);
    CHECK_MSG(status == WHET_OK, "%s: %s", name, message);
    return policy;
}

/* Bit for bit, so that NaN is the same as NaN; the struct has no padding. */
static bool same_policy(const void *a, const void *b) {
    return memcmp(a, b, sizeof(whet_policy)) == 0;
}

/* The name that a name is written as after it was read. */
static const char *canonical(const char *name) {
    static char text[600];
    whet_policy policy = parsed(name);
    whet_policy_name(&policy, text, sizeof text);
    return text;
}

static void check_round_trip(const whet_policy *policy) {
    char name[600];
    char message[600] = "";
    whet_policy back;
    size_t length = whet_policy_name(policy, name, sizeof name);
    CHECK_INT(length, strlen(name));
    whet_status status = whet_policy_parse(name, &back, message, sizeof message);
    if (CHECK_MSG(status == WHET_OK, "%s: %s", name, message)) {
        CHECK_MSG(same_policy(policy, &back), "%s reads back as another policy", name);
    }
}

/* Whether a name is refused with a message that contains `words`. */
static void check_refused(const char *name, const char *words) {
    char message[600] = "";
    whet_policy policy;
    whet_policy before;
    memset(&policy, 0x5a, sizeof policy);
    before = policy;
    whet_status status = whet_policy_parse(name, &policy, message, sizeof message);
    CHECK_MSG(status == WHET_ERROR_POLICY, "'%s' is taken", name);
    CHECK_MSG(strstr(message, words) != NULL, "'%s' is refused with \"%s\", expected \"%s\"", name,
              message, words);
    CHECK_MSG(same_policy(&policy, &before), "'%s' is refused and yet sets the policy", name);
}

static whet_stats stats_with(uint64_t n, double entropy) {
    whet_stats stats = whet_stats_empty();
    stats.n = n;
    stats.entropy = entropy;
    stats.flags = 0;
    return stats;
}

static double beta_at(const char *name, uint64_t n, double entropy) {
    whet_policy policy = parsed(name);
    whet_stats stats = stats_with(n, entropy);
    return whet_policy_beta(&policy, &stats);
}

TEST(every_example_of_the_table_reads_back) {
    size_t count = 0;
    for (; whet_policy_table(count); count++) {
        const whet_policy_info *info = whet_policy_table(count);
        whet_policy policy = parsed(info->example);
        check_round_trip(&policy);
        CHECK_STR(canonical(info->example), info->example);
        CHECK_INT(whet_policy_is_temperature(&policy), info->is_temperature);
        CHECK(strlen(info->summary) > 0 && strlen(info->syntax) > 0);
    }
    CHECK(count >= 18);
    CHECK(whet_policy_table(SIZE_MAX) == NULL);
}

TEST(names_and_functions_make_the_same_policies) {
    const double coefficients[] = {1.5, -2, 0.25};
    struct {
        const char *name;
        whet_policy policy;
    } pairs[] = {
        {"softmax", whet_policy_softmax()},
        {"fixed:2.5", whet_policy_fixed(2.5)},
        {"adaptive", whet_policy_adaptive()},
        {"adaptive:hold", whet_policy_adaptive_hold()},
        {"poly:1.5/-2/0.25", whet_policy_poly(coefficients, 2, -INFINITY, 1, INFINITY)},
        {"poly:1.5/-2/0.25:threshold=0.5:floor=0.75:hold=4",
         whet_policy_poly(coefficients, 2, 0.5, 0.75, 4)},
        {"exp:-1.25", whet_policy_exp(-1.25)},
        {"target:1.5", whet_policy_target(1.5, 256)},
        {"target:1.5:cap=1000000", whet_policy_target(1.5, 1e6)},
        {"ssmax:0.43", whet_policy_ssmax(0.43, 0)},
        {"ssmax:0.43:1", whet_policy_ssmax(0.43, 1)},
        {"length:16", whet_policy_length(16)},
        {"linear:0.5", whet_policy_linear(0.5)},
        {"hinge:-0.25:0.5:64", whet_policy_hinge(-0.25, 0.5, 64)},
        {"topk:8", whet_policy_topk(8)},
        {"hardmax", whet_policy_hardmax()},
        {"sparsemax", whet_policy_sparsemax()},
        {"entmax15", whet_policy_entmax15()},
        {"entmax:1.25", whet_policy_entmax(1.25)},
        {"softmax1", whet_policy_softmax1()},
        {"sigmoid", whet_policy_sigmoid(NAN)},
        {"sigmoid:-3", whet_policy_sigmoid(-3)},
        {"stick-breaking", whet_policy_stick_breaking()},
        {"adaptive:strength=0.5", whet_policy_with_strength(whet_policy_adaptive(), 0.5)},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        whet_policy policy = parsed(pairs[i].name);
        char name[64];
        CHECK_MSG(same_policy(&policy, &pairs[i].policy), "%s", pairs[i].name);
        whet_policy_name(&pairs[i].policy, name, sizeof name);
        CHECK_STR(name, pairs[i].name);
        CHECK_INT(whet_policy_check(&pairs[i].policy, NULL, 0), WHET_OK);
    }
}

TEST(special_cases_are_called_by_their_own_name) {
    CHECK_STR(canonical("poly:-0.037/0.481/-2.3/4.917/-1.791:threshold=0.5"), "adaptive");
    CHECK_STR(canonical("poly:-0.037/0.481/-2.3/4.917/-1.791:threshold=0.5:hold=4.412"),
              "poly:-0.037/0.481/-2.3/4.917/-1.791:threshold=0.5:hold=4.412");
    CHECK_STR(canonical("poly:-0.037/0.481/-2.3/4.917/-1.791"),
              "poly:-0.037/0.481/-2.3/4.917/-1.791");
    CHECK_STR(canonical("entmax:2"), "sparsemax");
    CHECK_STR(canonical("entmax:1.5"), "entmax15");
    CHECK_STR(canonical("ssmax:1:0"), "ssmax:1");
    CHECK_STR(canonical("target:2:cap=256"), "target:2");
    CHECK_STR(canonical("softmax:strength=1"), "softmax");
}

TEST(options_may_come_in_any_order) {
    CHECK_STR(canonical("poly:1/2:strength=0.5:hold=3:floor=2:threshold=1"),
              "poly:1/2:threshold=1:floor=2:hold=3:strength=0.5");
    CHECK_STR(canonical("target:1:strength=2:cap=9"), "target:1:cap=9:strength=2");
}

TEST(numbers_are_read_to_the_nearest_double_in_all_their_forms) {
    struct {
        const char *text;
        double value;
    } numbers[] = {
        {"-0.037", -0.037},
        {"1e-3", 1e-3},
        {"+2", 2},
        {".5", .5},
        {"5.", 5.},
        {"1E+2", 1e2},
        {"-.5e1", -5},
        {"007", 7},
        {"0.1", 0.1},
        {"9007199254740993", 9007199254740992.},
        {"9007199254740993.0000000000000000001", 9007199254740994.},
        {"2.2250738585072011e-308", 2.2250738585072011e-308},
        {"4.9e-324", 4.9406564584124654e-324},
        {"1.7976931348623157e308", DBL_MAX},
        {"1e-99999999999999999999", 0},
        {"0e99999999999999999999", 0},
        {"0.000000000000000000000000000000000000000001e42", 1},
        {"123456789012345678901234567890e-29", 1.2345678901234567890123456789},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double value = NAN;
        CHECK_INT(whet_policy_number_parse(numbers[i].text, strlen(numbers[i].text), &value),
                  NUMBER_OK);
        CHECK_MSG(value == numbers[i].value, "%s gives %.17g", numbers[i].text, value);
    }
    double ignored;
    CHECK_INT(whet_policy_number_parse("1e309", 5, &ignored), NUMBER_TOO_LARGE);
    CHECK_INT(whet_policy_number_parse("-1e99999999999", 14, &ignored), NUMBER_TOO_LARGE);
}

TEST(what_is_not_a_number_is_refused) {
    const char *texts[] = {"",      ".",    "+",   "-",        "e5",    "1e",  "1e+",
                           "1.2.3", "inf",  "nan", "0x10",     "1f",    "--1", "1-2",
                           "1 ",    " 1",   "1,5", "infinity", "1e5.5", "1_0", "NaN",
                           "-inf",  "1d-3", "\n1", "1;2",      "1e--3"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        double ignored;
        CHECK_MSG(whet_policy_number_parse(texts[i], strlen(texts[i]), &ignored) ==
                      NUMBER_MALFORMED,
                  "\"%s\" is taken", texts[i]);
    }
}

static double random_double(struct rng *rng) {
    for (;;) {
        uint64_t bits = rng_bits(rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) {
            return value;
        }
    }
}

TEST(printed_numbers_read_back_bit_for_bit) {
    struct rng rng = rng_seeded(1);
    for (int i = 0; i < 20000; i++) {
        double value = i % 2 ? random_double(&rng) : rng_normal(&rng, 0, 3);
        double back = NAN;
        char text[POLICY_NUMBER_SIZE];
        whet_policy_number_print(value, text);
        CHECK_INT(whet_policy_number_parse(text, strlen(text), &back), NUMBER_OK);
        CHECK_MSG(back == value, "%.17g is printed as %s", value, text);
    }
}

TEST(printed_numbers_are_short) {
    struct {
        double value;
        const char *text;
    } numbers[] = {{0.1, "0.1"},       {1.0 / 3, "0.3333333333333333"},
                   {256, "256"},       {-0.0, "-0"},
                   {1e-300, "1e-300"}, {0.1 + 0.2, "0.30000000000000004"},
                   {INFINITY, "inf"},  {-INFINITY, "-inf"},
                   {NAN, "nan"},       {-DBL_MAX, "-1.7976931348623157e+308"}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[POLICY_NUMBER_SIZE];
        whet_policy_number_print(numbers[i].value, text);
        CHECK_STR(text, numbers[i].text);
    }
}

static double positive(struct rng *rng) {
    double value = fabs(random_double(rng));
    return value > 0 ? value : 1;
}

static whet_policy random_poly(struct rng *rng) {
    double coefficients[WHET_POLY_DEGREE_MAX + 1];
    unsigned degree = (unsigned)rng_integer(rng, 0, WHET_POLY_DEGREE_MAX);
    for (unsigned i = 0; i <= degree; i++) {
        coefficients[i] = random_double(rng);
    }
    double threshold = rng_bits(rng) % 2 ? random_double(rng) : -INFINITY;
    double floor = random_double(rng);
    double hold = rng_bits(rng) % 2 ? random_double(rng) : INFINITY;
    return whet_policy_poly(coefficients, degree, threshold, floor, hold);
}

// NOLINTNEXTLINE(misc-no-recursion): a policy of two
static whet_policy random_policy(struct rng *rng) {
    double any = random_double(rng);
    double other = random_double(rng);
    double above_zero = positive(rng);
    double above_one = 1.5 + positive(rng);
    switch (rng_integer(rng, 0, 11)) {
    case 11:
        return whet_policy_hinge(any, other, above_zero);
    case 10: /* both, sound or not */
        return whet_policy_compose(random_policy(rng), random_policy(rng));
    case 0:
        return whet_policy_fixed(above_zero);
    case 1:
        return random_poly(rng);
    case 2:
        return whet_policy_exp(any);
    case 3:
        return whet_policy_target(above_zero, above_one);
    case 4:
        return whet_policy_ssmax(any, other);
    case 5:
        return whet_policy_length(above_one);
    case 6:
        return whet_policy_linear(above_zero);
    case 7:
        return whet_policy_topk(1 + rng_bits(rng) / 2);
    case 8:
        return whet_policy_entmax(rng_uniform(rng, 1.0001, 2));
    default:
        return whet_policy_sigmoid(any);
    }
}

TEST(random_policies_read_back) {
    struct rng rng = rng_seeded(2);
    for (int i = 0; i < 20000; i++) {
        whet_policy policy = random_policy(&rng);
        if (whet_policy_is_temperature(&policy) && rng_bits(&rng) % 2) {
            policy = whet_policy_with_strength(policy, positive(&rng));
        }
        if (whet_policy_check(&policy, NULL, 0) == WHET_OK) {
            check_round_trip(&policy);
        }
    }
}

TEST(a_polynomial_without_a_floor_has_a_name_that_amounts_to_the_same) {
    const double coefficients[] = {-1, 0.5};
    whet_policy policy = whet_policy_poly(coefficients, 1, -INFINITY, -INFINITY, INFINITY);
    CHECK_INT(whet_policy_check(&policy, NULL, 0), WHET_OK);
    char name[128];
    whet_policy_name(&policy, name, sizeof name);
    CHECK_STR(name, "poly:-1/0.5:floor=-1.7976931348623157e+308");
    whet_policy back = parsed(name);
    whet_stats stats = stats_with(10, 0.25);
    CHECK_NEAR(whet_policy_beta(&policy, &stats), 0.25, 0);
    CHECK_NEAR(whet_policy_beta(&back, &stats), 0.25, 0);
}

TEST(other_locales_change_nothing) {
    const char *locales[] = {"de_DE.UTF-8", "de_DE.utf8",  "fr_FR.UTF-8", "fr_FR.utf8", "de_DE",
                             "it_IT.UTF-8", "es_ES.UTF-8", "pt_BR.UTF-8", "ru_RU.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof locales / sizeof locales[0] && !found; i++) {
        found = setlocale(LC_ALL, locales[i]);
    }
    if (!found || strcmp(localeconv()->decimal_point, ".") == 0) {
        setlocale(LC_ALL, "C");
        SKIP("no locale with a decimal comma is installed");
    }
    CHECK_STR(canonical("poly:-0.037/.5:hold=1e-3"), "poly:-0.037/0.5:hold=0.001");
    whet_policy policy = parsed("fixed:1.25");
    CHECK_NEAR(policy.value[0], 1.25, 0);
    check_refused("fixed:1,25", "','");
    setlocale(LC_ALL, "C");
}

TEST(unknown_names_suggest_the_nearest) {
    check_refused("adaptve", "unknown policy 'adaptve'; did you mean 'adaptive'?");
    check_refused("Adaptive:hold", "did you mean 'adaptive'?");
    check_refused("SOFTMAX", "did you mean 'softmax'?");
    check_refused("stick_breaking", "did you mean 'stick-breaking'?");
    check_refused("top-k:3", "did you mean 'topk'?");
    check_refused("sparse-max", "did you mean 'sparsemax'?");
    check_refused("adaptive:hodl", "'hodl' does not belong here; did you mean 'adaptive:hold'?");
    check_refused("zzz:1", "unknown policy 'zzz'");
    check_refused("custom", "unknown policy 'custom'");
    check_refused(":1", "unknown policy ''");
    check_refused("invalid", "unknown policy 'invalid'");
}

TEST(empty_and_overlong_names_are_refused) {
    char long_name[1000];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    check_refused("", "the name is empty");
    check_refused(long_name, "too long");
    memcpy(long_name, "fixed:1", 7);
    memset(long_name + 7, '0', sizeof long_name - 8);
    check_refused(long_name, "too long");
    whet_policy policy;
    CHECK_INT(whet_policy_parse(NULL, &policy, NULL, 0), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_policy_parse("softmax", NULL, NULL, 0), WHET_ERROR_ARGUMENT);
}

TEST(characters_that_never_belong_are_named) {
    check_refused("softmax,adaptive", "',' does not belong");
    check_refused("softmax;adaptive", "';' does not belong");
    check_refused("fixed: 2", "' ' does not belong");
    check_refused(" fixed:2", "' ' does not belong");
    check_refused("fixed:2\n", "byte 0x0a does not belong");
    check_refused("fixed:\xc2\xb2", "byte 0xc2 does not belong");
    check_refused("\x1b[31m", "byte 0x1b does not belong");
    check_refused("fixed:'2'", "''' does not belong");
}

TEST(numbers_that_are_wrong_are_quoted_with_what_is_expected) {
    check_refused("fixed:abc", "'abc' is not a decimal number: expected fixed:B[:strength=s]");
    check_refused("fixed:", "'' is not a decimal number: expected fixed:B");
    check_refused("fixed:inf", "'inf' is not a decimal number");
    check_refused("fixed:nan", "'nan' is not a decimal number");
    check_refused("fixed:0x10", "'0x10' is not a decimal number");
    check_refused("fixed:1e999", "'1e999' is too large a number");
    check_refused("poly:1//2", "'' is not a decimal number: expected poly:");
    check_refused("poly:1/2/", "'' is not a decimal number");
    check_refused("poly:/1", "'' is not a decimal number");
    check_refused("poly:1/x:hold=2", "'x' is not a decimal number");
    check_refused("poly:1/2/3/4/5/6/7/8/9/10", "'10' is one coefficient too many");
    check_refused("target:1:cap=", "'' is not a decimal number");
    check_refused("topk:3/4", "'3/4' is not a decimal number: expected topk:k");
}

TEST(numbers_too_few_or_too_many_are_refused) {
    check_refused("fixed", "'fixed' lacks a number: expected fixed:B[:strength=s]");
    check_refused("poly", "'poly' lacks a number");
    check_refused("poly:hold=2", "'poly:hold=2' lacks a number");
    check_refused("topk", "'topk' lacks a number: expected topk:k");
    check_refused("fixed:1:2", "'2' does not belong here: expected fixed:B");
    check_refused("ssmax:1:2:3:4", "'4' does not belong here: expected ssmax:s[:b[:g]]");
    check_refused("softmax:", "'' does not belong here: expected softmax");
    check_refused("hardmax:1", "'1' does not belong here: expected hardmax");
    check_refused("poly:1/2:3", "'3' does not belong here");
    check_refused("fixed:1:", "'' does not belong here");
}

TEST(options_that_do_not_belong_are_refused) {
    check_refused("poly:1:treshold=1", "unknown option 'treshold'; did you mean 'threshold'?");
    check_refused("poly:1:foo=1", "'foo' is not an option: expected poly:");
    check_refused("poly:1:cap=2", "'cap' is not an option here: expected poly:");
    check_refused("adaptive:hold=3", "'hold' is not an option here");
    check_refused("adaptive:hold:hold=3", "'hold' is not an option here");
    check_refused("adaptive:threshold=0.5", "'threshold' is not an option here");
    check_refused("topk:3:strength=0.5", "'strength' is not an option here: expected topk:k");
    check_refused("target:1:cap=2:cap=3", "'cap' is given twice");
    check_refused("adaptive:strength=1:hold", "'hold' comes after an option");
    check_refused("fixed:strength=1:2", "'2' comes after an option");
    check_refused("fixed:2:=1", "'' is not an option");
    check_refused("fixed:2=3", "'2' is not an option");
    check_refused("fixed:2:strength=1=2", "'1=2' is not a decimal number");
}

TEST(numbers_out_of_range_are_refused) {
    check_refused("fixed:0", "fixed needs a finite B > 0, not 0");
    check_refused("fixed:-1.5", "fixed needs a finite B > 0, not -1.5");
    check_refused("target:0", "target needs an entropy H > 0, not 0");
    check_refused("target:1:cap=0.5", "target needs a finite cap >= 1, not 0.5");
    check_refused("length:1", "length needs a finite n0 > 1, not 1");
    check_refused("linear:0", "linear needs a finite n0 > 0, not 0");
    check_refused("topk:0", "topk needs a whole k >= 1, not 0");
    check_refused("topk:1.5", "topk needs a whole k >= 1, not 1.5");
    check_refused("entmax:1", "entmax needs 1 < a <= 2, not 1");
    check_refused("entmax:2.5", "entmax needs 1 < a <= 2, not 2.5");
    check_refused("adaptive:strength=-1", "strength must be finite and >= 0, not -1");
}

static void check_unsound(whet_policy policy, const char *words) {
    char message[200] = "";
    CHECK_INT(whet_policy_check(&policy, message, sizeof message), WHET_ERROR_POLICY);
    CHECK_MSG(strstr(message, words) != NULL, "\"%s\", expected \"%s\"", message, words);
}

TEST(policies_made_by_functions_are_checked_too) {
    const double one = 1;
    const double bad[] = {1, NAN};
    check_unsound(whet_policy_fixed(NAN), "fixed");
    check_unsound(whet_policy_fixed(INFINITY), "fixed");
    check_unsound(whet_policy_exp(-INFINITY), "exp");
    check_unsound(whet_policy_target(INFINITY, 256), "target");
    check_unsound(whet_policy_target(1, NAN), "cap");
    check_unsound(whet_policy_ssmax(NAN, 0), "finite s");
    check_unsound(whet_policy_ssmax(0, INFINITY), "finite b");
    check_unsound(whet_policy_length(INFINITY), "length");
    check_unsound(whet_policy_linear(NAN), "linear");
    check_unsound(whet_policy_hinge(NAN, 0, 1), "finite a");
    check_unsound(whet_policy_hinge(0, -INFINITY, 1), "finite h");
    check_unsound(whet_policy_hinge(0, 0, 0), "n0 > 0");
    check_unsound(whet_policy_hinge(0, 0, INFINITY), "finite n0");
    check_unsound(whet_policy_topk(0), "topk");
    check_unsound(whet_policy_entmax(NAN), "entmax");
    check_unsound(whet_policy_sigmoid(INFINITY), "sigmoid");
    check_unsound(whet_policy_poly(&one, 9, 0, 1, 1), "degree of at most 8, not 9");
    check_unsound(whet_policy_poly(&one, UINT32_MAX, 0, 1, 1), "degree");
    check_unsound(whet_policy_poly(NULL, 0, 0, 1, 1), "coefficients");
    check_unsound(whet_policy_poly(bad, 1, 0, 1, 1), "coefficients, not nan");
    check_unsound(whet_policy_poly(&one, 0, NAN, 1, 1), "threshold");
    check_unsound(whet_policy_poly(&one, 0, 0, NAN, 1), "floor");
    check_unsound(whet_policy_poly(&one, 0, 0, INFINITY, 1), "floor");
    check_unsound(whet_policy_poly(&one, 0, 0, 1, NAN), "hold");
    check_unsound(whet_policy_poly(&one, 0, 0, 1, -INFINITY), "hold");
    check_unsound(whet_policy_custom(NULL, NULL), "function is NULL, which a custom policy needs");
    check_unsound(whet_policy_with_strength(whet_policy_softmax(), NAN), "strength");
    check_unsound(whet_policy_with_strength(whet_policy_softmax(), INFINITY), "strength");
    CHECK_INT(whet_policy_check(NULL, NULL, 0), WHET_ERROR_POLICY);
}

TEST(kinds_that_do_not_exist_are_refused) {
    const uint32_t kinds[] = {40, 63, 64, 100, UINT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        whet_policy policy = whet_policy_softmax();
        policy.temperature = kinds[i];
        check_unsound(policy, "is not a kind of policy");
        char name[32];
        whet_policy_name(&policy, name, sizeof name);
        CHECK_STR(name, "invalid");
    }
}

TEST(structs_not_made_by_the_functions_are_refused) {
    whet_policy zero;
    memset(&zero, 0, sizeof zero);
    check_unsound(zero, "policy is zero-initialised; create it with a whet_policy_... function");
    zero.hold = 1;
    check_unsound(zero, "threshold is set, which this policy does not have");
    whet_policy policy = whet_policy_softmax();
    policy.reserved_bytes[15] = 1;
    check_unsound(policy, "reserved_bytes is set, which this policy does not have");
    policy = whet_policy_fixed(2);
    policy.hold = 3;
    check_unsound(policy, "hold is set, which this policy does not have");
}

TEST(messages_and_names_are_cut_to_their_room) {
    char small[8] = "zzzzzzz";
    whet_policy policy = whet_policy_stick_breaking();
    CHECK_INT(whet_policy_name(&policy, small, sizeof small), 14);
    CHECK_STR(small, "stick-b");
    CHECK_INT(whet_policy_name(&policy, NULL, 0), 14);
    CHECK_INT(whet_policy_name(NULL, small, sizeof small), 7);
    CHECK_STR(small, "softmax");
    small[0] = 'k';
    CHECK_INT(whet_policy_name(&policy, small, 0), 14);
    CHECK(small[0] == 'k');
    CHECK_INT(whet_policy_parse("nothing", &policy, small, sizeof small), WHET_ERROR_POLICY);
    CHECK_STR(small, "unknown");
    CHECK_INT(whet_policy_parse("nothing", &policy, small, 0), WHET_ERROR_POLICY);
    CHECK_INT(whet_policy_parse("nothing", &policy, NULL, 0), WHET_ERROR_POLICY);
    CHECK_INT(whet_policy_parse("softmax", &policy, small, sizeof small), WHET_OK);
    CHECK_STR(small, "");
}

TEST(any_bytes_are_read_or_refused_without_harm) {
    const char *pieces[] = {"adaptive", ":",     "hold",     "poly",  "/",       "1",
                            "-0.5e3",   "=",     "strength", "cap",   "target",  "\xff",
                            ".",        "e",     "fixed",    "ssmax", "sigmoid", "floor",
                            "1e400",    "stick", "-",        "topk",  " ",       "entmax",
                            "+",        "+topk", "+hardmax", "e+",    "softmax", "+softmax"};
    struct rng rng = rng_seeded(3);
    for (int i = 0; i < 100000; i++) {
        char name[400] = "";
        size_t length = 0;
        for (int64_t k = rng_integer(&rng, 0, 12); k > 0; k--) {
            const char *piece = pieces[rng_bits(&rng) % (sizeof pieces / sizeof pieces[0])];
            memcpy(name + length, piece, strlen(piece) + 1);
            length += strlen(piece);
        }
        if (length > 0 && rng_bits(&rng) % 4 == 0) {
            size_t place = rng_bits(&rng) % length;
            name[place] = (char)rng_bits(&rng);
        }
        char message[64];
        whet_policy policy;
        if (whet_policy_parse(name, &policy, message, sizeof message) == WHET_OK) {
            check_round_trip(&policy);
        } else {
            CHECK(message[0] != '\0');
        }
    }
}

TEST(adaptive_follows_the_polynomial_of_the_paper) {
    CHECK_NEAR(beta_at("adaptive", 100, 1), 1.270, 1e-12);
    CHECK_NEAR(beta_at("adaptive", 100, 2), 2.099, 1e-12);
    CHECK_NEAR(beta_at("adaptive", 100, 4.41), 2.42138623743, 1e-12);
    CHECK_NEAR(beta_at("adaptive", 100, 5.9), 1.1093633, 1e-12);
    CHECK_NEAR(beta_at("adaptive", 100, 0.849), 1.000819982549763, 1e-12);
    CHECK_NEAR(beta_at("adaptive", 100, 0.4), 1, 0);
    CHECK_NEAR(beta_at("adaptive", 100, 0.5), 1, 0);
    CHECK_NEAR(beta_at("adaptive", 100, 0.84), 1, 0);
    CHECK_NEAR(beta_at("adaptive", 100, 6), 1, 0);
    CHECK_NEAR(beta_at("adaptive", 100, 11.8), 1, 0);
    CHECK_NEAR(beta_at("adaptive", 100, 0), 1, 0);
}

TEST(adaptive_hold_stays_at_the_peak) {
    whet_policy policy = whet_policy_adaptive_hold();
    CHECK_NEAR(policy.hold, 4.412, 5e-4);
    CHECK_NEAR(beta_at("adaptive:hold", 100, 4.412), 2.421, 5e-4);
    CHECK_NEAR(beta_at("adaptive:hold", 100, 11.8), 2.4213877066315243, 1e-12);
    CHECK_NEAR(beta_at("adaptive:hold", 100, 5), beta_at("adaptive:hold", 100, 9), 0);
    CHECK_NEAR(beta_at("adaptive:hold", 100, 2), 2.099, 1e-12);
    for (int i = 0; i < 1200; i++) {
        CHECK(beta_at("adaptive", 100, 0.01 * i) <= beta_at("adaptive:hold", 100, 12));
    }
}

TEST(poly_obeys_threshold_floor_and_hold) {
    CHECK_NEAR(beta_at("poly:2/1", 10, 3), 7, 0);
    CHECK_NEAR(beta_at("poly:2/-8", 10, 3), 1, 0);
    CHECK_NEAR(beta_at("poly:2/-8:floor=-5", 10, 3.5), 0, 0);
    CHECK_NEAR(beta_at("poly:2/-8:floor=-5", 10, 4.25), 0.5, 0);
    CHECK_NEAR(beta_at("poly:2/1:threshold=3", 10, 3), 1, 0);
    CHECK_NEAR(beta_at("poly:2/1:threshold=3", 10, 3.5), 8, 0);
    CHECK_NEAR(beta_at("poly:2/1:hold=2", 10, 3), 5, 0);
    CHECK_NEAR(beta_at("poly:2/1:hold=2:threshold=2.5", 10, 3), 1, 0);
    CHECK_NEAR(beta_at("poly:1/0/0/0/0/0/0/0/0", 10, 2), 256, 0);
    CHECK_NEAR(beta_at("poly:3", 10, 2), 3, 0);
}

TEST(the_other_temperatures_follow_their_formulas) {
    CHECK_NEAR(beta_at("softmax", 10, 2), 1, 0);
    CHECK_NEAR(beta_at("fixed:0.1", 10, 2), 0.1, 0);
    CHECK_NEAR(beta_at("exp:1.5", 10, 2), exp(0.5), 1e-15);
    CHECK_NEAR(beta_at("exp:1.5", 10, 1), 1, 0);
    CHECK_NEAR(beta_at("ssmax:0.43", 1024, 2), 0.43 * log(1024), 1e-14);
    CHECK_NEAR(beta_at("ssmax:0.43:2", 1024, 2), 0.43 * log(1024) + 2, 1e-14);
    CHECK_NEAR(beta_at("ssmax:1:0.5", 1, 0), 0.5, 0);
    CHECK_NEAR(beta_at("length:16", 256, 2), 2, 1e-15);
    CHECK_NEAR(beta_at("length:16", 8, 2), 1, 0);
    CHECK_NEAR(beta_at("linear:16", 256, 2), 16, 0);
    CHECK_NEAR(beta_at("linear:16", 8, 2), 1, 0);
    CHECK_NEAR(beta_at("hinge:0.25:0.5:16", 256, 2), exp(0.25 + 0.5 * log(16)), 1e-14);
    CHECK_NEAR(beta_at("hinge:0.25:0.5:16", 16, 2), exp(0.25), 0);
    CHECK_NEAR(beta_at("hinge:0.25:-0.5:16", 1, 0), exp(0.25), 0);
    CHECK_NEAR(beta_at("hinge:0:-0.5:0.25", 1, 0), 0.5, 1e-15);
    CHECK_NEAR(beta_at("target:1", 8, 2), NAN, 0);
    CHECK_NEAR(beta_at("hardmax", 8, 2), 1, 0);
}

TEST(strength_moves_beta_towards_or_away_from_one) {
    CHECK_NEAR(beta_at("adaptive:strength=0.5", 100, 2), 1 + 0.5 * 1.099, 1e-12);
    CHECK_NEAR(beta_at("adaptive:strength=0", 100, 2), 1, 0);
    CHECK_NEAR(beta_at("fixed:3:strength=2", 100, 2), 5, 0);
    CHECK_NEAR(beta_at("fixed:0.1:strength=1", 100, 2), 0.1, 0);
    CHECK_NEAR(beta_at("linear:16:strength=0.25", 256, 2), 4.75, 0);
}

TEST(beta_is_never_infinite_and_never_negative) {
    CHECK_NEAR(beta_at("exp:-5000", 10, 2), 1e30, 0);
    CHECK_NEAR(beta_at("exp:-5000:strength=0", 10, 2), 1, 0);
    CHECK_NEAR(beta_at("fixed:1e300:strength=1e300", 10, 2), 1e30, 0);
    CHECK_NEAR(beta_at("poly:-1e300/0/0/0:floor=-1e300", 10, 1e5), 0, 0);
    CHECK_NEAR(beta_at("ssmax:1:-5", 2, 0.5), 0, 0);
    CHECK_NEAR(beta_at("fixed:0.5:strength=4", 2, 0.5), 0, 0);
    CHECK_NEAR(beta_at("hinge:0:1e300:1e-300", 10, 2), 1e30, 0);
    CHECK_NEAR(beta_at("hinge:-1e300:0:1", 10, 2), 0, 0);
}

TEST(empty_and_bad_rows_get_a_beta_without_surprise) {
    whet_policy policy = parsed("ssmax:2:1");
    whet_stats empty = whet_stats_empty();
    CHECK_NEAR(whet_policy_beta(&policy, &empty), 1, 0);
    policy = parsed("length:16");
    CHECK_NEAR(whet_policy_beta(&policy, &empty), 1, 0);
    policy = parsed("hinge:1:1:16");
    CHECK_NEAR(whet_policy_beta(&policy, &empty), 1, 0);
    policy = whet_policy_adaptive();
    CHECK_NEAR(whet_policy_beta(&policy, &empty), 1, 0);
    whet_stats bad = empty;
    bad.flags = WHET_ROW_NOT_FINITE;
    CHECK_NEAR(whet_policy_beta(&policy, &bad), NAN, 0);
    CHECK_NEAR(whet_policy_beta(NULL, &empty), 1, 0);
}

static double half_the_entropy(const whet_stats *stats, double *dbeta_dentropy, void *context) {
    CHECK(*dbeta_dentropy == 0);
    *dbeta_dentropy = 0.5;
    ++*(int *)context;
    return 1 + 0.5 * stats->entropy;
}

TEST(a_function_of_the_callers_gives_beta) {
    int calls = 0;
    whet_policy policy = whet_policy_custom(half_the_entropy, &calls);
    whet_stats stats = stats_with(10, 3);
    CHECK_INT(whet_policy_check(&policy, NULL, 0), WHET_OK);
    CHECK(whet_policy_is_temperature(&policy));
    CHECK_NEAR(whet_policy_beta(&policy, &stats), 2.5, 0);
    CHECK_INT(calls, 1);
    policy = whet_policy_with_strength(policy, 2);
    CHECK_NEAR(whet_policy_beta(&policy, &stats), 4, 0);
    char name[16];
    whet_policy_name(&policy, name, sizeof name);
    CHECK_STR(name, "custom");
}

/* ---- temperatures with maps ---- */

/* A pair of the table, which is refused if the temperature is searched for and what the map makes
 * has no entropy. */
static void check_pair(const whet_policy_info *temperature, const whet_policy_info *map) {
    char name[300], message[300] = "";
    snprintf(name, sizeof name, "%s+%s", temperature->example, map->example);
    whet_policy first = parsed(temperature->example), second = parsed(map->example);
    whet_policy both = whet_policy_compose(first, second), read;
    if (first.temperature == WHET_POLICY_TARGET && !reference_sums_to_one(&second)) {
        check_refused(name, "target needs a map whose coefficients sum to one");
        CHECK_INT(whet_policy_check(&both, message, sizeof message), WHET_ERROR_POLICY);
        CHECK(strlen(message) > 0);
        return;
    }
    read = parsed(name);
    CHECK_MSG(same_policy(&read, &both), "%s", name);
    CHECK_INT(whet_policy_check(&both, NULL, 0), WHET_OK);
    CHECK_INT(whet_policy_is_temperature(&both), 0);
    CHECK_STR(canonical(name), first.temperature == WHET_POLICY_SOFTMAX ? map->example : name);
    check_round_trip(&both);
    both = whet_policy_with_strength(both, 0.25);
    check_round_trip(&both);
}

TEST(every_temperature_goes_with_every_map_by_name) {
    for (size_t t = 0; whet_policy_table(t); t++) {
        for (size_t m = 0; whet_policy_table(m); m++) {
            if (whet_policy_table(t)->is_temperature && !whet_policy_table(m)->is_temperature) {
                check_pair(whet_policy_table(t), whet_policy_table(m));
            }
        }
    }
}

TEST(softmax_is_a_map_and_a_temperature) {
    for (size_t i = 0; whet_policy_table(i); i++) {
        char name[200];
        const char *example = whet_policy_table(i)->example;
        bool is_temperature = whet_policy_table(i)->is_temperature;
        snprintf(name, sizeof name, is_temperature ? "%s+softmax" : "softmax+%s", example);
        CHECK_STR(canonical(name), example);
    }
    CHECK_STR(canonical("softmax+softmax"), "softmax");
    CHECK_STR(canonical("softmax:strength=0.5+topk:3"), "softmax:strength=0.5+topk:3");
    CHECK_NEAR(beta_at("softmax:strength=0.5+topk:3", 5, 1), 1, 0);
}

TEST(a_plus_may_also_be_a_sign) {
    CHECK_STR(canonical("fixed:1e+1"), "fixed:10");
    CHECK_STR(canonical("fixed:1e+1+topk:3"), "fixed:10+topk:3");
    CHECK_STR(canonical("fixed:+2+topk:+3"), "fixed:2+topk:3");
    CHECK_STR(canonical("poly:1e+2/+1E+3:floor=+0.5+entmax15"), "poly:100/1000:floor=0.5+entmax15");
    CHECK_STR(canonical("fixed:1e+300+sigmoid:-1e+300"), "fixed:1e+300+sigmoid:-1e+300");
    CHECK_STR(canonical("adaptive:strength=+1+entmax:2"), "adaptive+sparsemax");
    CHECK_STR(canonical("adaptive:hold+sigmoid"), "adaptive:hold+sigmoid");
    check_refused("fixed:2e+topk:3", "'2e' is not a decimal number: expected fixed:B");
    check_refused("fixed:2+3", "'2+3' is not a decimal number: expected fixed:B");
    check_refused("fixed:1e+", "'1e' is not a decimal number");
}

TEST(pairs_that_make_no_sense_are_refused_in_words) {
    check_refused("entmax15+adaptive", "'entmax15' is a map: expected a temperature before '+' and "
                                       "a map after it");
    check_refused("topk:3+hardmax", "'topk:3' is a map: expected a temperature before '+'");
    check_refused("adaptive+exp:1", "'exp:1' is a temperature: expected a temperature before '+' "
                                    "and a map after it");
    check_refused("adaptive+softmax:strength=0.5", "'softmax:strength=0.5' is a temperature");
    check_refused("adaptive+", "'adaptive+' lacks a map after '+'");
    check_refused("adaptive+topk:3+", "'adaptive+topk:3+' has more than one '+'");
    check_refused("+", "unknown policy '+'");
    check_refused("+topk:3", "unknown policy '+topk'");
    check_refused("adaptive++topk:3", "unknown policy 'adaptive+'");
    check_refused("adaptive+foo", "unknown policy 'foo'");
    check_refused("adaptive+sparsemx", "unknown policy 'sparsemx'; did you mean 'sparsemax'?");
    check_refused("adaptve+topk:3", "unknown policy 'adaptve'; did you mean 'adaptive'?");
    check_refused("adaptive+topk", "'topk' lacks a number: expected topk:k");
    check_refused("adaptive+topk:0", "topk needs a whole k >= 1, not 0");
    check_refused("fixed:0+topk:1", "fixed needs a finite B > 0, not 0");
    check_refused("adaptive+topk:3:strength=1",
                  "'strength' is not an option here: expected topk:k");
    check_refused("adaptive+topk:3+hardmax", "'adaptive+topk:3+hardmax' has more than one '+'");
    check_refused(
        "adaptive+softmax1+topk:2",
        "'adaptive+softmax1+topk:2' has more than one '+': expected a temperature and a map");
    check_refused("adaptive+custom", "unknown policy 'custom'");
    check_refused("target:1+sigmoid", "target needs a map whose coefficients sum to one");
    check_refused("target:1+softmax1", "target needs a map whose coefficients sum to one");
    check_refused("target:1:strength=0+stick-breaking", "target needs a map");
}

TEST(composing_drops_what_either_has_besides) {
    whet_policy one = whet_policy_compose(parsed("adaptive:strength=0.5+topk:3"),
                                          parsed("exp:2:strength=3+sigmoid:1"));
    whet_policy expected = parsed("adaptive:strength=0.5+sigmoid:1");
    CHECK(same_policy(&one, &expected));
    int calls = 0;
    whet_policy custom =
        whet_policy_compose(whet_policy_custom(half_the_entropy, &calls), whet_policy_entmax15());
    CHECK_INT(whet_policy_check(&custom, NULL, 0), WHET_OK);
    char name[32];
    whet_policy_name(&custom, name, sizeof name);
    CHECK_STR(name, "custom+entmax15");
    whet_stats stats = stats_with(10, 3);
    CHECK_NEAR(whet_policy_beta(&custom, &stats), 2.5, 0);
    CHECK_INT(whet_policy_is_temperature(&custom), 0);
}

TEST(kinds_of_maps_that_do_not_exist_are_refused) {
    const uint32_t kinds[] = {1, 8, 63, 120, 128, UINT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        whet_policy policy = whet_policy_adaptive();
        policy.map = kinds[i];
        check_unsound(policy, "is not a kind of policy");
        whet_parameter parameter;
        CHECK_INT(whet_policy_parameters(&policy, &parameter, 1), 0);
    }
}

/* ---- parameters ---- */

/* All that the fields of whet_policy say of the gradient's places: "in the same places". */
static size_t gradient_place(size_t offset) {
    if (offset == offsetof(whet_policy, strength)) {
        return offsetof(whet_policy_gradient, strength);
    }
    if (offset == offsetof(whet_policy, hold)) {
        return offsetof(whet_policy_gradient, hold);
    }
    if (offset >= offsetof(whet_policy, map_value)) {
        return offsetof(whet_policy_gradient, map_value) + offset -
               offsetof(whet_policy, map_value);
    }
    return offsetof(whet_policy_gradient, value) + offset - offsetof(whet_policy, value);
}

static void check_parameters(const char *name, const char *expected) {
    whet_policy policy = parsed(name);
    whet_parameter all[20];
    char list[200] = "";
    size_t count = whet_policy_parameters(&policy, all, 20);
    REQUIRE(count <= 20);
    CHECK_INT(whet_policy_parameters(&policy, NULL, 0), count);
    for (size_t i = 0; i < count; i++) {
        whet_parameter some[20];
        memset(some, 0x5a, sizeof some);
        CHECK_INT(whet_policy_parameters(&policy, some, i), count);
        for (size_t k = 0; k < i; k++) {
            CHECK(some[k].name == all[k].name && some[k].offset == all[k].offset);
        }
        CHECK(((unsigned char *)&some[i])[0] == 0x5a);
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, i ? " %s" : "%s", all[i].name);
        bool has_none = strcmp(all[i].name, "threshold") == 0 ||
                        strcmp(all[i].name, "floor") == 0 || strcmp(all[i].name, "k") == 0;
        CHECK_MSG(all[i].gradient_offset == (has_none ? SIZE_MAX : gradient_place(all[i].offset)),
                  "%s: %s", name, all[i].name);
        unsigned power =
            all[i].name[0] == 'c' && all[i].name[1] != 'a' ? (unsigned)(all[i].name[1] - '0') : 0;
        CHECK_INT(all[i].entropy_power, power);
    }
    CHECK_MSG(strcmp(list, expected) == 0, "%s: %s, not %s", name, list, expected);
}

TEST(parameters_are_listed_with_their_places) {
    check_parameters("softmax", "strength");
    check_parameters("fixed:2", "B strength");
    check_parameters("adaptive", "c4 c3 c2 c1 c0 threshold floor hold strength");
    check_parameters("poly:2", "c0 threshold floor hold strength");
    check_parameters("poly:1/2/3/4/5/6/7/8/9",
                     "c8 c7 c6 c5 c4 c3 c2 c1 c0 threshold floor hold strength");
    check_parameters("exp:1", "h0 strength");
    check_parameters("target:1", "H cap strength");
    check_parameters("ssmax:1", "s b g strength");
    check_parameters("length:2", "n0 strength");
    check_parameters("linear:2", "n0 strength");
    check_parameters("hinge:0:1:16", "a h n0 strength");
    check_parameters("topk:3", "strength k");
    check_parameters("hardmax", "strength");
    check_parameters("entmax15", "strength a");
    check_parameters("softmax1", "strength");
    check_parameters("sigmoid", "strength b");
    check_parameters("ssmax:0.3:0.5+entmax:1.25", "s b g strength a");
    check_parameters("target:1:cap=8+topk:3", "H cap strength k");
    CHECK_INT(whet_policy_parameters(NULL, NULL, 0), 0);
}

TEST(parameters_lie_where_the_name_puts_them) {
    whet_policy policy = parsed("target:1.25:cap=8:strength=0.5+entmax:1.75");
    const double expected[] = {1.25, 8, 0.5, 1.75};
    whet_parameter all[4];
    REQUIRE(whet_policy_parameters(&policy, all, 4) == 4);
    for (size_t i = 0; i < 4; i++) {
        double value;
        memcpy(&value, (const char *)&policy + all[i].offset, sizeof value);
        CHECK_NEAR(value, expected[i], 0);
    }
}

/* ---- the table of whet.h ---- */

/* A line of the table: " *   NAME   what it is", or " *     [:OPTION]   ..." which goes on with the
 * name before, or more of what it is. Returns false where the table ends. */
static bool read_line(char *line, char *syntax, size_t size, bool *goes_on) {
    const char *text = line + strspn(line, " *");
    size_t indent = (size_t)(text - line);
    size_t length = strcspn(text, " \n");
    bool is_text = indent > 12;
    *goes_on = is_text || (text[0] == '[' && indent > 5);
    size_t before = *goes_on ? strlen(syntax) : 0;
    if (length == 0 || before + length >= size) {
        return false;
    }
    if (is_text) {
        return true;
    }
    memcpy(syntax + before, text, length);
    syntax[before + length] = '\0';
    return true;
}

TEST(the_table_in_the_header_is_the_librarys) {
    const char *source = getenv("WHET_SOURCE_DIR");
    char path[1000], line[300], syntax[200] = "";
    if (!source) {
        SKIP("WHET_SOURCE_DIR is not set");
    }
    snprintf(path, sizeof path, "%s/include/whet.h", source);
    FILE *header = fopen(path, "r");
    REQUIRE(header != NULL);
    bool found = false, goes_on = false;
    while (!found && fgets(line, sizeof line, header)) {
        found = strncmp(line, " *   name  ", 11) == 0;
    }
    CHECK(found);
    size_t count = 0;
    char names[40][200];
    while (fgets(line, sizeof line, header) && read_line(line, syntax, sizeof syntax, &goes_on)) {
        count += goes_on ? 0 : 1;
        REQUIRE(count > 0 && count <= 40);
        memcpy(names[count - 1], syntax, sizeof syntax);
    }
    fclose(header);
    for (size_t i = 0; i < count; i++) {
        REQUIRE(whet_policy_table(i) != NULL);
        CHECK_STR(names[i], whet_policy_table(i)->syntax);
    }
    const whet_policy_info *next = whet_policy_table(count);
    CHECK_MSG(!next, "%s is not in whet.h", next ? next->syntax : "");
}
