/*
 * whet_last_error after every refusal of every public function: the sentence
 * names the argument or member that is wrong. Each call is made after another
 * refusal whose sentence is known, so that a refusal that leaves the text alone is
 * found. With WHET_TEST_SENTENCES set, every sentence is also appended to that
 * file: tests/source/test_refusals.py compares them with those in the sources.
 */
#include "support/check.h"
#include "support/faults.h"
#include "whet.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STALE "stale"

static void make_stale(void) {
    whet_type type;
    CHECK_INT(whet_type_parse(STALE, &type), WHET_ERROR_ARGUMENT);
    CHECK_STR(whet_last_error(), "name '" STALE "' is not an element type");
}

static void record(const char *sentence) {
    const char *path = getenv("WHET_TEST_SENTENCES");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", sentence);
        fclose(file);
    }
}

static void check_sentence(const char *words, const char *file, int line) {
    const char *text = whet_last_error();
    record(text);
    check_message(strstr(text, STALE) == NULL, file, line, "the sentence is new", "\"%s\"", text);
    check_message(strstr(text, words) != NULL, file, line, "it names the member",
                  "\"%s\", expected \"%s\"", text, words);
}

/* A call, or any expression, that has this result and leaves a sentence with these words. */
#define REFUSED(call, result, words)                                                               \
    do {                                                                                           \
        make_stale();                                                                              \
        CHECK((call) == (result));                                                                 \
        check_sentence(words, __FILE__, __LINE__);                                                 \
    } while (0)

/* ---- rows ---- */

enum { ROWS = 3, N = 8, FLOATS = 4096 };

static float memory[FLOATS], other[FLOATS], mask[FLOATS], numbers[FLOATS];
static whet_stats stats[64];

static float *misaligned(float *at) { return (float *)(void *)((char *)at + 1); }

static whet_rows sound_rows(void) {
    return (whet_rows){.size = sizeof(whet_rows),
                       .rows = ROWS,
                       .n = N,
                       .in = memory,
                       .out = other,
                       .mask = mask,
                       .stats = stats};
}

#define ROWS_REFUSED(change, status, words)                                                        \
    do {                                                                                           \
        whet_rows r = sound_rows();                                                                \
        change;                                                                                    \
        REFUSED(whet_softmax(&r, NULL, NULL), status, words);                                      \
    } while (0)

TEST(rows_are_refused_by_name) {
    whet_rows sound = sound_rows();
    CHECK_INT(whet_softmax(&sound, NULL, NULL), WHET_OK);
    REFUSED(whet_softmax(NULL, NULL, NULL), WHET_ERROR_ARGUMENT, "rows is NULL");
    ROWS_REFUSED(r.size = 3, WHET_ERROR_ARGUMENT, "size is 3, but sizeof(whet_rows) is ");
    ROWS_REFUSED(r.in = NULL, WHET_ERROR_ARGUMENT, "in is NULL with 3 rows of n = 8");
    ROWS_REFUSED(r.out = NULL, WHET_ERROR_ARGUMENT, "out is NULL with 3 rows");
    ROWS_REFUSED(r.in_type = WHET_Q8_0, WHET_ERROR_ARGUMENT, "in_type is 3 (q8_0), not f32");
    ROWS_REFUSED(r.in_type = (whet_type)77, WHET_ERROR_ARGUMENT, "in_type is 77 (unknown)");
    ROWS_REFUSED(r.out_type = WHET_CUSTOM, WHET_ERROR_ARGUMENT, "out_type is 255 (custom)");
    ROWS_REFUSED(r.mask_type = WHET_BF16, WHET_ERROR_ARGUMENT, "mask_type is 2 (bf16), not f32 or");
    ROWS_REFUSED(r.in = misaligned(memory), WHET_ERROR_ARGUMENT, "in is not aligned to its");
    ROWS_REFUSED(r.out = misaligned(other), WHET_ERROR_ARGUMENT, "out is not aligned");
    ROWS_REFUSED(r.mask = misaligned(mask), WHET_ERROR_ARGUMENT, "mask is not aligned");
    ROWS_REFUSED(r.sink = misaligned(numbers), WHET_ERROR_ARGUMENT, "sink is not aligned");
    ROWS_REFUSED(r.beta = misaligned(numbers), WHET_ERROR_ARGUMENT, "beta is not aligned");
    ROWS_REFUSED(r.reserved = 5, WHET_ERROR_ARGUMENT, "reserved is 5");
    ROWS_REFUSED(r.n = SIZE_MAX, WHET_ERROR_OVERFLOW, "n is 18446744073709551615");
    ROWS_REFUSED(r.in_stride = PTRDIFF_MAX, WHET_ERROR_OVERFLOW, "in_stride 9223372036854775807");
    ROWS_REFUSED(r.mask_stride = PTRDIFF_MAX / 8, WHET_ERROR_OVERFLOW, "mask spans more than");
    ROWS_REFUSED(r.out_stride = PTRDIFF_MIN, WHET_ERROR_OVERFLOW, "out spans more than");
    ROWS_REFUSED(r.out_stride = 3, WHET_ERROR_OVERLAP, "out_stride is 3, less than n = 8");
    ROWS_REFUSED(r.out = memory + 1, WHET_ERROR_OVERLAP, "out overlaps in without being the same");
    ROWS_REFUSED(r.out = mask, WHET_ERROR_OVERLAP, "out overlaps mask");
    ROWS_REFUSED((r.sink = numbers, r.sink_stride = SIZE_MAX), WHET_ERROR_OVERFLOW,
                 "sink spans more than");
    ROWS_REFUSED((r.beta = numbers, r.rows = SIZE_MAX, r.in_stride = 1, r.out_stride = 1),
                 WHET_ERROR_OVERFLOW, "in spans more than");
    ROWS_REFUSED(r.sink = other + 1, WHET_ERROR_OVERLAP, "out overlaps sink");
    ROWS_REFUSED(r.beta = other + 1, WHET_ERROR_OVERLAP, "out overlaps beta");
}

TEST(statistics_of_rows_are_refused_by_name) {
    ROWS_REFUSED(r.stats = (whet_stats *)(void *)misaligned(numbers), WHET_ERROR_ARGUMENT,
                 "stats is not aligned");
    ROWS_REFUSED(r.stats_stride = 9, WHET_ERROR_ARGUMENT, "stats_stride is 9, not a multiple of 8");
    ROWS_REFUSED(r.stats_stride = (size_t)1 << 62, WHET_ERROR_OVERFLOW, "stats spans more than");
    ROWS_REFUSED(r.stats = (whet_stats *)(void *)memory, WHET_ERROR_OVERLAP, "stats overlaps in");
    ROWS_REFUSED(r.stats = (whet_stats *)(void *)mask, WHET_ERROR_OVERLAP, "stats overlaps mask");
    ROWS_REFUSED((r.n = 0, r.sink = (float *)(void *)stats), WHET_ERROR_OVERLAP,
                 "stats overlaps sink");
    whet_rows r = sound_rows();
    r.stats = NULL;
    REFUSED(whet_entropy(&r, NULL, NULL), WHET_ERROR_ARGUMENT, "stats is NULL");
    REFUSED(whet_entropy(NULL, NULL, NULL), WHET_ERROR_ARGUMENT, "rows is NULL");
    r.size = 1;
    REFUSED(whet_entropy(&r, NULL, NULL), WHET_ERROR_ARGUMENT, "size is 1");
}

TEST(policies_of_rows_are_refused_by_name) {
    whet_rows r = sound_rows();
    whet_policy policy = whet_policy_entmax(0.5);
    REFUSED(whet_softmax(&r, &policy, NULL), WHET_ERROR_POLICY,
            "policy: entmax needs 1 < a <= 2, not 0.5");
    policy = whet_policy_adaptive();
    r.beta = numbers;
    REFUSED(whet_softmax(&r, &policy, NULL), WHET_ERROR_ARGUMENT,
            "beta is given, but the policy has a temperature");
}

/* ---- rows, backward ---- */

static float grad_out[FLOATS], grad_in[FLOATS], grad_sink[64], grad_beta[64];
static whet_policy_gradient policy_grad;

static whet_rows_backward sound_backward(void) {
    return (whet_rows_backward){.size = sizeof(whet_rows_backward),
                                .rows = ROWS,
                                .n = N,
                                .in = memory,
                                .mask = mask,
                                .grad_out = grad_out,
                                .grad_in = grad_in,
                                .policy_grad = &policy_grad,
                                .sink = numbers,
                                .grad_sink = grad_sink,
                                .grad_beta = grad_beta,
                                .grad_logsumexp = other};
}

#define BACKWARD_REFUSED(change, status, words)                                                    \
    do {                                                                                           \
        whet_rows_backward r = sound_backward();                                                   \
        change;                                                                                    \
        REFUSED(whet_softmax_backward(&r, NULL, NULL), status, words);                             \
    } while (0)

TEST(rows_of_the_backward_pass_are_refused_by_name) {
    whet_rows_backward sound = sound_backward();
    CHECK_INT(whet_softmax_backward(&sound, NULL, NULL), WHET_OK);
    REFUSED(whet_softmax_backward(NULL, NULL, NULL), WHET_ERROR_ARGUMENT, "rows is NULL");
    BACKWARD_REFUSED(r.size++, WHET_ERROR_ARGUMENT, "sizeof(whet_rows_backward)");
    BACKWARD_REFUSED(r.n = SIZE_MAX, WHET_ERROR_OVERFLOW, "n is 18446744073709551615");
    BACKWARD_REFUSED(r.in = NULL, WHET_ERROR_ARGUMENT, "in is NULL");
    BACKWARD_REFUSED(r.grad_in = NULL, WHET_ERROR_ARGUMENT, "grad_in is NULL");
    BACKWARD_REFUSED((r.grad_out = NULL, r.grad_logsumexp = NULL), WHET_ERROR_ARGUMENT,
                     "grad_out is NULL, and no gradient of a statistic is given");
    BACKWARD_REFUSED(r.sink = NULL, WHET_ERROR_ARGUMENT, "grad_sink is given, but sink is NULL");
    BACKWARD_REFUSED(r.reserved[1] = 2, WHET_ERROR_ARGUMENT, "reserved[1] is 2");
    BACKWARD_REFUSED(r.grad_out_type = WHET_Q4_0, WHET_ERROR_ARGUMENT, "grad_out_type is 4 (q4_0)");
    BACKWARD_REFUSED(r.grad_in_type = WHET_CUSTOM, WHET_ERROR_ARGUMENT, "grad_in_type is 255");
    BACKWARD_REFUSED(r.in_type = WHET_CUSTOM, WHET_ERROR_ARGUMENT, "in_type is 255");
    BACKWARD_REFUSED(r.mask_type = WHET_BF16, WHET_ERROR_ARGUMENT, "mask_type is 2 (bf16)");
    BACKWARD_REFUSED(r.policy_grad = (whet_policy_gradient *)(void *)misaligned(numbers),
                     WHET_ERROR_ARGUMENT, "policy_grad is not aligned");
    BACKWARD_REFUSED(r.grad_sink = misaligned(grad_sink), WHET_ERROR_ARGUMENT,
                     "grad_sink is not aligned");
    BACKWARD_REFUSED(r.grad_entropy = misaligned(other), WHET_ERROR_ARGUMENT,
                     "grad_entropy is not aligned");
    BACKWARD_REFUSED(r.grad_in_stride = 2, WHET_ERROR_OVERLAP, "grad_in_stride is 2");
    BACKWARD_REFUSED(r.grad_out_stride = PTRDIFF_MAX, WHET_ERROR_OVERFLOW, "grad_out spans");
    BACKWARD_REFUSED(r.in_stride = PTRDIFF_MAX, WHET_ERROR_OVERFLOW, "in spans");
    BACKWARD_REFUSED(r.grad_in_stride = PTRDIFF_MAX, WHET_ERROR_OVERFLOW, "grad_in spans");
    BACKWARD_REFUSED(r.mask_stride = PTRDIFF_MAX, WHET_ERROR_OVERFLOW, "mask spans");
    BACKWARD_REFUSED(r.sink_stride = SIZE_MAX / 8, WHET_ERROR_OVERFLOW, "sink spans");
    BACKWARD_REFUSED((r.rows = SIZE_MAX / 2, r.n = 0), WHET_ERROR_OVERFLOW, "grad_logsumexp spans");
    BACKWARD_REFUSED(r.grad_in = memory + 1, WHET_ERROR_OVERLAP, "grad_in overlaps in without");
    BACKWARD_REFUSED(r.grad_in = grad_out + 1, WHET_ERROR_OVERLAP, "grad_in overlaps grad_out");
    BACKWARD_REFUSED(r.grad_in = mask, WHET_ERROR_OVERLAP, "grad_in overlaps mask");
    BACKWARD_REFUSED(r.grad_in = other, WHET_ERROR_OVERLAP, "grad_in overlaps grad_logsumexp");
    BACKWARD_REFUSED(r.grad_beta = memory, WHET_ERROR_OVERLAP, "grad_beta overlaps in");
    BACKWARD_REFUSED(r.grad_beta = grad_sink, WHET_ERROR_OVERLAP, "grad_beta overlaps grad_sink");
    BACKWARD_REFUSED(r.grad_beta = (float *)(void *)&policy_grad, WHET_ERROR_OVERLAP,
                     "policy_grad overlaps grad_beta");
    whet_rows_backward r = sound_backward();
    whet_policy policy = whet_policy_sigmoid(0);
    r.grad_entropy_after = other + 8;
    REFUSED(whet_softmax_backward(&r, &policy, NULL), WHET_ERROR_UNSUPPORTED,
            "grad_entropy_after is given, but");
    policy = whet_policy_fixed(-1);
    REFUSED(whet_softmax_backward(&r, &policy, NULL), WHET_ERROR_POLICY, "policy: fixed needs");
}

/* ---- attention ---- */

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, QUERIES = 3, KEYS = 5, DIM = 8 };

static float q[FLOATS], k[FLOATS], v[FLOATS], out[FLOATS], bias[FLOATS];
static float slopes[HEADS], sinks[HEADS], max_logits[HEADS], betas[64];
static int64_t positions[64];
static whet_policy policies[HEADS];

static whet_attention sound_attention(void) {
    for (size_t i = 0; i < HEADS; i++) {
        policies[i] = whet_policy_adaptive();
    }
    return (whet_attention){.size = sizeof(whet_attention),
                            .batch = BATCH,
                            .heads = HEADS,
                            .kv_heads = KV_HEADS,
                            .queries = QUERIES,
                            .keys = KEYS,
                            .head_dim = DIM,
                            .q.data = q,
                            .k.data = k,
                            .v.data = v,
                            .out.data = out,
                            .mask.data = mask,
                            .bias.data = bias,
                            .alibi_slopes = slopes,
                            .sinks = sinks,
                            .max_logits = max_logits,
                            .positions = positions,
                            .policies = policies,
                            .policy_count = HEADS,
                            .stats = stats};
}

static void set_strides(ptrdiff_t *stride, ptrdiff_t batch, ptrdiff_t head, ptrdiff_t position,
                        ptrdiff_t element) {
    stride[0] = batch;
    stride[1] = head;
    stride[2] = position;
    stride[3] = element;
}

static void to_f32(const void *row, float *result, size_t n, void *context) {
    (void)row, (void)context;
    memset(result, 0, n * sizeof *result);
}

static whet_status plan_of(const whet_attention *a) {
    whet_plan plan = {.size = sizeof plan};
    return whet_attention_plan(a, &plan);
}

/* By the plan and by the call that has no plan. */
#define ATTENTION_REFUSED(change, status, words)                                                   \
    do {                                                                                           \
        whet_attention a = sound_attention();                                                      \
        change;                                                                                    \
        REFUSED(plan_of(&a), status, words);                                                       \
        REFUSED(whet_attention_forward(&a, NULL, NULL), status, words);                            \
    } while (0)

TEST(shapes_and_numbers_of_attention_are_refused_by_name) {
    whet_attention sound = sound_attention();
    CHECK_INT(plan_of(&sound), WHET_OK);
    whet_plan plan = {.size = 7};
    REFUSED(whet_attention_plan(NULL, &plan), WHET_ERROR_ARGUMENT, "attention is NULL");
    REFUSED(whet_attention_plan(&sound, NULL), WHET_ERROR_ARGUMENT, "plan is NULL");
    REFUSED(whet_attention_plan(&sound, &plan), WHET_ERROR_ARGUMENT, "plan.size is 7, but");
    ATTENTION_REFUSED(a.size = 1, WHET_ERROR_ARGUMENT, "size is 1, but sizeof(whet_attention)");
    ATTENTION_REFUSED(a.heads = 0, WHET_ERROR_ARGUMENT, "heads is 0");
    ATTENTION_REFUSED(a.kv_heads = 3, WHET_ERROR_ARGUMENT,
                      "heads is 4, not a multiple of kv_heads");
    ATTENTION_REFUSED(a.head_dim = 577, WHET_ERROR_ARGUMENT, "head_dim is 577, not 1 to 576");
    ATTENTION_REFUSED(a.value_dim = 600, WHET_ERROR_ARGUMENT, "value_dim is 600");
    ATTENTION_REFUSED(a.keys = (size_t)1 << 31, WHET_ERROR_OVERFLOW, "keys is 2147483648, more");
    ATTENTION_REFUSED(a.offset = INT64_MIN, WHET_ERROR_OVERFLOW, "offset is -9223372036854775808");
    ATTENTION_REFUSED(a.flags = 6, WHET_ERROR_ARGUMENT, "flags is 0x6");
    ATTENTION_REFUSED(a.scale = NAN, WHET_ERROR_ARGUMENT, "scale is not finite");
    ATTENTION_REFUSED(a.softcap = -1, WHET_ERROR_ARGUMENT, "softcap is not finite or below 0");
    ATTENTION_REFUSED(a.skip = 1, WHET_ERROR_ARGUMENT, "skip is 1, not 0 to below 1");
    ATTENTION_REFUSED((a.skip = 0.5f, a.flags = WHET_INVARIANT), WHET_ERROR_UNSUPPORTED,
                      "skip is 0.5 with WHET_INVARIANT");
    ATTENTION_REFUSED(a.q.reserved = 1, WHET_ERROR_ARGUMENT, "q.reserved is 1");
    ATTENTION_REFUSED(a.k.reserved = 1, WHET_ERROR_ARGUMENT, "k.reserved is 1");
    ATTENTION_REFUSED(a.v.reserved = 1, WHET_ERROR_ARGUMENT, "v.reserved is 1");
    ATTENTION_REFUSED(a.out.reserved = 1, WHET_ERROR_ARGUMENT, "out.reserved is 1");
    ATTENTION_REFUSED(a.mask.reserved = 1, WHET_ERROR_ARGUMENT, "mask.reserved is 1");
    ATTENTION_REFUSED(a.policy_count = 3, WHET_ERROR_ARGUMENT, "policy_count is 3, not 1 or heads");
    ATTENTION_REFUSED(a.policies = NULL, WHET_ERROR_ARGUMENT, "policies is NULL, but policy_count");
    ATTENTION_REFUSED(policies[3] = whet_policy_entmax(0.5), WHET_ERROR_POLICY,
                      "policies[3]: entmax needs 1 < a <= 2, not 0.5");
    ATTENTION_REFUSED(a.betas = betas, WHET_ERROR_ARGUMENT,
                      "betas is given, but policies[0] has a temperature");
}

TEST(tensors_of_attention_are_refused_by_name) {
    ATTENTION_REFUSED(a.q.data = NULL, WHET_ERROR_ARGUMENT, "q.data is NULL");
    ATTENTION_REFUSED(a.k.data = NULL, WHET_ERROR_ARGUMENT, "k.data is NULL");
    ATTENTION_REFUSED(a.v.data = NULL, WHET_ERROR_ARGUMENT, "v.data is NULL");
    ATTENTION_REFUSED(a.out.data = NULL, WHET_ERROR_ARGUMENT, "out.data is NULL");
    ATTENTION_REFUSED(a.q.type = WHET_Q8_0, WHET_ERROR_ARGUMENT, "q.type is 3 (q8_0), not f32");
    ATTENTION_REFUSED(a.k.type = (whet_type)99, WHET_ERROR_ARGUMENT, "k.type is 99 (unknown)");
    ATTENTION_REFUSED(a.out.type = WHET_CUSTOM, WHET_ERROR_ARGUMENT, "out.type is 255 (custom)");
    ATTENTION_REFUSED(a.mask.type = WHET_BF16, WHET_ERROR_ARGUMENT, "mask.type is 2 (bf16)");
    ATTENTION_REFUSED(a.k.type = WHET_CUSTOM, WHET_ERROR_ARGUMENT, "k.to_f32 is NULL");
    ATTENTION_REFUSED((a.v.type = WHET_CUSTOM, a.v.to_f32 = to_f32), WHET_ERROR_ARGUMENT,
                      "v.stride[2] is 0: the type custom");
    ATTENTION_REFUSED(a.v.type = WHET_Q4_0, WHET_ERROR_ARGUMENT,
                      "v.type is q4_0, blocks of 32 elements, but its rows have 8");
    ATTENTION_REFUSED(a.q.data = misaligned(q), WHET_ERROR_ARGUMENT, "q.data is not aligned");
    ATTENTION_REFUSED(set_strides(a.k.stride, 400, 200, 34, 4), WHET_ERROR_ARGUMENT,
                      "k.stride[2] is 34, not a multiple of 4");
    ATTENTION_REFUSED(a.mask.stride[1] = 3, WHET_ERROR_ARGUMENT, "mask.stride[1] is 3");
    ATTENTION_REFUSED(a.bias.stride[0] = 2, WHET_ERROR_ARGUMENT, "bias.stride[0] is 2");
    ATTENTION_REFUSED(a.bias.data = misaligned(bias), WHET_ERROR_ARGUMENT, "bias.data is not al");
    ATTENTION_REFUSED(a.sinks = misaligned(sinks), WHET_ERROR_ARGUMENT, "sinks is not aligned");
    ATTENTION_REFUSED(a.alibi_slopes = misaligned(slopes), WHET_ERROR_ARGUMENT, "alibi_slopes is");
    ATTENTION_REFUSED(a.max_logits = misaligned(max_logits), WHET_ERROR_ARGUMENT, "max_logits is");
    ATTENTION_REFUSED(a.betas = misaligned(betas), WHET_ERROR_ARGUMENT, "betas is not aligned");
    ATTENTION_REFUSED(a.positions = (int64_t *)(void *)misaligned(q), WHET_ERROR_ARGUMENT,
                      "positions is not aligned to 8");
    ATTENTION_REFUSED(a.stats = (whet_stats *)(void *)misaligned(q), WHET_ERROR_ARGUMENT,
                      "stats is not aligned");
    ATTENTION_REFUSED(a.stats_stride = 9, WHET_ERROR_ARGUMENT, "stats_stride is 9, not a multiple");
}

TEST(strides_of_attention_are_refused_by_name) {
    ATTENTION_REFUSED(set_strides(a.k.stride, 320, 0, 32, 4), WHET_ERROR_ARGUMENT,
                      "k.stride[1] is 0 with 2 key heads");
    ATTENTION_REFUSED(set_strides(a.q.stride, 320, 0, 32, 4), WHET_ERROR_ARGUMENT,
                      "q.stride[1] is 0 with 4 query heads");
    ATTENTION_REFUSED(set_strides(a.v.stride, 320, 160, 0, 4), WHET_ERROR_ARGUMENT,
                      "v.stride[2] is 0 with 5 keys");
    ATTENTION_REFUSED(set_strides(a.q.stride, 320, 160, 0, 4), WHET_ERROR_ARGUMENT,
                      "q.stride[2] is 0 with 3 queries");
    ATTENTION_REFUSED(
        set_strides(a.k.stride, 0, PTRDIFF_MAX - 3, 256, 4), WHET_ERROR_OVERFLOW,
        "k spans more than the address range: strides 0, 9223372036854775804, 256, 4");
    ATTENTION_REFUSED(set_strides(a.out.stride, 4, PTRDIFF_MIN, 4, 4), WHET_ERROR_OVERFLOW,
                      "out spans more than");
    ATTENTION_REFUSED(a.mask.stride[2] = PTRDIFF_MIN, WHET_ERROR_OVERFLOW, "mask spans more than");
    ATTENTION_REFUSED(a.bias.stride[1] = PTRDIFF_MIN, WHET_ERROR_OVERFLOW, "bias spans more than");
    ATTENTION_REFUSED(a.stats_stride = (size_t)1 << 62, WHET_ERROR_OVERFLOW, "stats spans more th");
    ATTENTION_REFUSED(set_strides(a.out.stride, 4, 4, 32, 4), WHET_ERROR_OVERLAP,
                      "out.stride 4, 4, 32, 4 puts two elements in one place");
    ATTENTION_REFUSED((a.heads = a.queries = INT32_MAX, a.kv_heads = 1, a.policy_count = 1),
                      WHET_ERROR_OVERFLOW, "q has more elements than memory can hold");
}

TEST(overlaps_of_attention_are_refused_by_name) {
    ATTENTION_REFUSED(a.out.data = q, WHET_ERROR_OVERLAP, "out overlaps q");
    ATTENTION_REFUSED(a.out.data = k, WHET_ERROR_OVERLAP, "out overlaps k");
    ATTENTION_REFUSED(a.out.data = positions, WHET_ERROR_OVERLAP, "out overlaps positions");
    ATTENTION_REFUSED(a.stats = (whet_stats *)(void *)out, WHET_ERROR_OVERLAP,
                      "stats overlaps out");
    ATTENTION_REFUSED(a.max_logits = sinks, WHET_ERROR_OVERLAP, "max_logits overlaps sinks");
    ATTENTION_REFUSED(a.max_logits = (float *)(void *)policies, WHET_ERROR_OVERLAP,
                      "max_logits overlaps policies");
}

/* Tensors without rows of their own, and rows whose number no memory has. */
TEST(sizes_that_no_memory_has_are_refused_by_name) {
    whet_attention a = {.size = sizeof a, .batch = 1, .heads = 1, .head_dim = 1, .kv_heads = 1};
    a.q = a.k = a.v = (whet_tensor){.data = q, .type = WHET_F32, .stride = {4, 4, 4, 4}};
    a.out = (whet_tensor_out){.data = out, .stride = {4, 4, 4, 4}};
    a.batch = a.queries = INT32_MAX;
    a.heads = INT32_MAX;
    a.keys = 1;
    a.stats = stats;
    set_strides(a.out.stride, 0, 0, 0, 4);
    REFUSED(plan_of(&a), WHET_ERROR_OVERLAP, "out.stride");
    a.batch = 1;
    a.heads = 8;
    a.queries = a.keys = INT32_MAX;
    a.stats = NULL;
    set_strides(a.out.stride, 4, (ptrdiff_t)4 * INT32_MAX, 4, 4);
    a.q.stride[1] = (ptrdiff_t)4 * INT32_MAX;
    REFUSED(plan_of(&a), WHET_ERROR_OVERLAP, "overlaps");
}

/* ---- attention, backward ---- */

static float gq[FLOATS], gk[FLOATS], gv[FLOATS], g_bias[FLOATS], g_rows[64], g_sinks[HEADS];
static whet_policy_gradient g_policies[HEADS];

static whet_gradients sound_gradients(void) {
    return (whet_gradients){.size = sizeof(whet_gradients),
                            .attention = sound_attention(),
                            .out.data = grad_out,
                            .q.data = gq,
                            .k.data = gk,
                            .v.data = gv,
                            .bias.data = g_bias,
                            .policies = g_policies,
                            .sinks = g_sinks,
                            .betas = g_rows,
                            .logsumexp = numbers};
}

static whet_status backward_plan_of(const whet_gradients *g) {
    whet_plan plan = {.size = sizeof plan};
    return whet_attention_backward_plan(g, &plan);
}

#define GRADIENTS_REFUSED(change, status, words)                                                   \
    do {                                                                                           \
        whet_gradients g = sound_gradients();                                                      \
        change;                                                                                    \
        REFUSED(backward_plan_of(&g), status, words);                                              \
        REFUSED(whet_attention_backward(&g, NULL, NULL), status, words);                           \
    } while (0)

TEST(gradients_are_refused_by_name) {
    whet_gradients sound = sound_gradients();
    CHECK_INT(backward_plan_of(&sound), WHET_OK);
    whet_plan plan = {.size = 9};
    REFUSED(whet_attention_backward_plan(NULL, &plan), WHET_ERROR_ARGUMENT, "gradients is NULL");
    REFUSED(whet_attention_backward_plan(&sound, NULL), WHET_ERROR_ARGUMENT, "plan is NULL");
    REFUSED(whet_attention_backward_plan(&sound, &plan), WHET_ERROR_ARGUMENT, "plan.size is 9");
    GRADIENTS_REFUSED(g.size = 2, WHET_ERROR_ARGUMENT, "size is 2, but sizeof(whet_gradients)");
    GRADIENTS_REFUSED(g.attention.size = 2, WHET_ERROR_ARGUMENT, "attention.size is 2");
    GRADIENTS_REFUSED(g.attention.heads = 0, WHET_ERROR_ARGUMENT, "attention.heads is 0");
    GRADIENTS_REFUSED(g.attention.stats = NULL, WHET_ERROR_ARGUMENT, "attention.stats is NULL");
    GRADIENTS_REFUSED(g.attention.k.data = NULL, WHET_ERROR_ARGUMENT, "attention.k.data is NULL");
    GRADIENTS_REFUSED(g.attention.mask.type = WHET_BF16, WHET_ERROR_ARGUMENT,
                      "attention.mask.type");
    GRADIENTS_REFUSED(policies[2] = whet_policy_fixed(0), WHET_ERROR_POLICY,
                      "attention.policies[2]: fixed needs");
    GRADIENTS_REFUSED((g.out.data = NULL, g.logsumexp = NULL), WHET_ERROR_ARGUMENT,
                      "out.data is NULL, and no gradient of a statistic is given");
    GRADIENTS_REFUSED(g.out.type = WHET_Q8_0, WHET_ERROR_ARGUMENT, "out.type is 3 (q8_0)");
    GRADIENTS_REFUSED(g.out.reserved = 1, WHET_ERROR_ARGUMENT, "out.reserved is 1");
    GRADIENTS_REFUSED(g.v.reserved = 1, WHET_ERROR_ARGUMENT, "v.reserved is 1");
    GRADIENTS_REFUSED(g.q.type = WHET_CUSTOM, WHET_ERROR_ARGUMENT, "q.type is 255 (custom)");
    GRADIENTS_REFUSED(g.logsumexp = misaligned(numbers), WHET_ERROR_ARGUMENT, "logsumexp is not");
    GRADIENTS_REFUSED(g.sinks = misaligned(g_sinks), WHET_ERROR_ARGUMENT, "sinks is not aligned");
    GRADIENTS_REFUSED(g.attention.sinks = NULL, WHET_ERROR_ARGUMENT,
                      "sinks is given, but attention.sinks is NULL");
    GRADIENTS_REFUSED(g.attention.bias.data = NULL, WHET_ERROR_ARGUMENT,
                      "bias.data is given, but attention.bias.data is NULL");
    GRADIENTS_REFUSED(g.k.data = gv, WHET_ERROR_OVERLAP, "v overlaps k");
    GRADIENTS_REFUSED(g.q.data = q, WHET_ERROR_OVERLAP, "q overlaps attention.q");
    GRADIENTS_REFUSED(g.betas = numbers, WHET_ERROR_OVERLAP, "betas overlaps logsumexp");
    GRADIENTS_REFUSED(set_strides(g.q.stride, 4, 4, 4, 4), WHET_ERROR_OVERLAP, "q.stride 4, 4, 4");
    GRADIENTS_REFUSED(set_strides(g.k.stride, 4, PTRDIFF_MAX / 4 * 4, 256, 4), WHET_ERROR_OVERFLOW,
                      "k spans more than");
    GRADIENTS_REFUSED((g.k.data = gk, g.attention.k.type = WHET_CUSTOM), WHET_ERROR_UNSUPPORTED,
                      "k.data is given, but attention.k.type is custom");
    GRADIENTS_REFUSED((g.entropy_after = numbers, policies[1] = whet_policy_softmax1()),
                      WHET_ERROR_UNSUPPORTED,
                      "entropy_after is given, but the map of attention."
                      "policies[1] need not");
}

/* ---- plans and executors ---- */

static void run_inline(void *context, size_t tasks, whet_task_function function, void *argument) {
    (void)context;
    for (size_t i = 0; i < tasks; i++) {
        function(argument, i, 0);
    }
}

TEST(tasks_and_executors_are_refused_by_name) {
    static unsigned char aligned[1 << 20] __attribute__((aligned(WHET_ALIGNMENT)));
    whet_attention a = sound_attention();
    whet_plan plan = {.size = sizeof plan};
    REQUIRE(whet_attention_plan(&a, &plan) == WHET_OK);
    REQUIRE(whet_attention_memory(&plan, NULL) <= sizeof aligned && plan.workspace_bytes > 0);
    REFUSED(whet_attention_run_task(NULL, 0, 0, aligned, NULL), WHET_ERROR_ARGUMENT,
            "plan is NULL");
    REFUSED(whet_attention_run_task(&plan, 99, 0, aligned, NULL), WHET_ERROR_ARGUMENT,
            "phase is 99, but the plan has ");
    REFUSED(whet_attention_run_task(&plan, 0, 9999, aligned, NULL), WHET_ERROR_ARGUMENT,
            "task is 9999, but phase 0 has ");
    REFUSED(whet_attention_run_task(&plan, 0, 0, NULL, NULL), WHET_ERROR_ARGUMENT,
            "scratch is NULL");
    REFUSED(whet_attention_run_task(&plan, 0, 0, aligned, NULL), WHET_ERROR_ARGUMENT,
            "plan.workspace is NULL, but the plan needs ");
    whet_executor executor = {.workers = 0, .parallel_for = run_inline};
    REFUSED(whet_attention_memory(NULL, NULL), SIZE_MAX, "plan is NULL");
    REFUSED(whet_attention_memory(&plan, &executor), SIZE_MAX, "executor.workers is 0");
    REFUSED(whet_attention_execute(&plan, &executor, aligned, NULL), WHET_ERROR_ARGUMENT,
            "executor.workers is 0");
    REFUSED(whet_attention_forward(&a, &executor, NULL), WHET_ERROR_ARGUMENT,
            "executor.workers is 0");
    executor.workers = SIZE_MAX;
    REFUSED(whet_attention_memory(&plan, &executor), SIZE_MAX, "executor.workers is 1844674407");
    REFUSED(whet_attention_execute(&plan, &executor, aligned, NULL), WHET_ERROR_OVERFLOW,
            "executor.workers is 1844674407");
    executor = (whet_executor){.workers = 1};
    REFUSED(whet_attention_execute(&plan, &executor, aligned, NULL), WHET_ERROR_ARGUMENT,
            "executor.parallel_for is NULL");
    REFUSED(whet_attention_execute(NULL, NULL, aligned, NULL), WHET_ERROR_ARGUMENT, "plan is NULL");
    REFUSED(whet_attention_execute(&plan, NULL, NULL, NULL), WHET_ERROR_ARGUMENT,
            "memory is NULL, but the plan needs ");
    REFUSED(whet_attention_execute(&plan, NULL, aligned + 8, NULL), WHET_ERROR_ARGUMENT,
            "memory is not aligned to WHET_ALIGNMENT");
}

TEST(memory_and_threads_that_cannot_be_had_are_refused_by_name) {
    whet_attention a = sound_attention();
    make_stale();
    faults_begin(1, FAULT_ONCE);
    whet_status status = whet_attention_forward(&a, NULL, NULL);
    faults_end();
    CHECK_INT(status, WHET_ERROR_MEMORY);
    check_sentence("out of memory: the plan needs ", __FILE__, __LINE__);
    for (long fault = 1; fault <= 3; fault++) {
        whet_pool *pool = NULL;
        make_stale();
        faults_begin(fault, FAULT_ONCE);
        status = whet_pool_create(2, &pool);
        faults_end();
        CHECK_INT(status, WHET_ERROR_MEMORY);
        CHECK(pool == NULL);
        check_sentence(fault < 3 ? "out of memory for a pool with threads = 2"
                                 : "threads is 2, but only 1 could be started",
                       __FILE__, __LINE__);
    }
    REFUSED(whet_pool_create(1, NULL), WHET_ERROR_ARGUMENT, "pool is NULL");
}

/* ---- the rest ---- */

TEST(types_and_statistics_are_refused_by_name) {
    whet_type type;
    whet_stats one = whet_stats_empty();
    REFUSED(whet_type_parse(NULL, &type), WHET_ERROR_ARGUMENT, "name is NULL");
    REFUSED(whet_type_parse("f32", NULL), WHET_ERROR_ARGUMENT, "type is NULL");
    REFUSED(whet_type_parse("f64", &type), WHET_ERROR_ARGUMENT,
            "name 'f64' is not an element type");
    REFUSED(whet_type_name((whet_type)12), NULL, "type 12 is not an element type");
    REFUSED(whet_type_row_bytes(WHET_CUSTOM, 8), 0, "type 255 (custom) has no size");
    REFUSED(whet_type_row_bytes(WHET_Q8_0, 33), 0, "n is 33, but q8_0 has blocks of 32");
    REFUSED(whet_type_row_bytes(WHET_F32, SIZE_MAX / 2), 0, "n is 9223372036854775807, more than");
    REFUSED((whet_stats_merge(&one, &one, NULL), 0), 0, "result is NULL");
}

TEST(policies_are_refused_by_name) {
    whet_policy policy;
    char message[128];
    REFUSED(whet_policy_parse(NULL, &policy, NULL, 0), WHET_ERROR_ARGUMENT, "name is NULL");
    REFUSED(whet_policy_parse("softmax", NULL, NULL, 0), WHET_ERROR_ARGUMENT, "policy is NULL");
    REFUSED(whet_policy_parse("adaptve", &policy, message, sizeof message), WHET_ERROR_POLICY,
            "unknown policy 'adaptve'; did you mean 'adaptive'?");
    CHECK_STR(whet_last_error(), message);
    REFUSED(whet_policy_parse("entmax:3", &policy, NULL, 0), WHET_ERROR_POLICY, "entmax needs 1 <");
    REFUSED(whet_policy_check(NULL, NULL, 0), WHET_ERROR_POLICY, "policy is NULL");
    policy = whet_policy_softmax();
    policy.temperature = 63;
    REFUSED(whet_policy_check(&policy, NULL, 0), WHET_ERROR_POLICY, "temperature 63 is not a kind");
    REFUSED(isnan(whet_policy_beta(&policy, stats)), 1, "temperature is not a kind of policy");
    REFUSED(whet_policy_parameters(&policy, NULL, 0), 0, "temperature is not a kind of policy");
    policy = whet_policy_softmax();
    policy.map = 3;
    REFUSED(whet_policy_check(&policy, NULL, 0), WHET_ERROR_POLICY, "map 3 is not a kind");
    REFUSED(whet_policy_parameters(&policy, NULL, 0), 0, "map is not a kind of policy");
    REFUSED(whet_policy_parameters(NULL, NULL, 0), 0, "policy is NULL");
    memset(&policy, 0, sizeof policy);
    REFUSED(whet_policy_check(&policy, NULL, 0), WHET_ERROR_POLICY, "policy is zero-initialised");
    policy = whet_policy_softmax();
    policy.threshold = 1;
    REFUSED(whet_policy_check(&policy, NULL, 0), WHET_ERROR_POLICY, "threshold is set");
    policy = whet_policy_custom(NULL, NULL);
    REFUSED(whet_policy_check(&policy, NULL, 0), WHET_ERROR_POLICY, "function is NULL");
    REFUSED(isnan(whet_policy_beta(&policy, stats)), 1, "function is NULL");
    policy = whet_policy_compose(whet_policy_target(1, 2), whet_policy_sigmoid(1));
    REFUSED(whet_policy_check(&policy, NULL, 0), WHET_ERROR_POLICY, "target needs a map whose");
    REFUSED(isnan(whet_policy_beta(&policy, stats)), 1, "temperature is target");
    REFUSED(isnan(whet_policy_beta(&policy, NULL)), 1, "stats is NULL");
}

TEST(instruction_sets_are_refused_by_name) {
    const char *before = getenv("WHET_ISA");
    char *kept = before ? strdup(before) : NULL;
    setenv("WHET_ISA", "mmx", 1);
    REFUSED(whet_isa_check(), WHET_ERROR_UNSUPPORTED, "unknown WHET_ISA 'mmx'; supported here: ");
    CHECK(strstr(whet_last_error(), "scalar") != NULL);
    setenv("WHET_ISA", whet_isa(), 1);
    CHECK_INT(whet_isa_check(), WHET_OK);
    setenv("WHET_ISA", "", 1);
    CHECK_INT(whet_isa_check(), WHET_OK);
    unsetenv("WHET_ISA");
    CHECK_INT(whet_isa_check(), WHET_OK);
    if (kept) {
        setenv("WHET_ISA", kept, 1);
    }
    free(kept);
}

/* ---- whose sentence it is ---- */

static void *first_sentence(void *result) {
    *(size_t *)result = strlen(whet_last_error());
    whet_softmax(NULL, NULL, NULL);
    return NULL;
}

TEST(every_thread_has_a_sentence_of_its_own) {
    pthread_t thread;
    size_t length = 1;
    make_stale();
    REQUIRE(pthread_create(&thread, NULL, first_sentence, &length) == 0);
    pthread_join(thread, NULL);
    CHECK_INT(length, 0);
    CHECK(strstr(whet_last_error(), STALE) != NULL);
}

TEST(calls_that_succeed_leave_the_sentence) {
    make_stale();
    whet_rows r = sound_rows();
    whet_policy policy;
    CHECK_INT(whet_softmax(&r, NULL, NULL), WHET_OK);
    CHECK_INT(whet_policy_parse("adaptive", &policy, NULL, 0), WHET_OK);
    memory[2] = NAN;
    CHECK_INT(whet_softmax(&r, NULL, NULL), WHET_NOT_FINITE);
    memory[2] = 0;
    CHECK(strstr(whet_last_error(), STALE) != NULL);
}

TEST(a_child_process_has_its_parents_sentence) {
    make_stale();
    pid_t child = fork();
    if (child == 0) {
        bool inherited = strstr(whet_last_error(), STALE) != NULL;
        whet_softmax(NULL, NULL, NULL);
        _exit(inherited && strcmp(whet_last_error(), "rows is NULL") == 0 ? 0 : 1);
    }
    int status = 1;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(strstr(whet_last_error(), STALE) != NULL);
}

TEST(long_names_are_cut) {
    char name[700];
    whet_policy policy;
    memset(name, 'x', sizeof name - 1);
    name[500] = '\0';
    REFUSED(whet_policy_parse(name, &policy, NULL, 0), WHET_ERROR_POLICY, "unknown policy 'xxx");
    CHECK(strlen(whet_last_error()) < 512);
}
