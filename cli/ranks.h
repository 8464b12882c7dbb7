/* Commands that several processes run together: the option --mpi, and who speaks. */
#ifndef WHET_CLI_RANKS_H
#define WHET_CLI_RANKS_H

#include "options.h"

#include "base/ranks.h"

/* --mpi NAME */
option_spec mpi_option(const char **mpi);

/* Prints an error once, on the rank where it happened, and returns the status for it. */
int report_rank_error(const lab_ranks *ranks, const lab_error *error);

/* Leaves the job (NULL: there is none). With an error, the launcher ends it for all ranks. */
void close_ranks(const lab_ranks *ranks, int status);

#endif
