/*
 * Finding the host, telling its layout, and the hook. See host.h.
 */
#define _GNU_SOURCE
#include "host.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The layouts of a backend that are known: a pointer to its GUID, then the functions of its
 * interface, then the device it belongs to. In April 2026 two functions came into the middle, and
 * ggml_backend_tensor_set_2d into the library with them; nothing else tells.
 */
typedef struct backend_layout {
    const char *name;
    bool has_set_2d;
    size_t functions;
    size_t graph_compute;
} backend_layout;

static const backend_layout backend_layouts[] = {
    {"since April 2026", true, 16, 12},
    {"before April 2026", false, 14, 10},
    {"before September 2025", false, 13, 10},
};

/* A device: the functions of its interface, then its registration. */
#define DEVICE_FUNCTIONS 15
#define DEVICE_INIT_BACKEND 5

#define DEVICE_TYPE_CPU 0

/* Pointers to functions and to data have one representation wherever there is dlsym. */
typedef void (*any_function)(void);
_Static_assert(sizeof(any_function) == sizeof(void *), "dlsym needs it");

typedef struct init_params {
    size_t memory_bytes;
    void *memory;
    bool no_alloc;
} init_params;

typedef host_backend *(*init_backend_function)(host_device *device, const char *params);

/* Functions of the host that only attaching uses. */
typedef struct library {
    void *handle;
    const char *(*op_name)(int op);
    size_t (*tensor_overhead)(void);
    size_t (*graph_overhead)(void);
    host_context *(*init)(init_params params);
    void (*free)(host_context *context);
    host_tensor *(*custom_4d)(host_context *context, int type, int64_t ne0, int64_t ne1,
                              int64_t ne2, int64_t ne3, host_tensor **sources, int source_count,
                              host_custom function, int tasks, void *user);
    host_graph *(*new_graph)(host_context *context);
    void (*build_forward)(host_graph *graph, host_tensor *tensor);
    host_device *(*device_by_type)(int type);
    host_backend *(*device_init)(host_device *device, const char *params);
    void *(*device_registration)(host_device *device);
    host_device *(*backend_device)(host_backend *backend);
    int (*backend_compute)(host_backend *backend, host_graph *graph);
    void (*backend_free)(host_backend *backend);
} library;

/* What the replaced functions go by; set once, before they are in place. */
static struct {
    const backend_layout *layout;
    init_backend_function init_backend;
    host_compute original, replacement;
    atomic_bool is_on;               /* until then everything passes through */
    _Atomic(host_backend *) proving; /* the backend of the proof */
    _Atomic unsigned made, proved;   /* backends that came through the hook; graphs of the proof */
} hook;

/* ---- looking up ---- */

static void *open_library_of(const void *address) {
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname
               ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
               : NULL;
}

static void *open_caller(const void *caller) {
    void *handle = open_library_of(caller);
    return handle ? handle : dlopen(NULL, RTLD_LAZY);
}

/* What the caller's library itself was linked with, which need not be open to all; and where that
 * is all the same, the next after this. */
void *host_own_function(const void *caller, const char *name, const void *replacement) {
    void *handle = open_library_of(caller);
    void *function = handle ? dlsym(handle, name) : NULL;
    if (handle)
        dlclose(handle);
    return function && function != replacement ? function : dlsym(RTLD_NEXT, name);
}

static bool look_up(library *l, const void *caller, host *h, message *why) {
    l->handle = open_caller(caller);
    const struct {
        const char *name;
        void *place;
    } wanted[] = {
        {"ggml_op_name", &l->op_name},
        {"ggml_tensor_overhead", &l->tensor_overhead},
        {"ggml_graph_overhead", &l->graph_overhead},
        {"ggml_init", &l->init},
        {"ggml_free", &l->free},
        {"ggml_custom_4d", &l->custom_4d},
        {"ggml_new_graph", &l->new_graph},
        {"ggml_build_forward_expand", &l->build_forward},
        {"ggml_backend_dev_by_type", &l->device_by_type},
        {"ggml_backend_dev_init", &l->device_init},
        {"ggml_backend_dev_backend_reg", &l->device_registration},
        {"ggml_backend_get_device", &l->backend_device},
        {"ggml_backend_graph_compute", &l->backend_compute},
        {"ggml_backend_free", &l->backend_free},
        {"ggml_graph_n_nodes", &h->graph_size},
        {"ggml_graph_node", &h->graph_node},
        {"ggml_get_type_traits", &h->type_of},
        {"ggml_type_name", &h->type_name},
    };
    enum { WANTED = sizeof wanted / sizeof *wanted };
    const char *missing = NULL;
    size_t found = 0;
    for (size_t i = 0; i < WANTED; i++) {
        void *symbol = l->handle ? dlsym(l->handle, wanted[i].name) : NULL;
        memcpy(wanted[i].place, &symbol, sizeof symbol);
        if (symbol)
            found++;
        else if (!missing)
            missing = wanted[i].name;
    }
    if (found == 0)
        return message_set(why, "ggml is linked into this program statically, or hidden there, and "
                                "cannot be reached");
    return found == WANTED || message_set(why, "this program's ggml has no function %s", missing);
}

/* Numbers of operations move from version to version. That ggml_custom_4d is there means that
 * CUSTOM is among the names, so that the search ends inside of the host's table. */
static bool number_operations(const library *l, host *h, message *why) {
    const struct {
        const char *name;
        int *number;
    } wanted[] = {
        {"FLASH_ATTN_EXT", &h->op_attention},
        {"SOFT_MAX", &h->op_softmax},
        {"MUL_MAT", &h->op_product},
        {"ROPE", &h->op_rotation},
        {"CUSTOM", &h->op_custom},
    };
    enum { WANTED = sizeof wanted / sizeof *wanted };
    for (size_t i = 0; i < WANTED; i++)
        *wanted[i].number = -1;
    for (int op = 0; op < 1000 && h->op_custom < 0; op++) {
        const char *name = l->op_name(op);
        if (!name)
            break;
        for (size_t i = 0; i < WANTED; i++)
            if (strcmp(name, wanted[i].name) == 0)
                *wanted[i].number = op;
    }
    bool is_known =
        h->op_attention >= 0 && h->op_softmax >= 0 && h->op_product >= 0 && h->op_custom >= 0;
    return is_known ||
           message_set(why, "this program's ggml numbers its operations in an unknown way");
}

static bool check_type(const host *h) {
    const host_type *type = h->type_of(HOST_F16);
    const uint16_t half[2] = {0x3c00, 0xc000};
    float numbers[2] = {0, 0};
    if (!type || !type->name || strcmp(type->name, "f16") != 0 || type->block_elements != 1 ||
        type->block_bytes != 2 || type->quantised || !type->to_float)
        return false;
    type->to_float(half, numbers, 2);
    return numbers[0] == 1.0f && numbers[1] == -2.0f;
}

/* ---- structs of the host's, a word at a time ---- */

static void *word_at(const void *object, size_t index) {
    void *word;
    memcpy(&word, (const char *)object + index * sizeof word, sizeof word);
    return word;
}

static void set_word(void *object, size_t index, void *word) {
    memcpy((char *)object + index * sizeof word, &word, sizeof word);
}

static void *word_of(any_function function) {
    void *word;
    memcpy(&word, &function, sizeof word);
    return word;
}

static size_t compute_index(const backend_layout *layout) { return 1 + layout->graph_compute; }

static const backend_layout *layout_of(const library *l, host_backend *backend,
                                       host_device *device) {
    bool has_set_2d = dlsym(l->handle, "ggml_backend_tensor_set_2d") != NULL;
    if (l->backend_device(backend) != device)
        return NULL;
    for (size_t i = 0; i < sizeof backend_layouts / sizeof *backend_layouts; i++) {
        const backend_layout *layout = &backend_layouts[i];
        if (layout->has_set_2d == has_set_2d && word_at(backend, 1 + layout->functions) == device &&
            word_at(backend, compute_index(layout)))
            return layout;
    }
    return NULL;
}

/* ---- the hook ---- */

/* In every backend made through the hook from the first moment on: another thread of the host may
 * make one while the proof is under way. */
static int compute_hooked(host_backend *backend, host_graph *graph) {
    if (atomic_load_explicit(&hook.is_on, memory_order_acquire))
        return hook.replacement(backend, graph);
    if (backend == atomic_load(&hook.proving))
        hook.proved++;
    return hook.original(backend, graph);
}

static host_backend *make_backend(host_device *device, const char *params) {
    host_backend *backend = hook.init_backend(device, params);
    hook.made++;
    if (backend)
        set_word(backend, compute_index(hook.layout), word_of((any_function)compute_hooked));
    return backend;
}

/* Whether an address can be written to, without trying. */
static bool is_writable(const void *address, size_t bytes) {
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return true; /* not to be known here */
    uintptr_t at = (uintptr_t)address;
    char line[512];
    bool writable = false;
    while (!writable && fgets(line, sizeof line, maps)) {
        /* "low-high rwxp ...", in hexadecimal */
        char *end;
        uintptr_t low = strtoul(line, &end, 16);
        uintptr_t high = *end == '-' ? strtoul(end + 1, &end, 16) : 0;
        writable = at >= low && at + bytes <= high && end[0] == ' ' && end[1] && end[2] == 'w';
    }
    fclose(maps);
    return writable;
}

/* ---- the proof ---- */

static struct {
    unsigned called;
    int context;
    void *seen;
} proof;

static void prove_custom(host_tensor *result, int thread, int threads, void *context) {
    if (thread == 0 && threads == 1)
        proof.called++;
    proof.seen = context;
    ((float *)result->data)[0] = 42.0f;
}

static bool params_are_known(const host_tensor *node, const host *h) {
    host_custom_params params;
    memcpy(&params, node->op_params, sizeof params);
    return node->op == h->op_custom && params.function == prove_custom && params.tasks == 1 &&
           params.context == &proof.context && node->ne[0] == 3 && node->nb[1] == 12 && node->data;
}

/* Has the host compute a graph of one custom operation on a backend made through the hook. */
static bool compute_custom(const library *l, const host *h, host_backend *backend) {
    init_params params = {.memory_bytes = l->graph_overhead() + 16 * l->tensor_overhead() + 4096};
    host_context *context = l->init(params);
    if (!context)
        return false;
    host_tensor *node =
        l->custom_4d(context, HOST_F32, 3, 1, 1, 1, NULL, 0, prove_custom, 1, &proof.context);
    bool proved = false;
    if (node && params_are_known(node, h)) {
        host_graph *graph = l->new_graph(context);
        l->build_forward(graph, node);
        int nodes = h->graph_size(graph);
        proved = nodes >= 1 && h->graph_node(graph, nodes - 1) == node &&
                 l->backend_compute(backend, graph) == HOST_SUCCESS && hook.proved == 1 &&
                 proof.called == 1 && proof.seen == &proof.context &&
                 *(const float *)node->data == 42.0f;
    }
    l->free(context);
    return proved;
}

static bool prove(const library *l, const host *h, host_device *device) {
    memset(&proof, 0, sizeof proof);
    hook.proved = 0;
    unsigned made = hook.made;
    host_backend *backend = l->device_init(device, NULL);
    if (!backend)
        return false;
    atomic_store(&hook.proving, backend);
    bool proved = hook.made > made && compute_custom(l, h, backend);
    atomic_store(&hook.proving, NULL);
    l->backend_free(backend);
    return proved;
}

/* ---- attaching ---- */

static bool find_layout(const library *l, host *h, host_device *device, message *why) {
    if (l->tensor_overhead() != sizeof(host_tensor) + 32 || !check_type(h) ||
        word_at(device, DEVICE_FUNCTIONS) != l->device_registration(device) ||
        !word_at(device, DEVICE_INIT_BACKEND))
        return message_set(why, "this program's ggml lays out its structs in an unknown way");
    /* the CPU backend's own registration was taken; it starts with the version */
    memcpy(&h->api_version, l->device_registration(device), sizeof h->api_version);
    host_backend *backend = l->device_init(device, NULL);
    if (!backend)
        return message_set(why, "this program's ggml could not make a CPU backend");
    hook.layout = layout_of(l, backend, device);
    if (hook.layout) {
        void *compute = word_at(backend, compute_index(hook.layout));
        memcpy(&h->compute, &compute, sizeof compute);
        h->layout = hook.layout->name;
    }
    l->backend_free(backend);
    return hook.layout ||
           message_set(why, "this program's ggml lays out its backends in an unknown way");
}

bool host_attach(host *h, const void *caller, host_compute replacement, message *why) {
    library l = {.handle = NULL};
    if (!look_up(&l, caller, h, why) || !number_operations(&l, h, why))
        return false;
    host_device *device = l.device_by_type(DEVICE_TYPE_CPU);
    if (!device)
        return message_set(why, "this program has not loaded ggml's CPU backend yet");
    if (!find_layout(&l, h, device, why))
        return false;
    char *slot = (char *)device + DEVICE_INIT_BACKEND * sizeof(void *);
    if (!is_writable(slot, sizeof(void *)))
        return message_set(why, "this program's ggml keeps its CPU device read-only");

    void *before = word_at(device, DEVICE_INIT_BACKEND);
    memcpy(&hook.init_backend, &before, sizeof before);
    hook.original = h->compute;
    hook.replacement = replacement;
    set_word(device, DEVICE_INIT_BACKEND, word_of((any_function)make_backend));
    if (!prove(&l, h, device)) {
        set_word(device, DEVICE_INIT_BACKEND, before);
        return message_set(
            why, "this program's ggml does not call what was put in the place of its own");
    }
    return true;
}

void host_start(void) { atomic_store_explicit(&hook.is_on, true, memory_order_release); }
