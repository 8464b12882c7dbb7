/* Lists of tokens, scores, types and merges, from GGUF and to it. */
#include "lm/gguf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "tokenizer.ggml."

/* The parts of a tokenizer, as in the file. */
typedef struct lists {
    gguf_text *tokens, *merges;
    float *scores;
    int32_t *types;
    size_t token_count, merge_count, score_count, type_count;
} lists;

static void free_lists(lists *l) {
    free(l->tokens);
    free(l->merges);
    free(l->scores);
    free(l->types);
}

static bool get_lists(const gguf_file *file, lists *l, lab_error *error) {
    *l = (lists){.token_count = 0};
    l->tokens = gguf_get_texts(file, KEY "tokens", &l->token_count, error);
    bool good = l->tokens != NULL;
    if (good && gguf_find(file, KEY "scores")) {
        l->scores = gguf_get_floats(file, KEY "scores", &l->score_count, error);
        good = l->scores != NULL;
    }
    if (good && gguf_find(file, KEY "token_type")) {
        l->types = gguf_get_integers(file, KEY "token_type", &l->type_count, error);
        good = l->types != NULL;
    }
    if (good && gguf_find(file, KEY "merges")) {
        l->merges = gguf_get_texts(file, KEY "merges", &l->merge_count, error);
        good = l->merges != NULL;
    }
    return good;
}

static bool get_kind(const gguf_file *file, const char *path, lm_tokenizer_kind *kind,
                     lab_error *error) {
    gguf_text name, cut;
    if (!gguf_get_text(file, KEY "model", &name, error))
        return false;
    *kind = gguf_text_is(name, "gpt2") ? LM_BYTE_PAIRS : LM_PIECES;
    if (*kind == LM_PIECES && !gguf_text_is(name, "llama"))
        return lab_fail(error, LAB_INPUT,
                        "%s: unsupported tokenizer '%.*s'; supported: llama, gpt2", path,
                        name.length < 64 ? (int)name.length : 64, name.bytes);
    if (*kind == LM_PIECES || !gguf_find(file, KEY "pre"))
        return true;
    if (!gguf_get_text(file, KEY "pre", &cut, error))
        return false;
    return gguf_text_is(cut, "gpt-2") ||
           lab_fail(error, LAB_INPUT, "%s: unsupported pre-tokenizer '%.*s'; supported: gpt-2",
                    path, cut.length < 64 ? (int)cut.length : 64, cut.bytes);
}

/* An optional token id or flag. */
static bool get_token(const gguf_file *file, const char *key, lm_token *token, lab_error *error) {
    int64_t value;
    if (!gguf_find(file, key))
        return true;
    if (!gguf_get_i64(file, key, &value, error))
        return false;
    if (value < 0 || value >= (int64_t)UINT32_MAX)
        *token = LM_NO_TOKEN;
    else
        *token = (lm_token)value;
    return true;
}

static bool get_choice(const gguf_file *file, const char *key, bool *choice, lab_error *error) {
    return !gguf_find(file, key) || gguf_get_bool(file, key, choice, error);
}

static bool get_settings(const gguf_file *file, lm_tokenizer *t, lab_error *error) {
    t->adds_begin = t->kind == LM_PIECES;
    return get_token(file, KEY "bos_token_id", &t->begin, error) &&
           get_token(file, KEY "eos_token_id", &t->end, error) &&
           get_token(file, KEY "unknown_token_id", &t->unknown, error) &&
           get_choice(file, KEY "add_bos_token", &t->adds_begin, error) &&
           get_choice(file, KEY "add_space_prefix", &t->adds_blank, error);
}

static bool set_all(const lists *l, lm_tokenizer *t, lab_error *error) {
    for (size_t i = 0; i < l->token_count; i++) {
        int32_t type = l->types ? l->types[i] : LM_PIECE_NORMAL;
        if (!lm_tokenizer_set(
                t, i, l->tokens[i].bytes, l->tokens[i].length, l->scores ? l->scores[i] : 0,
                type < 0 || type > 255 ? (lm_piece_type)0 : (lm_piece_type)type, error))
            return false;
    }
    if (!lm_tokenizer_seal(t, error))
        return false;
    for (size_t i = 0; i < l->merge_count; i++)
        if (!lm_tokenizer_merge(t, i, l->merges[i].bytes, l->merges[i].length, error))
            return false;
    return true;
}

static bool lists_fit(const lists *l, const char *path, size_t vocabulary, lm_tokenizer_kind kind,
                      lab_error *error) {
    if (l->token_count > vocabulary)
        return lab_fail(error, LAB_INPUT, "%s: %zu tokens for a vocabulary of %zu", path,
                        l->token_count, vocabulary);
    if ((l->scores && l->score_count != l->token_count) ||
        (l->types && l->type_count != l->token_count))
        return lab_fail(error, LAB_INPUT,
                        "%s: number of scores or types differs from that of tokens", path);
    if ((kind == LM_PIECES && !l->scores) || (kind == LM_BYTE_PAIRS && !l->merges))
        return lab_fail(error, LAB_INPUT, "%s: tokenizer without " KEY "%s", path,
                        kind == LM_PIECES ? "scores" : "merges");
    return true;
}

bool lm_gguf_get_tokenizer(const gguf_file *file, const char *path, size_t vocabulary,
                           lm_tokenizer *t, lab_error *error) {
    lists l;
    lm_tokenizer_kind kind;
    *t = (lm_tokenizer){.count = 0};
    if (!get_kind(file, path, &kind, error))
        return false;
    bool good = get_lists(file, &l, error) && lists_fit(&l, path, vocabulary, kind, error) &&
                lm_tokenizer_start(t, kind, l.token_count,
                                   kind == LM_BYTE_PAIRS ? l.merge_count : 0, path, error);
    if (kind == LM_PIECES)
        l.merge_count = 0;
    good = good && get_settings(file, t, error) && set_all(&l, t, error);
    free_lists(&l);
    return good;
}

/* ---- writing ---- */

static void put_token(gguf_writer *w, const char *key, lm_token token) {
    if (token != LM_NO_TOKEN)
        gguf_put_u32(w, key, token);
}

enum { FILLER_SIZE = 40 };

static bool put_pieces(gguf_writer *w, const lm_tokenizer *t, size_t count) {
    const char **texts = malloc(count * sizeof *texts);
    float *scores = malloc(count * sizeof *scores);
    int32_t *types = malloc(count * sizeof *types);
    char(*fillers)[FILLER_SIZE] = malloc((count - t->count) * sizeof *fillers + 1);
    bool good = texts && scores && types && fillers;
    for (size_t i = 0; good && i < count; i++) {
        bool is_filler = i >= t->count;
        if (is_filler)
            snprintf(fillers[i - t->count], FILLER_SIZE, "<whet_unused_%zu>", i);
        texts[i] = is_filler ? fillers[i - t->count] : t->pieces[i].text;
        scores[i] = is_filler ? 0 : t->pieces[i].score;
        types[i] = is_filler ? LM_PIECE_UNUSED : (int32_t)t->pieces[i].type;
    }
    if (good) {
        gguf_put_texts(w, KEY "tokens", texts, count);
        if (t->kind == LM_PIECES)
            gguf_put_floats(w, KEY "scores", scores, count);
        gguf_put_integers(w, KEY "token_type", types, count);
    }
    free(fillers);
    free(texts);
    free(scores);
    free(types);
    return good;
}

static char *merge_text(const lm_tokenizer *t, const lm_merge *merge) {
    const lm_entry *left = &t->pieces[merge->left], *right = &t->pieces[merge->right];
    char *text = malloc(left->length + right->length + 2);
    if (text) {
        memcpy(text, left->text, left->length);
        text[left->length] = ' ';
        memcpy(text + left->length + 1, right->text, right->length + 1);
    }
    return text;
}

static bool put_merges(gguf_writer *w, const lm_tokenizer *t) {
    char **texts = calloc(t->merge_count + 1, sizeof *texts);
    bool good = texts != NULL;
    for (size_t i = 0; good && i < t->merge_count; i++) {
        texts[i] = merge_text(t, &t->merges[i]);
        good = texts[i] != NULL;
    }
    if (good)
        gguf_put_texts(w, KEY "merges", (const char *const *)texts, t->merge_count);
    for (size_t i = 0; texts && i < t->merge_count; i++)
        free(texts[i]);
    free(texts);
    return good;
}

bool lm_gguf_put_tokenizer(gguf_writer *w, const lm_tokenizer *t, size_t vocabulary,
                           lab_error *error) {
    bool is_pieces = t->kind == LM_PIECES;
    if (t->count > vocabulary)
        return lab_fail(error, LAB_INPUT, "%zu tokens for a vocabulary of %zu", t->count,
                        vocabulary);
    gguf_put_text(w, KEY "model", is_pieces ? "llama" : "gpt2");
    gguf_put_text(w, KEY "pre", is_pieces ? "default" : "gpt-2");
    if (!put_pieces(w, t, vocabulary) || (!is_pieces && !put_merges(w, t)))
        return lab_fail_memory(error);
    put_token(w, KEY "bos_token_id", t->begin);
    put_token(w, KEY "eos_token_id", t->end);
    put_token(w, KEY "unknown_token_id", t->unknown);
    gguf_put_bool(w, KEY "add_bos_token", t->adds_begin);
    gguf_put_bool(w, KEY "add_eos_token", false);
    gguf_put_bool(w, KEY "add_space_prefix", t->adds_blank);
    return true;
}
