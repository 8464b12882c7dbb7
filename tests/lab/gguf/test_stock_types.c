// Every type of elements beside llama.cpp's own conversion: random bytes become the same floats,
// bit for bit. Skipped where there is no llama.cpp.
#include "gguf/gguf.h"
#include "gguf/types.h"

#include "isa/half.h"
#include "support/check.h"
#include "support/guarded.h"
#include "support/random.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 5, ROUNDS = 200, TYPES = 43 };

// As ggml.h has it since 2024.
typedef struct stock_traits {
    const char *name;
    int64_t elements, interleaved;
    size_t bytes;
    bool is_quantised;
    void (*to_float)(const void *blocks, float *out, int64_t elements);
} stock_traits;

typedef const stock_traits *(*get_traits)(int type);

static get_traits stock(void) {
    static get_traits function;
    const char *folder = getenv("WHET_LLAMA_LIB");
    char path[1024];
    if (function) {
        return function;
    }
    if (!folder || !*folder) {
        SKIP("there is no llama.cpp to compare with");
    }
    snprintf(path, sizeof path, "%s/libggml-base.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        SKIP("there is no libggml-base.so to compare with");
    }
    void *symbol = dlsym(library, "ggml_get_type_traits");
    REQUIRE(symbol);
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static bool same_float(float a, float b) {
    return (isnan(a) && isnan(b)) || float_to_bits(a) == float_to_bits(b);
}

// Returns how many rows were compared.
static int compare_type(gguf_type type, const stock_traits *traits, struct rng *rng) {
    size_t elements = BLOCKS * (size_t)traits->elements;
    float *expected = guarded_new(elements * sizeof(float));
    float *row = guarded_new(elements * sizeof(float));
    gguf_tensor tensor = {.dims = {elements, 1, 1, 1}, .type = type, .rows = 1};
    REQUIRE(gguf_row_bytes(type, elements, &tensor.row_bytes));
    CHECK_INT(tensor.row_bytes, BLOCKS * traits->bytes);
    uint8_t *bytes = guarded_new(tensor.row_bytes);
    tensor.bytes = bytes;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < tensor.row_bytes; i++) {
            bytes[i] = (uint8_t)rng_bits(rng);
        }
        traits->to_float(bytes, expected, (int64_t)elements);
        REQUIRE(gguf_dequantise(&tensor, 0, row));
        for (size_t i = 0; i < elements; i++) {
            if (!same_float(row[i], expected[i])) {
                CHECK_MSG(false, "%s, element %zu: %.9g, not %.9g", traits->name, i, (double)row[i],
                          (double)expected[i]);
                round = ROUNDS;
                break;
            }
        }
    }
    guarded_free(bytes);
    guarded_free(expected);
    guarded_free(row);
    return 1;
}

TEST(random_bytes_become_the_floats_of_llama_cpp) {
    get_traits traits_of = stock();
    struct rng rng = rng_seeded(83);
    int compared = 0;
    for (int type = 0; type < TYPES; type++) {
        const stock_traits *traits = traits_of(type);
        if (gguf_can_dequantise((gguf_type)type) && traits->to_float) {
            compared += compare_type((gguf_type)type, traits, &rng);
        }
    }
    // f32, which llama.cpp does not convert, is the only type of ours that is left out.
    CHECK_INT(compared, 21);
}

TEST(sizes_of_blocks_are_those_of_llama_cpp) {
    get_traits traits_of = stock();
    for (int type = 0; type < TYPES; type++) {
        const gguf_type_facts *facts = gguf_type_of((gguf_type)type);
        if (facts) {
            CHECK_MSG(facts->elements == (uint64_t)traits_of(type)->elements &&
                          facts->bytes == traits_of(type)->bytes,
                      "%s: %u elements in %u bytes", facts->name, facts->elements, facts->bytes);
        }
    }
}
