// Probing models that the test makes itself, with a real llama.cpp and the plug-in: results are
// whole and the same again, no logits lie further apart than `whet audit` allows, and errors
// are reported. Skipped where there is no llama.cpp.
#include "model/audit.h"
#include "model/probe.h"
#include "model/runner.h"
#include "tiny.h"

#include "support/check.h"
#include "support/llama.h"
#include "support/models.h"

#include <math.h>
#include <unistd.h>

static const uint64_t sizes[] = {2, 4, 8};
static const char *const softmax[] = {"softmax"};

static char path[64];

static const char *made(const tiny_model *model) {
    snprintf(path, sizeof path, "/tmp/whet-probe-test-%d.gguf", (int)getpid());
    REQUIRE(tiny_write(model, path));
    return path;
}

static probe_request usual_request(const char *model) {
    need_llama();
    lab_error error = {0};
    probe_model read;
    bool is_read = probe_read_model(model, &read, &error);
    CHECK_MSG(is_read, "%s", error.text);
    REQUIRE(is_read);
    return (probe_request){.model = read,
                           .library = getenv("WHET_LLAMA_LIB"),
                           .policies = softmax,
                           .policy_count = 1,
                           .sizes = sizes,
                           .size_count = 3,
                           .sequences = 2,
                           .format = {.low = 0, .high = 999},
                           .seed = 1,
                           .answer_tokens = 3,
                           .every = 1,
                           .threads = 1,
                           .quiet = true};
}

static void run(const probe_request *request, probe_result *result) {
    lab_error error = {0};
    bool is_done = probe_run(request, result, &error);
    CHECK_MSG(is_done, "%s", error.text);
    REQUIRE(is_done);
}

// The widest spread of each head's logits, over sizes and sequences.
static double widest_of(const probe_result *r, size_t layer, size_t head) {
    double widest = 0;
    for (size_t s = 0; s < r->sizes; s++) {
        widest = fmax(widest, probe_mean(r, 0, s, layer, head, PROBE_WIDEST_SPREAD));
    }
    return widest;
}

// Compares what llama.cpp computes with what the weights allow; returns how near it came.
static double check_bounds(const char *model, const probe_result *r) {
    lab_error error = {0};
    model_audit audit = {0};
    double nearest = 0;
    gguf_file *file = gguf_open(model, &error);
    bool is_done = file && audit_model(file, 0.5, true, &audit, &error);
    CHECK_MSG(is_done, "%s", error.text);
    REQUIRE(is_done);
    CHECK_INT(r->layers * r->heads, audit.count);
    for (size_t i = 0; i < audit.count; i++) {
        const audit_head *head = &audit.heads[i];
        double widest = widest_of(r, head->layer, head->head);
        CHECK_MSG(widest > 0 && widest <= head->tighter, "layer %u head %u: %g, bound %g",
                  head->layer, head->head, widest, head->tighter);
        nearest = fmax(nearest, widest / head->tighter);
    }
    audit_free(&audit);
    gguf_close(file);
    return nearest;
}

static void check_architecture(const tiny_model *model) {
    probe_request request = usual_request(made(model));
    probe_result result;
    run(&request, &result);
    CHECK_INT(result.layers, model->layers);
    CHECK_INT(result.heads, model->heads);
    double nearest = check_bounds(path, &result);
    printf("     %s: widest spread at %.0f %% of its bound\n", model->architecture, 100 * nearest);
    CHECK(nearest > 0.01);
    for (size_t s = 0; s < result.sizes; s++) {
        for (size_t i = 0; i < result.layers * result.heads; i++) {
            double entropy =
                probe_mean(&result, 0, s, i / result.heads, i % result.heads, PROBE_ENTROPY);
            CHECK(entropy >= 0 && entropy <= probe_ceiling(&result, s) + 1e-4);
        }
    }
    probe_free(&result);
    unlink(path);
}

TEST(no_spread_of_a_llama_exceeds_its_bound) {
    tiny_model model = tiny_usual("llama");
    check_architecture(&model);
    model.yarn = 4;
    check_architecture(&model);
}

TEST(no_spread_of_a_qwen_exceeds_its_bound) {
    tiny_model second = tiny_usual("qwen2"), third = tiny_usual("qwen3");
    second.has_biases = true;
    check_architecture(&second);
    check_architecture(&third);
}

TEST(no_spread_of_a_gemma_exceeds_its_bound) {
    tiny_model first = tiny_usual("gemma"), second = tiny_usual("gemma2"),
               third = tiny_usual("gemma3");
    check_architecture(&first);
    second.soft_cap = 3;
    check_architecture(&second);
    third.layers = 6; // the sixth is the first that sees more than a window
    check_architecture(&third);
}

static void check_real(const char *name) {
    char model[MODEL_PATH_SIZE];
    static const uint64_t few[] = {4, 8, 16};
    probe_request request = usual_request(model_path(name, model));
    request.sizes = few;
    request.is_chat = strstr(name, "minimind") != NULL;
    request.sequences = 1;
    probe_result result;
    run(&request, &result);
    printf("     %s: widest spread at %.1f %% of its bound\n", name,
           100 * check_bounds(model, &result));
    probe_free(&result);
}

TEST(no_spread_of_stories260K_exceeds_its_bound) { check_real("stories260K-f32.gguf"); }

TEST(no_spread_of_minimind_exceeds_its_bound) { check_real("minimind2-small-q8_0.gguf"); }

// How many rows are recorded is a matter of the prompt's own length, not of the text it is cut
// from.
TEST(means_over_a_short_beginning_of_a_long_text_are_of_many_positions) {
    tiny_model model = tiny_usual("llama");
    probe_request request = usual_request(made(&model)), whole;
    static const uint64_t short_sizes[] = {8, 16};
    static char text[300001];
    memset(text, 'a', sizeof text - 1);
    for (size_t i = 3; i < sizeof text - 1; i += 4) {
        text[i] = ' ';
    }
    request.text = text;
    request.sizes = short_sizes;
    request.size_count = 2;
    whole = request;
    whole.every = 1;
    probe_result sampled, every;
    run(&request, &sampled);
    run(&whole, &every);
    for (size_t h = 0; h < every.layers * every.heads; h++) {
        size_t layer = h / every.heads, head = h % every.heads;
        CHECK_NEAR(probe_mean(&sampled, 0, 1, layer, head, PROBE_MEAN_ENTROPY),
                   probe_mean(&every, 0, 1, layer, head, PROBE_MEAN_ENTROPY), 1e-9);
    }
    probe_free(&sampled);
    probe_free(&every);
    unlink(path);
}

TEST(a_probe_can_be_had_again) {
    tiny_model model = tiny_usual("llama");
    probe_request request = usual_request(made(&model));
    static const char *const names[] = {"softmax", "adaptive"};
    probe_result a, b;
    request.policies = names;
    request.policy_count = 2;
    request.judged =
        "It was the best of times, it was the worst of times, it was the age of wisdom";
    run(&request, &a);
    run(&request, &b);
    size_t count = 2 * 3 * 2 * a.layers * a.heads * PROBE_MEASURES;
    CHECK(same_bytes(a.values, b.values, count * sizeof *a.values));
    CHECK(a.perplexity[0] == b.perplexity[0] && a.perplexity[0] > 1);
    CHECK(a.perplexity[1] != a.perplexity[0]);
    CHECK(a.judged_tokens > 10);
    CHECK_INT(a.score[0][2].asked, 2);
    // Softmax leaves entropies as they are, adaptive temperature never raises them.
    for (size_t h = 0; h < a.layers * a.heads; h++) {
        size_t layer = h / a.heads, head = h % a.heads;
        CHECK_NEAR(probe_mean(&a, 0, 2, layer, head, PROBE_ENTROPY_AFTER),
                   probe_mean(&a, 0, 2, layer, head, PROBE_ENTROPY), 1e-6);
        CHECK(probe_mean(&a, 1, 2, layer, head, PROBE_ENTROPY_AFTER) <=
              probe_mean(&a, 1, 2, layer, head, PROBE_ENTROPY) + 1e-5);
    }
    probe_free(&a);
    probe_free(&b);
    unlink(path);
}

TEST(beginnings_of_a_text_are_probed_by_their_tokens) {
    tiny_model model = tiny_usual("llama");
    probe_request request = usual_request(made(&model));
    probe_result result;
    request.text = "a text of which every byte is a token";
    run(&request, &result);
    CHECK_NEAR(result.tokens[2] - result.tokens[1], 4, 0);
    CHECK_INT(result.score[0][0].asked, 0);
    probe_free(&result);
    unlink(path);
}

TEST(a_text_is_probed_to_its_end) {
    tiny_model model = tiny_usual("llama");
    static const uint64_t growing[] = {4, 8, 16, 32};
    static const struct {
        const char *text;
        size_t sizes;
        uint64_t last;
    } texts[] = {
        /* of which every byte is a token, and the space in front that the model puts there */
        {"a b", 1, 4},
        {"eleven byte", 3, 12},
        {"seven b", 2, 8},
        {"0123456789abcdef", 4, 17},
    };
    probe_request request = usual_request(made(&model));
    request.sizes = growing;
    request.size_count = 4;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        probe_result result;
        request.text = texts[i].text;
        request.may_shrink = true;
        run(&request, &result);
        CHECK(result.has_whole_text);
        CHECK_INT(result.sizes, texts[i].sizes);
        CHECK_INT(result.size[result.sizes - 1], texts[i].last);
        CHECK_NEAR(result.tokens[result.sizes - 1] - result.tokens[0],
                   (double)(texts[i].last - result.size[0]), 0);
        probe_free(&result);
    }
    unlink(path);
}

static void check_fails(const probe_request *request, lab_error_kind kind, const char *words) {
    lab_error error = {0};
    probe_result result;
    bool is_done = probe_run(request, &result, &error);
    CHECK_MSG(!is_done && error.kind == kind && strstr(error.text, words), "%s", error.text);
    if (is_done) {
        probe_free(&result);
    }
}

TEST(prompts_longer_than_the_context_are_refused_or_left_out) {
    tiny_model model = tiny_usual("llama");
    static const uint64_t growing[] = {2, 50, 500};
    probe_request request = usual_request(made(&model));
    request.sizes = growing;
    check_fails(&request, LAB_INPUT, "exceed the context of 512; use smaller --sizes");
    request.may_shrink = true;
    probe_result result;
    run(&request, &result);
    CHECK_INT(result.sizes, 2);
    probe_free(&result);
    request.context = 50;
    check_fails(&request, LAB_INPUT, "exceed the context of 50");
    request.text = "";
    check_fails(&request, LAB_INPUT, "the text is empty");
    request.text = "a text whose whole is more than this much of a context";
    request.context = 40;
    run(&request, &result);
    CHECK_INT(result.sizes, 1);
    CHECK(!result.has_whole_text);
    probe_free(&result);
    request.text = "short";
    request.may_shrink = false;
    check_fails(&request, LAB_INPUT, "the text has only 6 tokens, not 50");
    unlink(path);
}

TEST(the_file_tells_the_size_of_a_model) {
    tiny_model tiny = tiny_usual("llama");
    lab_error error = {0};
    probe_model model;
    CHECK(probe_read_model(made(&tiny), &model, &error));
    CHECK_INT(model.layers, tiny.layers);
    CHECK_INT(model.heads, tiny.heads);
    CHECK_INT(model.context, 512);
    unlink(path);
    CHECK(!probe_read_model("/nowhere.gguf", &model, &error));
    CHECK(error.kind == LAB_INPUT && strstr(error.text, "/nowhere.gguf: no such file"));
}

TEST(what_cannot_be_run_is_told) {
    tiny_model model = tiny_usual("llama");
    probe_request request = usual_request(made(&model));
    request.is_chat = true;
    check_fails(&request, LAB_INPUT, "the model has no chat template");
    request.is_chat = false;
    request.library = "/nowhere";
    check_fails(&request, LAB_INPUT, "/nowhere: no libllama");
    request.library = getenv("WHET_LLAMA_LIB");
    request.plugin = "/nowhere.so";
    check_fails(&request, LAB_SYSTEM, "/nowhere.so: cannot read: ");
    request.plugin = NULL;
    request.layers = "everywhere";
    check_fails(&request, LAB_SYSTEM, "");
    request.layers = NULL;
    static const uint64_t long_text = 1000;
    request.text = "short";
    request.sizes = &long_text;
    request.size_count = 1;
    check_fails(&request, LAB_INPUT, "the text has only 6 tokens, not 1000"); // a blank comes first
    unlink(path);
}

TEST(an_architecture_that_llama_cpp_does_not_know_is_told) {
    tiny_model model = tiny_usual("no-such-thing");
    probe_request request = usual_request(made(&model));
    check_fails(&request, LAB_INPUT, "cannot load: llama.cpp: ");
    unlink(path);
}

TEST(a_library_of_another_kind_is_refused) {
    tiny_model model = tiny_usual("llama");
    probe_request request = usual_request(made(&model));
    char folder[] = "/tmp/whet-llama.XXXXXX", file[64], found[RUNNER_PATH_SIZE];
    lab_error error = {0};
    REQUIRE(mkdtemp(folder) && runner_find_plugin(NULL, found, &error));
    snprintf(file, sizeof file, "%s/libllama.so", folder);
    CHECK_INT(symlink(found, file), 0); // a library, but without the functions
    request.library = folder;
    check_fails(&request, LAB_INPUT, "unsupported libllama version (no function");
    unlink(file);
    rmdir(folder);
    unlink(path);
}
