// The search against a judge whose best numbers are planted and whose noise is known: it finds
// them, accepts nothing where there is nothing, and continues an interrupted search with the same
// bits.
#include "support/check.h"

#include "base/json.h"
#include "base/random.h"
#include "tune/search.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { LAYERS = 6, HEADS = 2, SEQUENCES_MAX = 96, LENGTH = 64, FROM = 32 };

static const double n0 = 32;

// The loss of a sequence: 3 + the sequence's own part + curvature / 2 * (distance from the planted
// numbers)^2, summed over layers, + a slope in every number that differs from sequence to sequence.
typedef struct planted {
    double a[LAYERS], h;
    double curvature; // 0: no setting is better or worse than another
    double slope;     // standard deviation of slopes
    uint64_t seed;
    size_t runs, passes; // so far
    size_t stop_at;      // the run before which it stops; 0: never
} planted;

static lm_token tokens[SEQUENCES_MAX][LENGTH];
static tune_sequence sequences[SEQUENCES_MAX];

static void make_sequences(void) {
    for (size_t i = 0; i < SEQUENCES_MAX; i++) {
        for (size_t t = 0; t < LENGTH; t++) {
            tokens[i][t] = (lm_token)(i * LENGTH + t);
        }
        sequences[i] = (tune_sequence){.tokens = tokens[i], .length = LENGTH, .from = FROM};
    }
}

// A sequence's slope along a number, the same whenever it is asked for.
static double slope_of(const planted *p, size_t sequence, size_t number) {
    lab_random random =
        lab_random_start(lab_seed_for(p->seed, "slope", sequence * (LAYERS + 1) + number));
    return p->slope * lab_random_normal(&random);
}

static double loss_of(const planted *p, const tune_setting *setting, size_t sequence) {
    double loss = 3 + 0.5 * sin((double)sequence);
    double h = setting->h[0] * log(LENGTH / n0);
    for (size_t l = 0; l < LAYERS; l++) {
        double a = setting->a[l * HEADS], off = a - p->a[l], beyond = h - p->h * log(LENGTH / n0);
        loss += p->curvature / 2 * (off * off + beyond * beyond);
        loss += slope_of(p, sequence, l) * a;
    }
    return loss + slope_of(p, sequence, LAYERS) * setting->h[0];
}

static bool run(void *context, const tune_arm *arm, const tune_sequence *list, size_t count,
                tune_losses *losses, tune_heard heard, void *listener, lab_error *error) {
    planted *p = context;
    size_t at = 0;
    if (++p->runs == p->stop_at) {
        return lab_fail(error, LAB_STOPPED, "stopped");
    }
    for (size_t i = 0; i < count; i++) {
        double loss = loss_of(p, arm->setting, list[i].tokens[0] / LENGTH);
        for (size_t t = list[i].from; t < list[i].length; t++) {
            losses->right[at] = 0;
            losses->loss[at++] = (float)loss;
        }
        p->passes++;
        if (!heard(listener, i + 1)) {
            return lab_fail(error, LAB_STOPPED, "stopped");
        }
    }
    return true;
}

// A search on the first `count` sequences; frees nothing but what it makes.
typedef struct outcome {
    bool is_done;
    double a[LAYERS], h;
    tune_search_result result;
    lab_error error;
} outcome;

static outcome search_with(planted *p, size_t count, const tune_search_options *options,
                           const tune_search_listener *listener, json_t *state) {
    outcome o = {0};
    tune_setting setting;
    const tune_judge judge = {.context = p, .run = run};
    make_sequences();
    REQUIRE(tune_setting_create(LAYERS, HEADS, n0, &setting));
    o.is_done = tune_search(&judge, sequences, count, options, listener, state, &setting, &o.result,
                            &o.error);
    for (size_t l = 0; l < LAYERS; l++) {
        o.a[l] = setting.a[l * HEADS];
        bool is_tuned = !options->is_tuned || options->is_tuned[l * HEADS + 1];
        CHECK(setting.a[l * HEADS + 1] == (is_tuned ? o.a[l] : 0));
    }
    o.h = setting.h[0];
    tune_setting_free(&setting);
    return o;
}

static outcome search_anew(planted *p, size_t count, const tune_search_options *options) {
    json_t *state = json_object();
    outcome o = search_with(p, count, options, NULL, state);
    CHECK_MSG(o.is_done, "%s", o.error.text);
    json_decref(state);
    return o;
}

TEST(one_number_for_all_heads_is_found) {
    tune_search_options options = tune_search_defaults();
    options.has_layers = options.has_hinge = false;
    static const double plants[] = {-0.4, -0.05, 0.02, 0.14, 0.6};
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        planted p = {.curvature = 1, .slope = 0.001, .seed = 5};
        for (size_t l = 0; l < LAYERS; l++) {
            p.a[l] = plants[i];
        }
        outcome o = search_anew(&p, 32, &options);
        CHECK_NEAR(o.result.a, plants[i], 0.006);
        CHECK(o.result.gain_of_all.high < 0);
        CHECK_INT(o.result.sequences_of_all, 32);
        printf("     %zu sequences run %zu times for %g\n", (size_t)32, o.result.passes / 32,
               plants[i]);
        CHECK(o.result.passes <= 8 * 32);
    }
}

TEST(a_number_out_of_bounds_is_not_searched) {
    tune_search_options options = tune_search_defaults();
    options.has_layers = false;
    planted p = {.a = {2, 2, 2, 2, 2, 2}, .h = 2, .curvature = 1, .slope = 0.001, .seed = 5};
    outcome o = search_anew(&p, 16, &options);
    double most = o.a[0] + o.h * log(LENGTH / n0);
    CHECK_MSG(most > 0.68 && most <= 0.7001 && o.a[0] <= 0.7, "a %g, h %g", o.a[0], o.h);
}

TEST(the_hinge_is_found_only_where_sequences_are_long) {
    tune_search_options options = tune_search_defaults();
    options.has_layers = false;
    planted p = {.a = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, .h = 0.3, .curvature = 1, .slope = 0.001};
    outcome o = search_anew(&p, 32, &options);
    CHECK_NEAR(o.result.a, 0.1, 0.006);
    CHECK_NEAR(o.result.h, 0.3, 0.01);
    options.has_hinge = false;
    o = search_anew(&p, 32, &options);
    CHECK(o.result.h == 0);
}

TEST(numbers_of_layers_are_found) {
    tune_search_options options = tune_search_defaults();
    options.has_hinge = false;
    static const double plants[LAYERS] = {0.3, 0.1, -0.2, 0, 0.05, 0.2};
    planted p = {.curvature = 1, .slope = 0.01, .seed = 8};
    memcpy(p.a, plants, sizeof plants);
    outcome o = search_anew(&p, 64, &options);
    for (size_t l = 0; l < LAYERS; l++) {
        CHECK_NEAR(o.a[l], plants[l], 0.03);
    }
    CHECK(o.result.accepted > 4 && o.result.gain.high < o.result.gain_of_all.low);
    printf("     %zu of %zu proposals accepted in %zu rounds, %zu passes\n", o.result.accepted,
           o.result.proposals, o.result.rounds, o.result.passes);
}

// A step must beat the noise: of `runs` searches where no setting is better than another, or all
// others are worse, at most a share alpha may accept anything.
static size_t count_false(double curvature, double slope, size_t runs, size_t count) {
    size_t accepted = 0;
    for (uint64_t seed = 1; seed <= runs; seed++) {
        tune_search_options options = tune_search_defaults();
        options.seed = seed;
        planted p = {.curvature = curvature, .slope = slope, .seed = 1000 + seed};
        outcome o = search_anew(&p, count, &options);
        bool has_number = o.result.a != 0 || o.result.h != 0;
        accepted += has_number || o.result.accepted > 0;
    }
    return accepted;
}

// The planted judge looks at the first head of a layer; a layer whose second head alone is tuned
// gains nothing, and one without a tuned head is never run with anything but beta = 1.
typedef struct masked_judge {
    planted planted;
    const unsigned char *is_tuned;
} masked_judge;

static bool run_masked(void *context, const tune_arm *arm, const tune_sequence *list, size_t count,
                       tune_losses *losses, tune_heard heard, void *listener, lab_error *error) {
    masked_judge *m = context;
    for (size_t i = 0; i < LAYERS * HEADS; i++) {
        CHECK(m->is_tuned[i] || (arm->setting->a[i] == 0 && arm->setting->h[i] == 0));
    }
    return run(&m->planted, arm, list, count, losses, heard, listener, error);
}

TEST(heads_that_are_not_tuned_keep_their_temperature_throughout) {
    static const unsigned char is_tuned[LAYERS * HEADS] = {1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0};
    tune_search_options options = tune_search_defaults();
    options.is_tuned = is_tuned;
    options.has_hinge = false;
    masked_judge m = {{.a = {0.3, 0.1, 0.5, 0.5, 0.3, -0.5}, .curvature = 1, .slope = 0.001},
                      is_tuned};
    const tune_judge judge = {.context = &m, .run = run_masked};
    tune_setting setting;
    tune_search_result result;
    lab_error error = {0};
    json_t *state = json_object();
    make_sequences();
    REQUIRE(tune_setting_create(LAYERS, HEADS, n0, &setting));
    CHECK_MSG(tune_search(&judge, sequences, 48, &options, NULL, state, &setting, &result, &error),
              "%s", error.text);
    // All heads: the mean of the tuned layers' numbers, not of all layers'.
    CHECK_NEAR(result.a, (0.3 + 0.1 + 0.3) / 3, 0.01);
    static const double expected[LAYERS * HEADS] = {0.3, 0.3, 0.1, 0, 0, 0, 0, 0, 0.3, 0.3, 0, 0};
    for (size_t i = 0; i < LAYERS * HEADS; i++) {
        CHECK_NEAR(setting.a[i], expected[i], is_tuned[i] ? 0.04 : 0);
    }
    // Its losses are those of these heads: a search on others does not continue it.
    static const unsigned char others[LAYERS * HEADS] = {1};
    options.is_tuned = others;
    CHECK(!tune_search(&judge, sequences, 48, &options, NULL, state, &setting, &result, &error) &&
          strstr(error.text, "other sequences or heads"));
    static const unsigned char none[LAYERS * HEADS] = {0};
    options.is_tuned = none;
    error = (lab_error){0};
    CHECK(!tune_search(&judge, sequences, 48, &options, NULL, state, &setting, &result, &error) &&
          strstr(error.text, "no head is to be tuned"));
    json_decref(state);
    tune_setting_free(&setting);
}

TEST(nothing_is_accepted_where_one_is_best) {
    size_t accepted = count_false(1, 0.1, 100, 48);
    printf("     %zu of 100 searches accepted something\n", accepted);
    CHECK(accepted <= 5);
}

// Without curvature a section goes to the bound that the noise prefers. The tests of a and of h
// have a level of 5 % each, the layers' tests together 5 %.
TEST(few_searches_accept_anything_where_nothing_matters) {
    size_t accepted = count_false(0, 0.1, 100, 48);
    printf("     %zu of 100 searches accepted something\n", accepted);
    CHECK(accepted <= 15);
}

// The sequential tests of all layers together have a level of 5 %. Searches that took a number for
// all heads are left out.
TEST(layers_are_left_alone_where_nothing_matters) {
    size_t accepted = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        tune_search_options options = tune_search_defaults();
        options.seed = seed;
        options.has_hinge = false;
        planted p = {.curvature = 0, .slope = 0.1, .seed = 5000 + seed};
        outcome o = search_anew(&p, 48, &options);
        accepted += o.result.a == 0 && o.result.accepted > 0;
    }
    printf("     %zu of 200 searches accepted a step\n", accepted);
    CHECK(accepted <= 10);
}

// ---- state ----

typedef struct keeper {
    json_t *kept; // a copy of the last state
    size_t calls;
} keeper;

static bool keep(void *context, json_t *state, lab_error *error) {
    keeper *k = context;
    (void)error;
    json_decref(k->kept);
    char *text = json_dumps(state, 0); // as a file has it
    k->kept = json_loads(text, 0, NULL);
    free(text);
    k->calls++;
    return k->kept != NULL;
}

static void check_same(const outcome *one, const outcome *other) {
    CHECK(one->is_done && other->is_done);
    CHECK(same_bytes(one->a, other->a, sizeof one->a) && one->h == other->h);
    CHECK(same_bytes(&one->result.gain, &other->result.gain, sizeof one->result.gain));
    CHECK_INT(one->result.passes, other->result.passes);
    CHECK_INT(one->result.accepted, other->result.accepted);
    CHECK_INT(one->result.proposals, other->result.proposals);
}

TEST(an_interrupted_search_continues_with_the_same_bits) {
    tune_search_options options = tune_search_defaults();
    planted usual = {
        .a = {0.2, 0, 0.1, -0.1, 0, 0.3}, .h = 0.1, .curvature = 1, .slope = 0.02, .seed = 3};
    keeper k = {.kept = json_object()};
    const tune_search_listener listener = {.context = &k, .keep = keep};
    planted whole = usual;
    outcome uninterrupted = search_anew(&whole, 40, &options);
    CHECK(uninterrupted.result.accepted > 0);
    size_t passes = 0;
    outcome last = {0};
    for (int part = 0; part < 1000 && !last.is_done; part++) {
        planted p = usual;
        p.stop_at = 8;
        json_t *state = json_deep_copy(k.kept);
        last = search_with(&p, 40, &options, &listener, state);
        json_decref(state);
        passes += p.passes;
        CHECK(last.is_done || last.error.kind == LAB_STOPPED);
    }
    check_same(&uninterrupted, &last);
    CHECK_INT(passes, whole.passes); // nothing was computed twice
    CHECK_INT(k.calls, whole.runs);
    planted none = usual;
    none.stop_at = 1;
    outcome again = search_with(&none, 40, &options, &listener, k.kept);
    check_same(&uninterrupted, &again);
    json_decref(k.kept);
}

TEST(a_budget_ends_a_search) {
    tune_search_options options = tune_search_defaults();
    options.has_hinge = false;
    planted usual = {.a = {0.3, 0, 0.1, -0.1, 0, 0.3}, .curvature = 1, .slope = 0.02, .seed = 3};
    planted whole = usual;
    outcome all = search_anew(&whole, 40, &options);
    CHECK(!all.result.has_run_out);
    CHECK_INT(all.result.passes, whole.passes);
    for (size_t budget = 1; budget < all.result.passes; budget += all.result.passes / 9) {
        planted p = usual;
        options.budget = budget;
        outcome o = search_anew(&p, 40, &options);
        CHECK(o.result.has_run_out && o.result.passes <= budget);
        CHECK_INT(p.passes, o.result.passes);
        CHECK(o.result.gain.mean <= 0 || o.result.sequences == 0);
    }
    options.budget = all.result.passes;
    planted p = usual;
    outcome o = search_anew(&p, 40, &options);
    check_same(&all, &o);
}

static bool hear(void *context, const tune_search_news *news) {
    size_t *left = context;
    CHECK(news->stage && news->passes < 100000);
    return *left > 0 && --*left > 0;
}

TEST(a_listener_can_stop_a_search) {
    tune_search_options options = tune_search_defaults();
    planted p = {.a = {0.3}, .curvature = 1, .slope = 0.02, .seed = 3};
    size_t left = 300;
    const tune_search_listener listener = {.context = &left, .heard = hear};
    json_t *state = json_object();
    outcome o = search_with(&p, 40, &options, &listener, state);
    CHECK(!o.is_done && o.error.kind == LAB_STOPPED && left == 0);
    CHECK(o.a[0] == 0 && o.h == 0);
    json_decref(state);
}

static void check_refused(json_t *state, size_t count, const tune_search_options *options,
                          const char *words) {
    planted p = {.curvature = 1, .slope = 0.02, .seed = 3};
    outcome o = search_with(&p, count, options, NULL, state);
    CHECK_MSG(!o.is_done && o.error.kind == LAB_INPUT && strstr(o.error.text, words), "%s",
              o.error.text);
}

TEST(states_of_other_searches_are_refused) {
    tune_search_options options = tune_search_defaults();
    planted p = {.curvature = 1, .slope = 0.02, .seed = 3};
    json_t *state = json_object();
    CHECK(search_with(&p, 16, &options, NULL, state).is_done);
    check_refused(state, 17, &options, "the state is that of a search on other sequences");
    json_object_set_new(json_object_get(state, "losses"), "0.0000 h 0.0000", json_array());
    check_refused(state, 16, &options, "the state of the search is damaged");
    json_object_set_new(state, "losses", json_integer(3));
    check_refused(state, 16, &options, "the state is not that of a search");
    json_decref(state);
}

TEST(options_out_of_range_are_refused) {
    tune_search_options usual = tune_search_defaults(), options = usual;
    json_t *state = json_object();
    check_refused(state, 3, &usual, "a search needs at least 4 sequences, not 3");
    options.alpha = 0;
    check_refused(state, 8, &options, "options of the search are out of range");
    options = usual;
    options.least_step = 0.2;
    check_refused(state, 8, &options, "options of the search are out of range");
    json_decref(state);
}
