/* Tasks: examples say what they should, have the length asked for, and follow from their seed. */
#define _POSIX_C_SOURCE 200809L

#include "support/check.h"
#include "support/models.h"

#include "base/random.h"
#include "lm/open.h"
#include "tune/nouns.h"
#include "tune/task.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- tokenizers and a text ---- */

#define BLANK "\xE2\x96\x81"

static void set(lm_tokenizer *t, size_t index, const char *text, float score, lm_piece_type type) {
    lab_error error = {0};
    REQUIRE(lm_tokenizer_set(t, index, text, strlen(text), score, type, &error));
}

/* SentencePiece's, with a begin token and a blank before the first word; some pieces are longer
 * than a character. */
static void make_pieces(lm_tokenizer *t) {
    static const char *const longer[] = {"th", "the", BLANK "the", "er", "in", "48", BLANK "1"};
    enum { FIRST = 4, ASCII = 0x7F - 0x21, LONGER = sizeof longer / sizeof *longer };
    lab_error error = {0};
    REQUIRE(lm_tokenizer_start(t, LM_PIECES, FIRST + ASCII + LONGER, 0, "test", &error));
    set(t, 0, "<s>", 0, LM_PIECE_CONTROL);
    set(t, 1, "</s>", 0, LM_PIECE_CONTROL);
    set(t, 2, "<0x0A>", 0, LM_PIECE_BYTE);
    set(t, 3, BLANK, -9, LM_PIECE_NORMAL);
    for (size_t i = 0; i < ASCII; i++)
        set(t, FIRST + i, (char[]){(char)(0x21 + i), '\0'}, -9, LM_PIECE_NORMAL);
    for (size_t i = 0; i < LONGER; i++)
        set(t, FIRST + ASCII + i, longer[i], -1, LM_PIECE_NORMAL);
    REQUIRE(lm_tokenizer_seal(t, &error));
    t->begin = 0;
    t->end = 1;
    t->adds_begin = t->adds_blank = true;
}

/* GPT-2's, without a begin token. */
static void make_byte_pairs(lm_tokenizer *t) {
    static const char *const merges[] = {"t h", "th e", "\xC4\xA0 the", "4 8", "\xC4\xA0 1"};
    static const char *const merged[] = {"th", "the", "\xC4\xA0the", "48", "\304\2401"};
    enum { MERGES = sizeof merges / sizeof *merges };
    lab_error error = {0};
    REQUIRE(lm_tokenizer_start(t, LM_BYTE_PAIRS, 256 + MERGES, MERGES, "test", &error));
    for (size_t i = 0; i < 256; i++) {
        char text[5] = "";
        text[lm_byte_character((unsigned char)i, text)] = '\0';
        set(t, i, text, 0, LM_PIECE_NORMAL);
    }
    for (size_t i = 0; i < MERGES; i++)
        set(t, 256 + i, merged[i], 0, LM_PIECE_NORMAL);
    REQUIRE(lm_tokenizer_seal(t, &error));
    for (size_t i = 0; i < MERGES; i++)
        REQUIRE(lm_tokenizer_merge(t, i, merges[i], strlen(merges[i]), &error));
    t->adds_begin = false;
}

static void make_clrs(lm_tokenizer *t) {
    lab_error error = {0};
    REQUIRE(lm_tokenizer_clrs(t, &error));
}

/* Random words of three to eight letters. */
static lm_token_list make_text(const lm_tokenizer *t, size_t words) {
    lm_text text = {NULL, 0, 0};
    lm_token_list tokens = {NULL, 0, 0};
    lab_error error = {0};
    lab_random random = lab_random_start(5);
    for (size_t i = 0; i < words; i++) {
        char word[16];
        size_t length = 3 + lab_random_below(&random, 6);
        for (size_t j = 0; j < length; j++)
            word[j] = (char)('a' + lab_random_below(&random, 26));
        word[length] = ' ';
        REQUIRE(lm_text_add(&text, word, length + 1));
    }
    REQUIRE(lm_tokenize(t, text.bytes, text.length, &tokens, &error));
    free(text.bytes);
    return tokens;
}

typedef void (*maker)(lm_tokenizer *t);
static const maker makers[] = {make_pieces, make_byte_pairs, make_clrs};
enum { MAKERS = sizeof makers / sizeof *makers };
static const char *const made[] = {"copy", "keys", "needle"};
enum { MADE = sizeof made / sizeof *made };

static tune_examples draw_with(const char *name, const lm_tokenizer *t, const lm_token_list *text,
                               size_t length, uint64_t seed, size_t count) {
    tune_task task;
    tune_examples examples;
    lab_error error = {0};
    REQUIRE(tune_task_open(name, &task, &error));
    CHECK_MSG(tune_task_draw(&task, t, NULL, text->items, text->count, length, seed, count,
                             &examples, &error),
              "%s", error.text);
    tune_task_close(&task);
    return examples;
}

static bool same_example(const tune_example *a, const tune_example *b) {
    return a->length == b->length && a->answer == b->answer &&
           same_bytes(a->tokens, b->tokens, a->length * sizeof *a->tokens);
}

/* The text of tokens `from` to `to`, to be freed. */
static char *text_of(const lm_tokenizer *t, const tune_example *e, size_t from, size_t to) {
    lm_text text = {NULL, 0, 0};
    REQUIRE(lm_text_add(&text, "", 0));
    for (size_t i = from; i < to; i++)
        REQUIRE(lm_tokenizer_text(t, e->tokens[i], false, &text));
    return text.bytes;
}

/* ---- what examples say ---- */

static void check_copy(const lm_tokenizer *t, const tune_example *e) {
    size_t first = t->adds_begin ? 1 : 0, second = e->length - TUNE_PASSAGE, found = 0;
    CHECK(same_bytes(e->tokens + first, e->tokens + second, TUNE_PASSAGE * sizeof *e->tokens));
    CHECK_INT(e->answer, second + TUNE_LEAD);
    for (size_t i = 0; i + TUNE_LEAD <= e->answer; i++)
        found += same_bytes(e->tokens + i, e->tokens + second, TUNE_LEAD * sizeof *e->tokens);
    CHECK_INT(found, 2);
}

/* The prompt ends in a question, "BEFORE noun AFTER", that it states exactly once before, followed
 * by the answer and `end`. */
static void check_recall(const lm_tokenizer *t, const tune_example *e, const char *before,
                         const char *after, const char *end) {
    char *prompt = text_of(t, e, 0, e->answer), *answer = text_of(t, e, e->answer, e->length);
    const char *question = strstr(prompt, before);
    REQUIRE(question != NULL);
    for (const char *next; (next = strstr(question + 1, before)) != NULL;)
        question = next;
    CHECK_STR(prompt + strlen(prompt) - strlen(after), after);
    const char *stated = strstr(prompt, question);
    CHECK_MSG(stated != question, "'%s' is not in the prompt", question);
    stated += strlen(question);
    CHECK_MSG(answer[0] == ' ' && strlen(answer) == 5 && strspn(answer + 1, "0123456789") == 4,
              "'%s'", answer);
    CHECK_MSG(strncmp(stated, answer, 5) == 0 && strncmp(stated + 5, end, strlen(end)) == 0,
              "'%.8s' for '%s'", stated, answer);
    CHECK(strstr(stated, question) == question);
    free(prompt);
    free(answer);
}

/* The tokens of the answer are in the prompt, not just its text. */
static void check_answer_tokens(const tune_example *e) {
    size_t count = e->length - e->answer, found = 0;
    for (size_t i = 0; i + count <= e->answer; i++)
        found += same_bytes(e->tokens + i, e->tokens + e->answer, count * sizeof *e->tokens);
    CHECK_INT(found, 1);
}

static void check_example(const char *name, const lm_tokenizer *t, const tune_example *e,
                          size_t length) {
    CHECK_INT(e->length, length);
    CHECK(e->answer > 0 && e->answer < e->length);
    for (size_t i = 0; i < e->length; i++)
        CHECK(e->tokens[i] < t->count);
    if (t->adds_begin)
        CHECK_INT(e->tokens[0], t->begin);
    check_answer_tokens(e);
    if (strcmp(name, "copy") == 0)
        check_copy(t, e);
    else if (strcmp(name, "keys") == 0)
        check_recall(t, e, "\n", ":", "\n");
    else
        check_recall(t, e, "\nThe secret number of the ", " is", ".\n");
}

static void check_all(const lm_tokenizer *t, const lm_token_list *text, size_t length,
                      size_t count) {
    for (size_t i = 0; i < MADE; i++) {
        tune_examples examples = draw_with(made[i], t, text, length, 11, count);
        CHECK_INT(examples.count, count);
        CHECK_INT(examples.skipped, 0);
        for (size_t j = 0; j < examples.count; j++)
            check_example(made[i], t, &examples.list[j], length);
        tune_examples_free(&examples);
    }
}

TEST(the_answer_follows_from_the_prompt_and_the_length_is_met) {
    static const size_t lengths[] = {150, 151, 257, 1500};
    for (size_t m = 0; m < MAKERS; m++) {
        lm_tokenizer t;
        makers[m](&t);
        lm_token_list text = make_text(&t, 1000);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            check_all(&t, &text, lengths[i], 20);
        free(text.items);
        lm_tokenizer_free(&t);
    }
}

TEST(models_own_tokenizers_make_examples) {
    static const char *const models[] = {"stories260K-q8_0.gguf", "minimind2-small-q8_0.gguf"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[MODEL_PATH_SIZE];
        lm_opened opened;
        lab_error error = {0};
        if (!lm_open(model_path(models[i], path), NULL, &opened, &error)) {
            lm_opened_free(&opened);
            SKIP("%s", error.text);
        }
        lm_token_list text = make_text(&opened.tokenizer, 1000);
        check_all(&opened.tokenizer, &text, 200, 20);
        free(text.items);
        lm_opened_free(&opened);
    }
}

TEST(a_seed_gives_the_same_examples_whatever_else_is_drawn) {
    lm_tokenizer t;
    make_pieces(&t);
    lm_token_list text = make_text(&t, 1000);
    for (size_t i = 0; i < MADE; i++) {
        tune_examples one = draw_with(made[i], &t, &text, 300, 7, 8);
        tune_examples again = draw_with(made[i], &t, &text, 300, 7, 3);
        tune_examples other = draw_with(made[i], &t, &text, 300, 8, 8);
        for (size_t j = 0; j < again.count; j++)
            CHECK(same_example(&one.list[j], &again.list[j]));
        for (size_t j = 0; j < one.count; j++) {
            CHECK(!same_example(&one.list[j], &other.list[j]));
            for (size_t k = 0; k < j; k++)
                CHECK(!same_example(&one.list[j], &one.list[k]));
        }
        tune_examples_free(&one);
        tune_examples_free(&again);
        tune_examples_free(&other);
    }
    free(text.items);
    lm_tokenizer_free(&t);
}

TEST(statements_are_spread_over_the_prompt) {
    enum { EXAMPLES = 100, LENGTH = 600 };
    lm_tokenizer t;
    make_byte_pairs(&t);
    lm_token_list text = make_text(&t, 1000);
    tune_examples examples = draw_with("needle", &t, &text, LENGTH, 1, EXAMPLES);
    size_t early = 0;
    for (size_t i = 0; i < examples.count; i++) {
        char *prompt = text_of(&t, &examples.list[i], 0, LENGTH);
        early += strstr(prompt, "\nThe secret") - prompt < LENGTH / 2;
        free(prompt);
    }
    CHECK_MSG(early > 30 && early < 75, "%zu of %d", early, EXAMPLES);
    tune_examples_free(&examples);
    free(text.items);
    lm_tokenizer_free(&t);
}

TEST(longer_sequences_have_more_keys) {
    static const size_t lengths[] = {256, 640, 5000};
    static const size_t keys[] = {8, 20, 32};
    lm_tokenizer t;
    make_byte_pairs(&t);
    lm_token_list text = make_text(&t, 2000);
    for (size_t i = 0; i < 3; i++) {
        tune_examples examples = draw_with("keys", &t, &text, lengths[i], 1, 3);
        for (size_t j = 0; j < examples.count; j++) {
            size_t colons = 0;
            for (size_t k = 0; k < examples.list[j].length; k++)
                colons += examples.list[j].tokens[k] == ':';
            CHECK_INT(colons, keys[i] + 1);
        }
        tune_examples_free(&examples);
    }
    free(text.items);
    lm_tokenizer_free(&t);
}

TEST(nouns_are_plain_and_each_is_there_once) {
    CHECK(TUNE_NOUNS >= 150);
    for (size_t i = 0; i < TUNE_NOUNS; i++) {
        CHECK(strlen(tune_nouns[i]) >= 3 && strlen(tune_nouns[i]) <= 8);
        for (const char *c = tune_nouns[i]; *c; c++)
            CHECK(islower((unsigned char)*c));
        if (i > 0)
            CHECK_MSG(strcmp(tune_nouns[i - 1], tune_nouns[i]) < 0, "%s", tune_nouns[i]);
    }
}

/* ---- sizes ---- */

/* Draws, which must fail; leaves the reason in *error. */
static void check_draw_fails(const char *name, const lm_tokenizer *t, const lm_token *text,
                             size_t text_count, size_t length, const char *complaint,
                             lab_error *error) {
    tune_task task;
    tune_examples examples;
    *error = (lab_error){0};
    REQUIRE(tune_task_open(name, &task, error));
    CHECK(!tune_task_draw(&task, t, NULL, text, text_count, length, 1, 2, &examples, error));
    CHECK_INT(error->kind, LAB_INPUT);
    CHECK_MSG(strstr(error->text, name) && strstr(error->text, complaint), "%s", error->text);
    CHECK(examples.list == NULL && examples.count == 0);
    tune_examples_free(&examples);
    tune_task_close(&task);
}

/* The last number of a message. */
static size_t last_number(const char *text) {
    const char *last = text;
    for (const char *c = text; *c; c++)
        if (isdigit((unsigned char)*c) && (c == text || !isdigit((unsigned char)c[-1])))
            last = c;
    return strtoull(last, NULL, 10);
}

TEST(the_length_that_a_refusal_names_suffices_and_one_less_does_not) {
    for (size_t m = 0; m < MAKERS; m++) {
        lm_tokenizer t;
        makers[m](&t);
        lm_token_list text = make_text(&t, 1000);
        for (size_t i = 0; i < MADE; i++) {
            lab_error error;
            check_draw_fails(made[i], &t, text.items, text.count, 0, "too short", &error);
            size_t least = last_number(error.text);
            CHECK(least > TUNE_LEAST_FILLER && least < 150);
            check_draw_fails(made[i], &t, text.items, text.count, least - 1, "too short", &error);
            tune_examples examples = draw_with(made[i], &t, &text, least, 3, 300);
            CHECK_INT(examples.count, 300);
            for (size_t j = 0; j < examples.count; j++)
                CHECK_INT(examples.list[j].length, least);
            tune_examples_free(&examples);
        }
        free(text.items);
        lm_tokenizer_free(&t);
    }
}

TEST(a_text_of_the_sequences_length_suffices) {
    lm_tokenizer t;
    make_pieces(&t);
    lm_token_list text = make_text(&t, 1000);
    REQUIRE(text.count > 400);
    for (size_t i = 0; i < MADE; i++) {
        lab_error error;
        check_draw_fails(made[i], &t, text.items, 399, 400, "the text has 399 tokens", &error);
        check_draw_fails(made[i], &t, NULL, 0, 400, "the text has 0 tokens", &error);
        check_draw_fails(made[i], &t, text.items, 400, SIZE_MAX, "the text has 400", &error);
        lm_token_list shorter = {text.items, 400, 400};
        tune_examples examples = draw_with(made[i], &t, &shorter, 400, 3, 20);
        for (size_t j = 0; j < examples.count; j++)
            check_example(made[i], &t, &examples.list[j], 400);
        tune_examples_free(&examples);
    }
    free(text.items);
    lm_tokenizer_free(&t);
}

TEST(no_examples_are_drawn_if_none_are_wanted) {
    lm_tokenizer t;
    make_pieces(&t);
    lm_token_list text = make_text(&t, 1000);
    for (size_t i = 0; i < MADE; i++) {
        tune_examples examples = draw_with(made[i], &t, &text, 400, 3, 0);
        CHECK_INT(examples.count, 0);
        tune_examples_free(&examples);
    }
    free(text.items);
    lm_tokenizer_free(&t);
}

TEST(a_text_that_only_repeats_itself_cannot_be_copied_from) {
    lm_tokenizer t;
    lab_error error;
    lm_token text[500];
    make_clrs(&t);
    for (size_t i = 0; i < 500; i++)
        text[i] = 'a' + (lm_token)(i % 3);
    check_draw_fails("copy", &t, text, 500, 200, "repeats itself", &error);
    lm_tokenizer_free(&t);
}

/* ---- files ---- */

static char path[64];

__attribute__((destructor)) static void remove_file(void) {
    if (path[0])
        unlink(path);
}

static const char *write_bytes(const void *bytes, size_t size) {
    snprintf(path, sizeof path, "/tmp/whet-tune-task-%ld.jsonl", (long)getpid());
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    REQUIRE(fwrite(bytes, 1, size, file) == size);
    REQUIRE(fclose(file) == 0);
    return path;
}

static const char *write_text(const char *text) { return write_bytes(text, strlen(text)); }

static void check_bytes_refused(const void *bytes, size_t size, const char *complaint) {
    tune_task task;
    lab_error error = {0};
    write_bytes(bytes, size);
    CHECK_MSG(!tune_task_open(path, &task, &error), "%s", complaint);
    CHECK_INT(error.kind, LAB_INPUT);
    CHECK_MSG(strncmp(error.text, path, strlen(path)) == 0 &&
                  strncmp(error.text + strlen(path), complaint, strlen(complaint)) == 0,
              "'%s', not '%s'", error.text, complaint);
    tune_task_close(&task);
}

static void check_refused(const char *text, const char *complaint) {
    check_bytes_refused(text, strlen(text), complaint);
}

#define GOOD "{\"prompt\": \"a\", \"answer\": \"b\"}\n"

TEST(files_that_are_not_lines_of_examples_are_refused_with_the_line) {
    check_refused("", ": no examples");
    check_refused("\n\n\r\n", ": no examples");
    check_refused("hello\n", ":1: not JSON");
    check_refused(GOOD "\n{\"prompt\": \"a\",\n", ":3: not JSON");
    check_refused(GOOD "[\"prompt\", \"answer\"]", ":2: not a JSON object");
    check_refused(GOOD "\"prompt\"", ":2: not JSON");
    check_refused(GOOD GOOD "{\"prompt\": \"a\"}\n", ":3: no \"answer\"");
    check_refused("{\"answer\": \"a\"}\n", ":1: no \"prompt\"");
    check_refused("{\"prompt\": \"a\", \"answer\": \"\"}\n", ":1: no \"answer\"");
    check_refused("{\"prompt\": \"\", \"answer\": \"a\"}\n", ":1: no \"prompt\"");
    check_refused("{\"prompt\": \"a\", \"answer\": 7}\n", ":1: no \"answer\"");
    check_refused("{\"prompt\": [\"a\"], \"answer\": \"a\"}\n", ":1: no \"prompt\"");
    check_refused("{\"prompt\": \"a\", \"prompt\": \"b\", \"answer\": \"a\"}\n", ":1: not JSON");
    check_refused(GOOD "{\"prompt\": \"a\\u0000b\", \"answer\": \"a\"}\n", ":2: not JSON");
    check_refused(GOOD "{\"prompt\": \"\xFF\", \"answer\": \"a\"}\n", ":2: not JSON");
    check_refused("{\"prompt\": \"a\", \"answer\": \"b\"} " GOOD, ":1: not JSON");
    check_bytes_refused(GOOD "{\"prompt\0\": 1}\n", sizeof GOOD "{\"prompt\0\": 1}\n" - 1,
                        ":2: not a text file (NUL byte)");
    check_bytes_refused("\0", 1, ":1: not a text file (NUL byte)");
}

TEST(the_same_example_twice_is_refused) {
#define EXAMPLE(prompt, answer) "{\"prompt\": \"" prompt "\", \"answer\": \"" answer "\"}\n"
    check_refused(GOOD GOOD, ":2: the same prompt and answer as in line 1; leave one out");
    check_refused(EXAMPLE("b", "c") EXAMPLE("a", "b") "\n" EXAMPLE("z", "y") EXAMPLE("z", "y")
                      EXAMPLE("b", "c"),
                  ":5: the same prompt and answer as in line 4; leave one out");
    // Spelled in another way, it is the same.
    check_refused(GOOD "{\"answer\": \"\\u0062\", \"note\": 1, \"prompt\": \"a\"}\n",
                  ":2: the same prompt and answer as in line 1; leave one out");
    tune_task task;
    lab_error error = {0};
    CHECK_MSG(tune_task_open(write_text(EXAMPLE("a", "b") EXAMPLE("a", "bc") EXAMPLE("ab", "c")
                                            EXAMPLE("b", "a")),
                             &task, &error),
              "%s", error.text);
    CHECK_INT(task.line_count, 4);
    tune_task_close(&task);
}

TEST(deep_and_huge_lines_are_refused) {
    enum { DEPTH = 100000, LONG = TUNE_FILE_LINE_MAX + 1 };
    char *bytes = malloc(LONG);
    REQUIRE(bytes != NULL);
    memset(bytes, '[', DEPTH);
    check_bytes_refused(bytes, DEPTH, ":1: not JSON");
    memset(bytes, 'a', LONG);
    bytes[0] = '\n';
    check_bytes_refused(bytes, LONG, ":2: not JSON");
    bytes[0] = '"';
    check_bytes_refused(bytes, LONG, ":1: line too long");
    free(bytes);
}

TEST(endless_and_oversized_files_are_refused) {
    tune_task task;
    lab_error error = {0};
    write_text(GOOD);
    REQUIRE(truncate(path, (off_t)TUNE_FILE_MAX + 1) == 0);
    CHECK(!tune_task_open(path, &task, &error));
    CHECK_MSG(strstr(error.text, "too large") != NULL, "%s", error.text);
    tune_task_close(&task);
    error = (lab_error){0};
    CHECK(!tune_task_open("/dev/zero", &task, &error));
    CHECK_MSG(strstr(error.text, "too large") != NULL, "%s", error.text);
    tune_task_close(&task);
}

TEST(names_that_are_neither_tasks_nor_files_are_refused) {
    static const char *const bad[] = {"", "cop", "Copy", "copy ", "/nonexistent/file"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tune_task task;
        lab_error error = {0};
        CHECK(!tune_task_open(bad[i], &task, &error));
        CHECK_INT(error.kind, LAB_INPUT);
        CHECK_MSG(strncmp(error.text, "--task: '", 9) == 0, "%s", error.text);
        tune_task_close(&task);
    }
    tune_task task;
    lab_error error = {0};
    CHECK(!tune_task_open("/tmp", &task, &error));
    CHECK_INT(error.kind, LAB_INPUT);
    tune_task_close(&task);
}

/* Prompts "0", "1" ... of growing length. */
static const char *write_lines(size_t count) {
    lm_text text = {NULL, 0, 0};
    for (size_t i = 0; i < count; i++) {
        char line[200];
        int length = snprintf(line, sizeof line,
                              "{\"id\": %zu, \"prompt\": \"%zu%.*s\", \"answer\": \" b%zu\"}\n", i,
                              i, (int)i, "........................................", i);
        REQUIRE(lm_text_add(&text, line, (size_t)length));
    }
    write_bytes(text.bytes, text.length);
    free(text.bytes);
    return path;
}

TEST(lines_are_drawn_once_each_in_an_order_given_by_the_seed) {
    enum { LINES = 40 };
    lm_tokenizer t;
    lm_token_list text = {NULL, 0, 0};
    make_pieces(&t);
    write_lines(LINES);
    tune_examples all = draw_with(path, &t, &text, 1000, 1, 1000);
    tune_examples few = draw_with(path, &t, &text, 1000, 1, 5);
    tune_examples other = draw_with(path, &t, &text, 1000, 2, LINES);
    REQUIRE(all.count == LINES && few.count == 5 && other.count == LINES);
    size_t moved = 0;
    for (size_t i = 0; i < LINES; i++) {
        for (size_t j = 0; j < i; j++)
            CHECK(!same_example(&all.list[i], &all.list[j]));
        moved += !same_example(&all.list[i], &other.list[i]);
    }
    for (size_t i = 0; i < few.count; i++)
        CHECK(same_example(&few.list[i], &all.list[i]));
    CHECK(moved > LINES / 2);
    tune_examples_free(&all);
    tune_examples_free(&few);
    tune_examples_free(&other);
    lm_tokenizer_free(&t);
}

TEST(lines_that_are_too_long_are_skipped_and_counted) {
    lm_tokenizer t;
    lm_token_list text = {NULL, 0, 0};
    lab_error error;
    make_clrs(&t);
    t.adds_begin = false;
    write_lines(10); /* the number, i dots, " b" and the number: 4 + i tokens */
    tune_examples examples = draw_with(path, &t, &text, 8, 1, 1000);
    CHECK_INT(examples.count, 5);
    CHECK_INT(examples.skipped, 5);
    for (size_t i = 0; i < examples.count; i++) {
        CHECK(examples.list[i].length <= 8);
        CHECK_INT(examples.list[i].length - examples.list[i].answer, 3);
    }
    tune_examples_free(&examples);
    check_draw_fails(path, &t, NULL, 0, 3, "none of its 10 examples", &error);
    check_draw_fails(path, &t, NULL, 0, 0, "none of its 10 examples", &error);
    lm_tokenizer_free(&t);
}

TEST(the_answer_of_a_line_begins_at_a_token_of_its_own) {
    lm_tokenizer t;
    lm_token_list text = {NULL, 0, 0};
    make_pieces(&t);
    /* "the" and "48" would be one token each */
    write_text("{\"prompt\": \"th\", \"answer\": \"e 4\"}\r\n\n");
    tune_examples examples = draw_with(path, &t, &text, 100, 1, 9);
    REQUIRE(examples.count == 1);
    const tune_example *e = &examples.list[0];
    CHECK_INT(e->tokens[0], t.begin);
    char *prompt = text_of(&t, e, 1, e->answer), *answer = text_of(&t, e, e->answer, e->length);
    CHECK_STR(prompt, " th"); /* with SentencePiece's blank, which the answer does not get */
    CHECK_STR(answer, "e 4");
    free(prompt);
    free(answer);
    tune_examples_free(&examples);
    lm_tokenizer_free(&t);
}

TEST(a_line_that_the_model_has_no_tokens_for_is_named) {
    lm_tokenizer t;
    lab_error error;
    char complaint[100];
    make_pieces(&t);
    write_text(GOOD "{\"prompt\": \"a\", \"answer\": \"\xC3\xA9\"}\n");
    snprintf(complaint, sizeof complaint, "%s:2: the text has a byte, 0xC3", path);
    check_draw_fails(path, &t, NULL, 0, 100, complaint, &error);
    lm_tokenizer_free(&t);
}
