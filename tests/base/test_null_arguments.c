/*
 * NULL for every pointer of every public function that the other tests do not
 * give it to: a refusal or a harmless result, as whet.h says.
 */
#include "support/check.h"
#include "whet.h"

#include <math.h>
#include <stdint.h>

static void count_task(void *argument, size_t task, size_t worker) {
    CHECK_INT(worker, 0);
    *(size_t *)argument += task + 1;
}

TEST(no_pool_is_the_calling_thread) {
    CHECK_INT(whet_pool_threads(NULL), 1);
    whet_executor executor = whet_pool_executor(NULL);
    CHECK_INT(executor.workers, 1);
    size_t sum = 0;
    executor.parallel_for(executor.context, 5, count_task, &sum);
    CHECK_INT(sum, 15);
    whet_pool_destroy(NULL);
    CHECK_INT(whet_pool_create(1, NULL), WHET_ERROR_ARGUMENT);
}

TEST(no_statistics_are_an_empty_piece) {
    float row[] = {1, 2, 3};
    whet_stats one, merged;
    whet_rows rows = {.size = sizeof rows, .rows = 1, .n = 3, .in = row, .stats = &one};
    CHECK_INT(whet_entropy(&rows, NULL, NULL), WHET_OK);
    whet_stats_merge(&one, NULL, &merged);
    CHECK(merged.n == 3 && merged.entropy == one.entropy && merged.argmax == 2);
    whet_stats_merge(NULL, &one, &merged);
    CHECK(merged.n == 3 && merged.entropy == one.entropy && merged.argmax == 2);
    whet_stats_merge(NULL, NULL, &merged);
    CHECK(merged.n == 0 && merged.max == -INFINITY && (merged.flags & WHET_ROW_EMPTY));
    whet_stats_merge(&one, &one, NULL);
}

TEST(no_policy_is_softmax) {
    whet_stats one = whet_stats_empty();
    char name[16];
    CHECK(whet_policy_beta(NULL, &one) == 1);
    CHECK(whet_policy_beta(NULL, NULL) == 1);
    CHECK_INT(whet_policy_is_temperature(NULL), 1);
    CHECK_INT(whet_policy_name(NULL, name, sizeof name), 7);
    CHECK_STR(name, "softmax");
    whet_policy policy = whet_policy_adaptive();
    CHECK(isnan(whet_policy_beta(&policy, NULL)));
    CHECK_INT(whet_policy_name(&policy, NULL, 100), 8);
    CHECK_INT(whet_policy_check(&policy, NULL, 100), WHET_OK);
    CHECK_INT(whet_policy_check(NULL, NULL, 0), WHET_ERROR_POLICY);
}

TEST(parameters_are_counted_without_a_place_for_them) {
    whet_policy policy = whet_policy_adaptive();
    size_t count = whet_policy_parameters(&policy, NULL, 0);
    CHECK(count > 4);
    CHECK_INT(whet_policy_parameters(&policy, NULL, 3), count);
    CHECK_INT(whet_policy_parameters(NULL, NULL, 3), 0);
    policy = whet_policy_poly(NULL, 2, -INFINITY, 1, INFINITY);
    CHECK_INT(whet_policy_check(&policy, NULL, 0), WHET_ERROR_POLICY);
}

TEST(no_plan_needs_more_memory_than_there_is) {
    CHECK(whet_attention_memory(NULL, NULL) == SIZE_MAX);
    CHECK_INT(whet_attention_execute(NULL, NULL, NULL, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_run_task(NULL, 0, 0, NULL, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_backward(NULL, NULL, NULL), WHET_ERROR_ARGUMENT);
    CHECK_INT(whet_attention_forward(NULL, NULL, NULL), WHET_ERROR_ARGUMENT);
}
