/* The models trained for the report; see experiment.h. */
#include "lm/experiment.h"

/* Algorithms with short answers that a small model gets right at its training lengths, and one with
 * long answers, whose many tokens teach it to compare numbers, which helps the others. */
static const char quick_tasks[] =
    "insertion_sort,minimum,binary_search,find_maximum_subarray_kadane,naive_string_matcher,"
    "articulation_points";

static void choose_quick(lm_config *config, lm_training *training, lab_error *impossible) {
    config->layers = 3;
    config->width = 64;
    config->heads = config->key_heads = 4;
    config->head_dim = config->rope_dims = 16;
    config->hidden = 192;
    training->steps = 20000;
    training->rate = 2e-3;
    training->rate_end = 2e-5;
    training->warm_up = 200;
    lm_training_add_tasks(training, quick_tasks, impossible);
}

/* Lengths up to 16 of all algorithms. The context fits evaluation questions of up to 48 items
 * (floyd_warshall takes about 17,000 tokens there); training allocates memory for the sequences it
 * draws, not for the context. */
static void choose_full(lm_config *config, lm_training *training, lab_error *impossible) {
    config->context = 32768;
    training->length_max = 16;
    training->steps = 6000; /* 70 minutes on two cores, for each of three seeds of six policies */
    training->warm_up = 500;
    for (size_t i = 0; i < CLRS_ALGORITHM_COUNT; i++)
        lm_training_add_task(training, clrs_algorithm_at(i)->name, impossible);
}

void lm_experiment(bool is_full, lm_config *config, lm_training *training) {
    lab_error impossible = {.kind = LAB_NO_ERROR};
    *config = lm_config_default();
    *training = lm_training_default();
    if (is_full)
        choose_full(config, training, &impossible);
    else
        choose_quick(config, training, &impossible);
}
