/*
 * Texts that a model is tuned and judged on: files, grouped into domains by their folders, as
 * sequences of tokens. Sequences of a domain are consecutive pieces of its files, one after the
 * other, without overlap; each starts with the same tokens, which are not judged.
 */
#ifndef WHET_LAB_TUNE_TEXTS_H
#define WHET_LAB_TUNE_TEXTS_H

#include "base/sha256.h"
#include "lm/tokenizer.h"
#include "tune/judge.h"

/* How a model reads text: by lab/lm's tokenizer, or by llama.cpp's. Control tokens are read as
 * text. Texts are UTF-8; bytes of a file that are not became U+FFFD. */
typedef struct tune_words {
    void *context;
    lm_token begin; /* LM_NO_TOKEN: sequences start without one */
    /* Appends to list i the tokens of text i, which ends in a zero byte. All at once, as llama.cpp
     * loads the model for it. */
    bool (*tokenize)(void *context, const char *const *texts, size_t count, lm_token_list *lists,
                     lab_error *error);
} tune_words;

/* By a tokenizer, which must outlive it. */
tune_words tune_words_of(lm_tokenizer *tokenizer);

typedef struct tune_file {
    const char *path;
    char hash[LAB_SHA256_SIZE];
    char words[LAB_SHA256_SIZE]; /* hash of the text with every white space as one blank */
    size_t bytes, tokens;
} tune_file;

typedef struct tune_domain {
    char *name; /* the folder's */
    tune_file *files;
    size_t file_count;
    lm_token_list tokens; /* of all files, without begin tokens */
    bool is_built_in;
} tune_domain;

typedef struct tune_texts {
    tune_domain *domains;
    size_t count;
} tune_texts;

enum { TUNE_TEXT_SIZE_MAX = 1 << 28 };

/* Reads files; paths must outlive the texts. Free them whatever this returns. A file that is no
 * text, empty, or there twice, by its contents but for white space, is refused. */
bool tune_texts_read(const char *const *paths, size_t count, const tune_words *words,
                     tune_texts *texts, lab_error *error);
void tune_texts_free(tune_texts *texts); /* zeroed ones are fine */

/* Adds a text of another kind that whet carries with it: the comments and declarations of its own
 * header. */
bool tune_texts_add_built_in(const tune_words *words, tune_texts *texts, lab_error *error);

/* Refuses a file that is in both, by its contents but for white space; `one` and `other` are
 * options, for the message. */
bool tune_texts_are_apart(const tune_texts *a, const char *one, const tune_texts *b,
                          const char *other, lab_error *error);

/* [{"domain", "files": [{"path", "sha256", "tokens"}]}]; a new reference. */
json_t *tune_texts_json(const tune_texts *texts);

/* Sequences with the memory of their tokens. */
typedef struct tune_set {
    tune_sequence *list;
    size_t count;
    lm_token *tokens;
} tune_set;

/* Up to `limit` sequences of `length` tokens, `prefix` included, evenly distributed over the
 * domain; none if it is shorter. False when memory runs out; free it whatever this returns. */
bool tune_set_cut(const tune_domain *domain, const lm_token_list *prefix, size_t length,
                  size_t limit, tune_set *set);
void tune_set_free(tune_set *set); /* a zeroed one is fine */

#endif
