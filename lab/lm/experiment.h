/* The model and the training of the experiment on CLRS-Text, at two scales; docs/REPRODUCTION.md
 * describes what was tried. */
#ifndef WHET_LAB_LM_EXPERIMENT_H
#define WHET_LAB_LM_EXPERIMENT_H

#include "lm/config.h"
#include "lm/training.h"

/* Quick: both arms in at most 40 minutes on two cores. Full: all thirty algorithms, hours. The
 * policy is softmax; arms replace it by their own. */
void lm_experiment(bool is_full, lm_config *config, lm_training *training);

#endif
