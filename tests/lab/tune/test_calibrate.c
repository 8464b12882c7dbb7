// Learning temperatures: gradients against differences, the same bits for any number of threads and
// after an interruption, and planted truth. For the latter a real model writes texts, for which
// beta = 1 is the best there is; then the queries of some heads are multiplied by known factors,
// and tuning must find their inverses. Skipped without WHET_MODELS.
#include "support/check.h"
#include "support/engine.h"
#include "support/models.h"
#include "written.h"

#include "lm/open.h"
#include "tune/calibrate.h"
#include "tune/measure.h"

#include <math.h>
#include <string.h>

enum { LENGTH = 256, LANES = WRITTEN_LANES };

typedef struct subject {
    lm_opened opened;
    lm_network network;
    tune_network *tuned;
    tune_setting setting;
    size_t heads; // in all
} subject;

static void open_subject(subject *s, const whet_executor *executor) {
    char path[MODEL_PATH_SIZE];
    lab_error error = {0};
    REQUIRE(lm_open(model_path("stories260K-f32.gguf", path), NULL, &s->opened, &error));
    const lm_config *config = &s->opened.model.config;
    REQUIRE(lm_network_create(&engine, config, s->opened.model.weights, &s->network, &error));
    s->tuned = tune_network_open(&s->network, executor, LENGTH, &error);
    REQUIRE(s->tuned);
    s->heads = (size_t)config->layers * config->heads;
    // A hinge within the sequences, so that h matters.
    REQUIRE(tune_setting_create(config->layers, config->heads, 64, &s->setting));
}

static void close_subject(subject *s) {
    tune_network_close(s->tuned);
    lm_network_destroy(&s->network);
    tune_setting_free(&s->setting);
    lm_opened_free(&s->opened);
}

static lm_token *written(const subject *s, size_t count, uint64_t seed) {
    return write_sequences(&engine, &s->opened, count, LENGTH, seed);
}

static tune_sequence *sequences_of(const lm_token *tokens, size_t count) {
    tune_sequence *list = calloc(count, sizeof *list);
    REQUIRE(list);
    for (size_t i = 0; i < count; i++) {
        list[i] = (tune_sequence){.tokens = tokens + i * LENGTH, .length = LENGTH, .from = 1};
    }
    return list;
}

static tune_calibration calibration_of(const subject *s, const tune_sequence *texts, size_t count) {
    return (tune_calibration){.network = s->tuned,
                              .by = TUNE_BY_HEAD,
                              .layers = s->setting.layers,
                              .heads = s->setting.heads,
                              .n0 = LENGTH,
                              .longest = LENGTH,
                              .texts = texts,
                              .text_count = count,
                              .steps = 60,
                              .batch = 16,
                              .rate = 0.03,
                              .bound = 0.7,
                              .seed = 3};
}

// ---- gradients ----

static double loss_of(const subject *s, const tune_weighted *batch, size_t count) {
    lab_error error = {0};
    double loss = 0;
    double *gradient = calloc(2 * s->heads, sizeof *gradient);
    REQUIRE(gradient);
    REQUIRE(tune_network_gradient(s->tuned, &s->setting, batch, count, &loss, gradient,
                                  gradient + s->heads, &error));
    free(gradient);
    return loss;
}

TEST(gradients_of_a_and_h_are_those_of_differences) {
    enum { COUNT = 2 };
    const double step = 0.02;
    subject s;
    lab_error error = {0};
    open_subject(&s, NULL);
    lm_token *tokens = written(&s, LANES, 11);
    tune_weighted batch[COUNT];
    double loss, *grad_a = calloc(s.heads, sizeof *grad_a),
                 *grad_h = calloc(s.heads, sizeof *grad_h);
    for (size_t i = 0; i < COUNT; i++) {
        batch[i] = (tune_weighted){{tokens + i * LENGTH, LENGTH, 1 + 20 * i}, 1.0 + (double)i};
    }
    for (size_t i = 0; i < s.heads; i++) {
        s.setting.a[i] = 0.2 * sin((double)i);
        s.setting.h[i] = 0.1 * cos((double)i);
    }
    REQUIRE(
        tune_network_gradient(s.tuned, &s.setting, batch, COUNT, &loss, grad_a, grad_h, &error));
    double largest = 0;
    for (size_t i = 0; i < s.heads; i++) {
        largest = fmax(largest, fmax(fabs(grad_a[i]), fabs(grad_h[i])));
    }
    for (size_t i = 0; i < 2 * s.heads; i++) {
        double *number = i < s.heads ? &s.setting.a[i] : &s.setting.h[i - s.heads];
        double kept = *number, losses[4];
        for (int k = 0; k < 4; k++) { // Richardson: steps of 1 and 1/2
            *number = kept + (k % 2 ? 1 : -1) * (k < 2 ? step : step / 2);
            losses[k] = loss_of(&s, batch, COUNT);
        }
        *number = kept;
        double wide = (losses[1] - losses[0]) / (2 * step), narrow = (losses[3] - losses[2]) / step;
        double expected = (4 * narrow - wide) / 3;
        double found = i < s.heads ? grad_a[i] : grad_h[i - s.heads];
        CHECK_MSG(fabs(found - expected) < 2e-3 * largest, "number %zu: %g, by differences %g", i,
                  found, expected);
    }
    free(grad_a);
    free(grad_h);
    free(tokens);
    close_subject(&s);
}

// ---- threads and interruptions ----

static void train_until(const tune_calibration *c, size_t until, tune_ledger *ledger,
                        tune_state *state) {
    lab_error error = {0};
    CHECK_MSG(tune_calibrate(c, until, "key", ledger, NULL, NULL, state, &error), "%s", error.text);
}

static void open_ledger(tune_ledger *ledger) {
    lab_error error = {0};
    REQUIRE(tune_ledger_open(NULL, json_object(), ledger, &error));
}

TEST(training_gives_the_same_bits_for_any_number_of_threads_and_after_a_stop) {
    double kept[2 * 64] = {0};
    for (size_t threads = 1; threads <= 3; threads++) {
        subject s;
        lab_error error = {0};
        whet_pool *pool = NULL;
        REQUIRE(whet_pool_create(threads, &pool) == WHET_OK);
        whet_executor executor = whet_pool_executor(pool);
        open_subject(&s, &executor);
        REQUIRE(s.heads <= 64);
        lm_token *tokens = written(&s, LANES, 11);
        tune_sequence *texts = sequences_of(tokens, LANES);
        tune_calibration c = calibration_of(&s, texts, LANES);
        tune_state state;
        tune_ledger ledger;
        c.n0 = 64;
        c.batch = 3;
        open_ledger(&ledger);
        REQUIRE(tune_state_create(&c, &state, &error));
        if (threads == 3) { // stopped after two steps, and continued with what the ledger has
            train_until(&c, 2, &ledger, &state);
            tune_state_free(&state);
            REQUIRE(tune_state_create(&c, &state, &error));
        }
        train_until(&c, 4, &ledger, &state);
        CHECK_INT(state.step, 4);
        if (threads == 1) {
            memcpy(kept, state.theta, state.count * sizeof *kept);
        }
        CHECK(memcmp(kept, state.theta, state.count * sizeof *kept) == 0);
        tune_state_free(&state);
        tune_ledger_close(&ledger);
        free(texts);
        free(tokens);
        close_subject(&s);
        whet_pool_destroy(pool);
    }
}

TEST(numbers_stay_within_their_bound) {
    subject s;
    lab_error error = {0};
    open_subject(&s, NULL);
    lm_token *tokens = written(&s, LANES, 5);
    tune_sequence *texts = sequences_of(tokens, LANES);
    tune_calibration c = calibration_of(&s, texts, LANES);
    tune_state state;
    tune_ledger ledger;
    c.n0 = 32;
    c.rate = 1;
    c.bound = 0.25;
    c.batch = 1;
    open_ledger(&ledger);
    REQUIRE(tune_state_create(&c, &state, &error));
    train_until(&c, 3, &ledger, &state);
    size_t at_bound = 0;
    for (size_t i = 0; i < state.count; i += 2) {
        double far = state.theta[i] + state.theta[i + 1] * log((double)LENGTH / 32);
        CHECK(fabs(state.theta[i]) <= 0.25 && fabs(far) <= 0.25 + 1e-12);
        at_bound += fabs(state.theta[i]) == 0.25;
    }
    CHECK(at_bound > 0);
    tune_state_free(&state);
    tune_ledger_close(&ledger);
    free(texts);
    free(tokens);
    close_subject(&s);
}

// ---- planted truth ----

static double mean_loss(const subject *s, const tune_sequence *texts, size_t count) {
    tune_judge judge = tune_network_judge(s->tuned);
    tune_arm arm = {.setting = &s->setting};
    tune_ledger ledger;
    tune_measure measure;
    lab_error error = {0};
    open_ledger(&ledger);
    REQUIRE(
        tune_measure_run(&judge, &arm, texts, count, "key", &ledger, NULL, NULL, &measure, &error));
    double loss = log(tune_perplexity(&measure, TUNE_ALL));
    tune_measure_free(&measure);
    tune_ledger_close(&ledger);
    return loss;
}

TEST(planted_factors_are_found) {
    enum { COUNT = 1024, PLANTED = 2 };
    subject s;
    lab_error error = {0};
    whet_pool *pool = NULL;
    REQUIRE(whet_pool_create(0, &pool) == WHET_OK);
    whet_executor executor = whet_pool_executor(pool);
    open_subject(&s, &executor);
    lm_token *tokens = written(&s, COUNT, 1);
    tune_sequence *texts = sequences_of(tokens, COUNT);
    // The heads that matter most: those whose sharpening costs the most.
    double best[PLANTED] = {0}, base = mean_loss(&s, texts, LANES);
    size_t planted[PLANTED] = {0};
    for (size_t head = 0; head < s.heads; head++) {
        s.setting.a[head] = 0.4;
        double cost = mean_loss(&s, texts, LANES) - base;
        s.setting.a[head] = 0;
        for (size_t i = 0; i < PLANTED; i++) {
            if (cost > best[i]) {
                memmove(best + i + 1, best + i, (PLANTED - 1 - i) * sizeof *best);
                memmove(planted + i + 1, planted + i, (PLANTED - 1 - i) * sizeof *planted);
                best[i] = cost;
                planted[i] = head;
                break;
            }
        }
    }
    static const double factors[PLANTED] = {0.75, 1.3};
    unsigned char *is_tuned = calloc(s.heads + 1, 1);
    REQUIRE(is_tuned);
    for (size_t i = 0; i < PLANTED; i++) {
        multiply_queries(&s.opened.model, planted[i], factors[i]);
        is_tuned[planted[i]] = 1;
    }
    tune_calibration c = calibration_of(&s, texts, COUNT);
    tune_state state;
    tune_ledger ledger;
    c.is_tuned = is_tuned;
    c.batch = 24;
    open_ledger(&ledger);
    REQUIRE(tune_state_create(&c, &state, &error));
    train_until(&c, c.steps, &ledger, &state);
    tune_state_setting(&c, &state, &s.setting);
    for (size_t i = 0; i < PLANTED; i++) {
        double beta = exp(s.setting.a[planted[i]]);
        printf("     head %zu, cost %.4f: beta %.4f for a factor of %.2f, %+.1f %%\n", planted[i],
               best[i], beta, factors[i], 100 * (beta * factors[i] - 1));
        CHECK_NEAR(beta * factors[i], 1, 0.03);
    }
    tune_state_free(&state);
    tune_ledger_close(&ledger);
    free(is_tuned);
    free(texts);
    free(tokens);
    close_subject(&s);
    whet_pool_destroy(pool);
}
