// Memory that runs out while a search goes on: each time it is reported and everything is freed.
#include "support/lab_faults.h"

#include "tune/search.h"

#include <math.h>

enum { LAYERS = 2, HEADS = 1, SEQUENCES = 6, LENGTH = 8 };

static lm_token tokens[SEQUENCES][LENGTH];
static tune_sequence sequences[SEQUENCES];

// The first layer wants 0.1, the second 0; sequences differ a little.
static bool run(void *context, const tune_arm *arm, const tune_sequence *list, size_t count,
                tune_losses *losses, tune_heard heard, void *listener, lab_error *error) {
    size_t at = 0;
    (void)context, (void)heard, (void)listener, (void)error;
    for (size_t i = 0; i < count; i++) {
        double own = 1e-4 * (double)list[i].tokens[0];
        double first = arm->setting->a[0] - 0.1, second = arm->setting->a[1];
        for (size_t t = list[i].from; t < list[i].length; t++) {
            losses->right[at] = 0;
            losses->loss[at++] = (float)(1 + first * first + second * second + own * first);
        }
    }
    return true;
}

static bool search_once(lab_error *error) {
    tune_setting setting;
    tune_search_result result;
    const tune_judge judge = {.run = run};
    tune_search_options options = tune_search_defaults();
    options.precision = 0.1;
    options.least_step = options.step;
    json_t *state = json_object();
    bool good =
        (state && tune_setting_create(LAYERS, HEADS, 8, &setting)) || lab_fail_memory(error);
    good = good && tune_search(&judge, sequences, SEQUENCES, &options, NULL, state, &setting,
                               &result, error);
    if (state)
        tune_setting_free(&setting);
    json_decref(state);
    return good;
}

TEST(a_search_reports_when_memory_runs_out) {
    for (size_t i = 0; i < SEQUENCES; i++) {
        for (size_t t = 0; t < LENGTH; t++)
            tokens[i][t] = (lm_token)(i * i % 7);
        sequences[i] = (tune_sequence){.tokens = tokens[i], .length = LENGTH, .from = 1};
    }
    lab_faults_try(search_once, NULL);
}
