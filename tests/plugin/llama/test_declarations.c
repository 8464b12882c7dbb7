/*
 * The plug-in's own declarations of the host's structs, compared with the host's headers.
 */
#include "llama/ggml_layout.h"
#include "support/check.h"
#include <ggml-backend.h>
#include <ggml.h>
#include <stddef.h>

#define SAME_PLACE(ours, theirs)                                                                   \
    CHECK(offsetof(host_tensor, ours) == offsetof(struct ggml_tensor, theirs) &&                   \
          sizeof(((host_tensor *)0)->ours) == sizeof(((struct ggml_tensor *)0)->theirs))

/* NOLINTBEGIN(bugprone-sizeof-expression): sizes of pointers are what is meant */
TEST(tensors_are_laid_out_as_the_host_has_them) {
    CHECK_INT(sizeof(host_tensor), sizeof(struct ggml_tensor));
    SAME_PLACE(type, type);
    SAME_PLACE(ne, ne);
    SAME_PLACE(nb, nb);
    SAME_PLACE(op, op);
    SAME_PLACE(op_params, op_params);
    SAME_PLACE(flags, flags);
    SAME_PLACE(src, src);
    SAME_PLACE(view_src, view_src);
    SAME_PLACE(data, data);
    SAME_PLACE(name, name);
}
/* NOLINTEND(bugprone-sizeof-expression) */

TEST(element_types_have_the_host_s_numbers) {
    CHECK_INT(HOST_F32, GGML_TYPE_F32);
    CHECK_INT(HOST_F16, GGML_TYPE_F16);
    CHECK_INT(HOST_I32, GGML_TYPE_I32);
}

TEST(descriptions_of_types_are_laid_out_as_the_host_has_them) {
    CHECK_INT(sizeof(host_type), sizeof(struct ggml_type_traits));
    CHECK_INT(offsetof(host_type, name), offsetof(struct ggml_type_traits, type_name));
    CHECK_INT(offsetof(host_type, block_elements), offsetof(struct ggml_type_traits, blck_size));
    CHECK_INT(offsetof(host_type, block_bytes), offsetof(struct ggml_type_traits, type_size));
    CHECK_INT(offsetof(host_type, quantised), offsetof(struct ggml_type_traits, is_quantized));
    CHECK_INT(offsetof(host_type, to_float), offsetof(struct ggml_type_traits, to_float));
}

TEST(numbers_of_statuses_and_devices_are_the_host_s) {
    CHECK_INT(HOST_SUCCESS, GGML_STATUS_SUCCESS);
    CHECK_INT(HOST_FAILED, GGML_STATUS_FAILED);
    CHECK_INT(HOST_NO_MEMORY, GGML_STATUS_ALLOC_FAILED);
    CHECK_INT(HOST_DEVICE_CPU, GGML_BACKEND_DEVICE_TYPE_CPU);
    CHECK_INT(HOST_ALL_THREADS, GGML_N_TASKS_MAX);
}
