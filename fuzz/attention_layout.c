/*
 * Tensors in memory for the target for attention: strides in any order of axes,
 * negative and broadcast ones, and elements of every type that keys and values
 * may have.
 */
#include "attention_problem.h"

/* Whether a row must be in one piece. */
static bool is_by_row(const fuzz_array *array) {
    return array->type == WHET_CUSTOM || is_quantised(array);
}

void choose_strides(fuzz_input *input, fuzz_array *array, bool may_broadcast) {
    static const unsigned char orders[][FUZZ_AXES] = {
        {ELEMENT, POSITION, HEAD, BATCH}, {ELEMENT, HEAD, POSITION, BATCH},
        {ELEMENT, BATCH, POSITION, HEAD}, {POSITION, ELEMENT, HEAD, BATCH},
        {HEAD, POSITION, ELEMENT, BATCH}, {BATCH, HEAD, POSITION, ELEMENT},
    };
    const unsigned char *order = orders[fuzz_below(input, 6)];
    if (is_by_row(array)) {
        order = orders[fuzz_below(input, 3)];
    }
    ptrdiff_t unit = (ptrdiff_t)fuzz_type_size(array->type);
    ptrdiff_t reach = unit;
    for (int i = 0; i < FUZZ_AXES; i++) {
        unsigned axis = order[i];
        unsigned how = fuzz_below(input, 16);
        if (is_by_row(array) && axis == ELEMENT) {
            how = 0;
        }
        array->stride[axis] = how < 8 ? reach : reach + (ptrdiff_t)(how % 4) * unit;
        if (how >= 12) {
            array->stride[axis] = -array->stride[axis];
        }
        if (how == 8 && may_broadcast && axis != ELEMENT && axis != POSITION) {
            array->stride[axis] = 0;
            continue;
        }
        ptrdiff_t size = array->stride[axis] < 0 ? -array->stride[axis] : array->stride[axis];
        reach = size * (ptrdiff_t)(array->count[axis] ? array->count[axis] : 1);
    }
}

/* Contiguous, as all strides zero mean. */
static void contiguous_strides(fuzz_array *array) {
    array->stride[ELEMENT] = (ptrdiff_t)fuzz_type_size(array->type);
    for (int axis = ELEMENT; axis > 0; axis--) {
        array->stride[axis - 1] = array->stride[axis] * (ptrdiff_t)array->count[axis];
    }
}

void lay_out(problem *made, fuzz_input *input, fuzz_array *array, bool may_broadcast,
             ptrdiff_t stride[FUZZ_AXES]) {
    bool is_default = array->type != WHET_CUSTOM && fuzz_flag(input);
    if (is_default) {
        contiguous_strides(array);
    } else {
        choose_strides(input, array, may_broadcast);
        memcpy(stride, array->stride, sizeof array->stride);
        made->is_wrong |= array->stride[HEAD] == 0 && array->count[HEAD] > 1;
    }
    size_t slack = fuzz_rarely(input, 64) ? fuzz_below(input, 8) : 0;
    fuzz_array_allocate(array, slack);
    size_t alignment = is_quantised(array) ? sizeof(uint16_t) : fuzz_type_size(array->type);
    made->is_wrong |= slack % alignment != 0;
}

static void fill_custom(unsigned char *at, whet_type type, void *context) {
    (void)type;
    *at = (unsigned char)fuzz_next(context);
}

/* Elements of the size that others of the same temper have, or smaller. */
static void fill_block(unsigned char *at, whet_type type, void *context) {
    fuzz_filler *filler = context;
    float largest = type == WHET_Q8_0 ? 128 : 8;
    fuzz_store(at, WHET_F16, fuzz_value(&filler->random, filler->temper) / largest);
    for (size_t i = sizeof(uint16_t); i < fuzz_type_size(type); i++) {
        at[i] = (unsigned char)fuzz_next(&filler->random);
    }
}

static float block_value(const unsigned char *block, whet_type type, size_t i) {
    float scale = fuzz_load(block, WHET_F16);
    const unsigned char *elements = block + sizeof(uint16_t);
    if (type == WHET_Q8_0) {
        float element = (signed char)elements[i];
        return scale * element;
    }
    int nibble = i < QUANT_BLOCK / 2 ? elements[i] & 15 : elements[i - QUANT_BLOCK / 2] >> 4;
    return scale * (float)(nibble - 8);
}

void fill_array(const fuzz_array *array, uint64_t seed, fuzz_temper temper) {
    if (is_quantised(array)) {
        fuzz_filler filler = {{seed}, temper};
        fuzz_each(array, fill_block, &filler);
    } else if (array->type == WHET_CUSTOM) {
        fuzz_random random = {seed};
        fuzz_each(array, fill_custom, &random);
    } else {
        fuzz_fill(array, seed, temper);
    }
}

float value_at(const problem *made, const fuzz_array *array, size_t a, size_t b, size_t c,
               size_t d) {
    if (array->type == WHET_CUSTOM) {
        return (float)*(const signed char *)fuzz_at(array, a, b, c, d) * made->unit;
    }
    if (is_quantised(array)) {
        return block_value(fuzz_at(array, a, b, c, d / QUANT_BLOCK), array->type, d % QUANT_BLOCK);
    }
    return fuzz_get(array, a, b, c, d);
}
