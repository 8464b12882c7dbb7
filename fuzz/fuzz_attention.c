/*
 * Attention: plan and run on descriptions of every shape: groups of heads,
 * types, strides in any order of axes, negative and broadcast ones, masks,
 * windows and offsets up to the extremes, sinks, soft caps, policies by head,
 * statistics. Tensors lie in memory allocated to the byte. A description that is
 * wrong must be refused with nothing written. One that is right is run twice: in
 * one call, and task by task in the opposite order in scratch full of NaN, which
 * must give the same bits; then every row is compared with plain arithmetic, maps
 * that are not a temperature with what whet_softmax makes of the same row. With
 * statistics the way back is run as well, twice likewise, and what its gradients
 * have to add up to is checked. Some inputs describe sizes that no memory has,
 * which plans must survive.
 */
#include "elements.h"
#include "input.h"
#include "policy.h"
#include "whet.h"

#include <sys/mman.h>

enum { WORK_MAX = 60000, DIM_MAX = 576, KEYS_MAX = 2100, PAGE = 4096 };

enum { BATCH, HEAD, POSITION, ELEMENT };

/* A row of the caller's own type: one signed byte an element, in units given by the context. */
static void bytes_to_f32(const void *row, float *result, size_t n, void *context) {
    const signed char *bytes = row;
    for (size_t i = 0; i < n; i++) {
        result[i] = (float)bytes[i] * *(const float *)context;
    }
}

static bool is_quantised(const fuzz_array *array) { return type_block_bytes(array->type) > 0; }

/* Whether a row must be in one piece. */
static bool is_by_row(const fuzz_array *array) {
    return array->type == WHET_CUSTOM || is_quantised(array);
}

/* A description and the memory behind it. */
typedef struct problem {
    whet_attention attention;
    fuzz_array q, k, v, out, mask;
    unsigned char *stats;
    size_t stats_bytes;
    float *sinks, *slopes;
    whet_policy *policies;
    double beta;  /* of custom policies */
    float unit;   /* of custom elements */
    bool is_tame; /* scale, soft cap, slopes and sinks of a usual size */
    bool is_wrong;
} problem;

/* ---- layouts ---- */

/*
 * Strides for the counts of an array: axes in any order, each with some room to
 * the next, any of them backwards. A broadcast axis has stride 0.
 */
static void choose_strides(fuzz_input *input, fuzz_array *array, bool may_broadcast) {
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

/* Lays an array out and says so in `stride`. */
static void lay_out(problem *made, fuzz_input *input, fuzz_array *array, bool may_broadcast,
                    ptrdiff_t stride[FUZZ_AXES]) {
    bool is_default = array->type != WHET_CUSTOM && fuzz_flag(input);
    if (is_default) {
        contiguous_strides(array);
    } else {
        choose_strides(input, array, may_broadcast);
        memcpy(stride, array->stride, sizeof array->stride);
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

static void fill(const fuzz_array *array, uint64_t seed, fuzz_temper temper) {
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

static float value_at(const problem *made, const fuzz_array *array, size_t a, size_t b, size_t c,
                      size_t d) {
    if (array->type == WHET_CUSTOM) {
        return (float)*(const signed char *)fuzz_at(array, a, b, c, d) * made->unit;
    }
    if (is_quantised(array)) {
        return block_value(fuzz_at(array, a, b, c, d / QUANT_BLOCK), array->type, d % QUANT_BLOCK);
    }
    return fuzz_get(array, a, b, c, d);
}

/* ---- making a description ---- */

static size_t choose_dim(fuzz_input *input) {
    if (fuzz_rarely(input, 16)) {
        return 1 + fuzz_below(input, DIM_MAX);
    }
    size_t dim = 1 + fuzz_below(input, 40);
    return dim > 36 ? (dim - 36) * QUANT_BLOCK : dim;
}

static void choose_shape(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    a->size = sizeof *a;
    a->batch = fuzz_below(input, 4);
    a->kv_heads = 1 + fuzz_below(input, 3);
    a->heads = a->kv_heads * (1 + fuzz_below(input, 4));
    a->queries = fuzz_below(input, 60);
    a->keys = fuzz_rarely(input, 8) ? fuzz_below(input, KEYS_MAX) : fuzz_below(input, 256);
    a->head_dim = choose_dim(input);
    a->value_dim = choose_dim(input);
    size_t streams = (a->batch ? a->batch : 1) * a->heads;
    size_t dims = a->head_dim + a->value_dim;
    while (streams * a->queries * a->keys * dims > WORK_MAX && a->queries > 1) {
        a->queries /= 2;
    }
    while (streams * a->queries * a->keys * dims > WORK_MAX) {
        a->keys /= 2;
    }
    if (a->kv_heads == a->heads && fuzz_flag(input)) {
        a->kv_heads = 0;
    }
    if (a->value_dim == a->head_dim) {
        a->value_dim = 0;
    }
}

static size_t batches(const whet_attention *a) { return a->batch ? a->batch : 1; }
static size_t kv_heads(const whet_attention *a) { return a->kv_heads ? a->kv_heads : a->heads; }
static size_t value_dim(const whet_attention *a) {
    return a->value_dim ? a->value_dim : a->head_dim;
}

static void choose_input(problem *made, fuzz_input *input, whet_tensor *tensor, fuzz_array *array,
                         unsigned types, fuzz_temper temper) {
    static const whet_type all[] = {WHET_F32,    WHET_F16,  WHET_BF16,
                                    WHET_CUSTOM, WHET_Q8_0, WHET_Q4_0};
    array->type = tensor->type = all[fuzz_below(input, types)];
    bool whole = array->count[ELEMENT] % QUANT_BLOCK == 0;
    if (is_quantised(array) && !whole && !fuzz_rarely(input, 16)) {
        array->type = tensor->type = WHET_F16;
    }
    if (is_quantised(array)) {
        made->is_wrong |= !whole;
        array->count[ELEMENT] = (array->count[ELEMENT] + QUANT_BLOCK - 1) / QUANT_BLOCK;
    }
    lay_out(made, input, array, true, tensor->stride);
    fill(array, fuzz_bytes(input, 3), temper);
    tensor->data = array->base;
    if (tensor->type == WHET_CUSTOM) {
        tensor->to_f32 = bytes_to_f32;
        tensor->context = &made->unit;
    }
}

static void choose_tensors(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    fuzz_temper temper = (fuzz_temper)fuzz_below(input, 8);
    if (temper >= FUZZ_TEMPERS) {
        temper = FUZZ_TAME;
    }
    made->unit = 1.0f / 32;
    made->q = (fuzz_array){.count = {batches(a), a->heads, a->queries, a->head_dim}};
    made->k = (fuzz_array){.count = {batches(a), kv_heads(a), a->keys, a->head_dim}};
    made->v = (fuzz_array){.count = {batches(a), kv_heads(a), a->keys, value_dim(a)}};
    choose_input(made, input, &a->q, &made->q, 3, temper);
    choose_input(made, input, &a->k, &made->k, 6, temper);
    choose_input(made, input, &a->v, &made->v, 6, fuzz_rarely(input, 4) ? FUZZ_BITS : temper);

    made->out = (fuzz_array){.count = {batches(a), a->heads, a->queries, value_dim(a)}};
    made->out.type = a->out.type = (whet_type)fuzz_below(input, 3);
    lay_out(made, input, &made->out, false, a->out.stride);
    a->out.data = made->out.base;
}

/* A zero stride repeats the mask, except for keys. */
static void choose_mask(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    if (!fuzz_flag(input)) {
        return;
    }
    made->mask = (fuzz_array){.count = {batches(a), a->heads, a->queries, a->keys}};
    made->mask.type = a->mask.type = (whet_type)fuzz_below(input, 2);
    choose_strides(input, &made->mask, false);
    if (fuzz_flag(input)) { /* contiguous keys, repeated for everything else */
        memset(made->mask.stride, 0, sizeof made->mask.stride);
    }
    for (int axis = BATCH; axis < ELEMENT; axis++) {
        if (fuzz_rarely(input, 4)) {
            made->mask.stride[axis] = 0;
        }
    }
    memcpy(a->mask.stride, made->mask.stride, sizeof a->mask.stride);
    if (made->mask.stride[ELEMENT] == 0) {
        made->mask.stride[ELEMENT] = (ptrdiff_t)fuzz_type_size(made->mask.type);
    }
    fuzz_array_allocate(&made->mask, 0);
    fuzz_temper temper = fuzz_rarely(input, 4) ? FUZZ_BITS : FUZZ_MASKED;
    fuzz_fill(&made->mask, fuzz_bytes(input, 2), temper);
    a->mask.data = made->mask.base;
}

static float choose_number(problem *made, fuzz_input *input, float usual, float largest) {
    unsigned how = fuzz_below(input, 8);
    if (how < 4) {
        return 0;
    }
    float number = how < 7 ? usual : (float)fuzz_double(input);
    made->is_tame &= number >= 0 && number <= largest;
    return number;
}

static float *choose_per_head(problem *made, fuzz_input *input, float usual) {
    if (fuzz_below(input, 4) != 1) {
        return NULL;
    }
    size_t heads = made->attention.heads;
    float *values = fuzz_allocate(heads * sizeof *values);
    for (size_t i = 0; i < heads; i++) {
        values[i] = fuzz_rarely(input, 8) ? (float)fuzz_double(input) : usual * (float)i;
        made->is_tame &= fabsf(values[i]) <= 100;
    }
    return values;
}

static void choose_limits(problem *made, fuzz_input *input) {
    static const int64_t extremes[] = {INT64_MIN, INT64_MAX,           INT32_MAX,
                                       INT32_MIN, -(int64_t)INT32_MAX, INT64_C(1) << 40};
    whet_attention *a = &made->attention;
    a->flags = fuzz_flag(input) ? (uint32_t)WHET_CAUSAL : 0;
    if (fuzz_rarely(input, 64)) {
        a->flags = (uint32_t)fuzz_bytes(input, 4);
        made->is_wrong |= (a->flags & ~(uint32_t)WHET_CAUSAL) != 0;
    }
    if (fuzz_rarely(input, 16)) {
        a->offset = extremes[fuzz_below(input, 6)];
        made->is_wrong |= a->offset > INT32_MAX || a->offset < -(int64_t)INT32_MAX;
    } else if (fuzz_flag(input)) {
        a->offset = (int64_t)a->keys - (int64_t)a->queries;
    } else {
        a->offset = (int64_t)fuzz_below(input, 64) - 32;
    }
    if (fuzz_flag(input)) {
        a->window = fuzz_rarely(input, 8) ? fuzz_hostile_size(input) : fuzz_below(input, 200);
    }
}

static void choose_policies(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    unsigned how = fuzz_below(input, 4);
    if (how == 0) {
        return;
    }
    a->policy_count = how == 1 ? a->heads : how == 2 ? 1 : 0;
    if (fuzz_rarely(input, 64)) {
        a->policy_count = fuzz_hostile_size(input);
    }
    made->is_wrong |= a->policy_count > 1 && a->policy_count != a->heads;
    size_t count = a->policy_count == a->heads ? a->heads : 1;
    made->policies = fuzz_allocate(count * sizeof *made->policies);
    made->beta = 1;
    for (size_t i = 0; i < count; i++) {
        made->policies[i] = fuzz_any_policy(input, &made->beta);
        made->is_wrong |= whet_policy_check(&made->policies[i], NULL, 0) != WHET_OK;
    }
    a->policies = made->policies;
}

static void choose_stats(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    if (!fuzz_flag(input)) {
        made->stats = fuzz_allocate(0);
        return;
    }
    size_t stride = sizeof(whet_stats);
    if (fuzz_rarely(input, 4)) {
        stride = a->stats_stride = sizeof(whet_stats) + fuzz_below(input, 20);
        made->is_wrong |= stride % _Alignof(whet_stats) != 0;
    }
    size_t rows = batches(a) * a->heads * a->queries;
    made->stats_bytes = rows ? (rows - 1) * stride + sizeof(whet_stats) : 0;
    made->stats = fuzz_allocate(made->stats_bytes);
    memset(made->stats, FUZZ_CANARY, made->stats_bytes);
    a->stats = (whet_stats *)(void *)made->stats;
}

static void make_problem(problem *made, fuzz_input *input) {
    whet_attention *a = &made->attention;
    memset(made, 0, sizeof *made);
    made->is_tame = true;
    choose_shape(made, input);
    choose_policies(made, input);
    choose_stats(made, input);
    choose_limits(made, input);
    choose_tensors(made, input);
    choose_mask(made, input);
    a->scale = choose_number(made, input, 0.25f, 1);
    a->softcap = choose_number(made, input, 2, 1e6f);
    made->is_tame &= a->softcap == 0 || a->softcap > 1e-3f;
    made->is_wrong |= !isfinite(a->scale) || !isfinite(a->softcap) || a->softcap < 0;
    a->alibi_slopes = made->slopes = choose_per_head(made, input, 0.125f);
    a->sinks = made->sinks = choose_per_head(made, input, 1);
}

static void free_problem(problem *made) {
    free(made->q.memory);
    free(made->k.memory);
    free(made->v.memory);
    free(made->out.memory);
    free(made->mask.memory);
    free(made->stats);
    free(made->sinks);
    free(made->slopes);
    free(made->policies);
}

/* ---- what must hold of a row ---- */

typedef struct row_name {
    size_t batch, head, query;
} row_name;

static bool is_visible(const whet_attention *a, const row_name *row, size_t key) {
    int64_t distance = (int64_t)row->query + a->offset - (int64_t)key;
    if ((a->flags & WHET_CAUSAL) && distance < 0) {
        return false;
    }
    uint64_t size = (uint64_t)(distance < 0 ? -distance : distance);
    return a->window == 0 || size < a->window;
}

static float mask_of(const problem *made, const row_name *row, size_t key) {
    if (!is_visible(&made->attention, row, key)) {
        return -INFINITY;
    }
    return made->attention.mask.data ? fuzz_get(&made->mask, row->batch, row->head, row->query, key)
                                     : 0;
}

/* What goes into a row's logits: how many there are, the largest number, and any that is bad. */
typedef struct row_facts {
    size_t n;
    double largest;
    bool is_bad;
} row_facts;

static void note_number(row_facts *facts, float number) {
    facts->is_bad |= isnan(number);
    facts->largest = fmax(facts->largest, fabs((double)number));
}

static row_facts facts_of(const problem *made, const row_name *row) {
    const whet_attention *a = &made->attention;
    row_facts facts = {0};
    size_t kv_head = row->head / (a->heads / kv_heads(a));
    for (size_t key = 0; key < a->keys; key++) {
        float mask = mask_of(made, row, key);
        if (mask == -INFINITY) {
            continue; /* whatever the key holds */
        }
        facts.n++;
        facts.is_bad |= mask == INFINITY;
        note_number(&facts, mask);
        for (size_t i = 0; i < a->head_dim; i++) {
            note_number(&facts, value_at(made, &made->k, row->batch, kv_head, key, i));
        }
    }
    for (size_t i = 0; facts.n > 0 && i < a->head_dim; i++) {
        note_number(&facts, value_at(made, &made->q, row->batch, row->head, row->query, i));
    }
    return facts;
}

/* The logit in plain arithmetic; -inf where it is masked. */
static double logit_of(const problem *made, const row_name *row, size_t key) {
    const whet_attention *a = &made->attention;
    float mask = mask_of(made, row, key);
    if (mask == -INFINITY) {
        return -INFINITY;
    }
    size_t kv_head = row->head / (a->heads / kv_heads(a));
    double dot = 0;
    for (size_t i = 0; i < a->head_dim; i++) {
        dot += (double)value_at(made, &made->q, row->batch, row->head, row->query, i) *
               (double)value_at(made, &made->k, row->batch, kv_head, key, i);
    }
    dot *= a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    if (a->softcap > 0) {
        dot = (double)a->softcap * tanh(dot / (double)a->softcap);
    }
    if (a->alibi_slopes) {
        dot -= (double)a->alibi_slopes[row->head] *
               fabs((double)((int64_t)row->query + a->offset - (int64_t)key));
    }
    return dot + (double)mask;
}

/* The values of the keys a row sees: all finite, and within what bounds. */
typedef struct value_facts {
    bool are_finite;
    double largest;
} value_facts;

static value_facts facts_of_values(const problem *made, const row_name *row, const double *logits) {
    const whet_attention *a = &made->attention;
    value_facts facts = {.are_finite = true};
    size_t kv_head = row->head / (a->heads / kv_heads(a));
    for (size_t key = 0; key < a->keys; key++) {
        for (size_t i = 0; logits[key] > -INFINITY && i < value_dim(a); i++) {
            double value = (double)value_at(made, &made->v, row->batch, kv_head, key, i);
            facts.are_finite &= fabs(value) < 1e30;
            facts.largest = fmax(facts.largest, fabs(value));
        }
    }
    return facts;
}

static double rounding(whet_type type, double value) {
    return type == WHET_F32   ? 0
           : type == WHET_F16 ? fmax(0x1p-10 * value, 0x1p-24)
                              : fmax(0x1p-7 * value, 0x1p-130);
}

/* How far an f32 logit may be off, given that tame values are no larger than 4. */
static double logit_error(const whet_attention *a, const row_name *row) {
    double distance = fabs((double)a->offset) + (double)a->queries + (double)a->keys;
    double slope = a->alibi_slopes ? fabs((double)a->alibi_slopes[row->head]) : 0;
    double scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    return 1e-6 * (100 + 16 * (double)a->head_dim * scale + slope * distance);
}

/* Logits to weights at this beta, the sink's included in their sum, which is returned. */
static double weigh(const whet_attention *a, const row_name *row, double beta, double *logits) {
    double sink = a->sinks ? (double)a->sinks[row->head] : -INFINITY;
    double max = sink;
    for (size_t key = 0; key < a->keys; key++) {
        max = fmax(max, logits[key]);
    }
    double z = a->sinks ? exp(beta * (sink - max)) : 0;
    for (size_t key = 0; key < a->keys; key++) {
        logits[key] = logits[key] > -INFINITY ? exp(beta * (logits[key] - max)) : 0;
        z += logits[key];
    }
    return z;
}

/* Logits to the coefficients of a map that is not a temperature; returns 1, what they are to be
 * divided by, and in mass what they sum to. */
static double map_weights(const whet_attention *a, const row_name *row, whet_policy policy,
                          double *logits, double *mass) {
    bool alone = policy.kind == WHET_POLICY_SIGMOID || policy.kind == WHET_POLICY_STICK_BREAKING;
    size_t n = a->keys + (a->sinks && !alone);
    float *values = fuzz_allocate(n * sizeof *values);
    double visible = 0;
    for (size_t key = 0; key < a->keys; key++) {
        values[key] = (float)logits[key];
        visible += logits[key] > -INFINITY;
    }
    if (n > a->keys) {
        values[a->keys] = a->sinks[row->head];
    }
    if (policy.kind == WHET_POLICY_SIGMOID && isnan(policy.value[0])) {
        policy.value[0] = log(visible);
    }
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = n, .in = values, .out = values};
    FUZZ_CHECK(whet_softmax(&rows, &policy, NULL) == WHET_OK);
    *mass = 0;
    for (size_t key = 0; key < a->keys; key++) {
        logits[key] = (double)values[key];
        *mass += logits[key];
    }
    free(values);
    return 1;
}

static const whet_policy *policy_of(const problem *made, const row_name *row) {
    const whet_attention *a = &made->attention;
    return made->policies ? &made->policies[a->policy_count > 1 ? row->head : 0] : NULL;
}

/* The row's output at this beta (NaN: of its map), compared within what f32 logits allow for. */
static void check_output(const problem *made, const row_name *row, double *logits, double beta,
                         const value_facts *facts) {
    const whet_attention *a = &made->attention;
    size_t kv_head = row->head / (a->heads / kv_heads(a));
    double mass = 1;
    double z = isnan(beta) ? map_weights(a, row, *policy_of(made, row), logits, &mass)
                           : weigh(a, row, beta, logits);
    double error = 2 * (isnan(beta) ? 4 : beta) * logit_error(a, row);
    double allowed = 1e-5 + (1e-4 + error) * facts->largest * fmax(1, mass);
    if (error > 0.1 || (a->out.type == WHET_F16 && facts->largest > 65000)) {
        return; /* nothing can be said; more than an f16 holds */
    }
    for (size_t i = 0; i < value_dim(a); i++) {
        double sum = 0;
        for (size_t key = 0; key < a->keys; key++) {
            if (logits[key] > 0) {
                sum += logits[key] * (double)value_at(made, &made->v, row->batch, kv_head, key, i);
            }
        }
        double actual = (double)fuzz_get(&made->out, row->batch, row->head, row->query, i);
        FUZZ_CHECK(fabs(actual - sum / z) <= allowed + rounding(a->out.type, fabs(sum / z)));
    }
}

static const whet_stats *stats_of(const problem *made, const row_name *row) {
    const whet_attention *a = &made->attention;
    size_t stride = a->stats_stride ? a->stats_stride : sizeof(whet_stats);
    size_t index = (row->batch * a->heads + row->head) * a->queries + row->query;
    return a->stats ? (const whet_stats *)(const void *)(made->stats + index * stride) : NULL;
}

static void check_filled(const problem *made, const row_name *row, float value) {
    for (size_t i = 0; i < value_dim(&made->attention); i++) {
        float actual = fuzz_get(&made->out, row->batch, row->head, row->query, i);
        FUZZ_CHECK(isnan(value) ? isnan(actual) : actual == value);
    }
}

/* A row of numbers of a usual size, compared if its beta is known. */
static void compare_row(const problem *made, const row_name *row, const whet_stats *stats,
                        double *logits) {
    const whet_policy *policy = policy_of(made, row);
    bool is_plain = !policy;
    bool is_map = policy && !whet_policy_is_temperature(policy);
    if (is_map && (policy->kind == WHET_POLICY_TOPK || policy->kind == WHET_POLICY_HARDMAX)) {
        return; /* they jump where two logits are close */
    }
    for (size_t key = 0; key < made->attention.keys; key++) {
        logits[key] = logit_of(made, row, key);
    }
    value_facts facts = facts_of_values(made, row, logits);
    if (facts.are_finite && (is_plain || is_map || (stats && stats->beta <= 20))) {
        check_output(made, row, logits, is_plain ? 1 : is_map ? NAN : stats->beta, &facts);
    }
}

typedef enum verdict { ROW_GOOD, ROW_BAD, ROW_UNCLEAR } verdict;

static verdict check_row(const problem *made, const row_name *row, double *logits) {
    const whet_stats *stats = stats_of(made, row);
    row_facts facts = facts_of(made, row);
    if (facts.n == 0) { /* nothing to see: zeros, whatever the sink */
        check_filled(made, row, 0);
        FUZZ_CHECK(!stats || (stats->flags == WHET_ROW_EMPTY && stats->n == 0));
        return ROW_GOOD;
    }
    if (facts.is_bad) {
        check_filled(made, row, NAN);
        FUZZ_CHECK(!stats || stats->flags == WHET_ROW_NOT_FINITE);
        return ROW_BAD;
    }
    if (facts.largest > 1e6) {
        return ROW_UNCLEAR; /* f32 may overflow, to either side */
    }
    FUZZ_CHECK(!stats || (stats->n == facts.n && !(stats->flags & WHET_ROW_NOT_FINITE)));
    if (facts.largest <= 8) {
        compare_row(made, row, stats, logits);
    }
    return ROW_GOOD;
}

static void check_rows(const problem *made, whet_status status, uint64_t first_bad) {
    const whet_attention *a = &made->attention;
    double *logits = fuzz_allocate(a->keys * sizeof *logits);
    uint64_t expected_bad = UINT64_MAX;
    uint64_t index = 0;
    bool is_clear = true;
    row_name row;
    for (row.batch = 0; row.batch < batches(a); row.batch++) {
        for (row.head = 0; row.head < a->heads; row.head++) {
            for (row.query = 0; row.query < a->queries; row.query++, index++) {
                verdict found = check_row(made, &row, logits);
                is_clear &= found != ROW_UNCLEAR;
                if (found == ROW_BAD && expected_bad == UINT64_MAX) {
                    expected_bad = index;
                }
            }
        }
    }
    free(logits);
    FUZZ_CHECK(expected_bad == UINT64_MAX || status == WHET_NOT_FINITE);
    FUZZ_CHECK(is_clear ? first_bad == expected_bad : first_bad <= expected_bad);
}

/* ---- running ---- */

static void *aligned_memory(size_t bytes) {
    void *memory;
    if (posix_memalign(&memory, WHET_ALIGNMENT, bytes ? bytes : 1) != 0) {
        exit(0);
    }
    memset(memory, 0xff, bytes);
    return memory;
}

/* Task by task, from the last to the first, each with scratch of its own. */
static whet_status run_backwards(whet_plan plan, uint64_t *first_bad) {
    whet_status result = WHET_OK;
    FUZZ_CHECK(plan.phases <= WHET_PHASES_MAX);
    plan.workspace = aligned_memory(plan.workspace_bytes);
    for (unsigned phase = 0; phase < plan.phases; phase++) {
        for (size_t task = plan.tasks[phase]; task-- > 0;) {
            uint64_t row = UINT64_MAX;
            void *scratch = aligned_memory(plan.scratch_bytes);
            whet_status status = whet_attention_run_task(&plan, phase, task, scratch, &row);
            free(scratch);
            FUZZ_CHECK(status == WHET_OK || status == WHET_NOT_FINITE);
            FUZZ_CHECK((row == UINT64_MAX) == (status == WHET_OK));
            result = status == WHET_OK ? result : status;
            *first_bad = row < *first_bad ? row : *first_bad;
        }
        FUZZ_CHECK(whet_attention_run_task(&plan, phase, plan.tasks[phase], plan.workspace, NULL) ==
                   WHET_ERROR_ARGUMENT);
    }
    free(plan.workspace);
    return result;
}

/* The second run must leave what the first did. */
static void check_same_bits(problem *made, whet_status status, uint64_t first_bad) {
    unsigned char *out = fuzz_copy(made->out.memory, made->out.bytes);
    unsigned char *stats = fuzz_copy(made->stats, made->stats_bytes);
    memset(made->out.memory, FUZZ_CANARY, made->out.bytes);
    memset(made->stats, FUZZ_CANARY, made->stats_bytes);
    uint64_t again = UINT64_MAX;
    whet_plan plan;
    FUZZ_CHECK(whet_attention_plan(&made->attention, &plan) == WHET_OK);
    FUZZ_CHECK(run_backwards(plan, &again) == status);
    FUZZ_CHECK(again == first_bad);
    FUZZ_CHECK(fuzz_same(made->out.memory, out, made->out.bytes));
    FUZZ_CHECK(fuzz_same(made->stats, stats, made->stats_bytes));
    free(stats);
    free(out);
}

/* ---- the way back ---- */

/* The gradients and the memory behind them. */
typedef struct way_back {
    whet_gradients gradients;
    fuzz_array out, q, k, v;
    whet_policy_gradient *policies;
    float *sinks, *slopes;
} way_back;

/* A gradient of something with these counts, or none. */
static void choose_gradient(problem *made, fuzz_input *input, const fuzz_array *of,
                            fuzz_array *array, whet_tensor_out *tensor) {
    memcpy(array->count, of->count, sizeof array->count);
    array->type = tensor->type = (whet_type)fuzz_below(input, 3);
    lay_out(made, input, array, false, tensor->stride);
    tensor->data = of->type == WHET_CUSTOM || fuzz_rarely(input, 8) ? NULL : array->base;
}

static void make_way_back(way_back *back, problem *made, fuzz_input *input) {
    whet_gradients *g = &back->gradients;
    const whet_attention *a = &made->attention;
    size_t policies = a->policy_count > 1 ? a->policy_count : 1;
    memset(back, 0, sizeof *back);
    *g = (whet_gradients){.size = sizeof *g, .attention = *a};
    memcpy(back->out.count, made->out.count, sizeof back->out.count);
    back->out.type = g->out.type = (whet_type)fuzz_below(input, 3);
    lay_out(made, input, &back->out, true, g->out.stride);
    fuzz_fill(&back->out, fuzz_bytes(input, 2), fuzz_rarely(input, 4) ? FUZZ_BITS : FUZZ_TAME);
    g->out.data = back->out.base;
    choose_gradient(made, input, &made->q, &back->q, &g->q);
    choose_gradient(made, input, &made->k, &back->k, &g->k);
    choose_gradient(made, input, &made->v, &back->v, &g->v);
    back->policies = fuzz_allocate(policies * sizeof *back->policies);
    back->sinks = fuzz_allocate(a->heads * sizeof *back->sinks);
    back->slopes = fuzz_allocate(a->heads * sizeof *back->slopes);
    g->policies = fuzz_flag(input) ? back->policies : NULL;
    g->sinks = a->sinks && fuzz_flag(input) ? back->sinks : NULL;
    g->alibi_slopes = a->alibi_slopes && fuzz_flag(input) ? back->slopes : NULL;
}

static void free_way_back(way_back *back) {
    free(back->out.memory);
    free(back->q.memory);
    free(back->k.memory);
    free(back->v.memory);
    free(back->policies);
    free(back->sinks);
    free(back->slopes);
}

/* Once more, task by task: the same bits. */
static void check_same_gradients(way_back *back, whet_status status, uint64_t first_bad) {
    fuzz_array *arrays[] = {&back->q, &back->k, &back->v};
    unsigned char *before[3];
    uint64_t again = UINT64_MAX;
    whet_plan plan;
    for (size_t i = 0; i < 3; i++) {
        before[i] = fuzz_copy(arrays[i]->memory, arrays[i]->bytes);
        memset(arrays[i]->memory, FUZZ_CANARY, arrays[i]->bytes);
    }
    FUZZ_CHECK(whet_attention_backward_plan(&back->gradients, &plan) == WHET_OK);
    FUZZ_CHECK(run_backwards(plan, &again) == status);
    FUZZ_CHECK(again == first_bad);
    for (size_t i = 0; i < 3; i++) {
        FUZZ_CHECK(fuzz_same(arrays[i]->memory, before[i], arrays[i]->bytes));
        free(before[i]);
    }
}

/* Whether a gradient was asked for of keys or values that are not plain numbers. */
static bool cannot_be_written(const problem *made, const whet_gradients *g) {
    return (g->k.data && made->k.type > WHET_BF16) || (g->v.data && made->v.type > WHET_BF16);
}

/* Whether the weights of all heads do, without a sink. */
static bool sum_to_one(const problem *made) {
    size_t count = made->attention.policy_count > 1 ? made->attention.policy_count : 1;
    for (size_t i = 0; made->policies && i < count; i++) {
        uint32_t kind = made->policies[i].kind;
        if (kind == WHET_POLICY_SOFTMAX1 || kind == WHET_POLICY_SIGMOID ||
            kind == WHET_POLICY_STICK_BREAKING) {
            return false;
        }
    }
    return true;
}

/* Where all is f32, of a usual size and without sinks, the weights of a row add up to one: then
 * values' gradients add up to those of the outputs of rows that see anything. */
static void check_value_sums(const problem *made, const way_back *back) {
    const whet_attention *a = &made->attention;
    size_t group = a->heads / kv_heads(a);
    for (size_t stream = 0; stream < batches(a) * kv_heads(a); stream++) {
        size_t batch = stream / kv_heads(a), kv_head = stream % kv_heads(a);
        for (size_t i = 0; i < value_dim(a); i++) {
            double sum = 0;
            double size = 1;
            for (size_t key = 0; key < a->keys; key++) {
                sum += (double)fuzz_get(&back->v, batch, kv_head, key, i);
            }
            for (size_t r = 0; r < group * a->queries; r++) {
                row_name row = {batch, kv_head * group + r / a->queries, r % a->queries};
                double grad = (double)fuzz_get(&back->out, batch, row.head, row.query, i);
                bool sees = stats_of(made, &row)->n > 0;
                sum -= sees ? grad : 0;
                size += fabs(grad);
            }
            FUZZ_CHECK(fabs(sum) <= 1e-4 * size);
        }
    }
}

static void run_way_back(problem *made, fuzz_input *input, whet_status forth) {
    way_back back;
    made->is_wrong = false;
    make_way_back(&back, made, input);
    uint64_t first_bad = UINT64_MAX;
    whet_status status = whet_attention_backward(&back.gradients, NULL, &first_bad);
    if (status >= WHET_ERROR_ARGUMENT) {
        FUZZ_CHECK(made->is_wrong || cannot_be_written(made, &back.gradients));
        FUZZ_CHECK(fuzz_is_canary(back.q.memory, back.q.bytes));
        FUZZ_CHECK(fuzz_is_canary(back.k.memory, back.k.bytes));
        FUZZ_CHECK(fuzz_is_canary(back.v.memory, back.v.bytes));
    } else {
        const whet_gradients *g = &back.gradients;
        bool anything =
            g->q.data || g->k.data || g->v.data || g->policies || g->sinks || g->alibi_slopes;
        FUZZ_CHECK(!cannot_be_written(made, g));
        FUZZ_CHECK((first_bad == UINT64_MAX) == (status == WHET_OK));
        FUZZ_CHECK(forth == WHET_OK || status == WHET_NOT_FINITE || !anything);
        check_same_gradients(&back, status, first_bad);
        if (status == WHET_OK && g->v.data && back.v.type == WHET_F32 && !made->sinks &&
            made->is_tame && sum_to_one(made)) {
            check_value_sums(made, &back);
        }
        FUZZ_CHECK(fuzz_gaps_are_untouched(&back.q));
        FUZZ_CHECK(fuzz_gaps_are_untouched(&back.k));
        FUZZ_CHECK(fuzz_gaps_are_untouched(&back.v));
    }
    free_way_back(&back);
}

static void run_problem(fuzz_input *input) {
    problem made;
    make_problem(&made, input);
    uint64_t first_bad = UINT64_MAX;
    whet_status status = whet_attention_forward(&made.attention, NULL, &first_bad);
    if (status >= WHET_ERROR_ARGUMENT) {
        FUZZ_CHECK(made.is_wrong);
        FUZZ_CHECK(first_bad == UINT64_MAX);
        FUZZ_CHECK(fuzz_is_canary(made.out.memory, made.out.bytes));
        FUZZ_CHECK(fuzz_is_canary(made.stats, made.stats_bytes));
    } else {
        FUZZ_CHECK(!made.is_wrong || made.attention.queries == 0 || made.attention.keys == 0);
        FUZZ_CHECK((first_bad == UINT64_MAX) == (status == WHET_OK));
        check_same_bits(&made, status, first_bad);
        if (made.is_tame && !isnan(made.beta)) {
            check_rows(&made, status, first_bad);
        }
        FUZZ_CHECK(fuzz_gaps_are_untouched(&made.out));
        if (made.attention.stats && made.attention.queries > 0 && made.attention.keys > 0) {
            run_way_back(&made, input, status);
        }
    }
    free_problem(&made);
}

/* ---- sizes that no memory has ---- */

/* Whether a tensor stays in the range of addresses, or is beyond it by no more than a little. */
static bool fits_memory(const whet_attention *a, size_t heads, size_t positions, size_t dim,
                        const ptrdiff_t stride[FUZZ_AXES], whet_type type) {
    const size_t block = type_block_bytes(type) > 0 ? QUANT_BLOCK : 1;
    const size_t count[FUZZ_AXES] = {batches(a), heads, positions, dim / block};
    double low = 0;
    double high = 0;
    double contiguous = (double)fuzz_type_size(type);
    bool is_default = true;
    for (int axis = FUZZ_AXES - 1; axis >= 0; axis--) {
        if (count[axis] == 0) {
            return true;
        }
        contiguous *= (double)count[axis];
        if (axis == ELEMENT && block > 1) {
            continue; /* its stride means nothing */
        }
        double reach = ((double)count[axis] - 1) * (double)stride[axis];
        low += fmin(0, reach);
        high += fmax(0, reach);
        is_default &= stride[axis] == 0;
    }
    return is_default ? contiguous < 0x1.0001p64 : low > -0x1.0001p64 && high < 0x1.0001p64;
}

static void choose_hostile_strides(fuzz_input *input, ptrdiff_t stride[FUZZ_AXES]) {
    if (fuzz_flag(input)) {
        for (int axis = 0; axis < FUZZ_AXES; axis++) {
            stride[axis] = (ptrdiff_t)(fuzz_hostile_size(input) & ~(uint64_t)3);
        }
    }
}

/* Three pages that cannot even be read. */
static char *inaccessible_pages(void) {
    static void *pages;
    if (!pages) {
        pages = mmap(NULL, (size_t)3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (pages == MAP_FAILED) {
        exit(0);
    }
    return pages;
}

/* Plans of the way back, whose outputs may lie upon each other as they like. */
static void run_hostile_way_back(const whet_attention *a, fuzz_input *input) {
    whet_gradients g = {.size = sizeof g, .attention = *a, .out = {.data = a->q.data}};
    char *nowhere = inaccessible_pages();
    unsigned wanted = fuzz_below(input, 8);
    g.q.data = wanted & 1 ? nowhere + PAGE : NULL;
    g.k.data = wanted & 2 ? nowhere + PAGE + PAGE / 2 : NULL;
    g.v.data = wanted & 4 ? nowhere + PAGE + PAGE / 4 : NULL;
    choose_hostile_strides(input, g.out.stride);
    choose_hostile_strides(input, g.q.stride);
    choose_hostile_strides(input, g.k.stride);
    whet_plan plan;
    if (whet_attention_backward_plan(&g, &plan) != WHET_OK || plan.phases == 0) {
        return;
    }
    bool is_read = a->queries > 0 && a->keys > 0;
    FUZZ_CHECK(!is_read ||
               fits_memory(a, kv_heads(a), a->keys, a->head_dim, a->k.stride, a->k.type));
    FUZZ_CHECK(fits_memory(a, a->heads, a->queries, value_dim(a), g.out.stride, g.out.type));
    FUZZ_CHECK(!g.q.data ||
               fits_memory(a, a->heads, a->queries, a->head_dim, g.q.stride, g.q.type));
    FUZZ_CHECK(!g.k.data ||
               fits_memory(a, kv_heads(a), a->keys, a->head_dim, g.k.stride, g.k.type));
    double least = g.k.data ? (double)a->keys * (double)a->head_dim * sizeof(float) : 1;
    FUZZ_CHECK((double)plan.scratch_bytes + (double)plan.workspace_bytes >= 0.999 * least);
}

/*
 * The pointers lead nowhere, so that a plan that follows one is found out. It
 * may take the description if its tensors fit the range of addresses; then what
 * it asks for must not have wrapped around.
 */
static void run_hostile(fuzz_input *input) {
    whet_attention a = {.size = sizeof a};
    a.batch = fuzz_hostile_size(input);
    a.heads = fuzz_hostile_size(input);
    a.kv_heads = fuzz_flag(input) ? 0 : fuzz_hostile_size(input);
    a.queries = fuzz_hostile_size(input);
    a.keys = fuzz_hostile_size(input);
    a.head_dim = fuzz_flag(input) ? 1 + fuzz_below(input, DIM_MAX) : fuzz_hostile_size(input);
    a.value_dim = fuzz_flag(input) ? 0 : fuzz_hostile_size(input);
    a.offset = (int64_t)fuzz_hostile_size(input);
    a.window = fuzz_hostile_size(input);
    whet_policy policy = whet_policy_adaptive();
    a.policies = fuzz_flag(input) ? &policy : NULL;
    char *nowhere = inaccessible_pages();
    a.q.data = a.k.data = a.v.data = nowhere;
    a.out.data = nowhere + PAGE;
    a.k.type = (whet_type)fuzz_below(input, WHET_Q4_0 + 1);
    a.v.type = (whet_type)fuzz_below(input, WHET_Q4_0 + 1);
    choose_hostile_strides(input, a.q.stride);
    choose_hostile_strides(input, a.k.stride);
    choose_hostile_strides(input, a.v.stride);
    choose_hostile_strides(input, a.out.stride);
    if (fuzz_rarely(input, 4)) {
        a.stats = (whet_stats *)(void *)(nowhere + 2 * PAGE);
        a.stats_stride = fuzz_hostile_size(input) & ~(uint64_t)7;
    }
    whet_plan plan;
    if (a.stats && fuzz_flag(input)) {
        run_hostile_way_back(&a, input);
    }
    if (whet_attention_plan(&a, &plan) != WHET_OK || plan.phases == 0) {
        return;
    }
    FUZZ_CHECK(fits_memory(&a, a.heads, a.queries, a.head_dim, a.q.stride, a.q.type));
    FUZZ_CHECK(fits_memory(&a, kv_heads(&a), a.keys, a.head_dim, a.k.stride, a.k.type));
    FUZZ_CHECK(fits_memory(&a, kv_heads(&a), a.keys, value_dim(&a), a.v.stride, a.v.type));
    FUZZ_CHECK(fits_memory(&a, a.heads, a.queries, value_dim(&a), a.out.stride, a.out.type));
    FUZZ_CHECK(plan.scratch_bytes > 0);
    whet_executor many = {.workers = fuzz_hostile_size(input)};
    size_t memory = whet_attention_memory(&plan, &many);
    double wanted =
        (double)plan.scratch_bytes * (double)many.workers + (double)plan.workspace_bytes;
    FUZZ_CHECK(memory == SIZE_MAX || (double)memory >= 0.999 * wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = {data, size};
    if (fuzz_below(&input, 8) == 1) {
        run_hostile(&input);
    } else {
        run_problem(&input);
    }
    return 0;
}
