/* A model in llama.cpp's library; see runner.h. */
#include "model/runner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_SIZE = 256 };

struct runner {
    libllama llama;
    void *model;
    void *context;
    const void *vocabulary;
    uint32_t batch;
    uint64_t evaluations;
    size_t last_at; /* index of the first token of the last batch */
    int8_t *wanted; /* [batch] */
};

/* The first error that the library logged, since later ones are its consequences; its callback has
 * no context argument. */
static char first_complaint[LOG_SIZE];

static void keep_complaint(int level, const char *text, void *user) {
    (void)user;
    if (level != LIBLLAMA_LOG_ERROR || strlen(text) < 2 || first_complaint[0])
        return;
    snprintf(first_complaint, sizeof first_complaint, "%s", text);
    first_complaint[strcspn(first_complaint, "\n")] = '\0';
}

static const char *complaint(void) {
    return first_complaint[0] ? first_complaint : "no reason given";
}

/* Whether the machine is to blame, not the file. */
static bool is_about_memory(const char *reason) {
    return strstr(reason, "allocate") || strstr(reason, "bad_alloc");
}

/* ---- loading ---- */

static bool load_backends(runner *r, const char *path, const char *plugin, lab_error *error) {
    char folder[RUNNER_PATH_SIZE];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    r->llama.call.llama_log_set(keep_complaint, NULL);
    r->llama.call.llama_backend_init();
    r->llama.call.ggml_backend_load_all_from_path(slash ? folder : NULL);
    return r->llama.call.ggml_backend_load(plugin) ||
           lab_fail(error, LAB_SYSTEM, "%s: cannot load: llama.cpp: %s", plugin, complaint());
}

static bool fail_open(const char *path, libllama_status status, const char *detail,
                      lab_error *error) {
    switch (status) {
    case LIBLLAMA_NOT_LOADED:
        return lab_fail(error, LAB_SYSTEM, "%s: cannot load: %s", path,
                        lab_without_path(detail, path));
    case LIBLLAMA_LACKS_FUNCTION:
        return lab_fail(error, LAB_INPUT,
                        "%s: unsupported libllama version (no function %s); "
                        "supported: " LIBLLAMA_KNOWN_VERSIONS,
                        path, detail);
    default:
        return lab_fail(
            error, LAB_INPUT,
            "%s: unsupported libllama version (%s); supported: " LIBLLAMA_KNOWN_VERSIONS, path,
            detail[0] ? detail : "unknown");
    }
}

static bool open_parts(runner *r, const char *library, const char *plugin, const char *model,
                       lab_error *error) {
    char detail[1024];
    libllama_status status = libllama_open(&r->llama, library, detail, sizeof detail);
    if (status != LIBLLAMA_OK)
        return fail_open(library, status, detail, error);
    if (!load_backends(r, library, plugin, error))
        return false;
    r->model = r->llama.call.llama_model_load_from_file(model, libllama_model_params(&r->llama));
    if (!r->model)
        return lab_fail(error, is_about_memory(complaint()) ? LAB_SYSTEM : LAB_INPUT,
                        "%s: cannot load: llama.cpp: %s", model, complaint());
    r->vocabulary = r->llama.call.llama_model_get_vocab(r->model);
    return true;
}

runner *runner_open(const char *library, const char *plugin, const char *model, lab_error *error) {
    runner *r = calloc(1, sizeof *r);
    if (!r) {
        lab_fail_memory(error);
        return NULL;
    }
    if (open_parts(r, library, plugin, model, error))
        return r;
    runner_close(r);
    return NULL;
}

void runner_close(runner *r) {
    if (!r)
        return;
    if (r->context)
        r->llama.call.llama_free(r->context);
    if (r->model)
        r->llama.call.llama_model_free(r->model);
    free(r->wanted);
    free(r);
}

const char *runner_version(const runner *r) { return r->llama.version; }

uint32_t runner_trained_context(const runner *r) {
    int32_t trained = r->llama.call.llama_model_n_ctx_train(r->model);
    return trained > 0 ? (uint32_t)trained : 0;
}

size_t runner_vocabulary(const runner *r) {
    return (size_t)r->llama.call.llama_vocab_n_tokens(r->vocabulary);
}

size_t runner_layers(const runner *r) {
    return (size_t)r->llama.call.llama_model_n_layer(r->model);
}

size_t runner_heads(const runner *r) { return (size_t)r->llama.call.llama_model_n_head(r->model); }

bool runner_rotates(const runner *r) { return r->llama.call.llama_model_rope_type(r->model) >= 0; }

/* ---- text ---- */

int32_t *runner_tokens(runner *r, const char *text, bool has_start, bool has_special, size_t *count,
                       lab_error *error) {
    size_t length = strlen(text);
    if (length > INT32_MAX / 2) {
        lab_fail(error, LAB_INPUT, "a text of %zu bytes is too long", length);
        return NULL;
    }
    size_t capacity = length + 16; /* a token is at least a byte, and a few are added */
    int32_t *tokens = malloc(capacity * sizeof *tokens);
    if (!tokens) {
        lab_fail_memory(error);
        return NULL;
    }
    int32_t made = r->llama.call.llama_tokenize(r->vocabulary, text, (int32_t)length, tokens,
                                                (int32_t)capacity, has_start, has_special);
    if (made < 0) {
        lab_fail(error, LAB_SYSTEM, "llama.cpp could not tokenize a text");
        free(tokens);
        return NULL;
    }
    *count = (size_t)made;
    return tokens;
}

size_t runner_piece(const runner *r, int32_t token, char text[RUNNER_PIECE_SIZE]) {
    int32_t length = r->llama.call.llama_token_to_piece(r->vocabulary, token, text,
                                                        RUNNER_PIECE_SIZE - 1, 0, false);
    size_t used = length > 0 ? (size_t)length : 0;
    text[used] = '\0';
    return used;
}

bool runner_is_end(const runner *r, int32_t token) {
    return r->llama.call.llama_vocab_is_eog(r->vocabulary, token);
}

bool runner_adds_start(const runner *r) {
    return r->llama.call.llama_vocab_get_add_bos(r->vocabulary);
}

int32_t runner_start_token(const runner *r) { return r->llama.call.llama_vocab_bos(r->vocabulary); }

char *runner_chat(const runner *r, const char *message, lab_error *error) {
    const char *template = r->llama.call.llama_model_chat_template(r->model, NULL);
    libllama_chat_message chat = {"user", message};
    if (!template) {
        lab_fail(error, LAB_INPUT, "the model has no chat template");
        return NULL;
    }
    int32_t length = r->llama.call.llama_chat_apply_template(template, &chat, 1, true, NULL, 0);
    char *text = length > 0 ? malloc((size_t)length + 1) : NULL;
    if (length > 0 && text) {
        r->llama.call.llama_chat_apply_template(template, &chat, 1, true, text, length + 1);
        text[length] = '\0';
        return text;
    }
    if (length > 0)
        lab_fail_memory(error);
    else
        lab_fail(error, LAB_INPUT, "llama.cpp does not know the model's chat template");
    return NULL;
}

/* ---- running ---- */

bool runner_start(runner *r, const libllama_context_options *options, lab_error *error) {
    libllama_block params;
    if (!libllama_context_params(&r->llama, options, &params))
        return lab_fail(error, LAB_INPUT,
                        "unsupported libllama version (%s): cannot set %s; "
                        "supported: " LIBLLAMA_KNOWN_VERSIONS,
                        r->llama.version[0] ? r->llama.version : "unknown",
                        options->rope ? "the scaling of RoPE" : "the type of the cache");
    r->batch = options->batch;
    r->wanted = malloc(options->batch);
    if (!r->wanted)
        return lab_fail_memory(error);
    r->context = r->llama.call.llama_init_from_model(r->model, params);
    return r->context ||
           lab_fail(error, LAB_SYSTEM, "llama.cpp could not allocate a context of %u tokens: %s",
                    options->context, complaint());
}

static bool feed_batch(runner *r, int32_t *tokens, size_t count, size_t first_wanted,
                       lab_error *error) {
    for (size_t i = 0; i < count; i++)
        r->wanted[i] = i >= first_wanted;
    int32_t status =
        r->llama.call.llama_decode(r->context, libllama_batch(&r->llama, tokens, count, r->wanted));
    r->evaluations++;
    return status == 0 || lab_fail(error, LAB_SYSTEM, "llama.cpp could not compute %zu tokens: %s",
                                   count, complaint());
}

bool runner_feed(runner *r, const int32_t *tokens, size_t count, size_t first_wanted,
                 lab_error *error) {
    for (size_t at = 0; at < count; at += r->batch) {
        size_t part = count - at < r->batch ? count - at : r->batch;
        size_t wanted = first_wanted > at ? first_wanted - at : 0;
        r->last_at = at;
        if (!feed_batch(r, (int32_t *)tokens + at, part, wanted, error))
            return false;
    }
    return true;
}

const float *runner_logits(runner *r, size_t i) {
    return r->llama.call.llama_get_logits_ith(r->context, (int32_t)(i - r->last_at));
}

void runner_forget(runner *r) {
    r->llama.call.llama_memory_clear(r->llama.call.llama_get_memory(r->context), true);
}

uint64_t runner_evaluations(const runner *r) { return r->evaluations; }

/* ---- of logits ---- */

int32_t runner_likeliest(const float *logits, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

double runner_surprise(const float *logits, size_t count, int32_t token) {
    double largest = (double)logits[0], sum = 0;
    for (size_t i = 1; i < count; i++)
        largest = fmax(largest, (double)logits[i]);
    for (size_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - largest);
    /* cppcheck-suppress invalidFunctionArg; the largest alone adds 1 */
    return log(sum) - ((double)logits[token] - largest);
}
