/*
 * A host: a program that contains ggml. Nothing of ggml is linked, since the name of its library
 * differs between builds and its symbols may be hidden: its functions are looked up in the library
 * to which an address of the caller's code belongs. Anything unexpected is refused with a reason.
 */
#ifndef WHET_LLAMA_HOST_H
#define WHET_LLAMA_HOST_H

#include "llama/ggml_layout.h"

typedef struct host {
    /* for graphs */
    int (*graph_size)(host_graph *graph);
    host_tensor *(*graph_node)(host_graph *graph, int index);
    const host_type *(*type_of)(int type);
    const char *(*type_name)(int type);
    /* operation numbers, which differ between versions */
    int op_attention, op_softmax, op_product, op_rotation, op_custom;
    /* of parts that some attention has; -1: this host has none, or not under this name */
    int op_nothing, op_scale, op_unary, op_copy;
    int op_views[4]; /* which compute nothing */
    int unary_tanh;  /* the parameter of op_unary for it */
    /* for creating graphs and backends */
    const char *(*op_name)(int op);
    size_t (*tensor_overhead)(void);
    size_t (*graph_overhead)(void);
    host_context *(*init)(host_init_params params);
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
    /* layout of its structs */
    host_device *cpu;
    const host_layout *layout;
    host_compute compute; /* the CPU backend's own function */
    int api_version;      /* version that a registration must have to be accepted */
    void *library;
} host;

/* Why a host is not supported. */
typedef struct host_reason {
    char text[256];
} host_reason;

/*
 * Fills in everything for the host to which `caller`, an address in its code, belongs. Creates and
 * frees a CPU backend of the host to find out its layout. False: `why` has the reason.
 */
bool host_find(host *h, const void *caller, host_reason *why);

/* What a host calls itself, as " (ggml 0.9.4, commit 1a2b3c)"; empty if it does not say. */
void host_version(const host *h, char *text, size_t size);

/* The function of this name that `caller` would have called if LD_PRELOAD had not put `replacement`
 * before it; NULL if there is none. */
void *host_own_function(const void *caller, const char *name, const void *replacement);

/* A function that creates CPU backends, to be intercepted with LD_PRELOAD. */
#define HOST_INIT_BY_TYPE "ggml_backend_init_by_type"

/* If a globally visible ggml already has its CPU device: an address in it, otherwise NULL. */
const void *host_linked_in(void);

#endif
