/* Tokenizers: small ones made by hand, in which every merge can be followed. */
#include "support/check.h"

#include "lm/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct entry {
    const char *text;
    float score;
    lm_piece_type type;
} entry;

static void make(lm_tokenizer *t, lm_tokenizer_kind kind, const entry *entries, size_t count,
                 const char *const *merges, size_t merge_count) {
    lab_error error = {0};
    REQUIRE(lm_tokenizer_start(t, kind, count, merge_count, "test", &error));
    for (size_t i = 0; i < count; i++)
        REQUIRE(lm_tokenizer_set(t, i, entries[i].text, strlen(entries[i].text), entries[i].score,
                                 entries[i].type, &error));
    REQUIRE(lm_tokenizer_seal(t, &error));
    for (size_t i = 0; i < merge_count; i++)
        REQUIRE(lm_tokenizer_merge(t, i, merges[i], strlen(merges[i]), &error));
}

typedef bool (*tokenize)(const lm_tokenizer *t, const char *text, size_t length,
                         lm_token_list *tokens, lab_error *error);

/* Tokens as "1 2 3". */
static const char *tokens_by(tokenize function, const lm_tokenizer *t, const char *text) {
    static char list[1000];
    lm_token_list tokens = {NULL, 0, 0};
    lab_error error = {0};
    list[0] = '\0';
    if (!function(t, text, strlen(text), &tokens, &error))
        snprintf(list, sizeof list, "%s", error.text);
    else
        for (size_t i = 0, used = 0; i < tokens.count && used < sizeof list; i++)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", i ? " " : "",
                                     tokens.items[i]);
    free(tokens.items);
    return list;
}

static const char *tokens_of(const lm_tokenizer *t, const char *text) {
    return tokens_by(lm_tokenize, t, text);
}

/* There and back again, with the beginning told. */
static void check_round_trip(const lm_tokenizer *t, const char *text) {
    lm_token_list tokens = {NULL, 0, 0};
    lm_text back = {NULL, 0, 0};
    lab_error error = {0};
    REQUIRE(lm_tokenize(t, text, strlen(text), &tokens, &error));
    REQUIRE(lm_text_add(&back, "", 0));
    for (size_t i = 0; i < tokens.count; i++)
        REQUIRE(lm_tokenizer_text(t, tokens.items[i], i == 0, &back));
    CHECK_STR(back.bytes, text);
    free(tokens.items);
    free(back.bytes);
}

#define BLANK "\xE2\x96\x81"

static const entry pieces[] = {
    {"<unk>", 0, LM_PIECE_UNKNOWN}, {"<s>", 0, LM_PIECE_CONTROL}, {"</s>", 0, LM_PIECE_CONTROL},
    {"<0x0A>", 0, LM_PIECE_BYTE},   {"<0xC3>", 0, LM_PIECE_BYTE}, {"<0xA9>", 0, LM_PIECE_BYTE},
    {BLANK, -9, LM_PIECE_NORMAL},   {"a", -9, LM_PIECE_NORMAL},   {"b", -9, LM_PIECE_NORMAL},
    {"c", -9, LM_PIECE_NORMAL},     {"ab", -2, LM_PIECE_NORMAL},  {"bc", -1, LM_PIECE_NORMAL},
    {"abc", -3, LM_PIECE_NORMAL},   {"aa", -4, LM_PIECE_NORMAL},  {BLANK "a", -5, LM_PIECE_NORMAL}};
enum { PIECES = sizeof pieces / sizeof *pieces };

static void make_pieces(lm_tokenizer *t) {
    make(t, LM_PIECES, pieces, PIECES, NULL, 0);
    t->unknown = 0;
}

TEST(pieces_of_the_highest_score_are_merged_first) {
    lm_tokenizer t;
    make_pieces(&t);
    CHECK_STR(tokens_of(&t, ""), "");
    CHECK_STR(tokens_of(&t, "b"), "6 8");
    CHECK_STR(tokens_of(&t, "a"), "14");
    /* bc before ab, then a + bc; the blank stays alone */
    CHECK_STR(tokens_of(&t, "abc"), "6 12");
    /* of equals the leftmost: aa aa a, and not a aa aa */
    CHECK_STR(tokens_of(&t, "baaaaa"), "6 8 13 13 7");
    CHECK_STR(tokens_of(&t, "c a"), "6 9 14");
    lm_tokenizer_free(&t);
}

TEST(a_character_that_is_no_piece_becomes_its_bytes_or_unknown) {
    lm_tokenizer t;
    make_pieces(&t);
    CHECK_STR(tokens_of(&t, "b\xC3\xA9"
                            "b\n"),
              "6 8 4 5 8 3");
    CHECK_STR(tokens_of(&t, "b?b"), "6 8 0 8");
    t.unknown = LM_NO_TOKEN;
    CHECK(strstr(tokens_of(&t, "b?b"), "0x3F") != NULL);
    lm_tokenizer_free(&t);
}

TEST(control_tokens_are_recognised_in_a_text_and_say_nothing) {
    lm_tokenizer t;
    make_pieces(&t);
    CHECK_STR(tokens_of(&t, "b<s>b</s>"), "6 8 1 6 8 2");
    CHECK_STR(tokens_of(&t, "<s"), "6 0 0");
    CHECK_STR(tokens_of(&t, "b<unk>"), "6 8 0");
    /* In plain text they are characters, here unknown ones. */
    CHECK_STR(tokens_by(lm_tokenize_plain, &t, "b<s>b"), "6 8 0 0 0 8");
    CHECK_STR(tokens_by(lm_tokenize_plain, &t, "<unk>"), "6 0 0 0 0 0");
    t.pieces[1].type = LM_PIECE_USER;
    CHECK_STR(tokens_by(lm_tokenize_plain, &t, "b<s>b"), "6 8 1 6 8");
    t.pieces[1].type = LM_PIECE_CONTROL;
    lm_text text = {NULL, 0, 0};
    REQUIRE(lm_text_add(&text, "", 0));
    CHECK(lm_tokenizer_text(&t, 1, false, &text));
    CHECK(lm_tokenizer_text(&t, 9999, false, &text));
    CHECK_STR(text.bytes, "");
    free(text.bytes);
    lm_tokenizer_free(&t);
}

TEST(pieces_say_what_they_came_from) {
    lm_tokenizer t;
    make_pieces(&t);
    static const char *const texts[] = {"a", "abc aa b\n\xC3\xA9", " a", "  b  ", "aaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_round_trip(&t, texts[i]);
    lm_tokenizer_free(&t);
}

/* Bytes as GPT-2 writes them, then merges; \xC4\xA0 is the blank. */
static const char *const byte_merges[] = {"h e",        "l l", "ll o", "he llo",
                                          "\xC4\xA0 w", "' s", "1 2",  "\xC4\xA0 \xC4\xA0"};
enum { MERGES = sizeof byte_merges / sizeof *byte_merges, BYTE_PIECES = 256 + MERGES + 1 };

static void make_byte_pairs(lm_tokenizer *t) {
    static char texts[BYTE_PIECES][16];
    entry entries[BYTE_PIECES];
    for (int i = 0; i < 256; i++) {
        texts[i][lm_byte_character((unsigned char)i, texts[i])] = '\0';
        entries[i] = (entry){texts[i], 0, LM_PIECE_NORMAL};
    }
    for (int i = 0; i < MERGES; i++) {
        const char *blank = strchr(byte_merges[i], ' ');
        snprintf(texts[256 + i], sizeof texts[0], "%.*s%s", (int)(blank - byte_merges[i]),
                 byte_merges[i], blank + 1);
        entries[256 + i] = (entry){texts[256 + i], 0, LM_PIECE_NORMAL};
    }
    entries[256 + MERGES] = (entry){"<|end|>", 0, LM_PIECE_CONTROL};
    make(t, LM_BYTE_PAIRS, entries, BYTE_PIECES, byte_merges, MERGES);
}

TEST(byte_pairs_are_merged_in_the_order_of_the_list) {
    lm_tokenizer t;
    make_byte_pairs(&t);
    CHECK_STR(tokens_of(&t, "hello"), "259");
    CHECK_STR(tokens_of(&t, "hell"), "256 257");
    CHECK_STR(tokens_of(&t, "llo"), "258");
    CHECK_STR(tokens_of(&t, "hello<|end|>hello"), "259 264 259");
    lm_tokenizer_free(&t);
}

TEST(words_are_cut_as_gpt2_cuts_them) {
    lm_tokenizer t;
    make_byte_pairs(&t);
    CHECK_STR(tokens_of(&t, "hello w"), "259 260");
    /* of several blanks the last goes with the word, even where merging two comes later */
    CHECK_STR(tokens_of(&t, "a   w"), "97 263 260");
    CHECK_STR(tokens_of(&t, "a  "), "97 263");
    CHECK_STR(tokens_of(&t, "a's"), "97 261");
    CHECK_STR(tokens_of(&t, "a12"), "97 262");
    CHECK_STR(tokens_of(&t, "a\n\nw"), "97 10 10 119");
    /* letters of other scripts are letters: no cut between them */
    CHECK_STR(tokens_of(&t, "h\xC3\xA9"), "104 195 169");
    lm_tokenizer_free(&t);
}

TEST(every_byte_survives_byte_pairs) {
    lm_tokenizer t;
    make_byte_pairs(&t);
    char text[256 + 1];
    for (int i = 1; i < 256; i++)
        text[i - 1] = (char)i;
    text[255] = '\0';
    check_round_trip(&t, text);
    check_round_trip(&t, "hello  w\xE4\xBD\xA0\xE5\xA5\xBD's 12 <hello>\t\n");
    lm_tokenizer_free(&t);
}

static void check_comes_back(lm_tokenizer *t, const char *text) {
    char before[1000];
    lm_tokenizer again;
    lab_error error = {0};
    snprintf(before, sizeof before, "%s", tokens_of(t, text));
    json_t *json = lm_tokenizer_json(t);
    REQUIRE(json != NULL);
    if (CHECK(lm_tokenizer_from_json(&again, json, "test", &error))) {
        CHECK_STR(tokens_of(&again, text), before);
        CHECK_INT(again.count, t->count);
        CHECK_INT(again.merge_count, t->merge_count);
        CHECK_INT(again.unknown, t->unknown);
    }
    lm_tokenizer_free(&again);
    json_decref(json);
    lm_tokenizer_free(t);
}

TEST(json_gives_the_same_tokenizer_back) {
    lm_tokenizer t;
    make_pieces(&t);
    check_comes_back(&t, "abc aab\n");
    make_byte_pairs(&t);
    check_comes_back(&t, "hello w's  12");
}

TEST(the_tokenizer_of_clrs_gives_the_tokens_of_training) {
    static const char text[] = "bfs:\ns: [0 1], A: [[0 0.25], [0.5 1]]\npi:\n";
    lm_tokenizer t;
    lab_error error = {0};
    lm_token_list tokens = {NULL, 0, 0};
    lm_token expected[sizeof text - 1];
    REQUIRE(lm_tokenizer_clrs(&t, &error));
    CHECK_INT(t.count, LM_CLRS_VOCABULARY);
    REQUIRE(lm_tokenize(&t, text, strlen(text), &tokens, &error));
    lm_tokens_of_text(text, strlen(text), expected);
    CHECK_INT(tokens.count, strlen(text));
    CHECK(same_bytes(tokens.items, expected, sizeof expected));
    free(tokens.items);
    check_round_trip(&t, text);
    check_round_trip(&t, " [0 1]");
    lm_tokenizer_free(&t);
}

TEST(long_texts_take_no_longer_than_they_must) {
    enum { LENGTH = 300000 };
    lm_tokenizer t;
    make_pieces(&t);
    char *text = malloc(LENGTH + 1);
    REQUIRE(text != NULL);
    memset(text, 'a', LENGTH);
    text[LENGTH] = '\0';
    check_round_trip(&t, text);
    free(text);
    lm_tokenizer_free(&t);
}

static void check_refused(const char *text, size_t length, float score, int type,
                          const char *complaint) {
    lm_tokenizer t;
    lab_error error = {0};
    REQUIRE(lm_tokenizer_start(&t, LM_PIECES, 1, 0, "some.file", &error));
    CHECK(!lm_tokenizer_set(&t, 0, text, length, score, (lm_piece_type)type, &error));
    CHECK_INT(error.kind, LAB_INPUT);
    CHECK_MSG(strstr(error.text, "some.file") && strstr(error.text, complaint), "%s", error.text);
    lm_tokenizer_free(&t);
}

TEST(what_no_tokenizer_can_be_made_of_is_refused) {
    lm_tokenizer t;
    lab_error error = {0};
    check_refused("\xFF", 1, 0, LM_PIECE_NORMAL, "UTF-8");
    check_refused("a\0b", 3, 0, LM_PIECE_NORMAL, "UTF-8");
    check_refused("a", 1, (float)NAN, LM_PIECE_NORMAL, "score");
    check_refused("a", 1, -INFINITY, LM_PIECE_NORMAL, "score");
    check_refused("a", 1, INFINITY, LM_PIECE_NORMAL, "score");
    check_refused("a", 1, 0, 77, "type");
    CHECK(!lm_tokenizer_start(&t, LM_PIECES, 0, 0, "some.file", &error));
    lm_tokenizer_free(&t);
    error = (lab_error){0};
    CHECK(!lm_tokenizer_start(&t, LM_PIECES, (size_t)-1, 0, "some.file", &error));
    lm_tokenizer_free(&t);
    error = (lab_error){0};
    REQUIRE(lm_tokenizer_start(&t, LM_PIECES, 2, 0, "some.file", &error));
    CHECK(!lm_tokenizer_seal(&t, &error));
    CHECK(strstr(error.text, "token 0") != NULL);
    lm_tokenizer_free(&t);
}

TEST(merges_of_unknown_tokens_are_refused) {
    static const char *const bad[] = {"x y", "ab", " ", "a", "", "a ", "a b c"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lm_tokenizer t;
        lab_error error = {0};
        REQUIRE(lm_tokenizer_start(&t, LM_BYTE_PAIRS, 1, 1, "some.file", &error));
        REQUIRE(lm_tokenizer_set(&t, 0, "a", 1, 0, LM_PIECE_NORMAL, &error));
        REQUIRE(lm_tokenizer_seal(&t, &error));
        CHECK_MSG(!lm_tokenizer_merge(&t, 0, bad[i], strlen(bad[i]), &error), "%s", bad[i]);
        CHECK_INT(error.kind, LAB_INPUT);
        lm_tokenizer_free(&t);
    }
}

TEST(json_of_something_else_is_refused) {
    static const char *const bad[] = {
        "null",
        "{}",
        "[]",
        "{\"kind\": \"other\", \"texts\": [\"a\"], \"scores\": [0], \"types\": [1], \"merges\": "
        "[], "
        "\"begin\": 0, \"end\": 0, \"unknown\": 0, \"adds_begin\": true, \"adds_blank\": true}",
        "{\"kind\": \"pieces\", \"texts\": [\"a\"], \"scores\": [], \"types\": [1], \"merges\": "
        "[], "
        "\"begin\": 0, \"end\": 0, \"unknown\": 0, \"adds_begin\": true, \"adds_blank\": true}",
        "{\"kind\": \"pieces\", \"texts\": [\"a\"], \"scores\": [0], \"types\": [1], \"merges\": "
        "[], "
        "\"begin\": 7, \"end\": 0, \"unknown\": 0, \"adds_begin\": true, \"adds_blank\": true}",
        "{\"kind\": \"pieces\", \"texts\": [7], \"scores\": [0], \"types\": [1], \"merges\": [], "
        "\"begin\": 0, \"end\": 0, \"unknown\": 0, \"adds_begin\": true, \"adds_blank\": true}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lm_tokenizer t;
        lab_error error = {0};
        json_t *json = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        REQUIRE(json != NULL);
        CHECK_MSG(!lm_tokenizer_from_json(&t, json, "some.file", &error), "%s", bad[i]);
        CHECK_INT(error.kind, LAB_INPUT);
        lm_tokenizer_free(&t);
        json_decref(json);
    }
}
