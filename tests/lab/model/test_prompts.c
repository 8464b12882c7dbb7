// Prompts of growing length, and whether an answer names a number.
#include "model/prompts.h"

#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

static const number_format whole = {.low = 0, .high = 999};

TEST(a_prompt_asks_for_the_largest_of_its_numbers) {
    static const uint64_t sizes[] = {1, 2, 17, 128};
    prompt_list list;
    REQUIRE(prompts_of_numbers(sizes, 4, 3, &whole, 7, &list));
    CHECK_INT(list.count, 12);
    for (size_t i = 0; i < list.count; i++) {
        const prompt *asked = &list.items[i];
        const char *at = strstr(asked->text, "sequence: ");
        CHECK_INT(asked->size, i / 3);
        CHECK_INT(asked->sequence, i % 3);
        REQUIRE(at && strstr(asked->text, "? The maximum is:"));
        unsigned long largest = 0, count = 0;
        char *end;
        for (at = at ? at + 10 : ""; count < 1000; count++, at = end + 2) {
            unsigned long number = strtoul(at, &end, 10);
            CHECK(end != at && number <= 999);
            largest = number > largest ? number : largest;
            if (*end == '?') {
                break;
            }
        }
        CHECK_INT(count + 1, sizes[asked->size]);
        CHECK_INT(strtoul(asked->maximum, NULL, 10), largest);
    }
    prompts_free(&list);
}

TEST(numbers_come_from_the_seed_and_from_nothing_else) {
    static const uint64_t sizes[] = {5, 9}, one = 9;
    prompt_list a, b, c;
    REQUIRE(prompts_of_numbers(sizes, 2, 2, &whole, 7, &a));
    REQUIRE(prompts_of_numbers(&one, 1, 1, &whole, 7, &b));
    REQUIRE(prompts_of_numbers(&one, 1, 1, &whole, 8, &c));
    CHECK_STR(a.items[2].text, b.items[0].text);
    CHECK(strcmp(a.items[2].text, a.items[3].text) != 0);
    CHECK(strcmp(b.items[0].text, c.items[0].text) != 0);
    prompts_free(&a);
    prompts_free(&b);
    prompts_free(&c);
}

TEST(numbers_may_have_digits_after_the_point) {
    static const uint64_t size = 50;
    number_format format = {.low = 0, .high = 1, .decimals = 3};
    prompt_list list;
    REQUIRE(prompts_of_numbers(&size, 1, 1, &format, 1, &list));
    CHECK(strncmp(list.items[0].maximum, "0.", 2) == 0 ||
          strcmp(list.items[0].maximum, "1.000") == 0);
    CHECK_INT(strlen(list.items[0].maximum), 5);
    CHECK(strstr(list.items[0].text, list.items[0].maximum));
    prompts_free(&list);
}

TEST(a_question_of_ones_own_has_the_numbers_in_their_place) {
    static const uint64_t size = 3;
    number_format format = {.low = 7, .high = 8, .question = "Of {seq}, which {is it}?"};
    prompt_list list;
    REQUIRE(prompts_of_numbers(&size, 1, 1, &format, 1, &list));
    const char *text = list.items[0].text;
    CHECK_MSG(strncmp(text, "Of ", 3) == 0 && strlen(text) == 26 &&
                  strcmp(text + 10, ", which {is it}?") == 0,
              "%s", text);
    CHECK(strstr(text, list.items[0].maximum));
    prompts_free(&list);
}

TEST(a_text_is_cut_at_every_size) {
    static const uint64_t sizes[] = {2, 4};
    prompt_list list;
    REQUIRE(prompts_of_text(sizes, 2, "some text", &list));
    CHECK_INT(list.count, 2);
    CHECK_INT(list.items[1].token_limit, 4);
    CHECK_STR(list.items[1].text, "some text");
    CHECK_STR(list.items[1].maximum, "");
    prompts_free(&list);
}

TEST(an_answer_has_a_number_only_by_itself) {
    CHECK(answer_has_number(" 512", "512"));
    CHECK(answer_has_number("The maximum is 512.", "512"));
    CHECK(answer_has_number("1512 and 512", "512"));
    CHECK(answer_has_number("512, of course", "512"));
    CHECK(!answer_has_number(" 1512", "512"));
    CHECK(!answer_has_number(" 5120", "512"));
    CHECK(!answer_has_number(" 512.5", "512"));
    CHECK(!answer_has_number(" 0.512", "512"));
    CHECK(!answer_has_number("", "512"));
    CHECK(!answer_has_number("anything", ""));
    CHECK(answer_has_number("0.250!", "0.250"));
    CHECK(!answer_has_number("10.250", "0.250"));
}
