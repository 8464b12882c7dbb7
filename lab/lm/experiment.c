/* What is trained for the report; see experiment.h. */
#include "lm/experiment.h"

void lm_experiment(bool is_full, lm_config *config, lm_training *training) {
    static const char quick[] = "minimum,insertion_sort,bfs,binary_search,activity_selector";
    lab_error impossible = {.kind = LAB_NO_ERROR};
    *config = lm_config_default();
    *training = lm_training_default();
    training->length_min = 4;
    training->length_max = is_full ? 16 : 8;
    for (size_t i = 0; is_full && i < CLRS_ALGORITHM_COUNT; i++)
        lm_training_add_task(training, clrs_algorithm_at(i)->name, &impossible);
    if (!is_full)
        lm_training_add_tasks(training, quick, &impossible);
}
