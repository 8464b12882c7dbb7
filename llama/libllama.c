/*
 * libllama's functions and the supported layouts of its structs; see libllama.h.
 */
#define _GNU_SOURCE
#include "llama/libllama.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/*
 * The parameters of a context begin with sizes. The first four have always been there; others were
 * added over time between them and the numbers of threads.
 */
static const struct {
    int32_t defaults[9];
    size_t threads_at;
} context_layouts[] = {
    {{512, 2048, 512, 1, 4, 4}, 4},          /* 2025 */
    {{512, 2048, 512, 1, 0, 0, 4, 4}, 6},    /* 2026, recurrent states and outputs */
    {{512, 2048, 512, 1, 0, 0, 1, 4, 4}, 7}, /* and outputs per sequence */
};
enum { CONTEXT_TOKENS = 0, CONTEXT_BATCH = 1, CONTEXT_MICRO_BATCH = 2 };

/* A model's parameters begin with two NULL pointers, the number of layers on a GPU, and 1: split by
 * layers. */
enum { MODEL_GPU_LAYERS = 4, MODEL_SPLIT = 5 };

/* A batch, in bytes: its count, the tokens, five more pointers, the last of which selects the
 * tokens whose logits are wanted. */
enum { BATCH_TOKENS = 8, BATCH_WANTED = 48, BATCH_BYTES = 56 };

/* ---- functions ---- */

static const char *const names[] = {"ggml_backend_load_all_from_path",
                                    "ggml_backend_load",
                                    "llama_log_set",
                                    "llama_backend_init",
                                    "llama_model_default_params",
                                    "llama_context_default_params",
                                    "llama_model_load_from_file",
                                    "llama_model_free",
                                    "llama_init_from_model",
                                    "llama_free",
                                    "llama_model_get_vocab",
                                    "llama_model_n_ctx_train",
                                    "llama_model_chat_template",
                                    "llama_vocab_n_tokens",
                                    "llama_vocab_is_eog",
                                    "llama_vocab_get_add_bos",
                                    "llama_tokenize",
                                    "llama_token_to_piece",
                                    "llama_chat_apply_template",
                                    "llama_batch_get_one",
                                    "llama_decode",
                                    "llama_get_logits_ith",
                                    "llama_get_memory",
                                    "llama_memory_clear"};
enum { FUNCTIONS = sizeof names / sizeof names[0] };
_Static_assert(FUNCTIONS == sizeof(libllama_functions) / sizeof(void *),
               "one name for each function");

/* The first missing function, or NULL. */
static const char *load_functions(libllama *l, void *library) {
    for (size_t i = 0; i < FUNCTIONS; i++) {
        void *function = dlsym(library, names[i]);
        if (!function)
            return names[i];
        memcpy((char *)&l->call + i * sizeof function, &function, sizeof function);
    }
    return NULL;
}

static void ask_version(libllama *l, void *library) {
    const char *(*version)(void);
    void *function = dlsym(library, "llama_version");
    if (!function)
        return;
    memcpy(&version, &function, sizeof function);
    snprintf(l->version, sizeof l->version, "%s", version());
}

/* ---- layouts ---- */

static int32_t number_at(const libllama_block *params, size_t index) {
    int32_t number;
    memcpy(&number, params->bytes + index * sizeof number, sizeof number);
    return number;
}

static void set_number(libllama_block *params, size_t index, int32_t number) {
    memcpy(params->bytes + index * sizeof number, &number, sizeof number);
}

static bool know_context(libllama *l) {
    /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): load_functions has set it */
    libllama_block params = l->call.llama_context_default_params();
    for (size_t i = 0; i < sizeof context_layouts / sizeof context_layouts[0]; i++) {
        size_t at = context_layouts[i].threads_at;
        bool is_this = true;
        for (size_t j = 0; j < at + 2; j++)
            is_this = is_this && number_at(&params, j) == context_layouts[i].defaults[j];
        if (is_this) {
            l->threads_at = at;
            return true;
        }
    }
    return false;
}

static bool know_model(const libllama *l) {
    libllama_block params = l->call.llama_model_default_params();
    int32_t layers = number_at(&params, MODEL_GPU_LAYERS);
    bool is_known = number_at(&params, MODEL_SPLIT) == 1;
    for (size_t i = 0; i < MODEL_GPU_LAYERS; i++)
        is_known = is_known && number_at(&params, i) == 0;
    return is_known && (layers == -1 || layers == 0 || layers == 99 || layers == 999);
}

static bool know_batch(const libllama *l) {
    int32_t token = 0;
    int32_t *tokens = &token;
    libllama_block batch = l->call.llama_batch_get_one(&token, 1);
    bool is_known = number_at(&batch, 0) == 1 &&
                    memcmp(batch.bytes + BATCH_TOKENS, &tokens, sizeof tokens) == 0;
    for (size_t i = BATCH_TOKENS + sizeof tokens; i < BATCH_BYTES; i++)
        is_known = is_known && batch.bytes[i] == 0;
    return is_known;
}

libllama_status libllama_open(libllama *l, const char *path, char *detail, size_t detail_bytes) {
    *l = (libllama){.version = ""};
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        snprintf(detail, detail_bytes, "%s", dlerror());
        return LIBLLAMA_NOT_LOADED;
    }
    const char *missing = load_functions(l, library);
    if (missing) {
        snprintf(detail, detail_bytes, "%s", missing);
        return LIBLLAMA_LACKS_FUNCTION;
    }
    ask_version(l, library);
    if (know_context(l) && know_model(l) && know_batch(l))
        return LIBLLAMA_OK;
    snprintf(detail, detail_bytes, "%s", l->version);
    return LIBLLAMA_UNKNOWN_VERSION;
}

/* ---- structs ---- */

libllama_block libllama_model_params(const libllama *l) {
    libllama_block params = l->call.llama_model_default_params();
    set_number(&params, MODEL_GPU_LAYERS, 0);
    return params;
}

libllama_block libllama_context_params(const libllama *l, uint32_t context, uint32_t batch,
                                       uint32_t threads) {
    libllama_block params = l->call.llama_context_default_params();
    set_number(&params, CONTEXT_TOKENS, (int32_t)context);
    set_number(&params, CONTEXT_BATCH, (int32_t)batch);
    set_number(&params, CONTEXT_MICRO_BATCH, (int32_t)batch);
    set_number(&params, l->threads_at, (int32_t)threads);
    set_number(&params, l->threads_at + 1, (int32_t)threads);
    return params;
}

libllama_block libllama_batch(const libllama *l, int32_t *tokens, size_t count,
                              const int8_t *wanted) {
    libllama_block batch = l->call.llama_batch_get_one(tokens, (int32_t)count);
    memcpy(batch.bytes + BATCH_WANTED, &wanted, sizeof wanted);
    return batch;
}
