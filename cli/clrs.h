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

/* These complain and return false, or NULL, where a value is wrong; clrs_choose_ties does not
 * complain. A text that is NULL, an option that was not given, leaves the value as it is. */
bool clrs_choose_decimals(const char *text, int64_t *decimals);
bool clrs_choose_ties(const char *text, clrs_ties *ties);
const clrs_algorithm *clrs_choose_algorithm(const char *name);

/* "unknown algorithm 'bsf'; did you mean 'bfs'?" */
void clrs_describe_unknown(const char *name, char *text, size_t size);

/* Complains of a request that cannot be met, or of a sampler that failed with this status; returns
 * the exit status. */
int clrs_refuse(const clrs_request *request, clrs_status status);

/* Options that are the same wherever they are. */
option_spec clrs_hints_option(bool *hints);
option_spec clrs_decimals_option(const char **decimals);
option_spec clrs_ties_option(const char **ties);

/* "scalar", "simd" and NULL */
extern const char *const clrs_ties_words[];

#endif
