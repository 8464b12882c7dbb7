// Auditing a model and making prompts when memory runs out: every allocation fails in its turn, and
// each time there is a message and everything is freed.
#include "model/audit.h"
#include "model/prompts.h"
#include "tiny.h"

#include "support/check.h"
#include "support/faults.h"

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
