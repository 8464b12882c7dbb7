/*
 * The part of a judge by llama.cpp that runs in a process of its own. It reports
 *
 *   {"version": ..., "layers": n, ...}            what the model is
 *   {"text": i, "tokens": [...]}                  tokens of text i, in pieces
 *   {"sequence": i, "loss": [...], "right": ...}  losses of sequence i, in pieces; right is a text
 *                                                 of 0 and 1
 *   {"end": true}                                 at the end
 */
#ifndef WHET_LAB_TUNE_LLAMA_WORKER_H
#define WHET_LAB_TUNE_LLAMA_WORKER_H

#include "llama/libllama.h"
#include "tune/llama_judge.h"

#include <stdio.h>

/* What a process is to do: say what the model is, and then one of two things or nothing. */
typedef struct llama_job {
    const char *library, *plugin, *model;
    libllama_context_options context; /* but for the number of tokens */
    const char *const *texts;         /* to be tokenised */
    size_t text_count;
    bool are_prompts;               /* which have control tokens */
    const tune_sequence *sequences; /* to be judged */
    size_t sequence_count;
} llama_job;

/* Runs to its end and returns the exit status of the process. */
int tune_llama_work(const llama_job *job, FILE *out);

#endif
