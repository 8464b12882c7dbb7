/*
 * The plug-in when memory runs out: every allocation fails in turn. Settings are then refused, a
 * recording ends with whole evaluations, an operation reports failure; nothing leaks.
 */
#include "alike.h"
#include "run.h"
#include "llama/environment.h"
#include "recording.h"
#include "settings.h"
#include "support/check.h"
#include "support/faults.h"
#include "temporary.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULTS_MAX = 200 }; /* more than anything here allocates */

static char path[] = "/tmp/whet-faults.XXXXXX";

static void make_file(const char *text) {
    strcpy(path, "/tmp/whet-faults.XXXXXX");
    temporary_file(path, text);
}

TEST(settings_are_refused_when_memory_runs_out) {
    make_file("{\"policy\": \"adaptive\", \"rules\": [{\"layers\": \"1-2,5\", \"heads\": \"3\", "
              "\"policy\": \"fixed:2\"}, {\"policy\": \"softmax\"}, {\"policy\": \"hardmax\"}]}");
    environment_clear();
    setenv("WHET_CONFIG", path, 1);
    setenv("WHET_STATS", "rows.csv", 1);
    long k = 1;
    for (; k <= FAULTS_MAX; k++) {
        settings s;
        message why = {""};
        faults_begin(k, FAULT_ONCE);
        bool loaded = settings_load(&s, &why);
        bool struck = faults_struck();
        if (loaded)
            settings_free(&s);
        faults_end();
        CHECK_INT(faults_live(), 0);
        if (!struck) {
            CHECK(loaded);
            break;
        }
        CHECK(!loaded && why.text[0] != 0);
    }
    CHECK_MSG(k > 4 && k < FAULTS_MAX, "%ld allocations failed", k - 1);
    unsetenv("WHET_CONFIG");
    unsetenv("WHET_STATS");
    unlink(path);
}

TEST(a_recording_ends_with_whole_evaluations_when_memory_runs_out) {
    enum { QUERIES = 1000 };
    recorded_operation rows = alike_rows(QUERIES);
    long k = 1;
    for (; k <= FAULTS_MAX; k++) {
        make_file("");
        faults_begin(k, FAULT_ONCE);
        recording *r = recording_open(path, false);
        for (int i = 0; r && i < 3; i++)
            recording_write(r, &rows, 1);
        uint64_t lines = r ? recording_lines(r) : 0;
        bool struck = faults_struck();
        if (r)
            recording_close(r);
        faults_end();
        CHECK_INT(faults_live(), 0);
        CHECK(lines % QUERIES == 0 && (struck || lines == 3 * (uint64_t)QUERIES));
        unlink(path);
        if (!struck)
            break;
    }
    CHECK_MSG(k > 3 && k < FAULTS_MAX, "%ld allocations failed", k - 1);
}

TEST(policies_and_memory_of_a_run_may_fail_and_be_asked_for_again) {
    settings s = {.config.policy = whet_policy_adaptive()};
    for (long k = 1; k <= FAULTS_MAX; k++) {
        faults_begin(k, FAULT_ONCE);
        run *r = run_create(NULL, &s);
        bool struck = faults_struck();
        if (r) {
            const layer_policies *first = policies_of_layer(&r->policies, &s, 3, 8);
            const layer_policies *other = policies_of_layer(&r->policies, &s, 3, 4);
            const char *memory = run_memory(r, 10000);
            struck = faults_struck();
            CHECK(struck || (first && other && memory));
            /* what failed once can succeed the next time, and what succeeded stays */
            const layer_policies *again = policies_of_layer(&r->policies, &s, 3, 8);
            CHECK(again && (!first || again == first) && again->heads == 8 && again->count == 1);
            if (!run_memory(r, 20000)) {
                CHECK(!struck && run_memory(r, 20000) != NULL);
                struck = true;
            }
            run_free(r);
        }
        faults_end();
        CHECK_INT(faults_live(), 0);
        if (!struck) {
            CHECK(k > 5);
            return;
        }
    }
    CHECK(false);
}

TEST(recording_details_may_fail_and_be_asked_for_again) {
    settings s = {.stats_keys = 4, .stats_gaps = true};
    for (long k = 1; k <= FAULTS_MAX; k++) {
        run *r = run_create(NULL, &s);
        REQUIRE(r && run_begin(r, 2));
        r->count = 2;
        for (size_t i = 0; i < 2; i++)
            r->operations[i] =
                (operation){.run = r, .attention = {.batch = 1, .heads = 3 + i, .queries = 2}};
        faults_begin(k, FAULT_ONCE);
        bool is_ready = run_prepare_recording(r);
        bool struck = faults_struck();
        faults_end();
        CHECK(is_ready != struck);
        CHECK(run_prepare_recording(r));
        CHECK(r->operations[1].details == r->operations[0].details + 3);
        CHECK(r->operations[1].details[3].gaps.counts[0] == 0);
        run_free(r);
        if (!struck) {
            CHECK(k > 3);
            return;
        }
    }
    CHECK(false);
}
