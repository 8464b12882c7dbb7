/*
 * Judges by llama.cpp: its library with the plug-in computes the losses, in a process of its own
 * for each run, which gets the setting as a WHET_CONFIG. The same file makes any program of
 * llama.cpp compute the same, and every model works that llama.cpp can run.
 *
 * Windows are not available: llama.cpp's masks are those of the model.
 */
#ifndef WHET_LAB_TUNE_LLAMA_JUDGE_H
#define WHET_LAB_TUNE_LLAMA_JUDGE_H

#include "lm/tokenizer.h"
#include "tune/judge.h"

typedef struct tune_llama_options {
    const char *model;   /* a GGUF file */
    const char *library; /* libllama or a folder with it; NULL: searched for (model/runner.h) */
    const char *plugin;  /* likewise */
    const char *rope;    /* a scaling of lm/rope_scaling.h; NULL: as the file says */
    uint32_t threads;
    /* Keys and values are kept as f32 instead of llama.cpp's f16, and without flash attention, for
     * which it would convert them. */
    bool has_f32_cache;
} tune_llama_options;

/* What llama.cpp says of the model. */
typedef struct tune_llama_model {
    char version[64];     /* of llama.cpp, or "" */
    size_t layers, heads; /* heads: query heads of the first layer */
    size_t vocabulary;
    uint32_t trained;   /* context it was trained on, before any scaling */
    uint32_t context;   /* context with the scaling; without one, as trained */
    bool adds_begin;    /* texts begin with a token of their own */
    lm_token begin;     /* that token, or LM_NO_TOKEN */
    bool has_rotations; /* its positions are rotary */
} tune_llama_model;

typedef struct tune_llama tune_llama;

/* Loads everything once, to see that it works. The options are copied, their texts must outlive it.
 * NULL and an error otherwise. */
tune_llama *tune_llama_open(const tune_llama_options *options, lab_error *error);
void tune_llama_close(tune_llama *llama); /* NULL is fine */

const tune_llama_model *tune_llama_about(const tune_llama *llama);

/* A judge, valid until the model is closed. Its runs are not to overlap. */
tune_judge tune_llama_judge(tune_llama *llama);

/* Tokens of texts by llama.cpp, without a begin token; control tokens are recognised in prompts,
 * and otherwise read as text. Appends to list i those of text i. */
bool tune_llama_tokens(tune_llama *llama, const char *const *texts, size_t count, bool are_prompts,
                       lm_token_list *lists, lab_error *error);

#endif
