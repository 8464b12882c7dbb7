/*
 * llama.cpp's library, loaded at run time; see runner.h.
 *
 * Structs that its functions take and return by value are passed as blocks of
 * bytes that are larger than any version's: by the rules of x86-64 and 64-bit ARM
 * a struct of more than 16 bytes is returned through memory of the caller's, and
 * passed on the stack or by reference, so that the callee sees its own struct at
 * the block's beginning. Which members lie where is told by the defaults that the
 * library itself fills in.
 */
#define _GNU_SOURCE

#include "model/runner.h"

#include "base/files.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_SIZE = 1024, LOG_SIZE = 256, LOG_ERROR = 4 };

typedef struct block {
    _Alignas(8) unsigned char bytes[BLOCK_SIZE];
} block;

typedef struct chat_message {
    const char *role;
    const char *content;
} chat_message;

/* The functions, by their names in the library. */
typedef struct functions {
    void (*ggml_backend_load_all_from_path)(const char *folder);
    void *(*ggml_backend_load)(const char *path);
    void (*llama_log_set)(void (*log)(int level, const char *text, void *user), void *user);
    void (*llama_backend_init)(void);
    block (*llama_model_default_params)(void);
    block (*llama_context_default_params)(void);
    void *(*llama_model_load_from_file)(const char *path, block params);
    void (*llama_model_free)(void *model);
    void *(*llama_init_from_model)(void *model, block params);
    void (*llama_free)(void *context);
    const void *(*llama_model_get_vocab)(const void *model);
    int32_t (*llama_model_n_ctx_train)(const void *model);
    const char *(*llama_model_chat_template)(const void *model, const char *name);
    int32_t (*llama_vocab_n_tokens)(const void *vocab);
    bool (*llama_vocab_is_eog)(const void *vocab, int32_t token);
    bool (*llama_vocab_get_add_bos)(const void *vocab);
    int32_t (*llama_tokenize)(const void *vocab, const char *text, int32_t length, int32_t *tokens,
                              int32_t room, bool add_special, bool parse_special);
    int32_t (*llama_token_to_piece)(const void *vocab, int32_t token, char *text, int32_t room,
                                    int32_t skip, bool special);
    int32_t (*llama_chat_apply_template)(const char *template, const chat_message *messages,
                                         size_t count, bool add_answer, char *text, int32_t room);
    block (*llama_batch_get_one)(int32_t *tokens, int32_t count);
    int32_t (*llama_decode)(void *context, block batch);
    float *(*llama_get_logits_ith)(void *context, int32_t i);
    void *(*llama_get_memory)(const void *context);
    void (*llama_memory_clear)(void *memory, bool with_data);
} functions;

struct runner {
    functions call;
    void *library;
    void *model;
    void *context;
    const void *vocabulary;
    char version[64];
    size_t threads_at; /* where in the context's parameters the numbers of threads lie */
    uint32_t batch;
    uint64_t evaluations;
    size_t last_at; /* which of the tokens that were fed began the last batch */
    int8_t *wanted; /* [batch] */
};

/* The first error that the library told of, since the next ones are its consequence; its callback
 * has no better place for it. */
static char first_complaint[LOG_SIZE];

static void keep_complaint(int level, const char *text, void *user) {
    (void)user;
    if (level != LOG_ERROR || strlen(text) < 2 || first_complaint[0])
        return;
    snprintf(first_complaint, sizeof first_complaint, "%s", text);
    first_complaint[strcspn(first_complaint, "\n")] = '\0';
}

static const char *complaint(void) {
    return first_complaint[0] ? first_complaint : "no reason given";
}

/* Whether it is the machine that fell short, and not the file. */
static bool is_about_memory(const char *reason) {
    return strstr(reason, "allocate") || strstr(reason, "bad_alloc");
}

/* ---- finding files ---- */

static const char how_to_get_one[] =
    "no libllama was found beside llama-cli, below this folder (also in node_modules) or among the "
    "system's libraries. Get one with 'npm install @node-llama-cpp/linux-x64' (no compiler "
    "needed), or build llama.cpp with shared libraries, and name its folder with --llama or "
    "WHET_LLAMA";

/* libllama.so, libllama.so.0, libllama.v0.5.0.so; not libllama-common.so. */
static bool is_library(const char *name) {
    return strncmp(name, "libllama.", 9) == 0 && strstr(name, ".so") != NULL;
}

/* The library in a folder; of several, the one whose name comes first. */
static bool find_in(const char *folder, char path[RUNNER_PATH_SIZE]) {
    char best[NAME_MAX + 1] = "";
    DIR *directory = opendir(folder);
    if (!directory)
        return false;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (is_library(entry->d_name) && (!best[0] || strcmp(entry->d_name, best) < 0))
            snprintf(best, sizeof best, "%s", entry->d_name);
    closedir(directory);
    int length = snprintf(path, RUNNER_PATH_SIZE, "%s/%s", folder, best);
    return best[0] && length < RUNNER_PATH_SIZE;
}

/* In a folder, or where builds and packages have it below. */
static bool find_below(const char *folder, char path[RUNNER_PATH_SIZE]) {
    static const char *const below[] = {"",
                                        "lib",
                                        "bin",
                                        "build/bin",
                                        "bins/linux-x64",
                                        "package/bins/linux-x64",
                                        "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"};
    char place[RUNNER_PATH_SIZE];
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        snprintf(place, sizeof place, "%.3000s/%s", folder, below[i]);
        if (find_in(place, path))
            return true;
    }
    return false;
}

/* Beside the program llama-cli, or in the lib folder that goes with its bin. */
static bool find_beside_program(char path[RUNNER_PATH_SIZE]) {
    const char *rest = getenv("PATH");
    char place[RUNNER_PATH_SIZE];
    while (rest && *rest) {
        int length = (int)strcspn(rest, ":");
        snprintf(place, sizeof place, "%.*s/llama-cli", length > 3000 ? 3000 : length, rest);
        char *program = access(place, X_OK) == 0 ? realpath(place, NULL) : NULL;
        if (program) {
            *strrchr(program, '/') = '\0';
            snprintf(place, sizeof place, "%.3000s/../lib", program);
            bool is_found = find_in(program, path) || find_in(place, path);
            free(program);
            if (is_found)
                return true;
        }
        rest += length + (rest[length] == ':');
    }
    return false;
}

/* Among the system's libraries: the name without a number is in a package for developers alone. */
static bool find_in_system(char path[RUNNER_PATH_SIZE]) {
    static const char *const names[] = {"libllama.so", "libllama.so.0"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (!library)
            continue;
        snprintf(path, RUNNER_PATH_SIZE, "%s", names[i]);
        dlclose(library);
        return true;
    }
    return false;
}

/* The folder that this program lies in, empty if that cannot be told. */
static void own_folder(char *folder, size_t size) {
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
}

/* What was fetched for the tests of the build that this program lies in. */
static bool find_in_build(char path[RUNNER_PATH_SIZE]) {
    char program[2048], place[RUNNER_PATH_SIZE];
    own_folder(program, sizeof program);
    snprintf(place, sizeof place, "%s/../llama.cpp/lib", program);
    return program[0] && find_in(place, path);
}

bool runner_find_library(const char *where, char path[RUNNER_PATH_SIZE], lab_error *error) {
    where = where ? where : getenv("WHET_LLAMA");
    if (where && *where) {
        if (find_below(where, path))
            return true;
        snprintf(path, RUNNER_PATH_SIZE, "%s", where);
        const char *slash = strrchr(where, '/');
        return (is_library(slash ? slash + 1 : where) && access(where, R_OK) == 0) ||
               lab_fail(error, LAB_INPUT, "no libllama in %s", where);
    }
    if (find_beside_program(path) || find_below(".", path) || find_in_system(path))
        return true;
    return find_in_build(path) || lab_fail(error, LAB_INPUT, "%s", how_to_get_one);
}

bool runner_find_plugin(const char *where, char path[RUNNER_PATH_SIZE], lab_error *error) {
    static const char *const places[] = {"",
                                         "plugin/ggml/",
                                         "../lib/",
                                         "../lib64/",
                                         "../lib/x86_64-linux-gnu/",
                                         "../lib/aarch64-linux-gnu/"};
    char program[2048];
    where = where ? where : getenv("WHET_PLUGIN");
    if (where && *where) {
        snprintf(path, RUNNER_PATH_SIZE, "%s", where);
        return access(path, R_OK) == 0 || lab_fail_file(error, "read", where);
    }
    own_folder(program, sizeof program);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, RUNNER_PATH_SIZE, "%s/%slibggml-whet.so", program, places[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    return lab_fail(error, LAB_INPUT,
                    "the plug-in libggml-whet.so is neither beside the program nor installed; name "
                    "it with --plugin or WHET_PLUGIN");
}

/* ---- loading ---- */

/* Versions of 2025 do not tell what they are. */
static void tell_version(runner *r) {
    const char *(*version)(void);
    void *function = dlsym(r->library, "llama_version");
    if (!function)
        return;
    memcpy(&version, &function, sizeof function);
    snprintf(r->version, sizeof r->version, "%s", version());
}

static bool load_functions(runner *r, const char *path, lab_error *error) {
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
    _Static_assert(sizeof names / sizeof names[0] == sizeof(functions) / sizeof(void *),
                   "one name for each function");
    r->library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!r->library) {
        lab_fail(error, LAB_SYSTEM, "cannot load %s: %s", path, dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *function = dlsym(r->library, names[i]);
        if (!function) {
            lab_fail(error, LAB_INPUT,
                     "%s has no function %s: it is of a version that is not known here", path,
                     names[i]);
            return false;
        }
        memcpy((char *)&r->call + i * sizeof function, &function, sizeof function);
    }
    tell_version(r);
    return true;
}

static int32_t number_at(const block *params, size_t index) {
    int32_t number;
    memcpy(&number, params->bytes + index * sizeof number, sizeof number);
    return number;
}

static void set_number(block *params, size_t index, int32_t number) {
    memcpy(params->bytes + index * sizeof number, &number, sizeof number);
}

/*
 * The parameters of a context begin with sizes, four of which have stood in front
 * since there are contexts; between them and the numbers of threads others have
 * come with time.
 */
static const struct {
    int32_t defaults[9];
    size_t threads_at;
} context_layouts[] = {
    {{512, 2048, 512, 1, 4, 4}, 4},          /* 2025 */
    {{512, 2048, 512, 1, 0, 0, 4, 4}, 6},    /* 2026, recurrent states and outputs */
    {{512, 2048, 512, 1, 0, 0, 1, 4, 4}, 7}, /* and outputs of a sequence */
};

static bool know_context(runner *r) {
    /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): load_functions has set it */
    block params = r->call.llama_context_default_params();
    for (size_t i = 0; i < sizeof context_layouts / sizeof context_layouts[0]; i++) {
        size_t at = context_layouts[i].threads_at;
        bool is_this = true;
        for (size_t j = 0; j < at + 2; j++)
            is_this = is_this && number_at(&params, j) == context_layouts[i].defaults[j];
        if (is_this) {
            r->threads_at = at;
            return true;
        }
    }
    return false;
}

/* A model's begin with two pointers, NULL, how many layers go to a GPU, and 1: split by layers. */
static bool know_model(const runner *r) {
    block params = r->call.llama_model_default_params();
    int32_t layers = number_at(&params, 4);
    return number_at(&params, 0) == 0 && number_at(&params, 1) == 0 && number_at(&params, 2) == 0 &&
           number_at(&params, 3) == 0 && number_at(&params, 5) == 1 &&
           (layers == -1 || layers == 0 || layers == 99 || layers == 999);
}

/* A batch: its count, the tokens, five pointers more. */
enum { BATCH_TOKENS = 8, BATCH_WANTED = 48, BATCH_SIZE = 56 };

static bool know_batch(const runner *r) {
    int32_t token = 0;
    int32_t *tokens = &token;
    block batch = r->call.llama_batch_get_one(&token, 1);
    bool is_known = number_at(&batch, 0) == 1 &&
                    memcmp(batch.bytes + BATCH_TOKENS, &tokens, sizeof tokens) == 0;
    for (size_t i = BATCH_TOKENS + sizeof tokens; i < BATCH_SIZE; i++)
        is_known = is_known && batch.bytes[i] == 0;
    return is_known;
}

static bool load_backends(runner *r, const char *path, const char *plugin, lab_error *error) {
    char folder[RUNNER_PATH_SIZE];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    r->call.llama_log_set(keep_complaint, NULL);
    r->call.llama_backend_init();
    r->call.ggml_backend_load_all_from_path(slash ? folder : NULL);
    return r->call.ggml_backend_load(plugin) ||
           lab_fail(error, LAB_SYSTEM, "llama.cpp could not load %s: %s", plugin, complaint());
}

static bool open_parts(runner *r, const char *library, const char *plugin, const char *model,
                       lab_error *error) {
    if (!load_functions(r, library, error))
        return false;
    if (!know_context(r) || !know_model(r) || !know_batch(r))
        return lab_fail(error, LAB_INPUT,
                        "%s (%s) lays out its data in a way that is not known here; versions of "
                        "June 2025 to 2026 are",
                        library, r->version[0] ? r->version : "it does not tell its version");
    if (!load_backends(r, library, plugin, error))
        return false;
    block params = r->call.llama_model_default_params();
    set_number(&params, 4, 0); /* the plug-in sees what is computed by the processor */
    r->model = r->call.llama_model_load_from_file(model, params);
    if (!r->model)
        return lab_fail(error, is_about_memory(complaint()) ? LAB_SYSTEM : LAB_INPUT,
                        "llama.cpp could not load %s: %s", model, complaint());
    r->vocabulary = r->call.llama_model_get_vocab(r->model);
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
        r->call.llama_free(r->context);
    if (r->model)
        r->call.llama_model_free(r->model);
    /* The library stays: backends that it has loaded do not expect it to go. */
    free(r->wanted);
    free(r);
}

const char *runner_version(const runner *r) { return r->version; }

uint32_t runner_trained_context(const runner *r) {
    int32_t trained = r->call.llama_model_n_ctx_train(r->model);
    return trained > 0 ? (uint32_t)trained : 0;
}

size_t runner_vocabulary(const runner *r) {
    return (size_t)r->call.llama_vocab_n_tokens(r->vocabulary);
}

/* ---- text ---- */

int32_t *runner_tokens(runner *r, const char *text, bool has_start, bool has_special, size_t *count,
                       lab_error *error) {
    size_t length = strlen(text);
    if (length > INT32_MAX / 2) {
        lab_fail(error, LAB_INPUT, "a text of %zu bytes is too long", length);
        return NULL;
    }
    size_t room = length + 16; /* a token is a byte at least, and a few are added */
    int32_t *tokens = malloc(room * sizeof *tokens);
    if (!tokens) {
        lab_fail_memory(error);
        return NULL;
    }
    int32_t made = r->call.llama_tokenize(r->vocabulary, text, (int32_t)length, tokens,
                                          (int32_t)room, has_start, has_special);
    if (made < 0) {
        lab_fail(error, LAB_SYSTEM, "llama.cpp could not make tokens of a text");
        free(tokens);
        return NULL;
    }
    *count = (size_t)made;
    return tokens;
}

size_t runner_piece(const runner *r, int32_t token, char text[RUNNER_PIECE_SIZE]) {
    int32_t length =
        r->call.llama_token_to_piece(r->vocabulary, token, text, RUNNER_PIECE_SIZE - 1, 0, false);
    size_t used = length > 0 ? (size_t)length : 0;
    text[used] = '\0';
    return used;
}

bool runner_is_end(const runner *r, int32_t token) {
    return r->call.llama_vocab_is_eog(r->vocabulary, token);
}

bool runner_adds_start(const runner *r) { return r->call.llama_vocab_get_add_bos(r->vocabulary); }

char *runner_chat(const runner *r, const char *message, lab_error *error) {
    const char *template = r->call.llama_model_chat_template(r->model, NULL);
    chat_message chat = {"user", message};
    if (!template) {
        lab_fail(error, LAB_INPUT, "the model has no chat template");
        return NULL;
    }
    int32_t length = r->call.llama_chat_apply_template(template, &chat, 1, true, NULL, 0);
    char *text = length > 0 ? malloc((size_t)length + 1) : NULL;
    if (length > 0 && text) {
        r->call.llama_chat_apply_template(template, &chat, 1, true, text, length + 1);
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

bool runner_start(runner *r, uint32_t context, uint32_t batch, uint32_t threads, lab_error *error) {
    block params = r->call.llama_context_default_params();
    set_number(&params, 0, (int32_t)context);
    set_number(&params, 1, (int32_t)batch);
    set_number(&params, 2, (int32_t)batch);
    set_number(&params, r->threads_at, (int32_t)threads);
    set_number(&params, r->threads_at + 1, (int32_t)threads);
    r->batch = batch;
    r->wanted = malloc(batch);
    if (!r->wanted)
        return lab_fail_memory(error);
    r->context = r->call.llama_init_from_model(r->model, params);
    return r->context ||
           lab_fail(error, LAB_SYSTEM, "llama.cpp could not make room for %u tokens: %s", context,
                    complaint());
}

static bool feed_batch(runner *r, int32_t *tokens, size_t count, size_t first_wanted,
                       lab_error *error) {
    block batch = r->call.llama_batch_get_one(tokens, (int32_t)count);
    for (size_t i = 0; i < count; i++)
        r->wanted[i] = i >= first_wanted;
    memcpy(batch.bytes + BATCH_WANTED, &r->wanted, sizeof r->wanted);
    int32_t status = r->call.llama_decode(r->context, batch);
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
    return r->call.llama_get_logits_ith(r->context, (int32_t)(i - r->last_at));
}

void runner_forget(runner *r) {
    r->call.llama_memory_clear(r->call.llama_get_memory(r->context), true);
}

uint64_t runner_evaluations(const runner *r) { return r->evaluations; }
