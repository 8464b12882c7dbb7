/*
 * Tokenizers as JSON, the form in which checkpoints hold them; and the built-in
 * one of CLRS-Text.
 */
#include "lm/tokenizer.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {"pieces", "byte pairs"};

/* -1 for none. */
static json_t *json_token(lm_token token) {
    return json_integer(token == LM_NO_TOKEN ? -1 : (json_int_t)token);
}

static bool add_pieces(const lm_tokenizer *t, json_t *texts, json_t *scores, json_t *types) {
    for (size_t i = 0; i < t->count; i++) {
        const lm_entry *piece = &t->pieces[i];
        if (json_array_append_new(texts, json_stringn(piece->text, piece->length)) != 0 ||
            json_array_append_new(scores, json_real((double)piece->score)) != 0 ||
            json_array_append_new(types, json_integer(piece->type)) != 0)
            return false;
    }
    return true;
}

static bool add_merges(const lm_tokenizer *t, json_t *merges) {
    for (size_t i = 0; i < t->merge_count; i++) {
        const lm_entry *left = &t->pieces[t->merges[i].left],
                       *right = &t->pieces[t->merges[i].right];
        if (json_array_append_new(merges, json_sprintf("%s %s", left->text, right->text)) != 0)
            return false;
    }
    return true;
}

json_t *lm_tokenizer_json(const lm_tokenizer *t) {
    json_t *texts = json_array(), *scores = json_array(), *types = json_array(),
           *merges = json_array();
    bool good = add_pieces(t, texts, scores, types) && add_merges(t, merges);
    json_t *json = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "kind",
                             kind_names[t->kind], "texts", texts, "scores", scores, "types", types,
                             "merges", merges, "begin", json_token(t->begin), "end",
                             json_token(t->end), "unknown", json_token(t->unknown), "adds_begin",
                             (int)t->adds_begin, "adds_blank", (int)t->adds_blank);
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

typedef struct parts {
    const char *kind;
    const json_t *texts, *scores, *types, *merges;
    json_int_t begin, end, unknown;
    bool adds_begin, adds_blank;
} parts;

static bool unpack(const json_t *json, parts *p) {
    const json_t *begin = json_object_get(json, "begin"), *end = json_object_get(json, "end"),
                 *unknown = json_object_get(json, "unknown"),
                 *adds_begin = json_object_get(json, "adds_begin"),
                 *adds_blank = json_object_get(json, "adds_blank");
    *p = (parts){.kind = json_string_value(json_object_get(json, "kind")),
                 .texts = json_object_get(json, "texts"),
                 .scores = json_object_get(json, "scores"),
                 .types = json_object_get(json, "types"),
                 .merges = json_object_get(json, "merges"),
                 .begin = json_integer_value(begin),
                 .end = json_integer_value(end),
                 .unknown = json_integer_value(unknown),
                 .adds_begin = json_is_true(adds_begin),
                 .adds_blank = json_is_true(adds_blank)};
    return p->kind && json_is_integer(begin) && json_is_integer(end) && json_is_integer(unknown) &&
           json_is_boolean(adds_begin) && json_is_boolean(adds_blank) && json_is_array(p->texts) &&
           json_is_array(p->merges) && json_array_size(p->scores) == json_array_size(p->texts) &&
           json_array_size(p->types) == json_array_size(p->texts);
}

static lm_token token_of(json_int_t number) {
    return number < 0 || number > LM_VOCABULARY_MAX ? LM_NO_TOKEN : (lm_token)number;
}

static bool take_pieces(lm_tokenizer *t, const parts *p, lab_error *error) {
    for (size_t i = 0; i < t->count; i++) {
        const json_t *text = json_array_get(p->texts, i), *score = json_array_get(p->scores, i),
                     *type = json_array_get(p->types, i);
        json_int_t number = json_integer_value(type);
        if (!json_is_string(text) || !json_is_number(score) || number < 0 || number > 255)
            return lab_fail(error, LAB_INPUT, "%s: token %zu of the tokenizer is invalid",
                            t->source, i);
        if (!lm_tokenizer_set(t, i, json_string_value(text), json_string_length(text),
                              (float)json_number_value(score), (lm_piece_type)number, error))
            return false;
    }
    return true;
}

static bool take_merges(lm_tokenizer *t, const parts *p, lab_error *error) {
    for (size_t i = 0; i < t->merge_count; i++) {
        const json_t *text = json_array_get(p->merges, i);
        const char *bytes = json_string_value(text);
        if (!lm_tokenizer_merge(t, i, bytes ? bytes : "", json_string_length(text), error))
            return false;
    }
    return true;
}

bool lm_tokenizer_from_json(lm_tokenizer *t, const json_t *json, const char *source,
                            lab_error *error) {
    parts p;
    unsigned mark = lab_json_mark();
    *t = (lm_tokenizer){.count = 0};
    bool is_unpacked = unpack(json, &p);
    if (lab_json_mark() != mark)
        return lab_fail_memory(error);
    if (!is_unpacked)
        return lab_fail(error, LAB_INPUT, "%s: damaged checkpoint: no tokenizer", source);
    lm_tokenizer_kind kind = LM_PIECES;
    if (strcmp(p.kind, kind_names[LM_BYTE_PAIRS]) == 0)
        kind = LM_BYTE_PAIRS;
    else if (strcmp(p.kind, kind_names[LM_PIECES]) != 0)
        return lab_fail(error, LAB_INPUT, "%s: unknown tokenizer '%s'", source, p.kind);
    if (!lm_tokenizer_start(t, kind, json_array_size(p.texts), json_array_size(p.merges), source,
                            error))
        return false;
    t->begin = token_of(p.begin);
    t->end = token_of(p.end);
    t->unknown = token_of(p.unknown);
    t->adds_begin = p.adds_begin;
    t->adds_blank = p.adds_blank;
    return take_pieces(t, &p, error) && lm_tokenizer_seal(t, error) && take_merges(t, &p, error);
}

/* ---- CLRS-Text ---- */

static bool set_clrs_piece(lm_tokenizer *t, lm_token token, lab_error *error) {
    char text[8] = {lm_character_of(token), '\0'};
    lm_piece_type type = LM_PIECE_NORMAL;
    switch (token) {
    case LM_TOKEN_PADDING:
        strcpy(text, "<pad>");
        type = LM_PIECE_CONTROL;
        break;
    case LM_TOKEN_BEGIN:
        strcpy(text, "<s>");
        type = LM_PIECE_CONTROL;
        break;
    case LM_TOKEN_END:
        strcpy(text, "</s>");
        type = LM_PIECE_CONTROL;
        break;
    case LM_TOKEN_UNKNOWN:
        strcpy(text, "<unk>");
        type = LM_PIECE_UNKNOWN;
        break;
    case ' ':
        strcpy(text, "\xE2\x96\x81");
        break;
    default:
        if (token > ' ' && token < 0x7F)
            break;
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)token & 0x7F);
        type = LM_PIECE_BYTE;
    }
    return lm_tokenizer_set(t, token, text, strlen(text), 0, type, error);
}

bool lm_tokenizer_clrs(lm_tokenizer *t, lab_error *error) {
    if (!lm_tokenizer_start(t, LM_PIECES, LM_CLRS_VOCABULARY, 0, "CLRS-Text", error))
        return false;
    t->begin = LM_TOKEN_BEGIN;
    t->end = LM_TOKEN_END;
    t->unknown = LM_TOKEN_UNKNOWN;
    t->adds_begin = true;
    t->adds_blank = false;
    bool good = true;
    for (lm_token token = 0; good && token < LM_CLRS_VOCABULARY; token++)
        good = set_clrs_piece(t, token, error);
    return good && lm_tokenizer_seal(t, error);
}
