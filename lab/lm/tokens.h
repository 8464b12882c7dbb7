/*
 * The vocabulary of CLRS-Text: a token is a character, its number the
 * character's in ASCII, so that digits, brackets and blanks are tokens of their
 * own. Control characters, which no text contains, serve as marks. A training
 * sequence is
 *
 *     BEGIN question answer END
 *
 * with the question and the answer as lab/clrs writes them, line ends included;
 * a model's answer ends at END.
 */
#ifndef WHET_LAB_LM_TOKENS_H
#define WHET_LAB_LM_TOKENS_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t lm_token;

enum {
    LM_TOKEN_PADDING = 0,
    LM_TOKEN_BEGIN = 2,
    LM_TOKEN_END = 3,
    LM_TOKEN_UNKNOWN = 26, /* whatever is not ASCII */
    LM_CLRS_VOCABULARY = 128
};

/* One token for each byte. */
static inline lm_token lm_token_of(char character) {
    unsigned char byte = (unsigned char)character;
    return byte < LM_CLRS_VOCABULARY ? byte : LM_TOKEN_UNKNOWN;
}

/* The character of a token; 0 for marks and invalid tokens. */
static inline char lm_character_of(lm_token token) {
    return token < LM_CLRS_VOCABULARY && (token >= ' ' || token == '\n' || token == '\t')
               ? (char)token
               : '\0';
}

/* Writes the tokens of a text, `length` of them. */
void lm_tokens_of_text(const char *text, size_t length, lm_token *tokens);

#endif
