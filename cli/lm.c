/* `whet lm`: finds the verb. The verbs are in lm_*.c, the work is done in lab/lm. */
#include "lm.h"

#include "commands.h"
#include "verbs.h"

static const subcommand verbs[] = {
    {"train", "train a decoder on CLRS-Text", lm_train_command},
    {"eval", "measure accuracy by algorithm, length and policy", lm_eval_command},
    {"generate", "continue a text with a model", lm_generate_command},
    {"import", "convert a GGUF or llama2.c file to a checkpoint", lm_import_command},
    {"export", "write a model as GGUF, for llama.cpp", lm_export_command},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

int command_lm(int argc, char **argv) {
    const verb_table table = {
        .command = "lm",
        .about = "Language models: decoder-only Transformers of the llama family, with any policy\n"
                 "in their attention, during training and after.\n",
        .example = "whet lm train --algo minimum --steps 2000 --out-dir run",
        .verbs = verbs,
        .count = VERB_COUNT,
    };
    return run_verb(&table, argc, argv);
}
