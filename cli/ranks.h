/* Commands that several processes run together: the option --mpi, and who speaks. */
#ifndef WHET_CLI_RANKS_H
#define WHET_CLI_RANKS_H

#include "options.h"

#include "base/ranks.h"

/* --mpi NAME */
option_spec mpi_option(const char **mpi);

/* Joins the job that has started this process. *joined is `ranks`, or NULL if there is none; all
 * ranks but the first become quiet. */
bool join_ranks(const char *mpi, lab_ranks *ranks, const lab_ranks **joined, bool *quiet,
                lab_error *error);

/* Prints an error once, on the rank where it happened, and returns the status for it. */
int report_rank_error(const lab_ranks *ranks, const lab_error *error);

/* The same; after an interrupt the first rank says how to continue (report_failure). */
int report_rank_failure(const lab_ranks *ranks, const lab_error *error);

/* Leaves the job (NULL: there is none). With an error, the launcher ends it for all ranks. */
void close_ranks(const lab_ranks *ranks, int status);

#endif
