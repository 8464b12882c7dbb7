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

static bool has_minimum(whet_type type) { return type == WHET_Q4_1 || type == WHET_Q5_1; }

/* Elements of the size that others of the same temper have, or smaller. */
static void fill_block(unsigned char *at, whet_type type, void *context) {
    fuzz_filler *filler = context;
    size_t bytes = fuzz_type_size(type);
    bool has_fifths = type == WHET_Q5_0 || type == WHET_Q5_1;
    float largest = type == WHET_Q8_0 || type == WHET_IQ4_NL ? 128 : has_fifths ? 32 : 16;
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (unsigned char)fuzz_next(&filler->random);
    }
    fuzz_store(at, WHET_F16, fuzz_value(&filler->random, filler->temper) / largest);
    if (has_minimum(type)) {
        fuzz_store(at + sizeof(uint16_t), WHET_F16,
                   fuzz_value(&filler->random, filler->temper) / 2);
    }
}

/* The integer of element i of a type of four or five bits, from its nibble and its fifth bit. */
static int step_of(const unsigned char *block, whet_type type, size_t i) {
    static const signed char codes[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
    const unsigned char *nibbles = block + fuzz_type_size(type) - QUANT_BLOCK / 2;
    const unsigned char *fifths = nibbles - QUANT_BLOCK / 8;
    int nibble = nibbles[i % 16] >> (i < 16 ? 0 : 4) & 15;
    int five = nibble | (fifths[i / 8] >> i % 8 & 1) << 4;
    return type == WHET_Q4_0   ? nibble - 8
           : type == WHET_Q4_1 ? nibble
           : type == WHET_Q5_0 ? five - 16
           : type == WHET_Q5_1 ? five
                               : codes[nibble];
}

static float block_value(const unsigned char *block, whet_type type, size_t i) {
    float scale = fuzz_load(block, WHET_F16);
    if (type == WHET_Q8_0) {
        float element = (signed char)block[sizeof(uint16_t) + i];
        return scale * element;
    }
    float element = (float)step_of(block, type, i);
    return has_minimum(type) ? scale * element + fuzz_load(block + sizeof(uint16_t), WHET_F16)
                             : scale * element;
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
