#include "rows.h"

#include <math.h>

const char *const row_mask_names[row_mask_count] = {"none",  "mask-f32", "mask-f16",
                                                    "holes", "empty",    "nonfinite"};

static const size_t short_sizes[] = {1, 2, 5, 16, 17, 31, 33, 56};
static const size_t middle_sizes[] = {57, 64, 255, 256, 257, 1000, 4095, 4096};
static const size_t long_sizes[] = {4097, n_max};

const struct size_class size_classes[3] = {
    {"1-56", short_sizes, COUNT(short_sizes)},
    {"57-4096", middle_sizes, COUNT(middle_sizes)},
    {"4097-9000", long_sizes, COUNT(long_sizes)},
};

size_t rows_of(size_t n) { return n <= 1000 ? rows_max : n < 4096 ? 17 : 3; }

void fill_logits(void *in, whet_type type, size_t rows, size_t n, size_t stride,
                 enum row_mask mask) {
    static const float deviations[] = {1, 4, 0.25f, 12, 0, 2};
    for (size_t r = 0; r < rows; r++) {
        char *row = (char *)in + r * stride * element_bytes(type);
        uint64_t seed = n * 64 + r;
        fill_row(row, type, n, seed, deviations[r % COUNT(deviations)], (float)(r % 7) - 3);
        if (mask == MASK_HOLES && r % 3 != 2) {
            for (size_t i = 0; i < n; i++) {
                if (noise_bits(~seed, i) % 3 == 0) {
                    store(row, type, i, -INFINITY);
                }
            }
        } else if (mask == MASK_EMPTY && r % 4 == 1) {
            for (size_t i = 0; i < n; i++) {
                store(row, type, i, -INFINITY);
            }
        } else if (mask == MASK_NOT_FINITE && r % 5 == 1) {
            store(row, type, noise_bits(~seed, 0) % n, NAN);
        } else if (mask == MASK_NOT_FINITE && r % 5 == 2) {
            store(row, type, noise_bits(~seed, 0) % n, INFINITY);
        }
    }
}

const void *fill_mask(void *memory, enum row_mask mask, size_t rows, size_t n) {
    if (mask != MASK_F32 && mask != MASK_F16) {
        return NULL;
    }
    whet_type type = mask == MASK_F32 ? WHET_F32 : WHET_F16;
    for (size_t i = 0; i < (mask == MASK_F32 ? rows * n : n); i++) {
        bool masked = noise_bits(n + 7, i) % 4 == 0;
        store(memory, type, i, masked ? -INFINITY : 2 * noise(n, i));
    }
    return memory;
}
