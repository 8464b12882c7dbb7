/*
 * A tokenizer of any of the three kinds of files that hold one (llama2.c's, a
 * checkpoint's JSON, GGUF), and a text for it. The input is: which kind, the
 * number of tokens, two bytes with the length of the description, the
 * description, and the text in what is left.
 *
 * A refusal says why. What is taken comes back from JSON as itself; every text
 * either is refused because a token is missing or becomes tokens that exist, the same
 * each time, and where nothing of it was unknown or special they say the text.
 */
#define _GNU_SOURCE

#include "file.h"

#include "base/json.h"
#include "lm/gguf_tokenizer.h"
#include "lm/llama2c.h"
#include "lm/tokenizer.h"

static const char blank[] = "\xE2\x96\x81"; /* how pieces write a blank */

static bool make_from_json(lm_tokenizer *t, const char *bytes, size_t size, lab_error *error) {
    json_error_t reason;
    json_t *json = lab_json_parse(bytes, size, JSON_REJECT_DUPLICATES, &reason);
    bool is_made = json ? lm_tokenizer_from_json(t, json, "input", error)
                        : lab_fail(error, LAB_INPUT, "not JSON");
    json_decref(json);
    return is_made;
}

static bool make_from_gguf(lm_tokenizer *t, const void *bytes, size_t size, size_t count,
                           lab_error *error) {
    gguf_file *file = gguf_open_memory(bytes, size, "input", error);
    bool is_made = file && lm_gguf_get_tokenizer(file, "input", count, t, error);
    gguf_close(file);
    return is_made;
}

static bool make(lm_tokenizer *t, unsigned kind, const void *bytes, size_t size, size_t count,
                 lab_error *error) {
    *t = (lm_tokenizer){.count = 0};
    switch (kind % 3) {
    case 0:
        return lm_llama2c_tokenizer(fuzz_file(bytes, size), count, t, error);
    case 1:
        return make_from_json(t, bytes, size, error);
    default:
        return make_from_gguf(t, bytes, size, count, error);
    }
}

static void check_way_over_json(const lm_tokenizer *t) {
    lm_tokenizer again;
    lab_error error = {0};
    json_t *json = lm_tokenizer_json(t);
    FUZZ_CHECK(json != NULL);
    FUZZ_CHECK(lm_tokenizer_from_json(&again, json, "JSON", &error));
    FUZZ_CHECK(lm_tokenizer_same(t, &again));
    FUZZ_CHECK(again.unknown == t->unknown && again.adds_begin == t->adds_begin &&
               again.adds_blank == t->adds_blank);
    lm_tokenizer_free(&again);
    json_decref(json);
}

/* Whether tokens say again what they were made of: not where one is special or unknown, nor where
 * pieces confuse the sign for a blank with a blank. */
static bool says_itself(const lm_tokenizer *t, const char *text, size_t length,
                        const lm_token_list *tokens) {
    for (size_t i = 0; i < tokens->count; i++) {
        lm_piece_type type = t->pieces[tokens->items[i]].type;
        if (type == LM_PIECE_CONTROL || type == LM_PIECE_USER || tokens->items[i] == t->unknown)
            return false;
    }
    return t->kind == LM_BYTE_PAIRS ||
           (lm_tokenizer_find(t, blank, sizeof blank - 1) != LM_NO_TOKEN &&
            (length == 0 || memchr(text, (unsigned char)blank[0], length) == NULL));
}

static void check_text(const lm_tokenizer *t, const char *text, size_t length,
                       const lm_token_list *tokens) {
    lm_text said = {NULL, 0, 0};
    for (size_t i = 0; i < tokens->count; i++)
        FUZZ_CHECK(lm_tokenizer_text(t, tokens->items[i], i == 0, &said));
    if (says_itself(t, text, length, tokens))
        FUZZ_CHECK(said.length == length && fuzz_same(said.bytes, text, length));
    free(said.bytes);
}

static void check_tokens(const lm_tokenizer *t, const char *text, size_t length) {
    lm_token_list tokens = {NULL, 0, 0}, again = {NULL, 0, 0};
    lab_error error = {0}, same = {0};
    bool is_said = lm_tokenize(t, text, length, &tokens, &error);
    FUZZ_CHECK(lm_tokenize(t, text, length, &again, &same) == is_said);
    if (is_said) {
        FUZZ_CHECK(tokens.count <= 3 * (length + 1)); /* a blank may take three bytes */
        FUZZ_CHECK(tokens.count == again.count &&
                   fuzz_same(tokens.items, again.items, tokens.count * sizeof *tokens.items));
        for (size_t i = 0; i < tokens.count; i++)
            FUZZ_CHECK(tokens.items[i] < t->count);
        check_text(t, text, length, &tokens);
    } else {
        FUZZ_CHECK(error.kind == LAB_INPUT);
        fuzz_check_words(error.text);
    }
    free(tokens.items);
    free(again.items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = {data, size};
    unsigned kind = fuzz_below(&input, 256);
    size_t count = fuzz_bytes(&input, 2), description = fuzz_bytes(&input, 2);
    description = description < input.left ? description : input.left;
    void *bytes = fuzz_copy(input.at, description);
    size_t length = input.left - description;
    char *text = fuzz_copy(input.at + description, length);
    lm_tokenizer t;
    lab_error error = {0};
    if (make(&t, kind, bytes, description, count, &error)) {
        FUZZ_CHECK(error.kind == LAB_NO_ERROR);
        check_way_over_json(&t);
        check_tokens(&t, text, length);
    } else {
        FUZZ_CHECK(error.kind == LAB_INPUT);
        fuzz_check_words(error.text);
    }
    lm_tokenizer_free(&t);
    free(text);
    free(bytes);
    return 0;
}
