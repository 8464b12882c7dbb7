/* What `whet probe` and `whet figure 3` share, and the tables of the former. */
#ifndef WHET_CLI_PROBE_H
#define WHET_CLI_PROBE_H

#include "model/probe.h"
#include "terminal.h"

/* Prints what a probe found: entropies by layer, answers, perplexities, and which heads do what. An
 * exit status. */
typedef struct probe_view {
    const probe_request *request;
    const probe_result *result;
    const char *model; /* as it is to be named */
    bool shows_heads;  /* a line for each */
    uint64_t layer;    /* UINT64_MAX: all */
    terminal_style style;
} probe_view;

int print_probe(const probe_view *view);

/* `whet figure 3`, argv[0] being "3". */
int command_figure3(int argc, char **argv);

#endif
