/* Vocabularies: tokens and merges in two hash tables with open addressing; see tokenizer.h. */
#include "lm/tokenizer.h"
#include "lm/unicode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(const lm_tokenizer *t, lab_error *error, const char *what, size_t index,
                   const char *why) {
    return lab_fail(error, LAB_INPUT, "%s: %s %zu of the tokenizer %s", t->source, what, index,
                    why);
}

/* A power of two that leaves a table at least half empty. */
static size_t slots_for(size_t count) {
    size_t slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    return slots;
}

bool lm_tokenizer_start(lm_tokenizer *t, lm_tokenizer_kind kind, size_t count, size_t merge_count,
                        const char *source, lab_error *error) {
    *t = (lm_tokenizer){.kind = kind,
                        .source = source,
                        .begin = LM_NO_TOKEN,
                        .end = LM_NO_TOKEN,
                        .unknown = LM_NO_TOKEN,
                        .adds_blank = kind == LM_PIECES};
    if (count < 1 || count > LM_VOCABULARY_MAX)
        return lab_fail(error, LAB_INPUT, "%s: a tokenizer of %zu tokens (1 to %d are supported)",
                        source, count, LM_VOCABULARY_MAX);
    if (merge_count > LM_VOCABULARY_MAX)
        return lab_fail(error, LAB_INPUT, "%s: a tokenizer of %zu merges (up to %d are supported)",
                        source, merge_count, LM_VOCABULARY_MAX);
    t->text_slot_count = slots_for(count);
    t->merge_slot_count = slots_for(merge_count);
    t->pieces = calloc(count, sizeof *t->pieces);
    t->merges = calloc(merge_count + 1, sizeof *t->merges);
    t->special = calloc(count, sizeof *t->special);
    t->text_slots = calloc(t->text_slot_count, sizeof *t->text_slots);
    t->merge_slots = calloc(t->merge_slot_count, sizeof *t->merge_slots);
    if (!t->pieces || !t->merges || !t->special || !t->text_slots || !t->merge_slots)
        return lab_fail_memory(error);
    t->count = count;
    t->merge_count = merge_count;
    return true;
}

void lm_tokenizer_free(lm_tokenizer *t) {
    for (size_t i = 0; t->pieces && i < t->count; i++)
        free(t->pieces[i].text);
    free(t->pieces);
    free(t->merges);
    free(t->special);
    free(t->text_slots);
    free(t->merge_slots);
    *t = (lm_tokenizer){.count = 0};
}

/* Checkpoints and GGUF hold tokens as UTF-8; a zero byte would cut one short. */
static bool is_plain_text(const char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        uint32_t code;
        at += unicode_read(text + at, length - at, &code);
        if (code == UNICODE_NONE || code == 0)
            return false;
    }
    return true;
}

bool lm_tokenizer_set(lm_tokenizer *t, size_t index, const char *text, size_t length, float score,
                      lm_piece_type type, lab_error *error) {
    enum { TOKEN_LENGTH_MAX = 4096 };
    if (index >= t->count)
        return refuse(t, error, "token", index, "is beyond the count");
    if (length > TOKEN_LENGTH_MAX)
        return refuse(t, error, "token", index, "is too long");
    if (!is_plain_text(text, length))
        return refuse(t, error, "token", index, "is not UTF-8");
    if (type < LM_PIECE_NORMAL || type > LM_PIECE_BYTE)
        return refuse(t, error, "token", index, "has an unknown type");
    if (!isfinite(score)) /* minus infinity stands for "no pair" while merging */
        return refuse(t, error, "token", index, "has a score that is not finite");
    lm_entry *piece = &t->pieces[index];
    free(piece->text);
    piece->text = malloc(length + 1);
    if (!piece->text)
        return lab_fail_memory(error);
    memcpy(piece->text, text, length);
    piece->text[length] = '\0';
    piece->length = length;
    piece->score = score;
    piece->type = type;
    return true;
}

/* ---- looking things up ---- */

static size_t hash_text(const char *text, size_t length) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001B3u;
    return (size_t)(hash ^ hash >> 32);
}

static size_t hash_pair(lm_token left, lm_token right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key *= 0x9E3779B97F4A7C15u;
    return (size_t)(key ^ key >> 29);
}

/* The slot of a text, or the empty slot for it. */
static uint32_t *text_slot(const lm_tokenizer *t, const char *text, size_t length) {
    size_t mask = t->text_slot_count - 1;
    for (size_t at = hash_text(text, length) & mask;; at = (at + 1) & mask) {
        const lm_entry *piece = &t->pieces[t->text_slots[at] ? t->text_slots[at] - 1 : 0];
        if (!t->text_slots[at] ||
            (piece->length == length && memcmp(piece->text, text, length) == 0))
            return &t->text_slots[at];
    }
}

static uint32_t *merge_slot(const lm_tokenizer *t, lm_token left, lm_token right) {
    size_t mask = t->merge_slot_count - 1;
    for (size_t at = hash_pair(left, right) & mask;; at = (at + 1) & mask) {
        const lm_merge *merge = &t->merges[t->merge_slots[at] ? t->merge_slots[at] - 1 : 0];
        if (!t->merge_slots[at] || (merge->left == left && merge->right == right))
            return &t->merge_slots[at];
    }
}

lm_token lm_tokenizer_find(const lm_tokenizer *t, const char *text, size_t length) {
    uint32_t slot = *text_slot(t, text, length);
    return slot ? (lm_token)(slot - 1) : LM_NO_TOKEN;
}

lm_token lm_tokenizer_find_merge(const lm_tokenizer *t, lm_token left, lm_token right,
                                 size_t *rank) {
    if (left == LM_NO_TOKEN || right == LM_NO_TOKEN || t->merge_count == 0)
        return LM_NO_TOKEN;
    uint32_t slot = *merge_slot(t, left, right);
    if (!slot)
        return LM_NO_TOKEN;
    *rank = slot - 1;
    return t->merges[slot - 1].merged;
}

/* ---- sealing ---- */

/* GPT-2 maps printable Latin-1 bytes to themselves and the others to code points from 256 on. */
size_t lm_byte_character(unsigned char byte, char text[4]) {
    uint32_t code = byte;
    if (byte <= 0x20)
        code = 256u + byte;
    else if (byte >= 0x7F && byte <= 0xA0)
        code = 256u + 33 + (byte - 0x7Fu);
    else if (byte == 0xAD)
        code = 256u + 67;
    return unicode_write(code, text);
}

/* The byte that "<0x0A>" stands for, or -1. */
static int named_byte(const lm_entry *piece) {
    static const char digits[] = "0123456789ABCDEF";
    if (piece->length != 6 || strncmp(piece->text, "<0x", 3) != 0 || piece->text[5] != '>')
        return -1;
    const char *high = strchr(digits, piece->text[3]), *low = strchr(digits, piece->text[4]);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

/* Control tokens are never the result of a merge. */
static bool is_findable(const lm_entry *piece) {
    return piece->type == LM_PIECE_NORMAL || piece->type == LM_PIECE_USER ||
           piece->type == LM_PIECE_UNUSED;
}

static void seal_bytes(lm_tokenizer *t) {
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        size_t length = lm_byte_character((unsigned char)byte, text);
        t->byte[byte] = t->kind == LM_BYTE_PAIRS ? lm_tokenizer_find(t, text, length) : LM_NO_TOKEN;
    }
    for (size_t i = 0; t->kind == LM_PIECES && i < t->count; i++) {
        int byte = t->pieces[i].type == LM_PIECE_BYTE ? named_byte(&t->pieces[i]) : -1;
        if (byte >= 0)
            t->byte[byte] = (lm_token)i;
    }
}

static bool check_special(const lm_tokenizer *t, const char *what, lm_token token,
                          lab_error *error) {
    if (token == LM_NO_TOKEN || token < t->count)
        return true;
    return lab_fail(error, LAB_INPUT, "%s: the %s token is %u, but there are %zu tokens", t->source,
                    what, token, t->count);
}

bool lm_tokenizer_seal(lm_tokenizer *t, lab_error *error) {
    if (!check_special(t, "beginning", t->begin, error) ||
        !check_special(t, "ending", t->end, error) ||
        !check_special(t, "the unknown", t->unknown, error))
        return false;
    for (size_t i = 0; i < t->count; i++) {
        const lm_entry *piece = &t->pieces[i];
        if (!piece->text)
            return refuse(t, error, "token", i, "is missing");
        if (piece->length > 0 && (piece->type == LM_PIECE_CONTROL || piece->type == LM_PIECE_USER ||
                                  piece->type == LM_PIECE_UNKNOWN))
            t->special[t->special_count++] = (lm_token)i;
        uint32_t *slot = is_findable(piece) ? text_slot(t, piece->text, piece->length) : NULL;
        if (slot && !*slot)
            *slot = (uint32_t)(i + 1);
    }
    seal_bytes(t);
    return true;
}

bool lm_tokenizer_same(const lm_tokenizer *a, const lm_tokenizer *b) {
    if (a->kind != b->kind || a->count != b->count || a->begin != b->begin || a->end != b->end ||
        a->merge_count != b->merge_count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->pieces[i].type != b->pieces[i].type || a->pieces[i].length != b->pieces[i].length ||
            memcmp(a->pieces[i].text, b->pieces[i].text, a->pieces[i].length) != 0)
            return false;
    return true;
}

bool lm_tokenizer_merge(lm_tokenizer *t, size_t index, const char *text, size_t length,
                        lab_error *error) {
    if (index >= t->merge_count)
        return refuse(t, error, "merge", index, "is beyond the count");
    const char *blank = length > 2 ? memchr(text + 1, ' ', length - 2) : NULL;
    if (!blank)
        return refuse(t, error, "merge", index, "is not two tokens with a blank between them");
    size_t left = (size_t)(blank - text), right = length - left - 1;
    char joined[8192];
    if (length > sizeof joined)
        return refuse(t, error, "merge", index, "is too long");
    memcpy(joined, text, left);
    memcpy(joined + left, blank + 1, right);
    lm_merge merge = {lm_tokenizer_find(t, text, left), lm_tokenizer_find(t, blank + 1, right),
                      lm_tokenizer_find(t, joined, left + right)};
    if (merge.left == LM_NO_TOKEN || merge.right == LM_NO_TOKEN || merge.merged == LM_NO_TOKEN)
        return refuse(t, error, "merge", index, "uses tokens that do not exist");
    t->merges[index] = merge;
    uint32_t *slot = merge_slot(t, merge.left, merge.right);
    if (!*slot)
        *slot = (uint32_t)(index + 1);
    return true;
}
