/* `whet lm`: finds the verb. The verbs are in lm_*.c, the work is done in lab/lm. */
#include "lm.h"

#include "commands.h"
#include "verbs.h"

static const subcommand verbs[] = {
    {"train", "train a decoder on CLRS-Text", lm_train_command},
    {"eval", "how right it is by algorithm and length, policy by policy", lm_eval_command},
    {"generate", "let a model go on with a text", lm_generate_command},
    {"import", "make a checkpoint of a GGUF or llama2.c file", lm_import_command},
    {"export", "write a model as GGUF, for llama.cpp and its kin", lm_export_command},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

int command_lm(int argc, char **argv) {
    const verb_table table = {
        .command = "lm",
        .about = "Language models: decoder-only Transformers of the llama family, with any policy\n"
                 "in their attention, in training and after.\n",
        .list = "train, eval, generate, import and export",
        .example = "whet lm train --algorithm minimum --steps 2000 --out run",
        .verbs = verbs,
        .count = VERB_COUNT,
    };
    return run_verb(&table, argc, argv);
}
