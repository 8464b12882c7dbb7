/*
 * Finds a host's functions, operation numbers and layout; see host.h.
 */
#define _GNU_SOURCE
#include "llama/host.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Always returns false, for `return refuse(...)`. */
__attribute__((format(printf, 2, 3))) static bool refuse(host_reason *why, const char *format,
                                                         ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- functions ---- */

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

/* The function that the caller's library was linked with, which need not be globally visible; if
 * that is the replacement itself, the next one after it. */
void *host_own_function(const void *caller, const char *name, const void *replacement) {
    void *handle = open_library_of(caller);
    void *function = handle ? dlsym(handle, name) : NULL;
    if (handle)
        dlclose(handle);
    return function && function != replacement ? function : dlsym(RTLD_NEXT, name);
}

const void *host_linked_in(void) {
    void *function = dlsym(RTLD_DEFAULT, "ggml_backend_dev_by_type");
    host_device *(*device_by_type)(int type);
    memcpy(&device_by_type, &function, sizeof function);
    return function && device_by_type(HOST_DEVICE_CPU) ? function : NULL;
}

static bool look_up(host *h, const void *caller, host_reason *why) {
    h->library = open_caller(caller);
    const struct {
        const char *name;
        void *place;
    } wanted[] = {
        {"ggml_op_name", &h->op_name},
        {"ggml_tensor_overhead", &h->tensor_overhead},
        {"ggml_graph_overhead", &h->graph_overhead},
        {"ggml_init", &h->init},
        {"ggml_free", &h->free},
        {"ggml_custom_4d", &h->custom_4d},
        {"ggml_new_graph", &h->new_graph},
        {"ggml_build_forward_expand", &h->build_forward},
        {"ggml_backend_dev_by_type", &h->device_by_type},
        {"ggml_backend_dev_init", &h->device_init},
        {"ggml_backend_dev_backend_reg", &h->device_registration},
        {"ggml_backend_get_device", &h->backend_device},
        {"ggml_backend_graph_compute", &h->backend_compute},
        {"ggml_backend_free", &h->backend_free},
        {"ggml_graph_n_nodes", &h->graph_size},
        {"ggml_graph_node", &h->graph_node},
        {"ggml_get_type_traits", &h->type_of},
        {"ggml_type_name", &h->type_name},
    };
    enum { WANTED = sizeof wanted / sizeof *wanted };
    const char *missing = NULL;
    size_t found = 0;
    for (size_t i = 0; i < WANTED; i++) {
        void *symbol = h->library ? dlsym(h->library, wanted[i].name) : NULL;
        memcpy(wanted[i].place, &symbol, sizeof symbol);
        if (symbol)
            found++;
        else if (!missing)
            missing = wanted[i].name;
    }
    if (found == 0)
        return refuse(why, "cannot reach ggml: it is linked statically or its symbols are hidden");
    return found == WANTED || refuse(why, "unsupported version of ggml: no function %s", missing);
}

/* ---- operations ---- */

/* Since ggml_custom_4d exists, CUSTOM is among the names, so the search ends inside the host's
 * table. */
static bool number_operations(host *h, host_reason *why) {
    const struct {
        const char *name;
        int *number;
    } wanted[] = {
        {"NONE", &h->op_nothing},     {"FLASH_ATTN_EXT", &h->op_attention},
        {"SOFT_MAX", &h->op_softmax}, {"MUL_MAT", &h->op_product},
        {"ROPE", &h->op_rotation},    {"SCALE", &h->op_scale},
        {"UNARY", &h->op_unary},      {"CONT", &h->op_copy},
        {"RESHAPE", &h->op_views[0]}, {"VIEW", &h->op_views[1]},
        {"PERMUTE", &h->op_views[2]}, {"TRANSPOSE", &h->op_views[3]},
        {"CUSTOM", &h->op_custom},
    };
    enum { WANTED = sizeof wanted / sizeof *wanted };
    for (size_t i = 0; i < WANTED; i++)
        *wanted[i].number = -1;
    for (int op = 0; op < 1000 && h->op_custom < 0; op++) {
        const char *name = h->op_name(op);
        if (!name)
            break;
        for (size_t i = 0; i < WANTED; i++)
            if (strcmp(name, wanted[i].name) == 0)
                *wanted[i].number = op;
    }
    bool is_known =
        h->op_attention >= 0 && h->op_softmax >= 0 && h->op_product >= 0 && h->op_custom >= 0;
    return is_known || refuse(why, "unsupported version of ggml: unknown operation numbers");
}

/* Hosts without the function have no soft caps that are found. */
static void number_tanh(host *h) {
    enum { MOST = 10 }; /* all tables have more */
    void *symbol = dlsym(h->library, "ggml_unary_op_name");
    const char *(*name_of)(int op);
    memcpy(&name_of, &symbol, sizeof symbol);
    h->unary_tanh = -1;
    for (int op = 0; symbol && op < MOST && h->unary_tanh < 0; op++) {
        const char *name = name_of(op);
        if (!name)
            break;
        if (strcmp(name, "TANH") == 0)
            h->unary_tanh = op;
    }
}

/* ---- layouts ---- */

static bool exports(void *library, const char *function) {
    return dlsym(library, function) != NULL;
}

static bool find_layout(host *h, host_reason *why) {
    if (h->tensor_overhead() != sizeof(host_tensor) + HOST_OBJECT_BYTES ||
        !host_type_is_f16(h->type_of(HOST_F16)) ||
        !host_device_is_known(h->cpu, h->device_registration(h->cpu)))
        return refuse(why, "unsupported version of ggml: unknown struct layout");
    /* the registration of the CPU backend itself; it starts with the version */
    memcpy(&h->api_version, h->device_registration(h->cpu), sizeof h->api_version);
    host_backend *backend = h->device_init(h->cpu, NULL);
    if (!backend)
        return refuse(why, "ggml could not create a CPU backend");
    h->layout = h->backend_device(backend) == h->cpu
                    ? host_layout_find(backend, h->cpu, exports, h->library)
                    : NULL;
    if (h->layout)
        h->compute = host_backend_compute(h->layout, backend);
    h->backend_free(backend);
    return h->layout || refuse(why, "unsupported version of ggml: unknown backend layout");
}

bool host_find(host *h, const void *caller, host_reason *why) {
    if (!look_up(h, caller, why) || !number_operations(h, why))
        return false;
    number_tanh(h);
    h->cpu = h->device_by_type(HOST_DEVICE_CPU);
    if (!h->cpu)
        return refuse(why, "this program has not loaded ggml's CPU backend yet");
    return find_layout(h, why);
}

/* Functions of later versions, both of which return a text. */
static const char *ask(const host *h, const char *name) {
    void *symbol = h->library ? dlsym(h->library, name) : NULL;
    const char *(*function)(void);
    memcpy(&function, &symbol, sizeof symbol);
    const char *answer = symbol ? function() : NULL;
    return answer && *answer ? answer : NULL;
}

void host_version(const host *h, char *text, size_t size) {
    const char *version = ask(h, "ggml_version"), *commit = ask(h, "ggml_commit");
    *text = 0;
    if (version)
        snprintf(text, size, " (ggml %.40s%s%.40s)", version, commit ? ", commit " : "",
                 commit ? commit : "");
}
