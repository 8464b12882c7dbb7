/*
 * The supported layouts of ggml's structs; see ggml_layout.h.
 */
#include "llama/ggml_layout.h"
#include <string.h>

/*
 * Layouts of a backend. In April 2026 two functions were inserted in the middle, together with
 * ggml_backend_tensor_set_2d in the library, which is the only sign of it. Where the host's
 * exports do not distinguish two layouts, the position of the device does.
 */
struct host_layout {
    const char *name;
    const char *since;    /* a function that came with this layout, or NULL */
    const char *until;    /* a function that came with the next one, or NULL */
    size_t functions;     /* number of functions in the interface */
    size_t graph_compute; /* index of graph_compute among them */
};

static const host_layout layouts[] = {
    {"since April 2026", "ggml_backend_tensor_set_2d", NULL, 16, 12},
    {"before April 2026", NULL, "ggml_backend_tensor_set_2d", 14, 10},
    {"before September 2025", NULL, "ggml_backend_tensor_set_2d", 13, 10},
};

/* Layout of a device. */
enum { DEVICE_FUNCTIONS = 15, DEVICE_INIT_BACKEND = 5 };

/* ---- structs of the host, one word at a time ---- */

/* Pointers to functions and to data have the same representation wherever dlsym exists. */
_Static_assert(sizeof(host_compute) == sizeof(void *), "dlsym needs it");

static void *word_at(const void *object, size_t index) {
    void *word;
    memcpy(&word, (const char *)object + index * sizeof word, sizeof word);
    return word;
}

static size_t compute_index(const host_layout *layout) { return 1 + layout->graph_compute; }

static size_t device_index(const host_layout *layout) { return 1 + layout->functions; }

/* ---- devices ---- */

bool host_device_is_known(const host_device *device, const void *registration) {
    return word_at(device, DEVICE_FUNCTIONS) == registration &&
           word_at(device, DEVICE_INIT_BACKEND) != NULL;
}

void *host_device_slot(host_device *device) {
    return (char *)device + DEVICE_INIT_BACKEND * sizeof(void *);
}

host_init_backend host_device_init(const host_device *device) {
    host_init_backend function;
    void *word = word_at(device, DEVICE_INIT_BACKEND);
    memcpy(&function, &word, sizeof function);
    return function;
}

void host_device_set_init(host_device *device, host_init_backend function) {
    memcpy(host_device_slot(device), &function, sizeof function);
}

/* ---- backends ---- */

const host_layout *host_layout_find(const host_backend *backend, const host_device *device,
                                    bool (*exports)(void *context, const char *function),
                                    void *context) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const host_layout *layout = &layouts[i];
        if ((!layout->since || exports(context, layout->since)) &&
            (!layout->until || !exports(context, layout->until)) &&
            word_at(backend, device_index(layout)) == device &&
            word_at(backend, compute_index(layout)))
            return layout;
    }
    return NULL;
}

const char *host_layout_name(const host_layout *layout) { return layout->name; }

host_compute host_backend_compute(const host_layout *layout, const host_backend *backend) {
    host_compute function;
    void *word = word_at(backend, compute_index(layout));
    memcpy(&function, &word, sizeof function);
    return function;
}

void host_backend_set_compute(const host_layout *layout, host_backend *backend,
                              host_compute function) {
    memcpy((char *)backend + compute_index(layout) * sizeof function, &function, sizeof function);
}

/* ---- tensors ---- */

float host_float_param(const int32_t *op_params, int index) {
    float value;
    memcpy(&value, &op_params[index], sizeof value);
    return value;
}

bool host_type_is_f16(const host_type *type) {
    const uint16_t halves[2] = {0x3c00, 0xc000};
    float values[2] = {0, 0};
    if (!type || !type->name || strcmp(type->name, "f16") != 0 || type->block_elements != 1 ||
        type->block_bytes != 2 || type->quantised || !type->to_float)
        return false;
    type->to_float(halves, values, 2);
    return values[0] == 1.0f && values[1] == -2.0f;
}
