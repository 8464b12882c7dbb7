/* `whet retrieval` and its verbs. */
#include "retrieval.h"

#include "messages.h"
#include "verbs.h"

#include <stdio.h>

static const subcommand verbs[] = {
    {"train", "train heads", retrieval_train_command},
    {"eval", "measure accuracy among more items, policy by policy", retrieval_eval_command},
    {"fit", "fit the best beta to the entropy, as a policy (Figure 6)", retrieval_fit_command},
    {"heads", "print coefficients of the largest items (Figures 2 and 7)", retrieval_heads_command},
};

enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

int command_retrieval(int argc, char **argv) {
    const verb_table table = {
        .command = "retrieval",
        .about = "Max retrieval: a head learns to find the item with the highest priority among 5\n"
                 "to 16 and is then tested on up to 1,048,576.\n",
        .example = "whet retrieval train --steps 20000 --out-dir run && whet retrieval eval run",
        .verbs = verbs,
        .count = VERB_COUNT,
    };
    return run_verb(&table, argc, argv);
}

options_result parse_heads_options(const command_syntax *syntax, int argc, char **argv,
                                   const char **path) {
    int operands = 0;
    options_result result = parse_options(syntax, argc, argv, &operands);
    *path = result == OPTIONS_GIVEN ? argv[1] : NULL;
    return result;
}
