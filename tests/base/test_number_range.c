// Elements of lists such as 0-3,7: what is accepted and what is refused.
#include "base/number_range.h"

#include "support/check.h"

// Number of elements of a list, -1 for other text. The last one is left in *range.
static int elements(const char *text, const char *separator, uint64_t most, number_range *range) {
    int count = 0;
    bool is_list;
    do {
        is_list = take_number_range(&text, separator, most, range);
        count++;
    } while (is_list && *text);
    return is_list ? count : -1;
}

TEST(numbers_and_ranges_are_read) {
    number_range range;
    CHECK_INT(elements("0-3,7", "-", 65535, &range), 2);
    CHECK_INT(range.first, 7);
    CHECK_INT(range.last, 7);
    CHECK_INT(elements("5,16..64", "..", 64, &range), 2);
    CHECK_INT(range.first, 16);
    CHECK_INT(range.last, 64);
    CHECK_INT(elements("3-3", "-", 3, &range), 1);
    CHECK_INT(elements("000000000000000000000000000007", "-", 7, &range), 1);
}

TEST(the_largest_numbers_do_not_overflow) {
    number_range range;
    CHECK_INT(elements("18446744073709551615", "-", UINT64_MAX, &range), 1);
    CHECK(range.last == UINT64_MAX);
    CHECK_INT(elements("18446744073709551616", "-", UINT64_MAX, &range), -1);
    CHECK_INT(elements("99999999999999999999", "-", UINT64_MAX, &range), -1);
    CHECK_INT(elements("65535", "-", 65535, &range), 1);
    CHECK_INT(elements("65536", "-", 65535, &range), -1);
    CHECK_INT(elements("9", "-", 7, &range), -1);
    CHECK_INT(elements("0", "-", 0, &range), 1);
}

TEST(other_texts_are_refused) {
    static const char *const texts[] = {"",   ",",   "1,",   ",1",    "1,,2", "3-1",
                                        "1-", "-1",  "1--2", "1-2-3", " 1",   "1 ",
                                        "+1", "0x1", "1.5",  "1..2",  "a",    "1,a"};
    number_range range;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CHECK_MSG(elements(texts[i], "-", 100, &range) == -1, "'%s' is read", texts[i]);
    }
}
