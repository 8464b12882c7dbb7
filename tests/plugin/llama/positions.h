/* Rows of ggml's tensors as floats, for any type and strides. */
#ifndef WHET_TESTS_PLUGIN_POSITIONS_H
#define WHET_TESTS_PLUGIN_POSITIONS_H

#include <ggml.h>
#include <string.h>

/* Row `position` of a head: ne[0] numbers. */
static inline void positions_read(const struct ggml_tensor *tensor, int item, int head,
                                  int position, float *result) {
    const char *row = (const char *)tensor->data + (size_t)position * tensor->nb[1] +
                      (size_t)head * tensor->nb[2] + (size_t)item * tensor->nb[3];
    bool has_gaps = tensor->nb[0] != ggml_type_size(tensor->type);
    int64_t at_once = has_gaps ? 1 : tensor->ne[0];
    for (int64_t i = 0; i < tensor->ne[0]; i += at_once) {
        const char *from = row + (size_t)i * tensor->nb[0];
        if (tensor->type == GGML_TYPE_F32)
            memcpy(result + i, from, (size_t)at_once * sizeof(float));
        else
            ggml_get_type_traits(tensor->type)->to_float(from, result + i, at_once);
    }
}

#endif
