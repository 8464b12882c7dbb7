/*
 * A language model run by llama.cpp: its library libllama is loaded at run time
 * (llama/libllama.h).
 *
 * The plug-in for ggml is loaded into the library, so that attention goes through
 * libwhet and is recorded (plugin/ggml). A process can do this once, with one
 * policy: the plug-in reads its settings from the environment when it is loaded.
 */
#ifndef WHET_LAB_MODEL_RUNNER_H
#define WHET_LAB_MODEL_RUNNER_H

#include "base/error.h"
#include "llama/libllama.h"
#include "llama/libllama_files.h"

#include <stddef.h>
#include <stdint.h>

typedef struct runner runner;

enum { RUNNER_PATH_SIZE = LIBLLAMA_PATH_BYTES, RUNNER_PIECE_SIZE = 256 };

/* ---- runner_files.c ---- */

/*
 * Finds libllama. `where` is the library or a folder with it; NULL looks at
 * WHET_LLAMA, beside a llama-cli on the PATH, in node_modules and among the
 * system's libraries. The error says how to get one.
 */
bool runner_find_library(const char *where, char path[RUNNER_PATH_SIZE], lab_error *error);

/* The same for the plug-in: WHET_PLUGIN, beside the program, where it is installed. */
bool runner_find_plugin(const char *where, char path[RUNNER_PATH_SIZE], lab_error *error);

/* ---- runner.c ---- */

/* Loads library, plug-in and model. NULL and an error otherwise. */
runner *runner_open(const char *library, const char *plugin, const char *model, lab_error *error);
void runner_close(runner *r);

/* The library's version, or "". */
const char *runner_version(const runner *r);

/* Tokens that the model was trained for. */
uint32_t runner_trained_context(const runner *r);
size_t runner_vocabulary(const runner *r);

/* Its layers, and the query heads of the first. */
size_t runner_layers(const runner *r);
size_t runner_heads(const runner *r);
bool runner_rotates(const runner *r); /* whether its positions are rotary */

/* The tokens of a text, to be freed. `has_start`: with the model's begin token; `has_special`:
 * "<|im_start|>" and the like are tokens, not text. */
int32_t *runner_tokens(runner *r, const char *text, bool has_start, bool has_special, size_t *count,
                       lab_error *error);

/* A token as text; returns its length. */
size_t runner_piece(const runner *r, int32_t token, char text[RUNNER_PIECE_SIZE]);
bool runner_is_end(const runner *r, int32_t token);

/* Whether texts of this model begin with a token of their own. */
bool runner_adds_start(const runner *r);

/* The begin token; negative if there is none. */
int32_t runner_start_token(const runner *r);

/* A user's message in the model's chat template, up to where the answer begins; to be freed. */
char *runner_chat(const runner *r, const char *message, lab_error *error);

/* Creates a context. Before anything is fed. */
bool runner_start(runner *r, const libllama_context_options *options, lab_error *error);

/*
 * Computes the next tokens. Afterwards runner_logits returns the logits after
 * the i-th of them, for those from `first_wanted` on in the last batch. Every
 * `batch` tokens, and the rest, are one evaluation for the plug-in.
 */
bool runner_feed(runner *r, const int32_t *tokens, size_t count, size_t first_wanted,
                 lab_error *error);
const float *runner_logits(runner *r, size_t i);

/* Forgets all tokens that were fed. */
void runner_forget(runner *r);

/* Evaluations so far. */
uint64_t runner_evaluations(const runner *r);

/* ---- of logits ---- */

/* The first of the largest. */
int32_t runner_likeliest(const float *logits, size_t count);

/* -ln of the probability of a token; not finite if a logit is not. */
double runner_surprise(const float *logits, size_t count, int32_t token);

#endif
