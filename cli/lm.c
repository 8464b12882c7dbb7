/* `whet lm`: finds the verb. The verbs are in lm_*.c, the work is done in lab/lm. */
#include "lm.h"

#include "verbs.h"

static const subcommand verbs[] = {
    {"generate", "let a model go on with a text", lm_generate_command},
    {"import", "make a checkpoint of a GGUF or llama2.c file", lm_import_command},
    {"export", "write a model as GGUF, for llama.cpp and its kin", lm_export_command},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

int command_lm(int argc, char **argv) {
    const verb_table table = {
        .command = "lm",
        .about = "Decoder-only Transformers with any policy in their attention.\n",
        .list = "generate, import and export",
        .example = "whet lm generate stories260K.gguf --prompt 'Once upon a time' --steps 100",
        .verbs = verbs,
        .count = VERB_COUNT,
    };
    return run_verb(&table, argc, argv);
}
