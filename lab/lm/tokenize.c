/*
 * From text to tokens and back. A text is cut at control tokens; the text
 * between them becomes a chain of symbols, and a heap of mergeable adjacent
 * pairs yields the next merge: the best first, among equals the leftmost. A
 * candidate whose symbols have changed since is recognised by its length and
 * dropped.
 */
#include "lm/tokenizer.h"
#include "lm/unicode.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

static const char blank[] = "\xE2\x96\x81"; /* U+2581 */
enum { BLANK_LENGTH = sizeof blank - 1 };

bool lm_token_list_add(lm_token_list *list, lm_token token) {
    void *items = lab_grow(list->items, sizeof *list->items, list->count + 1, &list->capacity);
    if (!items)
        return false;
    list->items = items;
    list->items[list->count++] = token;
    return true;
}

bool lm_text_add(lm_text *text, const char *bytes, size_t length) {
    void *items = lab_grow(text->bytes, 1, text->length + length + 1, &text->capacity);
    if (!items)
        return false;
    text->bytes = items;
    if (length)
        memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
    return true;
}

/* ---- merging ---- */

typedef struct symbol {
    const char *text;
    size_t length;  /* 0: merged into the one before */
    lm_token token; /* or LM_NO_TOKEN */
    size_t previous, next;
} symbol;

enum { NO_SYMBOL = -1 };

typedef struct candidate {
    double priority;
    size_t left, right; /* symbols */
    size_t length;
    lm_token token;
} candidate;

typedef struct merging {
    const lm_tokenizer *tokenizer;
    symbol *symbols;
    size_t count, capacity;
    candidate *heap;
    size_t heap_count, heap_capacity;
} merging;

static bool add_symbol(merging *m, const char *text, size_t length, lm_token token) {
    void *items = lab_grow(m->symbols, sizeof *m->symbols, m->count + 1, &m->capacity);
    if (!items)
        return false;
    m->symbols = items;
    m->symbols[m->count] =
        (symbol){text, length, token, m->count ? m->count - 1 : (size_t)NO_SYMBOL, m->count + 1};
    m->count++;
    return true;
}

static bool comes_before(const candidate *a, const candidate *b) {
    return a->priority > b->priority || (a->priority == b->priority && a->left < b->left);
}

static bool push(merging *m, candidate item) {
    void *items = lab_grow(m->heap, sizeof *m->heap, m->heap_count + 1, &m->heap_capacity);
    if (!items)
        return false;
    m->heap = items;
    size_t at = m->heap_count++;
    for (; at > 0 && comes_before(&item, &m->heap[(at - 1) / 2]); at = (at - 1) / 2)
        m->heap[at] = m->heap[(at - 1) / 2];
    m->heap[at] = item;
    return true;
}

static candidate pop(merging *m) {
    candidate best = m->heap[0], last = m->heap[--m->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < m->heap_count; at = child) {
        if (child + 1 < m->heap_count && comes_before(&m->heap[child + 1], &m->heap[child]))
            child++;
        if (!comes_before(&m->heap[child], &last))
            break;
        m->heap[at] = m->heap[child];
    }
    m->heap[at] = last;
    return best;
}

/* Considers a symbol and the one after it. False when memory runs out. */
static bool consider(merging *m, size_t left) {
    const lm_tokenizer *t = m->tokenizer;
    if (left == (size_t)NO_SYMBOL || m->symbols[left].next >= m->count)
        return true;
    size_t right = m->symbols[left].next;
    const symbol *a = &m->symbols[left], *b = &m->symbols[right];
    candidate found = {.left = left, .right = right, .length = a->length + b->length};
    size_t rank = 0;
    if (t->kind == LM_PIECES)
        found.token = lm_tokenizer_find(t, a->text, found.length);
    else
        found.token = lm_tokenizer_find_merge(t, a->token, b->token, &rank);
    if (found.token == LM_NO_TOKEN)
        return true;
    found.priority = t->kind == LM_PIECES ? (double)t->pieces[found.token].score : -(double)rank;
    return push(m, found);
}

static bool merge_all(merging *m) {
    m->heap_count = 0;
    for (size_t i = 0; i < m->count; i++)
        if (!consider(m, i))
            return false;
    while (m->heap_count > 0) {
        candidate best = pop(m);
        symbol *left = &m->symbols[best.left], *right = &m->symbols[best.right];
        if (left->length == 0 || right->length == 0 || left->length + right->length != best.length)
            continue;
        left->length = best.length;
        left->token = best.token;
        left->next = right->next;
        right->length = 0;
        if (left->next < m->count)
            m->symbols[left->next].previous = best.left;
        if (!consider(m, left->previous) || !consider(m, best.left))
            return false;
    }
    return true;
}

static bool no_way_to_say(unsigned char byte, lab_error *error) {
    return lab_fail(error, LAB_INPUT,
                    "the text has a byte, 0x%02X, that the model has no token for", byte);
}

/* What no token covers becomes byte tokens, or the unknown token. */
static bool emit_bytes(const lm_tokenizer *t, const symbol *of, lm_token_list *tokens,
                       lab_error *error) {
    for (size_t i = 0; i < of->length; i++) {
        unsigned char byte = (unsigned char)of->text[i];
        lm_token token = t->byte[byte] == LM_NO_TOKEN ? t->unknown : t->byte[byte];
        if (token == LM_NO_TOKEN)
            return no_way_to_say(byte, error);
        if (!lm_token_list_add(tokens, token))
            return lab_fail_memory(error);
        if (t->byte[byte] == LM_NO_TOKEN)
            break; /* one unknown stands for the whole character */
    }
    return true;
}

/* Merges all symbols, appends their tokens and clears them. */
static bool flush(merging *m, lm_token_list *tokens, lab_error *error) {
    if (!merge_all(m))
        return lab_fail_memory(error);
    for (size_t i = 0; i < m->count; i = m->symbols[i].next) {
        const symbol *s = &m->symbols[i];
        if (s->token == LM_NO_TOKEN) {
            if (!emit_bytes(m->tokenizer, s, tokens, error))
                return false;
        } else if (!lm_token_list_add(tokens, s->token)) {
            return lab_fail_memory(error);
        }
    }
    m->count = 0;
    return true;
}

/* ---- pieces ---- */

static bool write_blanks(const char *text, size_t length, bool begins_with_blank, lm_text *into) {
    bool good = !begins_with_blank || lm_text_add(into, blank, BLANK_LENGTH);
    for (size_t i = 0; good && i < length; i++)
        good = text[i] == ' ' ? lm_text_add(into, blank, BLANK_LENGTH)
                              : lm_text_add(into, text + i, 1);
    return good;
}

static bool tokenize_pieces(merging *m, const char *text, size_t length, lm_token_list *tokens,
                            lab_error *error) {
    lm_text written = {NULL, 0, 0};
    bool good = write_blanks(text, length, m->tokenizer->adds_blank, &written);
    for (size_t at = 0, bytes; good && at < written.length; at += bytes) {
        uint32_t code;
        const char *start = written.bytes + at;
        bytes = unicode_read(start, written.length - at, &code);
        good = add_symbol(m, start, bytes, lm_tokenizer_find(m->tokenizer, start, bytes));
    }
    good = good ? flush(m, tokens, error) : lab_fail_memory(error);
    free(written.bytes);
    return good;
}

/* ---- byte pairs ---- */

typedef enum word_class { CLASS_SPACE, CLASS_LETTER, CLASS_NUMBER, CLASS_OTHER } word_class;

static word_class class_at(const char *text, size_t length, size_t *bytes) {
    uint32_t code;
    *bytes = unicode_read(text, length, &code);
    if (code == UNICODE_NONE)
        return CLASS_OTHER;
    return unicode_is_space(code)    ? CLASS_SPACE
           : unicode_is_letter(code) ? CLASS_LETTER
           : unicode_is_number(code) ? CLASS_NUMBER
                                     : CLASS_OTHER;
}

/* Number of leading bytes of one class; *last is where the last character begins. */
static size_t run_of(const char *text, size_t length, word_class wanted, size_t *last) {
    size_t at = 0, bytes;
    while (at < length && class_at(text + at, length - at, &bytes) == wanted) {
        *last = at;
        at += bytes;
    }
    return at;
}

/*
 * The length of the first word, cut as GPT-2 does: an English ending such as
 * 's; letters, numbers or other signs with at most one blank before them; or
 * white space, whose last character belongs to the next word.
 */
static size_t word_length(const char *text, size_t length) {
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending = strlen(endings[i]);
        if (length >= ending && memcmp(text, endings[i], ending) == 0)
            return ending;
    }
    size_t skip = length > 1 && text[0] == ' ' ? 1 : 0, bytes, last = 0;
    word_class class = class_at(text + skip, length - skip, &bytes);
    if (class != CLASS_SPACE)
        return skip + run_of(text + skip, length - skip, class, &last);
    size_t run = run_of(text, length, CLASS_SPACE, &last);
    return run < length && last > 0 ? last : run;
}

static bool tokenize_bytes(merging *m, const char *text, size_t length, lm_token_list *tokens,
                           lab_error *error) {
    for (size_t at = 0; at < length;) {
        size_t end = at + word_length(text + at, length - at);
        for (; at < end; at++)
            if (!add_symbol(m, text + at, 1, m->tokenizer->byte[(unsigned char)text[at]]))
                return lab_fail_memory(error);
        if (!flush(m, tokens, error))
            return false;
    }
    return true;
}

/* ---- whole texts ---- */

/* The special token that a text begins with, the longest of several; in plain text, one that users
 * defined. */
static lm_token special_at(const lm_tokenizer *t, const char *text, size_t length, bool is_plain) {
    lm_token best = LM_NO_TOKEN;
    for (size_t i = 0; i < t->special_count; i++) {
        const lm_entry *piece = &t->pieces[t->special[i]];
        if (is_plain && piece->type != LM_PIECE_USER)
            continue;
        if (piece->text[0] == text[0] && piece->length <= length &&
            (best == LM_NO_TOKEN || piece->length > t->pieces[best].length) &&
            memcmp(piece->text, text, piece->length) == 0)
            best = t->special[i];
    }
    return best;
}

static bool tokenize_part(merging *m, const char *text, size_t length, lm_token_list *tokens,
                          lab_error *error) {
    if (length == 0)
        return true;
    return m->tokenizer->kind == LM_PIECES ? tokenize_pieces(m, text, length, tokens, error)
                                           : tokenize_bytes(m, text, length, tokens, error);
}

static bool tokenize(const lm_tokenizer *t, const char *text, size_t length, bool is_plain,
                     lm_token_list *tokens, lab_error *error) {
    merging m = {.tokenizer = t};
    size_t start = 0;
    bool good = true;
    for (size_t at = 0; good && at < length;) {
        lm_token special = special_at(t, text + at, length - at, is_plain);
        if (special == LM_NO_TOKEN) {
            at++;
            continue;
        }
        good = tokenize_part(&m, text + start, at - start, tokens, error) &&
               (lm_token_list_add(tokens, special) || lab_fail_memory(error));
        at += t->pieces[special].length;
        start = at;
    }
    good = good && tokenize_part(&m, text + start, length - start, tokens, error);
    free(m.symbols);
    free(m.heap);
    return good;
}

bool lm_tokenize(const lm_tokenizer *t, const char *text, size_t length, lm_token_list *tokens,
                 lab_error *error) {
    return tokenize(t, text, length, false, tokens, error);
}

bool lm_tokenize_plain(const lm_tokenizer *t, const char *text, size_t length,
                       lm_token_list *tokens, lab_error *error) {
    return tokenize(t, text, length, true, tokens, error);
}

/* ---- back ---- */

static bool add_piece(const lm_entry *piece, bool is_first, lm_text *text) {
    bool good = true;
    for (size_t at = 0; good && at < piece->length;) {
        bool is_blank = piece->length - at >= BLANK_LENGTH &&
                        memcmp(piece->text + at, blank, BLANK_LENGTH) == 0;
        if (is_blank)
            good = (at == 0 && is_first) || lm_text_add(text, " ", 1);
        else
            good = lm_text_add(text, piece->text + at, 1);
        at += is_blank ? BLANK_LENGTH : 1;
    }
    return good;
}

/* The byte that a character of GPT-2's stands for, or -1. */
static int byte_of_character(uint32_t code) {
    if (code >= 256 && code <= 256 + 32)
        return (int)code - 256;
    if (code > 256 + 32 && code < 256 + 67)
        return (int)code - 256 - 33 + 0x7F;
    if (code == 256 + 67)
        return 0xAD;
    return code < 256 ? (int)code : -1;
}

static bool add_byte_characters(const lm_entry *piece, lm_text *text) {
    bool good = true;
    for (size_t at = 0, bytes; good && at < piece->length; at += bytes) {
        uint32_t code;
        bytes = unicode_read(piece->text + at, piece->length - at, &code);
        int byte = byte_of_character(code);
        char plain = (char)byte;
        good =
            byte >= 0 ? lm_text_add(text, &plain, 1) : lm_text_add(text, piece->text + at, bytes);
    }
    return good;
}

bool lm_tokenizer_text(const lm_tokenizer *t, lm_token token, bool is_first, lm_text *text) {
    if (token >= t->count)
        return true;
    const lm_entry *piece = &t->pieces[token];
    switch (piece->type) {
    case LM_PIECE_CONTROL:
        return true;
    case LM_PIECE_USER:
        return lm_text_add(text, piece->text, piece->length);
    case LM_PIECE_BYTE:
        for (int byte = 0; byte < 256; byte++) {
            char plain = (char)byte;
            if (t->byte[byte] == token)
                return lm_text_add(text, &plain, 1);
        }
        break;
    case LM_PIECE_NORMAL:
    case LM_PIECE_UNKNOWN:
    case LM_PIECE_UNUSED:
        break;
    }
    return t->kind == LM_PIECES ? add_piece(piece, is_first && t->adds_blank, text)
                                : add_byte_characters(piece, text);
}
