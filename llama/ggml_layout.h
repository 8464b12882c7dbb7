/*
 * ggml's structs, as far as they are read or written here, and their supported layouts. Nothing of
 * ggml is included: what is declared here has been the same in all versions so far, except for the
 * interface of a backend, whose layouts are listed in ggml_layout.c. tests/plugin/llama compares
 * the declarations with the real headers.
 *
 * Needs only libc, as everything in this folder.
 */
#ifndef WHET_LLAMA_GGML_LAYOUT_H
#define WHET_LLAMA_GGML_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- tensors ---- */

#define HOST_DIMENSIONS 4
#define HOST_SOURCES 10
#define HOST_NAME_BYTES 64

/* Numbers of element types are part of the GGUF format and never change. */
enum {
    HOST_F32 = 0,
    HOST_F16 = 1,
    HOST_I32 = 26,
};

typedef struct host_tensor host_tensor;
struct host_tensor {
    int type;
    void *buffer;
    int64_t ne[HOST_DIMENSIONS]; /* number of elements, contiguous axis first */
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

/* What ggml_tensor_overhead counts in addition to the tensor. */
#define HOST_OBJECT_BYTES 32

/* Indices of the inputs of an attention operation, and of its parameters in op_params. */
enum { HOST_ATTENTION_MASK = 3, HOST_ATTENTION_SINKS = 4 };
enum { HOST_SOFTMAX_MASK = 1, HOST_SOFTMAX_SINKS = 2 };
enum { HOST_FLAG_OUTPUT = 2 }; /* of a tensor: the host reads it after the graph */
enum { HOST_PARAM_SCALE = 0, HOST_PARAM_MAX_BIAS = 1, HOST_PARAM_SOFTCAP = 2 };

float host_float_param(const int32_t *op_params, int index);

typedef void (*host_custom)(host_tensor *result, int thread, int threads, void *context);

/* What a custom operation stores in op_params. */
typedef struct host_custom_params {
    host_custom function;
    int tasks; /* HOST_ALL_THREADS or a number of threads */
    void *context;
} host_custom_params;

#define HOST_ALL_THREADS (-1)

typedef void (*host_to_float)(const void *row, float *result, int64_t n);

/* ggml's description of an element type. */
typedef struct host_type {
    const char *name;
    int64_t block_elements;
    int64_t interleaved;
    size_t block_bytes;
    bool quantised;
    host_to_float to_float;
    void (*from_float)(const float *row, void *result, int64_t n);
} host_type;

/* Whether this describes f16 as expected. */
bool host_type_is_f16(const host_type *type);

/* The argument of ggml_init. */
typedef struct host_init_params {
    size_t memory_bytes;
    void *memory;
    bool no_alloc;
} host_init_params;

/* ---- opaque objects ---- */

typedef struct host_graph host_graph;
typedef struct host_context host_context;
typedef struct host_backend host_backend;
typedef struct host_device host_device;

enum { HOST_SUCCESS = 0, HOST_FAILED = -1, HOST_NO_MEMORY = -2 };
enum { HOST_DEVICE_CPU = 0 };

/* What a plug-in returns to the host that loads it. */
typedef struct host_registration {
    int api_version;
    const char *(*get_name)(struct host_registration *registration);
    size_t (*get_device_count)(struct host_registration *registration);
    host_device *(*get_device)(struct host_registration *registration, size_t index);
    void *(*get_proc_address)(struct host_registration *registration, const char *name);
    void *context;
} host_registration;

/* ---- a device: the functions of its interface, then its registration ---- */

typedef host_backend *(*host_init_backend)(host_device *device, const char *params);

/* Whether a device has this layout, given its registration. */
bool host_device_is_known(const host_device *device, const void *registration);

/* The address of its function that creates backends. */
void *host_device_slot(host_device *device);
host_init_backend host_device_init(const host_device *device);
void host_device_set_init(host_device *device, host_init_backend function);

/* ---- a backend: a pointer to its GUID, the functions of its interface, its device ---- */

typedef int (*host_compute)(host_backend *backend, host_graph *graph);

typedef struct host_layout host_layout;

/* The layout of a CPU backend that `device` has created; `exports` returns whether the host has a
 * function of this name. NULL: unsupported. */
const host_layout *host_layout_find(const host_backend *backend, const host_device *device,
                                    bool (*exports)(void *context, const char *function),
                                    void *context);
const char *host_layout_name(const host_layout *layout);

host_compute host_backend_compute(const host_layout *layout, const host_backend *backend);
void host_backend_set_compute(const host_layout *layout, host_backend *backend,
                              host_compute function);

#endif
