/*
 * The host: a program with ggml in it, as far as the plug-in needs to know it. Nothing of ggml is
 * linked or included. Its functions are looked up in the library that called, and the few structs
 * that have to be read are declared here, in the layouts known so far. Which layout a host has is
 * told by what it exports and then proved: the plug-in makes a CPU backend of the host's, looks
 * whether its members are where they should be, and lets the host compute one custom operation
 * through the replaced functions. Whatever does not come out as expected is a refusal with a
 * reason, before anything of the host's has been changed for good.
 */
#ifndef WHET_PLUGIN_HOST_H
#define WHET_PLUGIN_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "settings.h"

/* ---- what ggml's tensors look like ---- */

#define HOST_DIMENSIONS 4
#define HOST_SOURCES 10
#define HOST_NAME_BYTES 64

/* Numbers of element types are part of the GGUF format and do not move. */
enum {
    HOST_F32 = 0,
    HOST_F16 = 1,
    HOST_Q4_0 = 2,
    HOST_Q8_0 = 8,
    HOST_I32 = 26,
    HOST_BF16 = 30,
};

typedef struct host_tensor host_tensor;
struct host_tensor {
    int type;
    void *buffer;
    int64_t ne[HOST_DIMENSIONS]; /* elements, the contiguous axis first */
    size_t nb[HOST_DIMENSIONS];  /* strides in bytes */
    int op;
    int32_t op_params[16];
    int32_t flags;
    host_tensor *src[HOST_SOURCES];
    host_tensor *view_src;
    size_t view_offs;
    void *data;
    char name[HOST_NAME_BYTES];
    void *extra;
    char padding[8];
};

typedef void (*host_custom)(host_tensor *result, int thread, int threads, void *context);

/* What a custom operation keeps in op_params. */
typedef struct host_custom_params {
    host_custom function;
    int tasks; /* HOST_ALL_THREADS or a number of threads */
    void *context;
} host_custom_params;

#define HOST_ALL_THREADS (-1)

typedef void (*host_to_float)(const void *row, float *result, int64_t n);

/* How the host describes an element type. */
typedef struct host_type {
    const char *name;
    int64_t block_elements;
    int64_t interleaved;
    size_t block_bytes;
    bool quantised;
    host_to_float to_float;
    void (*from_float)(const float *row, void *result, int64_t n);
} host_type;

/* ---- its objects, which are only passed on ---- */

typedef struct host_graph host_graph;
typedef struct host_context host_context;
typedef struct host_backend host_backend;
typedef struct host_device host_device;

enum { HOST_SUCCESS = 0, HOST_FAILED = -1, HOST_NO_MEMORY = -2 };

typedef int (*host_compute)(host_backend *backend, host_graph *graph);

/* What the plug-in returns to a host that loads it: a backend without devices. */
typedef struct host_registration {
    int api_version;
    const char *(*get_name)(struct host_registration *registration);
    size_t (*get_device_count)(struct host_registration *registration);
    host_device *(*get_device)(struct host_registration *registration, size_t index);
    void *(*get_proc_address)(struct host_registration *registration, const char *name);
    void *context;
} host_registration;

/* ---- attaching ---- */

/* Functions of the host that are used after attaching, and numbers that differ between hosts. */
typedef struct host {
    int (*graph_size)(host_graph *graph);
    host_tensor *(*graph_node)(host_graph *graph, int index);
    const host_type *(*type_of)(int type);
    const char *(*type_name)(int type);
    host_compute compute; /* the CPU backend's own */
    int op_attention, op_softmax, op_product, op_rotation, op_custom;
    int api_version;    /* what a registration has to say to be taken */
    const char *layout; /* the name of the one that was found */
} host;

/*
 * Finds the host that `caller`, an address in its code, belongs to, and puts `replacement` in the
 * place of graph_compute in every CPU backend it makes from then on; until host_start is called
 * all graphs still pass to the host's own. False: it was not done, and the reason is in `why`.
 */
bool host_attach(host *h, const void *caller, host_compute replacement, message *why);
void host_start(void);

/* The function of this name that `caller` would have called, had `replacement` not come before it
 * by LD_PRELOAD; NULL if there is none. */
void *host_own_function(const void *caller, const char *name, const void *replacement);

#endif
