/*
 * Inspects every element of a mask, once for each graph; see mask.h. The shape is guessed from the
 * first and the last row, and then all rows are compared with it.
 */
#include "mask.h"
#include <string.h>

/* Elements of a type of mask, as bits. */
typedef struct element {
    size_t bytes;
    uint64_t hidden; /* -inf, in all elements of a word; a key that is seen has 0 */
} element;

static const element half = {2, 0xfc00fc00fc00fc00u}, single = {4, 0xff800000ff800000u};

/* Whether n elements are all as those of a word. */
static bool all_are(const char *row, size_t n, const element *e, uint64_t wanted) {
    enum { WORDS = 4 };
    uint64_t word[WORDS], difference = 0;
    size_t bytes = n * e->bytes, i = 0;
    for (; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(word, row + i, sizeof word);
        for (size_t j = 0; j < WORDS; j++)
            difference |= word[j] ^ wanted;
        if (difference)
            return false;
    }
    for (; i < bytes; i += e->bytes)
        difference |= (uint64_t)(memcmp(row + i, &wanted, e->bytes) != 0);
    return difference == 0;
}

static const char *row_at(const host_tensor *mask, size_t i) {
    return (const char *)mask->data + i * mask->nb[1];
}

static bool is_hidden(const char *row, size_t key, const element *e) {
    return all_are(row + key * e->bytes, 1, e, e->hidden);
}

/* The range of keys that one row sees, if it is a range of zeros. */
static bool range_of_row(const char *row, size_t keys, const element *e, size_t *low,
                         size_t *high) {
    size_t first = 0, end = keys;
    while (first < keys && is_hidden(row, first, e))
        first++;
    while (end > first && is_hidden(row, end - 1, e))
        end--;
    *low = first;
    *high = end;
    return first < end;
}

static bool row_is(const char *row, size_t keys, const element *e, size_t low, size_t high) {
    return all_are(row, low, e, e->hidden) && all_are(row + low * e->bytes, high - low, e, 0) &&
           all_are(row + high * e->bytes, keys - high, e, e->hidden);
}

mask_shape mask_look(const host_tensor *mask, size_t queries, size_t keys) {
    mask_shape shape = {.is_simple = false}, no = shape;
    const element *e = mask->type == HOST_F16 ? &half : &single;
    size_t low, high, first_low, first_high;
    if ((mask->type != HOST_F16 && mask->type != HOST_F32) || mask->ne[2] != 1 ||
        mask->ne[3] != 1 || queries == 0 || mask->nb[0] != e->bytes)
        return no;
    if (!range_of_row(row_at(mask, 0), keys, e, &first_low, &first_high) ||
        !range_of_row(row_at(mask, queries - 1), keys, e, &low, &high))
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
        if (!row_is(row_at(mask, i), keys, e, low, high))
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
