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

/*
 * After the numbers of threads come
 *
 *     the kind of context           since 2026; 0
 *     the kind of RoPE scaling      -1: as the model says
 *     pooling, attention            -1
 *     flash attention               since September 2025; -1
 *     RoPE's numbers, listed below
 *     the threshold of defragmentation
 *     a callback and its argument   NULL; aligned to 8 bytes
 *     the types of keys and values  1, which is f16
 */
enum {
    ROPE_BASE,
    ROPE_SCALE,
    ROPE_MIXED, /* 1 for YaRN, 0 for a plain interpolation */
    ROPE_ATTENTION,
    ROPE_FAST,
    ROPE_SLOW,
    ROPE_ORIGINAL,
    ROPE_NUMBERS
};
enum { CHOICES_MIN = 3, CHOICES_MAX = 4, CALLBACK_NUMBERS = 4, TYPE_F32 = 0, TYPE_F16 = 1 };

/* Bits of floats. Versions before 2026 say 1, 32 and 1 where later ones leave it to the model. */
#define MINUS_ONE ((int32_t)0xBF800000)
#define ONE 0x3F800000
#define THIRTY_TWO 0x42000000
static const int32_t rope_defaults[ROPE_NUMBERS][2] = {
    [ROPE_BASE] = {0, 0},
    [ROPE_SCALE] = {0, 0},
    [ROPE_MIXED] = {MINUS_ONE, MINUS_ONE},
    [ROPE_ATTENTION] = {MINUS_ONE, ONE},
    [ROPE_FAST] = {MINUS_ONE, THIRTY_TWO},
    [ROPE_SLOW] = {MINUS_ONE, ONE},
    [ROPE_ORIGINAL] = {0, 0},
};

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
                                    "llama_model_n_layer",
                                    "llama_model_n_head",
                                    "llama_model_rope_type",
                                    "llama_model_chat_template",
                                    "llama_vocab_n_tokens",
                                    "llama_vocab_is_eog",
                                    "llama_vocab_get_add_bos",
                                    "llama_vocab_bos",
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

static void set_float(libllama_block *params, size_t index, double value) {
    float number = (float)value;
    memcpy(params->bytes + index * sizeof number, &number, sizeof number);
}

/* Finds what comes after the numbers of threads. */
static void find_rope(libllama *l, const libllama_block *params) {
    size_t at = l->threads_at + 2, choices = 0;
    at += number_at(params, at) == 0;
    while (choices <= CHOICES_MAX && number_at(params, at + choices) == -1)
        choices++;
    size_t numbers = at + choices, callbacks = (numbers + ROPE_NUMBERS + 2) / 2 * 2;
    size_t types = callbacks + CALLBACK_NUMBERS;
    bool is_known = choices >= CHOICES_MIN && choices <= CHOICES_MAX;
    for (size_t i = 0; i < ROPE_NUMBERS; i++) {
        int32_t number = number_at(params, numbers + i);
        is_known = is_known && (number == rope_defaults[i][0] || number == rope_defaults[i][1]);
    }
    for (size_t i = callbacks; i < types; i++)
        is_known = is_known && number_at(params, i) == 0;
    if (!is_known || number_at(params, types) != TYPE_F16 ||
        number_at(params, types + 1) != TYPE_F16)
        return;
    l->rope_kind_at = at;
    l->rope_numbers_at = numbers;
    l->cache_types_at = types;
    l->flash_at = choices == CHOICES_MAX ? at + CHOICES_MAX - 1 : 0;
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
            find_rope(l, &params);
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

/* All of it, so that nothing of the model's own scaling is left. */
static void set_rope(const libllama *l, const libllama_rope *rope, libllama_block *params) {
    size_t numbers = l->rope_numbers_at;
    bool is_yarn = rope->kind == LIBLLAMA_ROPE_YARN;
    set_number(params, l->rope_kind_at, (int32_t)rope->kind);
    set_float(params, numbers + ROPE_BASE, rope->base);
    set_float(params, numbers + ROPE_SCALE, 1 / rope->factor);
    set_float(params, numbers + ROPE_MIXED, is_yarn);
    set_float(params, numbers + ROPE_ATTENTION, 1);
    if (!is_yarn)
        return;
    set_float(params, numbers + ROPE_FAST, rope->fast);
    set_float(params, numbers + ROPE_SLOW, rope->slow);
    set_number(params, numbers + ROPE_ORIGINAL, (int32_t)rope->original);
}

bool libllama_context_params(const libllama *l, const libllama_context_options *options,
                             libllama_block *params) {
    *params = l->call.llama_context_default_params();
    set_number(params, CONTEXT_TOKENS, (int32_t)options->context);
    set_number(params, CONTEXT_BATCH, (int32_t)options->batch);
    set_number(params, CONTEXT_MICRO_BATCH, (int32_t)options->batch);
    set_number(params, l->threads_at, (int32_t)options->threads);
    set_number(params, l->threads_at + 1, (int32_t)options->threads);
    if ((options->rope || options->has_f32_cache) && !l->rope_kind_at)
        return false;
    if (options->rope)
        set_rope(l, options->rope, params);
    if (options->has_f32_cache) {
        set_number(params, l->cache_types_at, TYPE_F32);
        set_number(params, l->cache_types_at + 1, TYPE_F32);
        if (l->flash_at)
            set_number(params, l->flash_at, 0);
    }
    return true;
}

libllama_block libllama_batch(const libllama *l, int32_t *tokens, size_t count,
                              const int8_t *wanted) {
    libllama_block batch = l->call.llama_batch_get_one(tokens, (int32_t)count);
    memcpy(batch.bytes + BATCH_WANTED, &wanted, sizeof wanted);
    return batch;
}
