/*
 * The benchmark's own arithmetic: rounds, variants, probes, ratios and bars,
 * and its limits and inputs. No test depends on speed, except on which of two
 * waits is shorter.
 */
#define _POSIX_C_SOURCE 200809L

#include "inputs.h"
#include "machine_limits.h"
#include "measure.h"
#include "prefill.h"
#include "report.h"
#include "support/check.h"
#include "waiting.h"
#include "whet.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const effort four_rounds = {.rounds = 4};

TEST(every_contender_runs_once_per_round_and_the_probe_around_each) {
    waiting a = {0}, b = {0}, c = {0};
    contender list[] = {waiter("a", NULL, &a, 1), waiter("b", NULL, &b, 1)};
    contender probe = waiter("probe", NULL, &c, 1);
    static measurement measured;
    bench_measure(list, 2, &probe, four_rounds, "test", &measured);
    CHECK_INT(a.runs, 4);
    CHECK_INT(b.runs, 4);
    CHECK_INT(c.runs, 4 * 3);
    CHECK_INT(measured.count, 3);
    CHECK(measured.probe == bench_find(&measured, "probe"));
    CHECK(bench_find(&measured, "d") == NULL);
}

TEST(variants_of_one_name_are_one_series_of_the_fastest) {
    waiting slow = {.seconds = 0.02}, fast = {.seconds = 0.001};
    contender list[] = {waiter("copy", "slow", &slow, 1), waiter("copy", "fast", &fast, 1)};
    static measurement measured;
    bench_measure(list, 2, NULL, four_rounds, "test", &measured);
    REQUIRE(measured.count == 1);
    CHECK_STR(measured.list[0].variant, "fast");
    CHECK(measured.list[0].best >= 0.001 && measured.list[0].best < 0.02);
    CHECK(measured.list[0].median >= measured.list[0].best);
}

static void sleep_briefly(void *argument) {
    (void)argument;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

TEST(time_without_a_processor_is_reported) {
    contender asleep = {.name = "asleep", .run = sleep_briefly, .work = 1};
    static measurement measured;
    bench_measure(&asleep, 1, NULL, four_rounds, "test", &measured);
    CHECK_MSG(measured.presence < 0.5, "%g", measured.presence);
}

TEST(threads_that_did_not_run_are_reported_beside_one_that_did) {
    waiting a = {.seconds = 0.02}, b = {.seconds = 0.005};
    contender list[] = {waiter("one", NULL, &a, 1), waiter("two", NULL, &b, 1)};
    list[1].threads = 2;
    static measurement measured;
    bench_measure(list, 2, NULL, four_rounds, "test", &measured);
    CHECK_MSG(measured.presence > 0 && measured.presence < 0.6, "%g", measured.presence);
}

enum { BUSY_MILLISECONDS = 20 };

static double own_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* A task that uses a processor for some time and does not end before the other has begun. */
static void compute(void *argument, size_t task, size_t worker) {
    atomic_int *begun = argument;
    (void)task, (void)worker;
    double end = own_seconds() + 1e-3 * BUSY_MILLISECONDS;
    for (atomic_fetch_add(begun, 1); own_seconds() < end || atomic_load(begun) % 2;)
        continue;
}

static void compute_on_two(void *argument) {
    const whet_executor *executor = argument;
    atomic_int begun = 0;
    executor->parallel_for(executor->context, 2, compute, &begun);
}

TEST(processor_time_of_other_threads_counts) {
    whet_pool *pool;
    REQUIRE(whet_pool_create(2, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    contender both = {
        .name = "both", .run = compute_on_two, .argument = &executor, .work = 1, .threads = 2};
    static measurement measured;
    bench_measure(&both, 1, NULL, four_rounds, "test", &measured);
    double wanted = 0;
    for (size_t round = 0; round < 4; round++)
        wanted += 2 * measured.list[0].seconds[round];
    /* on a busy machine too; less a tick or two by which the system's clock may lag */
    CHECK_MSG(measured.presence * wanted >= 1e-3 * (4 * 2 * BUSY_MILLISECONDS - 25),
              "%g of %g seconds", measured.presence, wanted);
    whet_pool_destroy(pool);
}

TEST(ratios_are_for_the_same_work_and_rounds) {
    series ours = {.work = 2, .rounds = 3, .best = 2, .seconds = {2, 8, 6}, .probe = {1, 1, 1}};
    series theirs = {.work = 1, .rounds = 3, .best = 1, .seconds = {2, 1, 3}};
    measurement measured = {.probe = NULL};
    ratio times = bench_ratio(&measured, &ours, &theirs);
    CHECK_NEAR(times.best, 1, 0);
    CHECK_NEAR(times.median, 1, 0);             /* of 0.5, 4 and 1 */
    CHECK(times.low == 0 && isinf(times.high)); /* of too few rounds */
    measured.probe = &theirs;
    CHECK_NEAR(bench_ratio(&measured, &ours, &theirs).median, 3, 0); /* of 1, 4 and 3 */
}

TEST(ratios_of_enough_rounds_have_an_interval) {
    series ours = {.work = 1, .rounds = 6, .best = 1, .seconds = {2, 4, 6, 3, 5, 1}};
    series theirs = {.work = 1, .rounds = 6, .best = 1, .seconds = {1, 1, 1, 1, 1, 1}};
    measurement measured = {.probe = NULL};
    ratio times = bench_ratio(&measured, &ours, &theirs);
    CHECK_NEAR(times.low, 1, 1e-12);
    CHECK_NEAR(times.high, 6, 1e-12);
    CHECK_NEAR(times.median, 3.5, 1e-12);
}

TEST(a_bar_is_met_by_the_best) {
    report_figure figure = {.best = 1.4, .median = 2, .bar = BAR_AT_MOST, .bar_value = 1.4};
    CHECK(bench_report_meets(&figure));
    figure.best = 1.41;
    CHECK(!bench_report_meets(&figure));
    figure.bar = BAR_AT_LEAST;
    CHECK(bench_report_meets(&figure));
    figure.bar = BAR_NONE;
    CHECK(bench_report_meets(&figure));
}

TEST(every_way_of_copying_copies) {
    enum { BYTES = 4 * READ_GRAIN };
    unsigned char *from = bench_inputs_allocate(BYTES);
    unsigned char *to = bench_inputs_allocate(BYTES);
    REQUIRE(from && to);
    copy_work work = {.from = from, .to = to, .bytes = BYTES};
    contender list[COPY_VARIANTS_MAX];
    size_t count = bench_limit_copy(list, &work);
    CHECK(count >= 3);
    for (size_t i = 0; i < count; i++) {
        memset(from, (int)i + 1, BYTES);
        list[i].run(list[i].argument);
        CHECK_MSG(memcmp(from, to, BYTES) == 0, "%s", list[i].variant);
    }
    bench_inputs_release(from);
    bench_inputs_release(to);
}

TEST(random_inputs_have_the_deviation_asked_for) {
    enum { COUNT = 100000 };
    float *values = bench_inputs_allocate(COUNT * sizeof *values);
    REQUIRE(values);
    bench_inputs_fill(values, COUNT, 3, 1);
    double sum = 0, square = 0;
    for (size_t i = 0; i < COUNT; i++) {
        sum += values[i];
        square += (double)values[i] * values[i];
    }
    CHECK_NEAR(sum / COUNT, 0, 0.05);
    CHECK_NEAR(sqrt(square / COUNT), 3, 0.05);
    bench_inputs_release(values);
}

static double f16_value(uint16_t half) {
    int exponent = half >> 10 & 31;
    int fraction = half & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return half & 0x8000 ? -size : size;
}

TEST(inputs_in_half_precision_are_the_nearest) {
    enum { COUNT = 10000 };
    static float values[COUNT];
    static uint16_t halves[COUNT];
    for (int power = 0; power > -7; power--) {
        double deviation = pow(10, power);
        bench_inputs_fill(values, COUNT, deviation, 5);
        bench_inputs_fill_f16(halves, COUNT, deviation, 5);
        for (size_t i = 0; i < COUNT; i++) {
            double value = values[i];
            CHECK_NEAR(f16_value(halves[i]), value, fmax(ldexp(fabs(value), -11), ldexp(1, -25)));
        }
    }
}

TEST(flops_are_those_of_unmasked_products) {
    prefill_shape shape = {.queries = 5, .keys = 5, .dim = 3};
    CHECK_NEAR(bench_prefill_flops(&shape), 5 * 5 * 2 * (3 + 3), 0);
    shape.causal = true;
    CHECK_NEAR(bench_prefill_flops(&shape), (1 + 2 + 3 + 4 + 5) * 2 * (3 + 3), 0);
}
