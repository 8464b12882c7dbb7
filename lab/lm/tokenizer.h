/*
 * Tokenizers of imported models. There are two kinds; both start from single characters and merge
 * adjacent symbols until nothing more can be merged:
 *
 *   pieces       SentencePiece's, as in Llama 2 and llama2.c. Of all adjacent pairs that
 *                form a token, the one of the highest score is merged first.
 *                Blanks are U+2581; a character that is no token becomes its bytes.
 *   byte pairs   GPT-2's. Text is split into words, their bytes mapped to printable
 *                characters, and pairs are merged in the order of a list.
 *
 * Control tokens such as <s> or <|im_end|> are recognised within a text, unless it is plain.
 *
 * A tokenizer is made in the order start, a set for every token, seal, a merge for every merge;
 * each step refuses what later ones could not handle.
 */
#ifndef WHET_LAB_LM_TOKENIZER_H
#define WHET_LAB_LM_TOKENIZER_H

#include "base/error.h"
#include "lm/config.h"
#include "lm/tokens.h"

#include <stddef.h>
#include <stdint.h>

typedef enum lm_tokenizer_kind { LM_PIECES, LM_BYTE_PAIRS } lm_tokenizer_kind;

/* Numbered as in GGUF. */
typedef enum lm_piece_type {
    LM_PIECE_NORMAL = 1,
    LM_PIECE_UNKNOWN = 2,
    LM_PIECE_CONTROL = 3,
    LM_PIECE_USER = 4,
    LM_PIECE_UNUSED = 5,
    LM_PIECE_BYTE = 6
} lm_piece_type;

#define LM_NO_TOKEN UINT32_MAX

typedef struct lm_entry {
    char *text; /* ends in a zero */
    size_t length;
    float score;
    lm_piece_type type;
} lm_entry;

typedef struct lm_merge {
    lm_token left, right, merged;
} lm_merge;

typedef struct lm_tokenizer {
    lm_tokenizer_kind kind;
    const char *source; /* its file, for messages while it is built */
    lm_entry *pieces;   /* by token */
    size_t count;
    lm_merge *merges; /* the first is applied first */
    size_t merge_count;
    lm_token begin, end, unknown; /* or LM_NO_TOKEN */
    bool adds_begin;              /* before a prompt */
    bool adds_blank;              /* pieces: before the first word */

    /* The rest is made by sealing. Slots hold 1 + an index, or 0. */
    lm_token byte[256]; /* the token of each byte */
    uint32_t *text_slots, *merge_slots;
    size_t text_slot_count, merge_slot_count;
    lm_token *special; /* tokens recognised in a text */
    size_t special_count;
} lm_tokenizer;

/* Free it whatever these return. The source must outlive construction. */
bool lm_tokenizer_start(lm_tokenizer *tokenizer, lm_tokenizer_kind kind, size_t count,
                        size_t merge_count, const char *source, lab_error *error);
bool lm_tokenizer_set(lm_tokenizer *tokenizer, size_t index, const char *text, size_t length,
                      float score, lm_piece_type type, lab_error *error);
bool lm_tokenizer_seal(lm_tokenizer *tokenizer, lab_error *error);

/* Merge `index`, as it is written: "left right". */
bool lm_tokenizer_merge(lm_tokenizer *tokenizer, size_t index, const char *text, size_t length,
                        lab_error *error);

/* That of CLRS-Text (see tokens.h), a piece for each character. */
bool lm_tokenizer_clrs(lm_tokenizer *tokenizer, lab_error *error);

/* Whether both give the same tokens the same meaning. */
bool lm_tokenizer_same(const lm_tokenizer *a, const lm_tokenizer *b);

/* A zero-initialised one is fine. */
void lm_tokenizer_free(lm_tokenizer *tokenizer);

/* For checkpoints: everything as an object, and back. */
json_t *lm_tokenizer_json(const lm_tokenizer *tokenizer);
bool lm_tokenizer_from_json(lm_tokenizer *tokenizer, const json_t *json, const char *source,
                            lab_error *error);

/* The token of a text or of two tokens merged, or LM_NO_TOKEN. *rank is the index of the merge. */
lm_token lm_tokenizer_find(const lm_tokenizer *tokenizer, const char *text, size_t length);
lm_token lm_tokenizer_find_merge(const lm_tokenizer *tokenizer, lm_token left, lm_token right,
                                 size_t *rank);

/* How GPT-2 writes a byte: the character, in UTF-8; returns its length. */
size_t lm_byte_character(unsigned char byte, char text[4]);

/* Growing lists of tokens and text; zero them first, free the items. */
typedef struct lm_token_list {
    lm_token *items;
    size_t count, capacity;
} lm_token_list;

typedef struct lm_text {
    char *bytes; /* ends in a zero once there is anything */
    size_t length, capacity;
} lm_text;

bool lm_token_list_add(lm_token_list *list, lm_token token);
bool lm_text_add(lm_text *text, const char *bytes, size_t length);

/* Appends the tokens of a text, without a begin token. Fails where memory runs out or a character
 * cannot be expressed. */
bool lm_tokenize(const lm_tokenizer *tokenizer, const char *text, size_t length,
                 lm_token_list *tokens, lab_error *error);

/* The same with control tokens read as text: what is in a file cannot take part in a chat. */
bool lm_tokenize_plain(const lm_tokenizer *tokenizer, const char *text, size_t length,
                       lm_token_list *tokens, lab_error *error);

/* Appends the text of a token; control tokens have none. `is_first`: directly after the beginning,
 * where the blank before the first word is left out. False when memory runs out. */
bool lm_tokenizer_text(const lm_tokenizer *tokenizer, lm_token token, bool is_first, lm_text *text);

#endif
