// Texts and measures: domains by folder, sequences without overlap, refusals; parts of a sequence,
// paired intervals, and what a ledger keeps.
#include "support/check.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "tune/ledger.h"
#include "tune/measure.h"
#include "tune/texts.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// One token for each byte; a model would be loaded at every call.
static size_t tokenize_calls;

static bool tokenize_bytes(void *context, const char *const *texts, size_t count,
                           lm_token_list *lists, lab_error *error) {
    (void)context;
    tokenize_calls++;
    for (size_t i = 0; i < count; i++) {
        for (const char *at = texts[i]; *at; at++) {
            if (!lm_token_list_add(&lists[i], (unsigned char)*at)) {
                return lab_fail_memory(error);
            }
        }
    }
    return true;
}

static const tune_words words = {.begin = 1000, .tokenize = tokenize_bytes};
static char folder[64];

static const char *file_at(const char *sub, const char *name, const char *text) {
    static char paths[8][128];
    static size_t used;
    char *path = paths[used++ % 8];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/whet-texts.XXXXXX");
        REQUIRE(mkdtemp(folder));
    }
    snprintf(path, 128, "%s/%s", folder, sub);
    mkdir(path, 0700);
    snprintf(path, 128, "%s/%s/%s", folder, sub, name);
    REQUIRE(replace_file_bytes(path, text, strlen(text)));
    return path;
}

__attribute__((destructor)) static void remove_folder(void) {
    char command[96];
    if (folder[0]) {
        snprintf(command, sizeof command, "rm -r %s", folder);
        CHECK_INT(system(command), 0); // NOLINT(cert-env33-c): a path of the test's own
    }
}

TEST(files_of_one_folder_are_one_domain) {
    const char *paths[] = {file_at("one", "a", "abcdefgh"), file_at("two", "b", "12345"),
                           file_at("one", "c", "ijklmnop")};
    tune_texts texts;
    lab_error error = {0};
    tokenize_calls = 0;
    REQUIRE(tune_texts_read(paths, 3, &words, &texts, &error));
    CHECK_INT(tokenize_calls, 1);
    REQUIRE(texts.count == 2);
    CHECK_STR(texts.domains[0].name, "one");
    CHECK_INT(texts.domains[0].files[1].tokens, 8);
    CHECK_STR(texts.domains[1].name, "two");
    CHECK_INT(texts.domains[0].file_count, 2);
    CHECK_INT(texts.domains[0].tokens.count, 16);
    CHECK_STR(texts.domains[1].files[0].hash,
              "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5");
    lm_token first[] = {1000};
    const lm_token_list begin = {first, 1, 1}, none = {0};
    tune_set set;
    REQUIRE(tune_set_cut(&texts.domains[0], &begin, 5, 10, &set));
    REQUIRE(set.count == 4);
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(set.list[i].tokens[0], 1000);
        CHECK_INT(set.list[i].tokens[1], 'a' + 4 * i);
        CHECK_INT(set.list[i].tokens[4], 'd' + 4 * i);
    }
    tune_set_free(&set);
    REQUIRE(tune_set_cut(&texts.domains[0], &none, 5, 2, &set)); // evenly distributed
    REQUIRE(set.count == 2);
    CHECK_INT(set.list[0].tokens[0], 'a');
    CHECK_INT(set.list[1].tokens[0], 'f');
    tune_set_free(&set);
    REQUIRE(tune_set_cut(&texts.domains[1], &begin, 7, 2, &set));
    CHECK_INT(set.count, 0);
    tune_set_free(&set);
    tune_texts_free(&texts);
}

TEST(a_text_in_two_places_is_refused_by_its_contents) {
    const char *one[] = {file_at("one", "a", "same")}, *two[] = {file_at("two", "b", "same")};
    tune_texts a, b;
    lab_error error = {0};
    REQUIRE(tune_texts_read(one, 1, &words, &a, &error));
    REQUIRE(tune_texts_read(two, 1, &words, &b, &error));
    CHECK(!tune_texts_are_apart(&a, "text", &b, "check", &error));
    CHECK_INT(error.kind, LAB_INPUT);
    CHECK(strstr(error.text, "of --text is the same text as"));
    tune_texts_free(&a);
    tune_texts_free(&b);
}

TEST(white_space_does_not_make_another_text) {
    static const struct {
        const char *text;
        bool is_same;
    } others[] = {{"two words\r\nand more\r\n", true}, {" two\twords and\n\nmore", true},
                  {"two words\rand more\r", true},     {"two word sand more\n", false},
                  {"twowords\nand more\n", false},     {"two words\nand more.\n", false}};
    const char *one[] = {file_at("one", "a", "two words\nand more\n")};
    tune_texts a, b;
    lab_error error = {0};
    REQUIRE(tune_texts_read(one, 1, &words, &a, &error));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *two[] = {file_at("two", "b", others[i].text)};
        REQUIRE(tune_texts_read(two, 1, &words, &b, &error));
        CHECK_MSG(tune_texts_are_apart(&a, "text", &b, "check", &error) != others[i].is_same, "%s",
                  others[i].text);
        CHECK(strcmp(a.domains[0].files[0].hash, b.domains[0].files[0].hash) != 0);
        tune_texts_free(&b);
    }
    tune_texts_free(&a);
}

// Bytes are tokens here.
TEST(what_is_not_utf8_is_replaced) {
    const char *one[] = {file_at("one", "a", "a\xe9 \xc3\xa9\xff\xe2\x82")};
    static const char expected[] = "a\xef\xbf\xbd \xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd";
    tune_texts texts;
    lab_error error = {0};
    REQUIRE(tune_texts_read(one, 1, &words, &texts, &error));
    CHECK_INT(texts.domains[0].tokens.count, sizeof expected - 1);
    for (size_t i = 0; i < sizeof expected - 1 && i < texts.domains[0].tokens.count; i++) {
        CHECK_INT(texts.domains[0].tokens.items[i], (unsigned char)expected[i]);
    }
    tune_texts_free(&texts);
}

TEST(the_built_in_text_is_a_domain_of_its_own) {
    tune_texts texts = {.domains = NULL};
    lab_error error = {0};
    REQUIRE(tune_texts_add_built_in(&words, &texts, &error));
    CHECK(texts.count == 1 && texts.domains[0].is_built_in);
    CHECK(texts.domains[0].tokens.count > 20000);
    tune_texts_free(&texts);
}

// A judge whose losses are the tokens, divided by 10, plus a of the first head.
static bool judge_tokens(void *context, const tune_arm *arm, const tune_sequence *sequences,
                         size_t count, tune_losses *losses, tune_heard heard, void *listener,
                         lab_error *error) {
    size_t at = 0;
    (void)heard;
    (void)listener;
    (void)error;
    ++*(size_t *)context;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = sequences[i].from; j < sequences[i].length; j++, at++) {
            losses->loss[at] = (float)(sequences[i].tokens[j] / 10.0 + arm->setting->a[0]);
            losses->right[at] = sequences[i].tokens[j] < 8;
        }
    }
    return true;
}

TEST(measures_have_parts_positions_and_paired_changes) {
    static const lm_token tokens[] = {0, 1, 2, 3, 4, 0, 5, 6, 7, 8};
    const tune_sequence sequences[] = {{tokens, 5, 1}, {tokens + 5, 5, 2}};
    double a = 0, h = 0;
    size_t calls = 0;
    tune_setting setting = {.layers = 1, .heads = 1, .n0 = 2, .a = &a, .h = &h};
    tune_judge judge = {.context = &calls, .run = judge_tokens};
    tune_arm arm = {.setting = &setting};
    tune_measure base, other, again;
    tune_ledger ledger;
    lab_error error = {0};
    REQUIRE(tune_ledger_open(NULL, json_object(), &ledger, &error));
    REQUIRE(
        tune_measure_run(&judge, &arm, sequences, 2, "base", &ledger, NULL, NULL, &base, &error));
    CHECK_NEAR(base.loss[TUNE_WITHIN][0], 0.15, 1e-7); // tokens 1 and 2 are seen with 1 and 2 keys
    CHECK_NEAR(base.loss[TUNE_BEYOND][0], 0.35, 1e-7);
    CHECK_NEAR(base.loss[TUNE_ALL][1], 0.7, 1e-7);
    CHECK_NEAR(base.right[1], 2.0 / 3, 1e-12);
    CHECK(base.exact[0] == 1 && base.exact[1] == 0);
    CHECK_NEAR(base.bins[3], 0.1, 1e-7); // position 1 of 5
    CHECK(isnan(base.bins[0]));
    CHECK_NEAR(tune_perplexity(&base, TUNE_ALL), exp((0.25 + 0.7) / 2), 1e-6);
    a = 0.25;
    REQUIRE(
        tune_measure_run(&judge, &arm, sequences, 2, "other", &ledger, NULL, NULL, &other, &error));
    lab_interval change = tune_change(&other, &base, TUNE_ALL);
    CHECK_NEAR(change.mean, expm1(0.25), 1e-6);
    CHECK_NEAR(change.low, change.high, 1e-5);
    CHECK_INT(calls, 2);
    REQUIRE(
        tune_measure_run(&judge, &arm, sequences, 2, "base", &ledger, NULL, NULL, &again, &error));
    CHECK_INT(calls, 2); // from the ledger
    CHECK(again.loss[TUNE_ALL][0] == base.loss[TUNE_ALL][0]);
    CHECK(again.loss[TUNE_ALL][1] == base.loss[TUNE_ALL][1]);
    CHECK(isnan(again.bins[0]));
    tune_measure_free(&base);
    tune_measure_free(&other);
    tune_measure_free(&again);
    tune_ledger_close(&ledger);
}

TEST(a_ledger_keeps_bits_and_refuses_other_runs) {
    char path[96];
    tune_ledger ledger;
    lab_error error = {0};
    file_at("ledger", "x", "x");
    snprintf(path, sizeof path, "%s/ledger/state", folder);
    REQUIRE(tune_ledger_open(path, json_pack("{s:f}", "rate", 0.1), &ledger, &error));
    CHECK(!tune_ledger_is_resumed(&ledger));
    REQUIRE(tune_ledger_put(&ledger, "third", json_real(1.0 / 3), &error));
    tune_ledger_close(&ledger);
    REQUIRE(tune_ledger_open(path, json_pack("{s:f}", "rate", 0.1), &ledger, &error));
    CHECK(tune_ledger_is_resumed(&ledger));
    CHECK(json_real_value(tune_ledger_get(&ledger, "third")) == 1.0 / 3);
    tune_ledger_close(&ledger);
    CHECK(!tune_ledger_open(path, json_pack("{s:f}", "rate", 0.2), &ledger, &error));
    CHECK(strstr(error.text, "other options or texts"));
    tune_ledger_close(&ledger);
    REQUIRE(replace_file_bytes(path, "{\"entries\": 3}", 14));
    CHECK(!tune_ledger_open(path, json_object(), &ledger, &error));
    tune_ledger_close(&ledger);
}
