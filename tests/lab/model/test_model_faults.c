// Auditing a model and making prompts when memory runs out: every allocation fails in its turn, and
// each time there is a message and everything is freed.
#include "model/audit.h"
#include "model/prompts.h"
#include "tiny.h"

#include "model/probe.h"

#include "support/check.h"
#include "support/faults.h"
#include "support/lab_faults.h"

#include <unistd.h>

static bool audit_once(const gguf_file *file, lab_error *error) {
    model_audit audit;
    bool is_done = audit_model(file, 0.5, true, &audit, error);
    if (is_done) {
        audit_free(&audit);
    }
    return is_done;
}

TEST(an_audit_ends_in_good_order_when_memory_runs_out) {
    char path[64];
    tiny_model model = tiny_usual("qwen2");
    model.has_biases = true;
    snprintf(path, sizeof path, "/tmp/whet-model-faults-%d.gguf", (int)getpid());
    REQUIRE(tiny_write(&model, path));
    gguf_file *file = gguf_open(path, NULL);
    unlink(path);
    REQUIRE(file);
    for (long k = 1;; k++) {
        lab_error error = {0};
        faults_begin(k, FAULT_ONCE);
        bool is_done = audit_once(file, &error);
        faults_end();
        CHECK_INT(faults_live(), 0);
        if (!faults_struck()) {
            CHECK(is_done && k > 10);
            break;
        }
        CHECK(!is_done && error.kind == LAB_SYSTEM);
        CHECK_STR(error.text, "out of memory");
    }
    gguf_close(file);
}

static bool make_once(bool is_text) {
    static const uint64_t sizes[] = {2, 4, 8};
    static const number_format format = {.low = 0, .high = 9};
    prompt_list list;
    bool is_made = is_text ? prompts_of_text(sizes, 3, "text", &list)
                           : prompts_of_numbers(sizes, 3, 2, &format, 1, &list);
    if (is_made) {
        prompts_free(&list);
    }
    return is_made;
}

TEST(prompts_are_not_made_by_halves_when_memory_runs_out) {
    for (int is_text = 0; is_text <= 1; is_text++) {
        for (long k = 1;; k++) {
            faults_begin(k, FAULT_ONCE);
            bool is_made = make_once(is_text != 0);
            faults_end();
            CHECK_INT(faults_live(), 0);
            CHECK(is_made != faults_struck());
            if (!faults_struck()) {
                CHECK(k > 3);
                break;
            }
        }
    }
}

// ---- results as JSON: all of them, or none ----

static bool audit_as_json(lab_error *error) {
    static audit_head heads[3] = {{.layer = 0}, {.layer = 1}, {.layer = 2}};
    model_audit audit = {.count = 3, .heads = heads};
    json_t *json = audit_json(&audit);
    json_decref(json);
    return json || lab_fail_memory(error);
}

static bool probe_as_json(lab_error *error) {
    static const char *const names[] = {"softmax"};
    static float values[2 * PROBE_MEASURES];
    probe_request request = {
        .model = {.path = "m.gguf"}, .policies = names, .policy_count = 1, .seed = ~0ull};
    static probe_result result = {
        .policies = 1, .sizes = 1, .sequences = 1, .layers = 1, .heads = 2, .tokens = {4}};
    result.values = values;
    json_t *json = probe_json(&request, &result);
    json_decref(json);
    return json || lab_fail_memory(error);
}

TEST(nothing_is_left_out_of_results_when_memory_runs_out) {
    lab_faults_try(audit_as_json, NULL);
    lab_faults_try(probe_as_json, NULL);
}
