/*
 * How much stack rows take, which whet.h tells those with small threads: each
 * call runs on a stack full of a pattern, and what is left of it is counted.
 */
#include "support/check.h"
#include "support/isa.h"
#include "whet.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 1 << 20, PATTERN = 0xc3, N_MAX = 20000, ROWS = 3 };

static float logits[ROWS * N_MAX], arriving[ROWS * N_MAX], result[ROWS * N_MAX];

typedef struct call {
    void (*run)(const struct call *call);
    whet_policy policy;
    size_t n;
    bool narrow; /* other types and a mask, which are converted on the way */
    bool alone;  /* no statistics, by which rows are taken together */
} call;

static void go_forth(const call *c) {
    whet_stats stats[ROWS];
    whet_rows rows = {.size = sizeof rows, .rows = ROWS, .n = c->n, .in = logits, .out = result};
    rows.stats = c->narrow && !c->alone ? stats : NULL;
    rows.mask = c->narrow ? arriving : NULL;
    rows.in_type = c->narrow ? WHET_BF16 : WHET_F32;
    rows.out_type = c->narrow ? WHET_F16 : WHET_F32;
    CHECK(whet_softmax(&rows, &c->policy, NULL) < WHET_ERROR_ARGUMENT);
}

static void go_back(const call *c) {
    whet_policy_gradient numbers;
    whet_rows_backward rows = {.size = sizeof rows, .rows = ROWS, .n = c->n, .in = logits};
    rows.grad_out = arriving;
    rows.grad_in = result;
    rows.policy_grad = &numbers;
    rows.in_type = rows.grad_in_type = c->narrow ? WHET_BF16 : WHET_F32;
    rows.grad_out_type = c->narrow ? WHET_F16 : WHET_F32;
    CHECK(whet_softmax_backward(&rows, &c->policy, NULL) < WHET_ERROR_ARGUMENT);
}

static void do_nothing(const call *c) { (void)c; }

static void *run_call(void *argument) {
    const call *c = argument;
    c->run(c);
    return NULL;
}

/* Bytes of stack that a thread has touched, its own beginnings among them. */
static size_t bytes_touched(call c) {
    unsigned char *stack = aligned_alloc(4096, STACK);
    pthread_attr_t attributes;
    pthread_t thread;
    REQUIRE(stack);
    memset(stack, PATTERN, STACK);
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstack(&attributes, stack, STACK) == 0);
    REQUIRE(pthread_create(&thread, &attributes, run_call, &c) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
    size_t untouched = 0;
    while (untouched < STACK && stack[untouched] == PATTERN) {
        untouched++;
    }
    free(stack);
    return STACK - untouched;
}

static void check_stack(void (*run)(const call *), size_t most) {
    static const size_t lengths[] = {3, 57, 1000, N_MAX};
#if !defined(__OPTIMIZE__) || !defined(NDEBUG)
    SKIP("the header states the stack of release builds only");
#endif
    const char *instrumented = getenv("WHET_INSTRUMENTED");
    if (instrumented && *instrumented) {
        SKIP("the header states the stack of release builds only");
    }
    for (size_t i = 0; i < ROWS * N_MAX; i++) {
        logits[i] = (float)(i * 7919 % 1000) / 300;
        arriving[i] = (float)(i * 104729 % 1000) / 300;
    }
    logits[0] = NAN; /* in every type: such a row is taken by itself behind the others */
    size_t before = bytes_touched((call){.run = do_nothing});
    const whet_policy_info *info;
    for (size_t i = 0; (info = whet_policy_table(i)); i++) {
        for (size_t at = 0; at < 12; at++) {
            call c = {.run = run, .n = lengths[at / 3], .narrow = at % 3 > 0, .alone = at % 3 == 2};
            REQUIRE(whet_policy_parse(info->example, &c.policy, NULL, 0) == WHET_OK);
            size_t bytes = bytes_touched(c) - before;
            CHECK_MSG(bytes <= most, "%s, n = %zu: %zu bytes", info->example, c.n, bytes);
        }
    }
}

TEST(rows_take_no_more_stack_than_the_header_tells) { check_stack(go_forth, (size_t)96 << 10); }

TEST(the_backward_pass_takes_no_more_stack_than_the_header_tells) {
    check_stack(go_back, (size_t)144 << 10);
}
