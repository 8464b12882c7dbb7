// Perplexities of real models beside libllama's, for positions as trained and for each scaling of
// them. Each model is exported with the scaling and read back by both. In f32 both agree to 0.01 %;
// with q8_0 llama.cpp rounds the activations too, and the limit is 0.5 %. Skipped without
// WHET_MODELS, a BLAS or a llama.cpp.
#include "support/check.h"
#include "support/engine.h"
#include "support/models.h"

#include "base/files.h"
#include "base/random.h"
#include "lm/gguf_model.h"
#include "lm/network.h"
#include "lm/open.h"
#include "lm/rope_scaling.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { TOKENS_MAX = 4096, STORY_SIZE_MAX = 1 << 16 };

// Other families than llama's; those after the first two are Gemmas.
static const char *const families[] = {"qwen2", "qwen3", "gemma", "gemma2", "gemma3"};
enum { QWEN_FAMILIES = 2, FAMILIES = sizeof families / sizeof *families };

static char exported[64];

__attribute__((destructor)) static void remove_exported(void) {
    if (exported[0]) {
        unlink(exported);
    }
}

static const char *story_path(char path[MODEL_PATH_SIZE]) {
    const char *source = getenv("WHET_SOURCE_DIR");
    snprintf(path, MODEL_PATH_SIZE, "%s/tests/plugin/story.txt", source ? source : ".");
    return path;
}

// ---- ours ----

static lm_token_list tokens_of_story(const lm_opened *opened) {
    char path[MODEL_PATH_SIZE];
    lab_error error = {0};
    lm_token_list tokens = {0};
    size_t size;
    char *text = lab_read_file(story_path(path), STORY_SIZE_MAX, &size, &error);
    REQUIRE(text);
    if (opened->tokenizer.adds_begin) {
        REQUIRE(lm_token_list_add(&tokens, opened->tokenizer.begin));
    }
    REQUIRE(lm_tokenize(&opened->tokenizer, text, size, &tokens, &error));
    REQUIRE(tokens.count > 256 && tokens.count <= TOKENS_MAX);
    free(text);
    return tokens;
}

// The sum of losses of one piece, all of whose tokens but the first are judged.
static double loss_of_piece(const lm_network *network, const lm_token *tokens, size_t length) {
    static uint32_t at[TOKENS_MAX];
    static float weights[TOKENS_MAX];
    static unsigned char is_answer[TOKENS_MAX];
    for (size_t i = 0; i < length; i++) {
        at[i] = (uint32_t)i;
        weights[i] = 1;
    }
    const lm_piece piece = {.rows = 1,
                            .length = length,
                            .tokens = tokens,
                            .targets = length - 1,
                            .at = at,
                            .labels = tokens + 1,
                            .weights = weights,
                            .is_answer = is_answer};
    lm_workspace *workspace = lm_workspace_create(network, length);
    REQUIRE(workspace);
    lm_outcome outcome = lm_network_run(network, &piece, workspace, NULL);
    CHECK_INT(outcome.status, WHET_OK);
    lm_workspace_destroy(workspace);
    return outcome.loss;
}

static double our_perplexity(const char *path, size_t length, size_t *judged) {
    lm_opened opened;
    lm_network network;
    lab_error error = {0};
    REQUIRE(lm_open(path, NULL, &opened, &error));
    REQUIRE(opened.model.config.context >= length);
    REQUIRE(
        lm_network_create(&engine, &opened.model.config, opened.model.weights, &network, &error));
    lm_token_list tokens = tokens_of_story(&opened);
    double loss = 0;
    *judged = 0;
    for (size_t start = 0; start + 1 < tokens.count; start += length) {
        size_t left = tokens.count - start, size = left < length ? left : length;
        loss += loss_of_piece(&network, tokens.items + start, size);
        *judged += size - 1;
    }
    free(tokens.items);
    lm_network_destroy(&network);
    lm_opened_free(&opened);
    return exp(loss / (double)*judged);
}

// ---- theirs ----

static double their_perplexity(const char *path, size_t length, size_t *judged) {
    const char *driver = getenv("WHET_LLAMA_DRIVER"), *libraries = getenv("WHET_LLAMA_LIB");
    char story[MODEL_PATH_SIZE], command[3 * MODEL_PATH_SIZE];
    if (!driver || !*driver || !libraries || !*libraries) {
        SKIP("there is no llama.cpp to run models with");
    }
    snprintf(command, sizeof command,
             "env -u GGML_BACKEND_PATH -u LD_PRELOAD LLAMA_LIBRARIES='%s' '%s' '%s' text '%s' "
             "--context %zu --batch %zu --threads 1 --fa off --cache f32",
             libraries, driver, path, story_path(story), length, length);
    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): paths of this build only */
    REQUIRE(pipe);
    char line[200] = "", *end = line;
    bool is_read = fgets(line, sizeof line, pipe) != NULL;
    CHECK_INT(pclose(pipe), 0);
    double perplexity = strtod(line, &end);
    REQUIRE(is_read && end > line);
    *judged = strtoul(end, NULL, 10);
    return perplexity;
}

// ---- in parallel ----

// A model of another family with random weights and the tokenizer of a real one.
static void make_random(const char *tokens, int family, lm_opened *opened) {
    char path[MODEL_PATH_SIZE];
    lab_error error = {0};
    lm_model model;
    REQUIRE(lm_open(model_path(tokens, path), NULL, opened, &error));
    lm_config config = lm_config_default();
    config.layers = 6;
    config.width = 64;
    config.key_heads = 2;
    config.head_dim = config.rope_dims = 16;
    config.hidden = 128;
    config.context = 512;
    config.vocabulary = opened->model.config.vocabulary;
    config.gate = family >= QWEN_FAMILIES ? LM_GEGLU : LM_SWIGLU;
    config.has_biases = family == 0;
    config.has_head_norms = family == 1 || family == 4;
    config.has_post_norms = family >= 3;
    config.attention_cap = family == 3 ? 2 : 0;
    config.output_cap = family == 3 ? 5 : 0;
    config.window = family >= 3 ? 24 : 0;
    config.window_period = family == 3 ? 2 : family == 4 ? 6 : 0;
    config.rope_base = family == 4 ? 1000 : 10000;
    config.window_rope_base = family == 4 ? 10000 : 0;
    REQUIRE(lm_config_check(&config, &error));
    REQUIRE(lm_model_create(&config, &model, &error));
    lm_initialise(&config, &model.layout, 5, model.weights);
    lab_random random = lab_random_start(23);
    for (size_t i = 0; i < model.layout.count; i++) {
        model.weights[i] = 1.5F * model.weights[i] + 0.1F * (float)lab_random_normal(&random);
    }
    lm_model_free(&opened->model);
    opened->model = model;
}

static void compare_families(double limit) {
    for (int family = 0; family < FAMILIES; family++) {
        lm_opened opened;
        lab_error error = {0};
        size_t judged, judged_there;
        make_random("stories260K-f32.gguf", family, &opened);
        snprintf(exported, sizeof exported, "/tmp/whet-perplexity-%d.gguf", (int)getpid());
        REQUIRE(
            lm_gguf_write(exported, &opened.model, &opened.tokenizer, GGUF_F32, "test", &error));
        lm_opened_free(&opened);
        double theirs = their_perplexity(exported, 512, &judged_there);
        double ours = our_perplexity(exported, 512, &judged);
        printf("     %s: %.5f, by llama.cpp %.5f\n", families[family], ours, theirs);
        CHECK_INT(judged, judged_there);
        CHECK_MSG(fabs(ours / theirs - 1) <= limit, "%s: %.6f, by llama.cpp %.6f", families[family],
                  ours, theirs);
    }
}

static void compare(const char *model, gguf_type type, const char *rope, size_t length,
                    double limit) {
    char path[MODEL_PATH_SIZE];
    lm_opened opened;
    lab_error error = {0};
    size_t judged, judged_there;
    REQUIRE(lm_open(model_path(model, path), NULL, &opened, &error));
    REQUIRE(lm_rope_scale(&opened.model.config, rope, &error));
    snprintf(exported, sizeof exported, "/tmp/whet-perplexity-%d.gguf", (int)getpid());
    REQUIRE(lm_gguf_write(exported, &opened.model, &opened.tokenizer, type, "test", &error));
    lm_opened_free(&opened);
    double theirs = their_perplexity(exported, length, &judged_there);
    double ours = our_perplexity(exported, length, &judged);
    printf("     %s, %s, %s: %.5f, by llama.cpp %.5f\n", model, gguf_type_name(type), rope, ours,
           theirs);
    CHECK_INT(judged, judged_there);
    CHECK_MSG(fabs(ours / theirs - 1) <= limit, "%s, %s, %s: %.6f, by llama.cpp %.6f", model,
              gguf_type_name(type), rope, ours, theirs);
}

static const char *const scalings[] = {"none", "linear:2", "ntk:2", "yarn:2", "yarn:4"};
enum { SCALINGS = sizeof scalings / sizeof *scalings };

TEST(perplexities_in_f32_are_those_of_llama_cpp) {
    for (size_t i = 0; i < SCALINGS; i++) {
        compare("stories260K-f32.gguf", GGUF_F32, scalings[i], 512, 1e-4);
    }
    for (size_t i = 0; i < SCALINGS; i++) {
        compare("stories15M-q8_0.gguf", GGUF_F32, scalings[i], i == 0 ? 256 : 512, 1e-4);
    }
}

TEST(perplexities_of_other_families_are_those_of_llama_cpp) { compare_families(1e-4); }

TEST(a_model_with_byte_pairs_agrees_too) {
    for (size_t i = 0; i < SCALINGS; i++) {
        compare("minimind2-small-q8_0.gguf", GGUF_F32, scalings[i], 256, 1e-4);
    }
}

TEST(perplexities_in_q8_0_are_those_of_llama_cpp) {
    for (size_t i = 0; i < SCALINGS; i++) {
        compare("stories15M-q8_0.gguf", GGUF_Q8_0, scalings[i], i == 0 ? 256 : 512, 5e-3);
    }
}
