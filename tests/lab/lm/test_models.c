/*
 * Real models, found through WHET_MODELS: what they say is known, from llama2.c's
 * own tests where it has them.
 */
#include "support/check.h"
#include "support/models.h"

#include "lm/generate.h"
#include "lm/open.h"

#include <stdio.h>
#include <stdlib.h>

static nn_engine engine;

static void open_model(const char *name, lm_opened *opened) {
    char path[MODEL_PATH_SIZE];
    lab_error error = {0};
    model_path(name, path);
    if (!engine.kernels && !nn_engine_open(&engine, &error))
        SKIP("%s", error.text);
    bool good = lm_open(path, NULL, opened, &error);
    CHECK_MSG(good, "%s", error.text);
    REQUIRE(good);
}

typedef struct said {
    lm_text text;
    lm_token_list tokens;
    lm_generated result;
} said;

static bool collect(void *context, lm_token token, const char *text, size_t length) {
    said *s = context;
    return lm_token_list_add(&s->tokens, token) && lm_text_add(&s->text, text, length);
}

static said generate(const lm_opened *opened, const char *prompt, size_t steps, whet_type cache) {
    said s = {.text = {NULL, 0, 0}};
    lab_error error = {0};
    const lm_generate_request request = {.opened = opened,
                                         .engine = &engine,
                                         .cache_type = cache,
                                         .prompt = prompt,
                                         .prompt_length = strlen(prompt),
                                         .steps = steps,
                                         .take = collect,
                                         .context = &s};
    bool good = lm_generate(&request, &s.result, &error);
    CHECK_MSG(good, "%s", error.text);
    REQUIRE(good && s.text.bytes);
    return s;
}

static void forget(said *s) {
    free(s->text.bytes);
    free(s->tokens.items);
}

/* llama2.c's test of stories260K at temperature 0. */
static const char story[] =
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. "
    "One day, she saw a big, red ball. She wanted to play with it, but it was too high.\n"
    "Lily's mom said, \"Lily, let's go to the park.\" Lily was sad and didn't know w";

TEST(stories260K_of_llama2c_tells_the_known_story) {
    lm_opened o;
    open_model("stories260K.bin", &o);
    said s = generate(&o, "", 200, WHET_F32);
    CHECK(s.text.length > strlen(story));
    s.text.bytes[strlen(story)] = '\0';
    CHECK_STR(s.text.bytes, story);
    forget(&s);
    lm_opened_free(&o);
}

TEST(the_gguf_of_the_same_model_gives_the_same_tokens) {
    lm_opened a, b;
    open_model("stories260K.bin", &a);
    open_model("stories260K-f32.gguf", &b);
    said one = generate(&a, "", 400, WHET_F32), two = generate(&b, "", 400, WHET_F32);
    CHECK_INT(one.tokens.count, two.tokens.count);
    CHECK(one.tokens.count == two.tokens.count &&
          same_bytes(one.tokens.items, two.tokens.items, one.tokens.count * sizeof(lm_token)));
    CHECK_STR(one.text.bytes, two.text.bytes);
    forget(&one);
    forget(&two);
    /* the tokenizers, made from different files, agree on any text */
    lm_token_list p = {NULL, 0, 0}, q = {NULL, 0, 0};
    static const char text[] = "The dog's name: \"Max\"? Caf\xC3\xA9 42!\n  Two blanks.";
    lab_error error = {0};
    REQUIRE(lm_tokenize(&a.tokenizer, text, strlen(text), &p, &error));
    REQUIRE(lm_tokenize(&b.tokenizer, text, strlen(text), &q, &error));
    CHECK_INT(p.count, q.count);
    CHECK(p.count == q.count && same_bytes(p.items, q.items, p.count * sizeof(lm_token)));
    free(p.items);
    free(q.items);
    lm_opened_free(&a);
    lm_opened_free(&b);
}

TEST(quantised_weights_and_a_cache_of_halves_begin_the_same_story) {
    lm_opened o;
    open_model("stories260K-q8_0.gguf", &o);
    said s = generate(&o, "", 20, WHET_F16);
    CHECK_MSG(strncmp(s.text.bytes, "Once upon a time, there was a little girl named Lily.", 40) ==
                  0,
              "%s", s.text.bytes);
    forget(&s);
    lm_opened_free(&o);
}

static void check_tokens(const lm_opened *o, const char *text, const lm_token *expected,
                         size_t count) {
    lm_token_list tokens = {NULL, 0, 0};
    lab_error error = {0};
    REQUIRE(lm_tokenize(&o->tokenizer, text, strlen(text), &tokens, &error));
    CHECK_INT(tokens.count, count);
    for (size_t i = 0; i < tokens.count && i < count; i++)
        CHECK_INT(tokens.items[i], expected[i]);
    free(tokens.items);
}

/* From llama2.c's tests of Llama 2's tokenizer, without the token of beginning. */
TEST(the_tokenizer_of_llama_2_cuts_texts_as_it_is_known_to) {
    static const lm_token meaning[] = {306, 4658, 278, 6593, 310, 2834, 338};
    static const lm_token theory[] = {3439, 17632, 1925, 29892, 278, 6368,
                                      310,  14215, 537,  5922,  393, 29871};
    lm_opened o;
    open_model("stories15M-q8_0.gguf", &o);
    check_tokens(&o, "I believe the meaning of life is", meaning, 7);
    check_tokens(&o, "Simply put, the theory of relativity states that ", theory, 12);
    CHECK(o.tokenizer.adds_begin);
    CHECK_INT(o.tokenizer.begin, 1);
    said s = generate(&o, "Once upon a time", 20, WHET_F32);
    CHECK_MSG(strncmp(s.text.bytes, ", there was a little girl named Lily.", 37) == 0, "%s",
              s.text.bytes);
    forget(&s);
    lm_opened_free(&o);
}

TEST(a_chat_model_with_byte_pairs_knows_the_capital_of_france) {
    lm_opened o;
    open_model("minimind2-small-q8_0.gguf", &o);
    CHECK_INT(o.tokenizer.kind, LM_BYTE_PAIRS);
    said s = generate(&o,
                      "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
                      "<|im_start|>assistant\n",
                      40, WHET_F32);
    CHECK_MSG(strstr(s.text.bytes, "Paris") != NULL, "%s", s.text.bytes);
    CHECK(s.result.has_ended);
    forget(&s);
    lm_opened_free(&o);
}
