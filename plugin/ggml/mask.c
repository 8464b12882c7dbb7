/*
 * Inspects every element of a mask, once for each graph; see mask.h. The shape is guessed from the
 * first and the last row, and then all rows are compared with it.
 */
#include "mask.h"
#include <string.h>

#define HALF_MINUS_INFINITY 0xfc00u

/* Whether n elements are equal; compares whole words. */
static bool all_are(const uint16_t *row, size_t n, uint16_t value) {
    uint64_t words = (uint64_t)value * 0x0001000100010001u, word, difference = 0;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        for (size_t j = 0; j < 16; j += 4) {
            memcpy(&word, row + i + j, sizeof word);
            difference |= word ^ words;
        }
        if (difference)
            return false;
    }
    for (; i < n; i++)
        difference |= (uint64_t)(row[i] ^ value);
    return difference == 0;
}

static const uint16_t *row_at(const host_tensor *mask, size_t i) {
    return (const uint16_t *)(const void *)((const char *)mask->data + i * mask->nb[1]);
}

/* The range of keys that one row sees, if it is a range of zeros. */
static bool range_of_row(const uint16_t *row, size_t keys, size_t *low, size_t *high) {
    size_t first = 0, end = keys;
    while (first < keys && row[first] == HALF_MINUS_INFINITY)
        first++;
    while (end > first && row[end - 1] == HALF_MINUS_INFINITY)
        end--;
    *low = first;
    *high = end;
    return first < end;
}

static bool row_is(const uint16_t *row, size_t keys, size_t low, size_t high) {
    return all_are(row, low, HALF_MINUS_INFINITY) && all_are(row + low, high - low, 0) &&
           all_are(row + high, keys - high, HALF_MINUS_INFINITY);
}

mask_shape mask_look(const host_tensor *mask, size_t queries, size_t keys) {
    mask_shape shape = {.is_simple = false}, no = shape;
    size_t low, high, first_low, first_high;
    if (mask->type != HOST_F16 || mask->ne[2] != 1 || mask->ne[3] != 1 || queries == 0 ||
        mask->nb[0] != 2 || mask->nb[1] % 2 != 0)
        return no;
    if (!range_of_row(row_at(mask, 0), keys, &first_low, &first_high) ||
        !range_of_row(row_at(mask, queries - 1), keys, &low, &high))
        return no;
    shape.is_causal = queries > 1 && high == first_high + queries - 1;
    if (!shape.is_causal && (low != first_low || high != first_high))
        return no;
    if (shape.is_causal) {
        shape.offset = (int64_t)first_high - 1;
        shape.window = low > 0 ? high - low : 0;
    } else {
        shape.low = low;
        shape.high = high;
    }
    for (size_t i = 0; i < queries; i++) {
        if (shape.is_causal) {
            high = first_high + i;
            low = shape.window && high > shape.window ? high - shape.window : 0;
        }
        if (!row_is(row_at(mask, i), keys, low, high))
            return no;
    }
    shape.is_simple = true;
    return shape;
}

bool mask_is_known(const host_tensor *mask, const whet_attention *a, message *why) {
    if (mask && ((mask->type != HOST_F16 && mask->type != HOST_F32) ||
                 mask->ne[0] < (int64_t)a->keys || mask->ne[1] < (int64_t)a->queries ||
                 mask->ne[2] < 1 || (int64_t)a->heads % mask->ne[2] != 0 || mask->ne[3] < 1 ||
                 (int64_t)a->batch % mask->ne[3] != 0))
        return message_set(why, "unsupported shape or type of mask");
    return true;
}

bool sinks_are_known(const host_tensor *sinks, const whet_attention *a, message *why) {
    if (sinks && (sinks->type != HOST_F32 || sinks->ne[0] != (int64_t)a->heads))
        return message_set(why, "unsupported shape or type of sinks");
    return true;
}

const char *mask_row(const host_tensor *mask, size_t item, size_t head, size_t query) {
    return (const char *)mask->data + item % (size_t)mask->ne[3] * mask->nb[3] +
           head % (size_t)mask->ne[2] * mask->nb[2] + query * mask->nb[1];
}
