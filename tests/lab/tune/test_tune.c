// Whole runs on a model that is right for its texts, wrong for them, and put right: a gain that is
// there is found and confirmed, and where there is none beta is 1. Skipped without WHET_MODELS.
#include "support/check.h"
#include "support/engine.h"
#include "support/models.h"
#include "written.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "lm/gguf_model.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONTEXT = 128, SAMPLES = 2 * WRITTEN_LANES, PATH_SIZE = 128 };

// Texts that the model wrote, to learn from, to choose by and to check on; and others.
enum { LEARN, CHOOSE, CHECK_ON = 3, OTHERS, PLACES = OTHERS + CHECK_ON };

static char folder[64], paths[PLACES][PATH_SIZE], model_file[PATH_SIZE];
static lm_opened opened;
static whet_pool *pool;
static whet_executor executor;

__attribute__((destructor)) static void remove_folder(void) {
    char command[96];
    if (folder[0]) {
        snprintf(command, sizeof command, "rm -r %s", folder);
        CHECK_INT(system(command), 0); // NOLINT(cert-env33-c): a path of the test's own
    }
}

static void write_text(size_t place, const char *text, size_t length) {
    char own[PATH_SIZE];
    snprintf(own, sizeof own, "%s/%zu", folder, place);
    mkdir(own, 0700);
    snprintf(paths[place], PATH_SIZE, "%s/%zu/text.txt", folder, place);
    REQUIRE(replace_file_bytes(paths[place], text, length));
}

// A sample as text, if that has the sample's tokens again.
static bool add_sample(const lm_token *tokens, lm_text *text) {
    lm_text own = {NULL, 0, 0};
    lm_token_list again = {NULL, 0, 0};
    lab_error error = {0};
    REQUIRE(lm_text_add(&own, "", 0));
    for (size_t i = 1; i < CONTEXT; i++) {
        REQUIRE(lm_tokenizer_text(&opened.tokenizer, tokens[i], i == 1, &own));
    }
    REQUIRE(lm_tokenize_plain(&opened.tokenizer, own.bytes, own.length, &again, &error));
    bool is_same = again.count == CONTEXT - 1 &&
                   same_bytes(again.items, tokens + 1, (CONTEXT - 1) * sizeof *tokens);
    if (is_same) { // the first word of a text gets its blank from the tokenizer
        REQUIRE(text->length == 0 || lm_text_add(text, " ", 1));
        REQUIRE(lm_text_add(text, own.bytes, own.length));
    }
    free(own.bytes);
    free(again.items);
    return is_same;
}

// What the model itself writes, as a text in a folder of its own. Sequences that are cut from it
// are samples, each behind a begin token as it was drawn.
static void write_own(size_t place, uint64_t seed) {
    lm_text text = {NULL, 0, 0};
    lm_token *tokens = write_sequences(&engine, &opened, SAMPLES, CONTEXT, seed);
    size_t kept = 0;
    for (size_t i = 0; i < SAMPLES; i++) {
        kept += add_sample(tokens + i * CONTEXT, &text);
    }
    REQUIRE(kept >= SAMPLES / 4);
    write_text(place, text.bytes, text.length);
    free(text.bytes);
    free(tokens);
}

static void store_model(void) {
    lab_error error = {0};
    CHECK_MSG(lm_gguf_write(model_file, &opened.model, &opened.tokenizer, GGUF_F32, "test", &error),
              "%s", error.text);
}

// The model as it is, and its texts.
static void set_up(void) {
    static bool has_written;
    char path[MODEL_PATH_SIZE];
    lab_error error = {0};
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/whet-tune.XXXXXX");
        REQUIRE(mkdtemp(folder));
    }
    snprintf(model_file, sizeof model_file, "%s/model.gguf", folder);
    REQUIRE(lm_open(model_path("stories260K-f32.gguf", path), NULL, &opened, &error));
    for (size_t place = LEARN; !has_written && place <= CHECK_ON; place++) {
        write_own(place, 1 + place);
    }
    has_written = true;
    store_model();
    REQUIRE(whet_pool_create(0, &pool) == WHET_OK);
    executor = whet_pool_executor(pool);
}

static void tear_down(void) {
    whet_pool_destroy(pool);
    lm_opened_free(&opened);
}

static tune_request request_of(tune_by by) {
    static const char *items[CHECK_ON + 1];
    for (size_t i = LEARN; i <= CHECK_ON; i++) {
        items[i] = paths[i];
    }
    return (tune_request){.model = model_file,
                          .text = {items + LEARN, 1},
                          .validate = {items + CHOOSE, 2},
                          .check = {items + CHECK_ON, 1},
                          .context = CONTEXT,
                          .limit = 0.005,
                          .by = by,
                          .steps = 30,
                          .batch = 8,
                          .looks = 6,
                          .seeds = 1,
                          .count = 48,
                          .validation_count = 24,
                          .check_count = 32,
                          .rate = 0.03,
                          .bound = 0.7,
                          .task_length = 96,
                          .text_weight = 1,
                          .seed = 1,
                          .quiet = true,
                          .engine = &engine,
                          .executor = &executor};
}

static tune_result run(const tune_request *request) {
    tune_result result;
    lab_error error = {0};
    bool is_done = tune_run(request, &result, &error);
    CHECK_MSG(is_done, "%s", error.text);
    REQUIRE(is_done);
    lab_interval change =
        tune_total_change(&result, result.is_chosen ? "chosen" : "one number", TUNE_ALL);
    printf("     %s %s, %+.2f %% [%+.2f, %+.2f] on the check texts\n",
           result.is_chosen ? "chosen" : "not chosen",
           result.is_confirmed ? "and confirmed" : "and not confirmed", 100 * change.mean,
           100 * change.low, 100 * change.high);
    return result;
}

// beta = 1 in the setting and in the file for the plug-in.
static void check_nothing(const tune_result *r) {
    CHECK(!r->is_confirmed);
    CHECK(tune_setting_is_neutral(&r->setting));
    json_t *config = tune_setting_config(&r->setting, NULL);
    CHECK_STR(json_string_value(json_object_get(config, "policy")), "softmax");
    CHECK(!json_object_get(config, "rules"));
    json_decref(config);
}

TEST(a_model_gains_nothing_on_what_it_writes_itself) {
    set_up();
    tune_request request = request_of(TUNE_BY_HEAD);
    tune_result result = run(&request);
    CHECK(!result.is_chosen);
    check_nothing(&result);
    json_t *json = tune_result_json(&request, &result);
    CHECK(json_is_null(json_object_get(json, "chosen")));
    json_decref(json);
    tune_result_free(&result);
    tear_down();
}

// All heads too flat by a factor; found, put right in the weights, and then there is nothing left.
TEST(a_model_that_was_put_right_gains_nothing_more) {
    const double factor = 0.7;
    set_up();
    size_t heads = (size_t)opened.model.config.layers * opened.model.config.heads;
    for (size_t i = 0; i < heads; i++) {
        multiply_queries(&opened.model, i, factor);
    }
    store_model();
    tune_request request = request_of(TUNE_BY_ALL);
    tune_result result = run(&request);
    CHECK(result.is_chosen && result.is_confirmed);
    double beta = exp(result.setting.a[0]);
    printf("     beta %.4f for a factor of %.2f, %+.1f %%\n", beta, factor,
           100 * (beta * factor - 1));
    CHECK_NEAR(beta * factor, 1, 0.06);
    for (size_t i = 0; i < heads; i++) {
        multiply_queries(&opened.model, i, beta);
    }
    tune_result_free(&result);
    store_model();
    result = run(&request);
    CHECK(!result.is_chosen);
    check_nothing(&result);
    tune_result_free(&result);
    tear_down();
}

// Learned and chosen on text of another source than the one it is checked on.
TEST(a_choice_that_is_not_confirmed_is_reported_and_not_used) {
    set_up();
    const char *items[CHECK_ON];
    for (size_t place = LEARN; place < CHECK_ON; place++) { // a cipher of what the model writes
        size_t size;
        lab_error error = {0};
        char *text = lab_read_file(paths[place], 1 << 22, &size, &error);
        REQUIRE(text);
        for (size_t i = 0; i < size; i++) {
            const char *vowel = text[i] ? strchr("aeioua", text[i]) : NULL;
            text[i] = vowel ? vowel[1] : text[i];
        }
        write_text(OTHERS + place, text, size);
        free(text);
        items[place] = paths[OTHERS + place];
    }
    tune_request request = request_of(TUNE_BY_HEAD);
    request.text.items = items + LEARN;
    request.validate.items = items + CHOOSE;
    tune_result result = run(&request);
    CHECK(result.is_chosen);
    check_nothing(&result);
    json_t *json = tune_result_json(&request, &result), *chosen = json_object_get(json, "chosen");
    const json_t *a = json_object_get(chosen, "a");
    double largest = 0;
    CHECK(json_is_false(json_object_get(chosen, "confirmed")));
    CHECK_INT(json_array_size(a), result.layers * result.heads);
    for (size_t i = 0; i < json_array_size(a); i++) {
        largest = fmax(largest, fabs(json_number_value(json_array_get(a, i))));
    }
    CHECK_MSG(largest > 0.01, "largest |a| %g", largest);
    json_decref(json);
    tune_result_free(&result);
    tear_down();
}

// ---- one number at equal cost ----

// Losses of the first validation domain under a number, from the state of a run; a new reference.
static json_t *losses_under(const char *state_path, const char *number) {
    char key[128];
    lab_error error = {0};
    json_t *state = lab_json_read(state_path, &error);
    snprintf(key, sizeof key, "equal cost/%s/validation/0", number);
    json_t *losses = json_incref(
        json_object_get(json_object_get(json_object_get(state, "entries"), key), "all"));
    json_decref(state);
    CHECK_MSG(losses, "no %s", key);
    return losses;
}

TEST(the_number_at_equal_cost_is_searched_on_both_sides_and_for_tuned_heads) {
    char state_path[PATH_SIZE];
    json_t *found[2][2];
    static const char *const numbers[] = {"0.34999999999999998", "-0.34999999999999998"};
    set_up();
    size_t heads = (size_t)opened.model.config.layers * opened.model.config.heads;
    for (size_t i = 0; i < heads; i++) {
        multiply_queries(&opened.model, i, 0.7);
    }
    store_model();
    tune_request request = request_of(TUNE_BY_HEAD);
    struct index_range upper[] = {{2, 4}};
    request.task = "copy";
    request.limit = 1;
    request.check_count = 16;
    request.state_path = state_path;
    for (size_t i = 0; i < 2; i++) {
        snprintf(state_path, sizeof state_path, "%s/state%zu", folder, i);
        request.tuned_layers = (index_set){.count = i, .ranges = upper};
        tune_result result = run(&request);
        CHECK(result.is_chosen && tune_find(&result, "one number at equal cost"));
        for (size_t k = 0; k < 16; k++) {
            CHECK(i == 0 || result.setting.a[k] == 0);
        }
        tune_result_free(&result);
        for (size_t k = 0; k < 2; k++) {
            found[i][k] = losses_under(state_path, numbers[k]);
        }
    }
    // The same number on all heads and on some of them is not the same.
    CHECK(!json_equal(found[0][0], found[1][0]) && !json_equal(found[0][1], found[1][1]));
    for (size_t i = 0; i < 4; i++) {
        json_decref(found[i / 2][i % 2]);
    }
    tear_down();
}
