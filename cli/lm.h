/* The verbs of `whet lm`; argv[0] is the verb. */
#ifndef WHET_CLI_LM_H
#define WHET_CLI_LM_H

#include "options.h"

/* --rope, which stretches positions. */
static inline option_spec rope_option(const char **scaling) {
    return (option_spec){"rope", OPTION_TEXT, scaling, "SCALING",
                         "scaling of positions for a longer context: linear:F, ntk:F (a larger "
                         "base) or yarn:F with a factor F from 1 to 1024, or none for positions as "
                         "trained (default: as in the model's file)"};
}

int lm_train_command(int argc, char **argv);
int lm_eval_command(int argc, char **argv);
int lm_generate_command(int argc, char **argv);
int lm_import_command(int argc, char **argv);
int lm_export_command(int argc, char **argv);

#endif
