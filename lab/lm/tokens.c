/* Texts as tokens. */
#include "lm/tokens.h"

void lm_tokens_of_text(const char *text, size_t length, lm_token *tokens) {
    for (size_t i = 0; i < length; i++)
        tokens[i] = lm_token_of(text[i]);
}
