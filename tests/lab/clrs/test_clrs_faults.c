// Memory that runs out: every allocation of a sampler, a mix and a score fails in its turn, and
// each time there is an error and nothing is left behind. And once a sampler has seen its longest
// sample, it allocates nothing any more.
#include "support/faults.h"

#include "clrs/clrs.h"
#include "clrs/score.h"
#include "support/check.h"

static clrs_status make_samples(const char *algorithm, bool hints) {
    clrs_request request = clrs_request_default(algorithm, 33);
    request.hints = hints;
    clrs_sampler *sampler;
    clrs_status status = clrs_sampler_create(&request, &sampler);
    for (int i = 0; status == CLRS_OK && i < 2; i++) {
        clrs_sample sample;
        status = clrs_sampler_next(sampler, &sample);
    }
    clrs_sampler_destroy(sampler);
    return status;
}

TEST(a_sampler_without_memory_says_so) {
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        for (int hints = 0; hints < 2; hints++)
            for (long k = 1;; k++) {
                faults_begin(k, k % 2 ? FAULT_ONCE : FAULT_FOR_GOOD);
                clrs_status status = make_samples(clrs_algorithm_at(i)->name, hints);
                faults_end();
                CHECK_INT(faults_live(), 0);
                CHECK_INT(status, faults_struck() ? CLRS_ERROR_MEMORY : CLRS_OK);
                if (!faults_struck())
                    break;
            }
}

static clrs_status make_mix(void) {
    const clrs_request requests[] = {clrs_request_default("bfs", 5),
                                     clrs_request_default("quicksort", 7)};
    clrs_mix *mix;
    clrs_status status = clrs_mix_create(requests, 2, 3, &mix, NULL);
    for (int i = 0; status == CLRS_OK && i < 10; i++) {
        clrs_sample sample;
        status = clrs_mix_next(mix, &sample);
    }
    clrs_mix_destroy(mix);
    return status;
}

TEST(a_mix_without_memory_says_so) {
    for (long k = 1;; k++) {
        faults_begin(k, FAULT_ONCE);
        clrs_status status = make_mix();
        faults_end();
        CHECK_INT(faults_live(), 0);
        CHECK_INT(status, faults_struck() ? CLRS_ERROR_MEMORY : CLRS_OK);
        if (!faults_struck())
            break;
    }
}

static bool make_scores(void) {
    clrs_scores scores = {.count = 0};
    clrs_request request = clrs_request_default("bfs", 5);
    clrs_span reference;
    bool done = clrs_scores_reference(&scores, &request, 3, &reference) == CLRS_OK;
    for (int length = 0; done && length < 200; length++)
        done = clrs_scores_add(&scores, clrs_algorithm_find("bfs"), length, reference, reference);
    clrs_scores_free(&scores);
    return done;
}

TEST(scores_without_memory_say_so) {
    for (long k = 1;; k++) {
        faults_begin(k, FAULT_ONCE);
        bool done = make_scores();
        faults_end();
        CHECK_INT(faults_live(), 0);
        CHECK_INT(done, !faults_struck());
        if (!faults_struck())
            break;
    }
}

TEST(a_sampler_at_work_allocates_nothing) {
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++) {
        clrs_request request = clrs_request_default(clrs_algorithm_at(i)->name, 16);
        request.hints = true;
        clrs_sampler *sampler;
        clrs_sample sample;
        REQUIRE(clrs_sampler_create(&request, &sampler) == CLRS_OK);
        for (int k = 0; k < 300; k++)
            REQUIRE(clrs_sampler_next(sampler, &sample) == CLRS_OK);
        REQUIRE(clrs_sampler_seek(sampler, 0) == CLRS_OK);
        faults_begin(0, FAULT_ONCE);
        for (int k = 0; k < 300; k++)
            CHECK_INT(clrs_sampler_next(sampler, &sample), CLRS_OK);
        faults_end();
        CHECK_INT(faults_seen(), 0);
        clrs_sampler_destroy(sampler);
    }
}
