/*
 * The benchmark's time budget: what its parts declare, how it is divided, and
 * that rounds stop when it is used up. No test measures a run's time.
 */
#include "base/machine.h"
#include "budget.h"
#include "speedup.h"
#include "suite.h"
#include "support/check.h"
#include "waiting.h"

#include <math.h>
#include <string.h>

TEST(a_quick_run_declares_less_than_half_a_minute) {
    double declared = 0;
    for (size_t i = 0; i < SUITE_PARTS; i++)
        declared += bench_parts[i].in_quick ? bench_parts[i].quick_seconds : 0;
    /* of 30: first rounds are not cut short */
    CHECK_MSG(declared > 5 && declared <= 25, "%g seconds are declared", declared);
}

TEST(a_quick_run_has_all_bars_of_the_library_and_leaves_training_out) {
    static const char *const expected[] = {"rows", "prefill", "decode", "backward"};
    size_t found = 0;
    for (size_t i = 0; i < SUITE_PARTS; i++) {
        const suite_part *part = &bench_parts[i];
        CHECK(part->quick_seconds > 0);
        if (!part->in_quick)
            continue;
        REQUIRE(found < sizeof expected / sizeof expected[0]);
        CHECK_STR(part->name, expected[found++]);
        CHECK(part->in_full);
    }
    CHECK_INT(found, sizeof expected / sizeof expected[0]);
}

TEST(time_is_divided_as_declared) {
    budget all = {.end = 110, .declared = 10};
    CHECK_NEAR(bench_budget_take(&all, 100, 2), 102, 1e-12);
    CHECK_NEAR(bench_budget_take(&all, 102, 4), 106, 1e-12);
    CHECK_NEAR(bench_budget_take(&all, 106, 4), 110, 1e-12);
}

TEST(early_parts_leave_time_and_late_parts_take_it) {
    budget all = {.end = 110, .declared = 10};
    bench_budget_take(&all, 100, 2);
    CHECK_NEAR(bench_budget_take(&all, 101, 4), 101 + 9 * 0.5, 1e-12); /* one second early */
    all = (budget){.end = 110, .declared = 10};
    bench_budget_take(&all, 100, 2);
    CHECK_NEAR(bench_budget_take(&all, 106, 4), 108, 1e-12); /* four seconds late */
}

TEST(parts_beyond_the_declared_time_do_not_make_the_run_longer) {
    budget all = {.end = 110, .declared = 10};
    for (int now = 100; now < 140; now += 3)
        CHECK(bench_budget_take(&all, now, 7) <= fmax(110, now));
    CHECK(all.declared >= 0);
}

static size_t rounds_of(double seconds, effort until) {
    waiting work = {.seconds = seconds};
    contender only = waiter("only", NULL, &work, 1);
    static measurement measured;
    bench_measure(&only, 1, NULL, until, "test", &measured);
    CHECK_INT(measured.list[0].rounds, work.runs);
    return work.runs;
}

TEST(rounds_stop_at_the_end_of_their_time) {
    double now = lab_now();
    CHECK_INT(rounds_of(0, (effort){.rounds = 5}), 5);
    CHECK_INT(rounds_of(0, (effort){.rounds = 5, .end = now + 3600}), 5);
    CHECK_INT(rounds_of(0, (effort){.rounds = 5, .seconds = 3600, .end = now}), 1);
    /* a second round of the same length would end too late */
    CHECK_INT(rounds_of(0.02, (effort){.rounds = 5, .end = lab_now() + 0.03}), 1);
}

TEST(cases_of_a_quick_run_end_within_their_part) {
    static suite with;
    with.options.quick = true;
    double end = lab_now() + 1000;
    with.budget = (budget){.end = end, .declared = 10};
    CHECK(bench_begin_case(&with, "rows", "n=16", 5));
    CHECK(with.until.end > lab_now() + 400 && with.until.end < end);
    for (int i = 0; i < 5; i++) {
        CHECK(bench_begin_case(&with, "rows", "n=16", 5));
        CHECK(with.until.end <= end + 1e-6);
    }
}

TEST(cases_of_a_full_run_have_all_their_rounds) {
    static suite with;
    with.budget = (budget){.end = 1, .declared = 1};
    CHECK(bench_begin_case(&with, "rows", "n=16", 5));
    CHECK(with.until.end == 0);
    CHECK(with.until.rounds >= 7);
}

TEST(cases_on_several_threads_report_their_share_of_the_processor) {
    static report measured;
    static suite with = {.until = {.rounds = 2}, .report = &measured};
    REQUIRE(whet_pool_create(2, &with.pool) == WHET_OK);
    with.executor = whet_pool_executor(with.pool);
    report_section *section = bench_speedup_section(&with, "threads", UNIT_GFLOPS);
    REQUIRE(section);
    float q[4] = {1}, k[16] = {1}, v[16] = {1}, out[4];
    whet_attention attention = {.size = sizeof attention,
                                .heads = 1,
                                .kv_heads = 1,
                                .queries = 1,
                                .keys = 4,
                                .head_dim = 4,
                                .q = {.data = q},
                                .k = {.data = k},
                                .v = {.data = v},
                                .out = {.data = out},
                                .scale = 0.5f};
    waiting one = {.seconds = 0.002}, idle = {.seconds = 0.04};
    contender limit_one = waiter("limit", NULL, &one, 1);
    contender limit_many = waiter("limit, 2 threads", NULL, &idle, 1);
    speedup_limit limit = {.one = &limit_one, .many = &limit_many, .count = 1};
    CHECK(bench_speedup_case(&with, section, "tiny", &attention, 1, limit));
    REQUIRE(section->case_count == 1);
    REQUIRE(bench_report_presence(&section->cases[0]));
    /* the limit leaves its second thread idle, as if other programs had its processor */
    CHECK(lab_processors() < 2 || bench_report_disturbed(&section->cases[0]));
    bench_report_free(&measured);
    whet_pool_destroy(with.pool);
}

/* A visitor that wants one case, and runs it. */
typedef struct visits {
    const char *wanted;
    size_t asked, visited, run;
} visits;

static bool wants_label(void *context, const char *section, const char *label, double seconds) {
    visits *made = context;
    made->asked++;
    CHECK(seconds > 0);
    return strcmp(section, "rows") == 0 && strcmp(label, made->wanted) == 0;
}

static void run_all(void *context, const contender *list, size_t count) {
    visits *made = context;
    made->visited++;
    for (size_t i = 0; i < count; i++, made->run++)
        list[i].run(list[i].argument);
}

TEST(a_visitor_gets_the_contenders_that_run_the_library) {
    static report measured;
    visits made = {.wanted = "n=16"};
    suite_visitor visitor = {.wants = wants_label, .visit = run_all, .context = &made};
    suite_options options = {.quick = true, .threads = 1, .visitor = &visitor};
    options.wanted[0] = true;
    CHECK(bench_run(&options, &measured));
    CHECK_INT(made.asked, 5);
    CHECK_INT(made.visited, 1);
    CHECK_INT(made.run, 2); /* plain and adaptive, without copies, reads and exponentials */
    bench_report_free(&measured);
}
