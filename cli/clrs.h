/* What the verbs of `whet clrs` share: their entry points, and options that several have. */
#ifndef WHET_CLI_CLRS_H
#define WHET_CLI_CLRS_H

#include "options.h"

#include "clrs/clrs.h"

int command_clrs_generate(int argc, char **argv);
int command_clrs_mix(int argc, char **argv);
int command_clrs_export(int argc, char **argv);
int command_clrs_score(int argc, char **argv);
int command_clrs_list(int argc, char **argv);

/* These complain for a command ("clrs mix") and return false, or NULL, where a value is wrong. A
 * text that is NULL, an option that was not given, leaves the value as it is. */
bool clrs_choose_decimals(const char *command, const char *text, int64_t *decimals);
bool clrs_choose_ties(const char *command, const char *text, clrs_ties *ties);
const clrs_algorithm *clrs_choose_algorithm(const char *command, const char *name);

/* Complains of a request that cannot be met, or of a sampler that failed with this status; returns
 * the exit status. */
int clrs_refuse(const char *command, const clrs_request *request, clrs_status status);

/* Summaries of options that are the same wherever they are. */
extern const char clrs_ties_summary[];
extern const char clrs_hints_summary[];
extern const char clrs_decimals_summary[];

#endif
