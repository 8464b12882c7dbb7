/*
 * Stands in for a program with an unknown ggml: it has all the functions that are looked up, but
 * something is not where it should be. It loads the plug-in as ggml does and reports the result.
 * Nothing here is ggml's.
 *
 *     other_host PLUGIN WHICH     WHICH: see main
 *
 * Status 0: the plug-in refused it, and this host still works as before; 3: it was accepted.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *which = "tensors"; /* before main, as a preloaded plug-in runs before main */

static bool is(const char *name) { return strcmp(which, name) == 0; }

/* ---- a backend and a device, as words ---- */

enum { WORDS = 40, COMPUTE_NEW = 13, DEVICE_NEW = 17, COMPUTE_OLD = 11, DEVICE_OLD = 15 };

static void *device_words[WORDS];
static int registration, computed, made;

static void *word_of(void (*function)(void)) {
    void *word;
    memcpy(&word, &function, sizeof word);
    return word;
}

static int compute(void *backend, void *graph) {
    (void)backend;
    (void)graph;
    computed++;
    return 0;
}

static void *make_backend(void *device, const char *params) {
    (void)params;
    made++;
    void **words = calloc(WORDS, sizeof(void *));
    if (!words)
        return NULL;
    bool is_old = is("old");
    size_t shift = is("shifted") ? 2 : is("unmarked") ? 1 : 0;
    words[(is_old ? COMPUTE_OLD : COMPUTE_NEW) + shift] = word_of((void (*)(void))compute);
    words[(is_old ? DEVICE_OLD : DEVICE_NEW) + shift] = device;
    return words;
}

/* ---- what the plug-in looks up ---- */

const char *ggml_op_name(int op);
const char *ggml_op_name(int op) {
    static const char *const names[] = {"NONE", "MUL_MAT", "SOFT_MAX", "FLASH_ATTN_EXT", "CUSTOM"};
    return op >= 0 && op < (is("operations") ? 3 : 5) ? names[op] : NULL;
}

const char *ggml_version(void);
const char *ggml_version(void) { return "9.8.7"; }

const char *ggml_commit(void);
const char *ggml_commit(void) { return is("shifted") ? "1a2b3c" : ""; }

size_t ggml_tensor_overhead(void);
size_t ggml_tensor_overhead(void) { return is("tensors") ? 432 : 368; }

size_t ggml_graph_overhead(void);
size_t ggml_graph_overhead(void) { return 0; }

struct init_params {
    size_t size;
    void *memory;
    bool no_alloc;
};
void *ggml_init(struct init_params params);
void *ggml_init(struct init_params params) { return params.size ? calloc(1, 4096) : NULL; }

void ggml_free(void *context);
void ggml_free(void *context) { free(context); }

/* Zeros: an operation whose parameters have moved. */
void *ggml_custom_4d(void *context);
void *ggml_custom_4d(void *context) { return context; }

void *ggml_new_graph(void *context);
void *ggml_new_graph(void *context) { return context; }

void ggml_build_forward_expand(void *graph, void *node);
void ggml_build_forward_expand(void *graph, void *node) {
    (void)graph;
    (void)node;
}

void *ggml_backend_dev_by_type(int type);
void *ggml_backend_dev_by_type(int type) {
    return type == 0 && !is("no-cpu") ? device_words : NULL;
}

void *ggml_backend_dev_init(void **device, const char *params);
void *ggml_backend_dev_init(void **device, const char *params) {
    void *(*function)(void *, const char *);
    memcpy(&function, &device[5], sizeof function);
    return function(device, params);
}

void *ggml_backend_init_by_type(int type, const char *params);
void *ggml_backend_init_by_type(int type, const char *params) {
    return ggml_backend_dev_init(ggml_backend_dev_by_type(type), params);
}

void *ggml_backend_dev_backend_reg(void *device);
void *ggml_backend_dev_backend_reg(void *device) { return device ? &registration : NULL; }

void *ggml_backend_get_device(void *backend);
void *ggml_backend_get_device(void *backend) { return backend ? device_words : NULL; }

int ggml_backend_graph_compute(void **backend, void *graph);
int ggml_backend_graph_compute(void **backend, void *graph) {
    int (*function)(void *, void *);
    memcpy(&function, &backend[is("old") ? COMPUTE_OLD : COMPUTE_NEW], sizeof function);
    return function(backend, graph);
}

void ggml_backend_free(void *backend);
void ggml_backend_free(void *backend) { free(backend); }

int ggml_graph_n_nodes(void *graph);
int ggml_graph_n_nodes(void *graph) { return graph ? 1 : 0; }

void *ggml_graph_node(void *graph, int index);
void *ggml_graph_node(void *graph, int index) { return index == 0 ? graph : NULL; }

static void to_float(const void *row, float *result, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        result[i] = ((const uint16_t *)row)[i] == 0x3c00 ? 1.0f : -2.0f;
}

struct type {
    const char *name;
    int64_t block, interleaved;
    size_t bytes;
    bool quantised;
    void (*to_float)(const void *, float *, int64_t);
    void *from_float;
};
const struct type *ggml_get_type_traits(int type);
const struct type *ggml_get_type_traits(int type) {
    static struct type f16 = {"f16", 1, 0, 2, false, to_float, NULL};
    if (is("types"))
        f16.bytes = 4;
    return type == 1 ? &f16 : NULL;
}

const char *ggml_type_name(int type);
const char *ggml_type_name(int type) { return type == 1 ? "f16" : NULL; }

int ggml_backend_tensor_set_2d(void);
int ggml_backend_tensor_set_2d(void) { return 0; }

/* ---- */

/* ggml closes what it does not accept; backends are then created and compute as before. */
static bool works_without(void *plugin) {
    int before = computed;
    if (dlclose(plugin) != 0)
        return false;
    void **backend = ggml_backend_dev_init(device_words, NULL);
    void **compute_word = backend + (is("old") ? COMPUTE_OLD : COMPUTE_NEW) +
                          (is("shifted")    ? 2
                           : is("unmarked") ? 1
                                            : 0);
    bool works = backend && *compute_word == word_of((void (*)(void))compute);
    works = works && compute(backend, NULL) == 0 && computed == before + 1;
    ggml_backend_free(backend);
    return works;
}

static void begin(const char *name) {
    which = name; /* tensors, types, operations, devices, shifted, unmarked, old, params, no-cpu */
    device_words[5] = word_of((void (*)(void))make_backend);
    device_words[is("devices") ? 16 : 15] = &registration;
}

/* As a library that late_host.c loads: creates a backend as libllama does. */
int run_late(const char *name);
int run_late(const char *name) {
    begin(name);
    void *backend = ggml_backend_init_by_type(0, NULL);
    bool is_mine = backend && ggml_backend_graph_compute(backend, NULL) == 0 && computed == 1;
    ggml_backend_free(backend);
    return is_mine ? 0 : 4;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    begin(argv[2]);
    void *before = device_words[5];
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void *symbol = plugin ? dlsym(plugin, "ggml_backend_init") : NULL;
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    void *(*init)(void);
    memcpy(&init, &symbol, sizeof init);
    if (init())
        return 3;
    return device_words[5] == before && works_without(plugin) ? 0 : 4;
}
